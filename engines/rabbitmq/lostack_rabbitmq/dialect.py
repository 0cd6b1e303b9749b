"""The names of a pipeline's steps on RabbitMQ, for declared pipelines."""

from __future__ import annotations

from typing import Final

from harness.pipelines.dialects import Moment, of_queues
from lostack_rabbitmq.steps import ACTS, Op

AMQP: Final = of_queues(
    "AMQP 0-9-1",
    ACTS,
    Op.CONSUME,
    {Moment.DELIVERY: (Op.GET_OK,), Moment.ACKNOWLEDGEMENT: (Op.NACK, Op.REJECT)},
    own=("listeners*", "log*", "default_user", "default_pass", "loopback_users*", "raft*"),
)
