"""Spark: Structured Streaming, on a Kafka that it reads and writes."""
