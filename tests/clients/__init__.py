"""Proves that each client behind our stages does on a real broker what its settings say."""
