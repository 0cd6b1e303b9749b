"""The names of a pipeline's steps on RabbitMQ, for declared pipelines."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from harness.pipelines import dialects
from harness.pipelines.dialects import Moment, of_queues
from lostack_rabbitmq.steps import ACTS, Op

OWN: Final = ("listeners*", "log*", "default_user", "default_pass", "loopback_users*", "raft*")
AMQP: Final = of_queues(
    "AMQP 0-9-1",
    ACTS,
    Op.CONSUME,
    {Moment.DELIVERY: (Op.GET_OK,), Moment.ACKNOWLEDGEMENT: (Op.NACK, Op.REJECT)},
    dead_letters="",
    own=OWN,
)
STOMP: Final = replace(dialects.STOMP, dead_letters="", own=(*OWN, "stomp.*"))
