"""What a fresh machine lacks: Java, Kafka's jars, a class-data archive. Fetched once, checked on every start."""

from harness.setup.kafka import KafkaInstall, ensure_kafka

__all__ = ["KafkaInstall", "ensure_kafka"]
