"""The wire for everybody's tests, in front of a running Kafka: from Python or over HTTP."""
