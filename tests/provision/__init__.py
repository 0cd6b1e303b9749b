"""Proves that what is fetched is checked, and that what a machine lacks is one clear line."""
