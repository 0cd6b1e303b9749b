"""Proves that the pages in README and docs are up to date, that their links lead somewhere, and
that they are short.
"""
