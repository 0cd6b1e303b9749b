"""Kafka Streams: what needs no JVM. Its cells are run as cases, and by the suite for systems."""
