"""A small queue server, and what lostack needs to know of it: an engine, and a protocol, that
lostack itself does not have.
"""
