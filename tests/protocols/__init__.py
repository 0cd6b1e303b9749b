"""Proves that each protocol that the wire reads is read right, without a socket."""
