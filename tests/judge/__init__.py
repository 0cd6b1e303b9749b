"""Proves the rules: history, account and verdict against an oracle, golden histories and planned
edits.
"""
