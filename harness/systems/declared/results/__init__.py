"""What is in the output of a declared pipeline, and which records it belongs to."""
