"""Servers that stand beside a system."""
