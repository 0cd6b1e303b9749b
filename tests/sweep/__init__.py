"""Proves that a sweep finds the steps of a run, runs what it says it runs, and finds what is
planted, and nothing else.
"""
