"""Proves nothing: benchmarks (``make bench``) measure; results go to ``reports/bench.json``,
machine named.
"""
