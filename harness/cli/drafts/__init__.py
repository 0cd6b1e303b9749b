"""Drafting a first declaration for existing programs: what their sources and compose files show,
and its text.
"""
