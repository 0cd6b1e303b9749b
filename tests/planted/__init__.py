"""Proves that each lie of the in-memory system is found out and counted exactly, through the real
runner.
"""
