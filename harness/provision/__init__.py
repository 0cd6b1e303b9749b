"""What a fresh machine lacks: Java, Kafka's jars, a class-data archive. Fetched once, checked on every start."""

from harness.provision.kafka import KafkaInstall, ensure_kafka
from harness.provision.spark import ensure_spark
from harness.provision.spark_install import SparkInstall

__all__ = ["KafkaInstall", "SparkInstall", "ensure_kafka", "ensure_spark"]
