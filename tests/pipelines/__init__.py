"""Proves that a pipeline of somebody else is declared, crashed and judged rightly."""
