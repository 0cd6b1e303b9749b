"""Storm as a system under test: topologies that read and write Kafka."""
