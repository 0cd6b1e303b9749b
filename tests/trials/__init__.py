"""Proves that a test of somebody's own is run at each point of a wire, and judged by its counts."""
