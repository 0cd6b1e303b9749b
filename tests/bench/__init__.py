"""Benchmarks: ``make bench``. They measure and assert nothing; results go to ``reports/bench.json``, machine named."""
