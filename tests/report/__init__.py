"""Proves that reports are complete, exact, and harmless whatever a record id holds."""
