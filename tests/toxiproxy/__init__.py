"""Proves the one adapter to Toxiproxy against a real server, and against one that
answers nonsense.
"""
