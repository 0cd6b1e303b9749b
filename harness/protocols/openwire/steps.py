"""The steps of OpenWire: its commands, by their own names."""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from typing import Final

from harness.protocols.acts import Act
from harness.protocols.stepping import TabledStep
from harness.wire.protocol import Step
from harness.wire.rules import Direction

REFUSED: Final = "refused"
"""The only refusal: an EXCEPTION_RESPONSE. The request is then not carried out."""


class Kind(IntEnum):
    """The types of commands."""

    WIREFORMAT_INFO = 1
    BROKER_INFO = 2
    CONNECTION_INFO = 3
    SESSION_INFO = 4
    CONSUMER_INFO = 5
    PRODUCER_INFO = 6
    TRANSACTION_INFO = 7
    DESTINATION_INFO = 8
    REMOVE_SUBSCRIPTION_INFO = 9
    KEEP_ALIVE_INFO = 10
    SHUTDOWN_INFO = 11
    REMOVE_INFO = 12
    CONTROL_COMMAND = 14
    FLUSH_COMMAND = 15
    CONNECTION_ERROR = 16
    CONSUMER_CONTROL = 17
    CONNECTION_CONTROL = 18
    PRODUCER_ACK = 19
    MESSAGE_PULL = 20
    MESSAGE_DISPATCH = 21
    MESSAGE_ACK = 22
    MESSAGE = 23
    BYTES_MESSAGE = 24
    MAP_MESSAGE = 25
    OBJECT_MESSAGE = 26
    STREAM_MESSAGE = 27
    TEXT_MESSAGE = 28
    BLOB_MESSAGE = 29
    RESPONSE = 30
    EXCEPTION_RESPONSE = 31
    DATA_RESPONSE = 32
    DATA_ARRAY_RESPONSE = 33
    INTEGER_RESPONSE = 34
    MESSAGE_DISPATCH_NOTIFICATION = 90
    BROKER_SUBSCRIPTION_INFO = 92

    @classmethod
    @cache
    def messages(cls) -> frozenset[int]:
        """Return the types of messages."""
        return frozenset(range(cls.MESSAGE, cls.BLOB_MESSAGE + 1))

    @classmethod
    @cache
    def responses(cls) -> frozenset[int]:
        """Return the types of answers."""
        return frozenset(range(cls.RESPONSE, cls.INTEGER_RESPONSE + 1))


class Command(TabledStep):
    """The name of a command in rules and in the history. All types of messages have one name, and
    all answers have one.
    """

    WIREFORMAT_INFO = "WIREFORMAT_INFO"
    BROKER_INFO = "BROKER_INFO"
    CONNECTION_INFO = "CONNECTION_INFO"
    SESSION_INFO = "SESSION_INFO"
    CONSUMER_INFO = "CONSUMER_INFO"
    PRODUCER_INFO = "PRODUCER_INFO"
    DESTINATION_INFO = "DESTINATION_INFO"
    REMOVE_SUBSCRIPTION_INFO = "REMOVE_SUBSCRIPTION_INFO"
    SHUTDOWN_INFO = "SHUTDOWN_INFO"
    REMOVE_INFO = "REMOVE_INFO"
    CONTROL_COMMAND = "CONTROL_COMMAND"
    FLUSH_COMMAND = "FLUSH_COMMAND"
    CONNECTION_ERROR = "CONNECTION_ERROR"
    CONSUMER_CONTROL = "CONSUMER_CONTROL"
    CONNECTION_CONTROL = "CONNECTION_CONTROL"
    PRODUCER_ACK = "PRODUCER_ACK"
    MESSAGE_PULL = "MESSAGE_PULL"
    MESSAGE_DISPATCH_NOTIFICATION = "MESSAGE_DISPATCH_NOTIFICATION"
    BROKER_SUBSCRIPTION_INFO = "BROKER_SUBSCRIPTION_INFO"
    MESSAGE = "MESSAGE"
    MESSAGE_DISPATCH = "MESSAGE_DISPATCH"
    MESSAGE_ACK = "MESSAGE_ACK"
    DELIVERED_ACK = "DELIVERED_ACK"
    """An acknowledgement which only says that messages were delivered, and does not end them."""
    RESPONSE = "RESPONSE"
    PREPARE_RESPONSE = "PREPARE_RESPONSE"
    """The RESPONSE to a transaction's end. It also answers the transaction's messages, and is about
    their records.
    """
    COMMIT_RESPONSE = "COMMIT_RESPONSE"
    ROLLBACK_RESPONSE = "ROLLBACK_RESPONSE"
    BEGIN = "BEGIN"
    PREPARE = "PREPARE"
    COMMIT_ONE_PHASE = "COMMIT_ONE_PHASE"
    COMMIT_TWO_PHASE = "COMMIT_TWO_PHASE"
    ROLLBACK = "ROLLBACK"
    RECOVER = "RECOVER"
    FORGET = "FORGET"
    END = "END"


TRANSACTION: Final = (
    Command.BEGIN,
    Command.PREPARE,
    Command.COMMIT_ONE_PHASE,
    Command.COMMIT_TWO_PHASE,
    Command.ROLLBACK,
    Command.RECOVER,
    Command.FORGET,
    Command.END,
)
"""What is done to a transaction, by the number that says so."""
ENDS: Final = frozenset({Command.COMMIT_ONE_PHASE, Command.COMMIT_TWO_PHASE, Command.ROLLBACK})
ANSWERS: Final = {
    Command.PREPARE: Command.PREPARE_RESPONSE,
    Command.COMMIT_ONE_PHASE: Command.COMMIT_RESPONSE,
    Command.COMMIT_TWO_PHASE: Command.COMMIT_RESPONSE,
    Command.ROLLBACK: Command.ROLLBACK_RESPONSE,
}
"""What the answers to these are called."""
_ANY: Final = frozenset({"record", "topic", "transactional_id"})
_SELECTS: Final = {
    Command.MESSAGE: _ANY,
    Command.MESSAGE_ACK: _ANY,
    Command.MESSAGE_DISPATCH: frozenset({"record", "topic"}),
    **dict.fromkeys((Command.RESPONSE, *ANSWERS.values()), _ANY),
    **dict.fromkeys((*ENDS, Command.PREPARE), _ANY),
    **dict.fromkeys((Command.BEGIN, Command.END, Command.FORGET), frozenset({"transactional_id"})),
}
_DURABLE: Final = frozenset({Command.MESSAGE, Command.MESSAGE_ACK, Command.PREPARE, *ENDS})
_BY_BROKER: Final = frozenset(
    {
        Command.MESSAGE_DISPATCH,
        Command.RESPONSE,
        *ANSWERS.values(),
        Command.CONNECTION_ERROR,
        Command.PRODUCER_ACK,
    }
)
_BY_BOTH: Final = frozenset(
    {
        Command.WIREFORMAT_INFO,
        Command.BROKER_INFO,
        Command.SHUTDOWN_INFO,
        Command.CONSUMER_CONTROL,
        Command.CONNECTION_CONTROL,
        Command.CONTROL_COMMAND,
    }
)


def _step(command: Command) -> Step:
    """What may be answered may be refused; a message belongs to the session that its connection has
    opened.
    """
    return Step(
        selects=_SELECTS.get(command, frozenset()),
        removable=True,
        durable=command in _DURABLE,
        errors={REFUSED: False} if command in _DURABLE else {},
    )


def _ways(command: Command) -> tuple[Direction, ...]:
    if command in _BY_BOTH:
        return tuple(Direction)
    return (Direction.RESPONSE if command in _BY_BROKER else Direction.REQUEST,)


STEPS: Final = Command.tabled(
    {(str(command), way): _step(command) for command in Command for way in _ways(command)}
)
ACTS: Final = {
    Act.SEND: Command.MESSAGE,
    Act.SENT: Command.RESPONSE,
    Act.GIVE: Command.MESSAGE_DISPATCH,
    Act.ACK: Command.MESSAGE_ACK,
    Act.ACKED: Command.RESPONSE,
    Act.COMMIT: Command.COMMIT_ONE_PHASE,
    Act.COMMITTED: Command.COMMIT_RESPONSE,
    Act.PREPARE: Command.PREPARE,
    Act.PREPARED: Command.PREPARE_RESPONSE,
    Act.DECIDE: Command.COMMIT_TWO_PHASE,
    Act.DECIDED: Command.COMMIT_RESPONSE,
}
