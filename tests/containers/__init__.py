"""Proves that the same cells run in containers, and that nothing of them stays."""
