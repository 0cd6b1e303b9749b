"""Proves that every sink, runtime and system keeps what its callers rely on, by one suite for each
interface.
"""
