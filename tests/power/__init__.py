"""Proves that a loss of power leaves of a program's files what the kernel was told to keep, to the
byte.
"""
