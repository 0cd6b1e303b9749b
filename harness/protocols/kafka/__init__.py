"""Kafka's protocol: its frames and what they are about."""
