"""Proves Flink: what is fetched, asked and told of it, without a JVM; and its cells."""
