"""ZooKeeper's client protocol, as the wire reads it."""
