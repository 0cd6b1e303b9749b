"""Flink as a system under test: a job with state that reads and writes Kafka."""
