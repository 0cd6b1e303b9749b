"""Proves that the wire does exactly what a rule says, and invents no failure of its own."""
