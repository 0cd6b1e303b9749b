"""Sinks: where results land."""
