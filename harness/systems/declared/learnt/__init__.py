"""What earlier cells of a pipeline have shown of its programs."""
