"""Proves what of Kafka Streams needs no JVM: settings, words, results, faults and what
proves them.
"""
