"""Proves what a stage program of ours makes of its input, without the engine around it."""
