"""Pulsar's binary protocol."""
