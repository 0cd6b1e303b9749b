"""The wire for everybody's tests: in front of a Kafka that runs already, from Python or over HTTP."""
