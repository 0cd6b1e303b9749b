"""Containers: these tests need an engine."""
