"""How programs of a declared pipeline talk to Redis."""

from __future__ import annotations

from typing import Final

from harness.pipelines.dialects import Moment, of_queues
from lostack_redis.steps import ACTS, GIVES, SENDS, Command

_SENDS: Final = tuple(sorted(SENDS - {Command.XADD}))
_ACKS: Final = (Command.HDEL, Command.LREM)
RESP: Final = of_queues(
    "RESP",
    ACTS,
    Command.XREADGROUP,
    {
        Moment.SEND: _SENDS,
        Moment.SEND_ANSWER: _SENDS,
        Moment.DELIVERY: tuple(sorted(GIVES - {Command.XREADGROUP})),
        Moment.ACKNOWLEDGEMENT: _ACKS,
        Moment.ACKNOWLEDGEMENT_ANSWER: _ACKS,
    },
    own=(
        "acl*",
        "aof-*",
        "append*",
        "auto-aof-*",
        "bind*",
        "cluster-*",
        "daemonize",
        "dir",
        "port",
        "protected-mode",
        "replicaof",
        "requirepass",
        "save",
        "slaveof",
        "tls-*",
        "unixsocket*",
        "user",
    ),
)
"""Streams, lists, and what Kombu does with them."""
