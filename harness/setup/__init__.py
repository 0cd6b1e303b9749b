"""What a fresh machine lacks: Java, Kafka's jars, a class-data archive. Fetched once, checked on every start."""

from harness.setup.kafka import KafkaInstall, ensure_kafka
from harness.setup.spark import ensure_spark
from harness.setup.spark_install import SparkInstall

__all__ = ["KafkaInstall", "SparkInstall", "ensure_kafka", "ensure_spark"]
