"""Runtimes: where nodes live. :mod:`harness.runtimes.interface` defines a runtime; each package
here implements one.
"""
