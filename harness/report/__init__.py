"""Renderers: pure functions of a saved run (:mod:`harness.report.renderers`), and what they have in
common.
"""
