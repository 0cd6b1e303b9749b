"""Proves what only Artemis has: its journal, its duplicate detection, and what of STOMP it takes
otherwise than Classic.
"""
