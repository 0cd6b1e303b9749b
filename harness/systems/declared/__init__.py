"""Pipelines that users declare, run on our Kafka behind the wire."""
