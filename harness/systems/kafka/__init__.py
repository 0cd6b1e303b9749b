"""Kafka: a broker or a cluster behind the wire, with lostack's own stages around it."""
