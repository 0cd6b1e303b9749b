"""Proves that ids are found inside values that are no text, and that what is none is said."""
