"""How programs of a declared pipeline talk to Redis: by streams, or by lists, as Celery
does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.pipelines.dialects import Moment, of_queues
from harness.protocols.acts import Act
from lostack_redis.steps import ACTS, MOVES, POPS, SCRIPTS, Command

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from harness.wire.rules import StepName

MAKES: Final = (
    *("acl*", "aof-*", "appenddirname", "appendfilename", "appendonly", "auto-aof-*", "bind*"),
    *("cluster-*", "daemonize", "dir", "port", "protected-mode", "replicaof", "requirepass"),
    *("save", "slaveof", "tls-*", "unixsocket*", "user"),
)
"""The settings that lostack makes."""


def _others(
    sends: Iterable[StepName], gives: Iterable[StepName], acks: Iterable[StepName]
) -> Mapping[Moment, tuple[StepName, ...]]:
    """Return the further commands at each moment."""
    sends, acks = tuple(sorted(sends)), tuple(sorted(acks))
    return {
        Moment.SEND: sends,
        Moment.SEND_ANSWER: sends,
        Moment.DELIVERY: tuple(sorted(gives)),
        Moment.ACKNOWLEDGEMENT: acks,
        Moment.ACKNOWLEDGEMENT_ANSWER: acks,
    }


STREAMS: Final = of_queues(
    "RESP",
    ACTS,
    Command.XREADGROUP,
    _others(SCRIPTS, {Command.XAUTOCLAIM, Command.XCLAIM}, ()),
    own=MAKES,
)
TASKS: Final = of_queues(
    "RESP",
    {
        **ACTS,
        **dict.fromkeys((Act.SEND, Act.SENT), Command.LPUSH),
        Act.GIVE: Command.BRPOP,
        **dict.fromkeys((Act.ACK, Act.ACKED), Command.HDEL),
    },
    Command.BRPOP,
    _others({Command.RPUSH, *SCRIPTS}, {*POPS, *MOVES} - {Command.BRPOP}, {Command.LREM}),
    own=MAKES,
)
