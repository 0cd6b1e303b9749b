"""Kafka's protocol: its frames, and the records that they are about."""
