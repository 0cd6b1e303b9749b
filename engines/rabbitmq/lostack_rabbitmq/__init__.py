"""RabbitMQ as a system of lostack, over AMQP 0-9-1."""
