"""Proves that a run under trouble is saved, ended and judged as what it was."""
