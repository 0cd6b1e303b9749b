"""Kafka as the system under test."""
