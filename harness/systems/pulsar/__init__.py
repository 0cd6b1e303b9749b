"""Pulsar, standalone: a process that is broker, bookie and metadata store, made of jars; what it says of its own ledgers."""
