"""Kafka: a broker or a cluster behind the wire, and our own stages around it."""
