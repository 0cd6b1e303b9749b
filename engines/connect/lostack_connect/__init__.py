"""Kafka Connect as a system under test, on Kafka as its transport."""
