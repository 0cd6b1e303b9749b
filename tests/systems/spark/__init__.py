"""Proves what Spark alone has: what its query has written into files, row by row."""
