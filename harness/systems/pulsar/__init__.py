"""Pulsar standalone as a system under test: one process that is broker, bookie and
metadata store.
"""
