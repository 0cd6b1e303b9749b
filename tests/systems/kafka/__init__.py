"""Proves what only Kafka has: groups that share a topic, and groups by heartbeats."""
