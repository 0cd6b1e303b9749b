"""Proves that a table at rest is what its log says, no more and no less."""
