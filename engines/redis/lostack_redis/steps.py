"""The steps of RESP: the commands of Redis, by their own names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.protocols.acts import Act
from harness.protocols.stepping import TabledStep
from harness.wire.protocol import Step
from harness.wire.rules import Direction

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.wire.rules import StepName


class Command(TabledStep):
    """A command that lostack reads. Its answer has the same name. Any other command passes under
    its own.
    """

    XADD = "XADD"
    LPUSH = "LPUSH"
    RPUSH = "RPUSH"
    EVAL = "EVAL"
    EVALSHA = "EVALSHA"
    FCALL = "FCALL"
    XREADGROUP = "XREADGROUP"
    XAUTOCLAIM = "XAUTOCLAIM"
    XCLAIM = "XCLAIM"
    BRPOP = "BRPOP"
    BLPOP = "BLPOP"
    RPOP = "RPOP"
    LPOP = "LPOP"
    BLMOVE = "BLMOVE"
    LMOVE = "LMOVE"
    BRPOPLPUSH = "BRPOPLPUSH"
    RPOPLPUSH = "RPOPLPUSH"
    XACK = "XACK"
    LREM = "LREM"
    HDEL = "HDEL"
    HSET = "HSET"
    MULTI = "MULTI"
    EXEC = "EXEC"
    DISCARD = "DISCARD"
    XGROUP = "XGROUP"
    HELLO = "HELLO"
    CLIENT = "CLIENT"
    AUTH = "AUTH"
    SELECT = "SELECT"
    PING = "PING"
    SUBSCRIBE = "SUBSCRIBE"
    PSUBSCRIBE = "PSUBSCRIBE"
    UNSUBSCRIBE = "UNSUBSCRIBE"
    PUNSUBSCRIBE = "PUNSUBSCRIBE"
    PUSHED = "pushed"
    """What the server says without being asked: a message of a channel, an invalidation."""


SCRIPTS: Final = frozenset({Command.EVAL, Command.EVALSHA, Command.FCALL})
SENDS: Final = frozenset({Command.XADD, Command.LPUSH, Command.RPUSH, *SCRIPTS})
CLAIMS: Final = frozenset({Command.XAUTOCLAIM, Command.XCLAIM})
"""These give entries that were given before."""
OF_STREAMS: Final = frozenset({Command.XREADGROUP, *CLAIMS})
POPS: Final = frozenset({Command.BRPOP, Command.BLPOP, Command.RPOP, Command.LPOP})
MOVES: Final = frozenset({Command.BLMOVE, Command.LMOVE, Command.BRPOPLPUSH, Command.RPOPLPUSH})
GIVES: Final = frozenset({*OF_STREAMS, *POPS, *MOVES})
ACKS: Final = frozenset({Command.XACK, Command.LREM, Command.HDEL})
CONFIRMS: Final = frozenset(
    {Command.SUBSCRIBE, Command.PSUBSCRIBE, Command.UNSUBSCRIBE, Command.PUNSUBSCRIBE}
)
"""The server confirms each channel of these by a message of its own."""
_WAIT: Final = frozenset(
    {Command.XREADGROUP, Command.BRPOP, Command.BLPOP, Command.BLMOVE, Command.BRPOPLPUSH}
)
_ABOUT: Final = frozenset({"record", "topic"})
_BOUND: Final = frozenset({"record", "topic", "transactional_id"})
_ONLY_TRANSACTIONS: Final = frozenset({"transactional_id"})
_CONTENT: Final = {
    **dict.fromkeys((*SENDS, *ACKS, Command.HSET, Command.EXEC, Command.DISCARD), _BOUND),
    Command.MULTI: _ONLY_TRANSACTIONS,
}


def _steps() -> dict[tuple[str, Direction], Step]:
    """Return the table. An answer names no request, so none can be missing while its connection
    lives.
    """
    found = {}
    for command in Command:
        asks = _CONTENT.get(command, frozenset())
        durable = command in {*SENDS, *GIVES, *ACKS, Command.HSET, Command.EXEC, Command.XGROUP}
        if command is not Command.PUSHED:
            found[str(command), Direction.REQUEST] = Step(
                selects=asks, waits=command in _WAIT, durable=durable
            )
        found[str(command), Direction.RESPONSE] = Step(selects=_ABOUT if command in GIVES else asks)
    return found


STEPS: Final = Command.tabled(_steps())
ACTS: Final[Mapping[Act, StepName]] = {
    Act.SEND: Command.XADD,
    Act.SENT: Command.XADD,
    Act.GIVE: Command.XREADGROUP,
    Act.ACK: Command.XACK,
    Act.ACKED: Command.XACK,
    Act.COMMIT: Command.EXEC,
    Act.COMMITTED: Command.EXEC,
}
BY_SCRIPT: Final[Mapping[Act, StepName]] = {
    **ACTS,
    Act.SEND: Command.EVAL,
    Act.SENT: Command.EVAL,
}
"""The same, if each record is sent by a script."""
