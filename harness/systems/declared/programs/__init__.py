"""The programs of a declared pipeline as nodes, with all processes that they start."""
