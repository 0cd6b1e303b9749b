"""Proves that the package `lostack` keeps the names, and what they take, that users import."""
