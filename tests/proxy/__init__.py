"""Proves that a fault which a test asks for is the one that is made, and that none is forgotten."""
