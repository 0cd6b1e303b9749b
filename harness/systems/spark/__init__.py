"""Spark as a system under test: Structured Streaming queries that read and write Kafka."""
