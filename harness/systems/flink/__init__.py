"""Flink: a job with state on a Kafka that it reads and writes."""
