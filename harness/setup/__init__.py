"""What a fresh machine lacks: Java, Kafka's jars, a class-data archive. Fetched once, checked on every start."""

from harness.setup.kafka import KafkaInstall, ensure_kafka
from harness.setup.spark import SparkInstall, ensure_spark

__all__ = ["KafkaInstall", "SparkInstall", "ensure_kafka", "ensure_spark"]
