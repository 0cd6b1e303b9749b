"""The protocol AMQP 1.0, with SASL, as programs use it for queues."""
