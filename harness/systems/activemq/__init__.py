"""ActiveMQ Classic, over STOMP."""
