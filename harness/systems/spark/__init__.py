"""Spark Structured Streaming as a system under test, between Kafka and a sink."""
