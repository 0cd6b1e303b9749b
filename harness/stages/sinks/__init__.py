"""Sinks: where lostack's own stages record their results."""
