"""The steps of STOMP: its commands, by their own names."""

from __future__ import annotations

from typing import Final

from harness.protocols.acts import Act
from harness.protocols.stepping import TabledStep
from harness.wire.protocol import Step
from harness.wire.rules import Direction

REFUSED: Final = "refused"
"""The only refusal: an ERROR frame, after which the server closes the connection."""


class Command(TabledStep):
    """The command in the first line of a frame. A topic is a destination of any kind. Frames are
    not numbered, so one can be dropped.
    """

    CONNECT = "CONNECT"
    STOMP = "STOMP"
    SEND = "SEND"
    SUBSCRIBE = "SUBSCRIBE"
    UNSUBSCRIBE = "UNSUBSCRIBE"
    ACK = "ACK"
    NACK = "NACK"
    BEGIN = "BEGIN"
    COMMIT = "COMMIT"
    ABORT = "ABORT"
    DISCONNECT = "DISCONNECT"
    CONNECTED = "CONNECTED"
    MESSAGE = "MESSAGE"
    RECEIPT = "RECEIPT"
    ERROR = "ERROR"


_TO_CLIENT: Final = frozenset({Command.CONNECTED, Command.MESSAGE, Command.RECEIPT, Command.ERROR})
_SELECTS: Final = {
    Command.SEND: frozenset({"record", "topic", "transactional_id"}),
    Command.ACK: frozenset({"record", "topic", "transactional_id"}),
    Command.NACK: frozenset({"record", "topic", "transactional_id"}),
    Command.BEGIN: frozenset({"transactional_id"}),
    Command.COMMIT: frozenset({"record", "topic", "transactional_id"}),
    Command.ABORT: frozenset({"record", "topic", "transactional_id"}),
    Command.MESSAGE: frozenset({"record", "topic"}),
    Command.RECEIPT: frozenset({"record", "topic", "transactional_id"}),
    Command.ERROR: frozenset({"record", "topic", "transactional_id"}),
}
_DURABLE: Final = frozenset({Command.SEND, Command.ACK, Command.NACK, Command.COMMIT})


def _step(command: Command) -> Step:
    """Return the facts of a step. A frame with a receipt header can be refused; outside of
    transactions any connection fits.
    """
    asks = command not in _TO_CLIENT
    return Step(
        selects=_SELECTS.get(command, frozenset()),
        movable=command is Command.SEND,
        removable=True,
        durable=command in _DURABLE,
        errors={REFUSED: False} if asks and command not in (Command.CONNECT, Command.STOMP) else {},
        hangs_up=True,
    )


STEPS: Final = Command.tabled(
    {
        (str(command), Direction.RESPONSE if command in _TO_CLIENT else Direction.REQUEST): _step(
            command
        )
        for command in Command
    }
)

ACTS: Final = {
    Act.SEND: Command.SEND,
    Act.SENT: Command.RECEIPT,
    Act.GIVE: Command.MESSAGE,
    Act.ACK: Command.ACK,
    Act.ACKED: Command.RECEIPT,
    Act.COMMIT: Command.COMMIT,
    Act.COMMITTED: Command.RECEIPT,
}
