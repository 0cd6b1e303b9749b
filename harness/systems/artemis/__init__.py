"""ActiveMQ Artemis, over STOMP."""
