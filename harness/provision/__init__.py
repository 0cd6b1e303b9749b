"""Fetch what a fresh machine lacks (Java, jars, servers, images) once into the cache, and check it
on every start.
"""

from harness.provision.kafka import KafkaInstall, ensure_kafka
from harness.provision.spark import ensure_spark
from harness.provision.spark_install import SparkInstall

__all__ = ["KafkaInstall", "SparkInstall", "ensure_kafka", "ensure_spark"]
