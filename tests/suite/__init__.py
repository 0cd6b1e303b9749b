"""Proves that the suite runs what it says: tiers, slices, what is due at a commit, and what tests
leave behind.
"""
