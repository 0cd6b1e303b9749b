"""Tests of what only Kafka has."""
