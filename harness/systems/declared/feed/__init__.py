"""How the records of a cell come to a declared pipeline, and when."""
