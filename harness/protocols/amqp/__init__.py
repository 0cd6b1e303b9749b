"""AMQP 1.0, with SASL, as queues are used by it."""
