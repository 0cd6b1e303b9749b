"""Proves what a runtime says of its nodes: who started, who died, of what, and that
nothing stays.
"""
