"""Proves that a sink is read as it was written."""
