"""What stands between the stages of a declared pipeline: a log, or a queue."""
