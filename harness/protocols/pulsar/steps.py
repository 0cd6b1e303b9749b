"""The steps of Pulsar's protocol: its commands, by their own names and numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.protocols.acts import Act
from harness.protocols.stepping import TabledStep
from harness.wire.protocol import Step
from harness.wire.rules import Direction

if TYPE_CHECKING:
    from collections.abc import Mapping


class Command(TabledStep):
    """The type of a command, by its name in ``PulsarApi.proto``."""

    CONNECT = "CONNECT"
    CONNECTED = "CONNECTED"
    SUBSCRIBE = "SUBSCRIBE"
    PRODUCER = "PRODUCER"
    SEND = "SEND"
    SEND_RECEIPT = "SEND_RECEIPT"
    SEND_ERROR = "SEND_ERROR"
    MESSAGE = "MESSAGE"
    ACK = "ACK"
    FLOW = "FLOW"
    UNSUBSCRIBE = "UNSUBSCRIBE"
    SUCCESS = "SUCCESS"
    ERROR = "ERROR"
    CLOSE_PRODUCER = "CLOSE_PRODUCER"
    CLOSE_CONSUMER = "CLOSE_CONSUMER"
    PRODUCER_SUCCESS = "PRODUCER_SUCCESS"
    PING = "PING"
    PONG = "PONG"
    REDELIVER = "REDELIVER_UNACKNOWLEDGED_MESSAGES"
    PARTITIONED_METADATA = "PARTITIONED_METADATA"
    PARTITIONED_METADATA_RESPONSE = "PARTITIONED_METADATA_RESPONSE"
    LOOKUP = "LOOKUP"
    LOOKUP_RESPONSE = "LOOKUP_RESPONSE"
    CONSUMER_STATS = "CONSUMER_STATS"
    CONSUMER_STATS_RESPONSE = "CONSUMER_STATS_RESPONSE"
    REACHED_END_OF_TOPIC = "REACHED_END_OF_TOPIC"
    SEEK = "SEEK"
    GET_LAST_MESSAGE_ID = "GET_LAST_MESSAGE_ID"
    GET_LAST_MESSAGE_ID_RESPONSE = "GET_LAST_MESSAGE_ID_RESPONSE"
    ACTIVE_CONSUMER_CHANGE = "ACTIVE_CONSUMER_CHANGE"
    GET_TOPICS_OF_NAMESPACE = "GET_TOPICS_OF_NAMESPACE"
    GET_TOPICS_OF_NAMESPACE_RESPONSE = "GET_TOPICS_OF_NAMESPACE_RESPONSE"
    GET_SCHEMA = "GET_SCHEMA"
    GET_SCHEMA_RESPONSE = "GET_SCHEMA_RESPONSE"
    AUTH_CHALLENGE = "AUTH_CHALLENGE"
    AUTH_RESPONSE = "AUTH_RESPONSE"
    ACK_RESPONSE = "ACK_RESPONSE"
    GET_OR_CREATE_SCHEMA = "GET_OR_CREATE_SCHEMA"
    GET_OR_CREATE_SCHEMA_RESPONSE = "GET_OR_CREATE_SCHEMA_RESPONSE"
    NEW_TXN = "NEW_TXN"
    NEW_TXN_RESPONSE = "NEW_TXN_RESPONSE"
    ADD_PARTITION_TO_TXN = "ADD_PARTITION_TO_TXN"
    ADD_PARTITION_TO_TXN_RESPONSE = "ADD_PARTITION_TO_TXN_RESPONSE"
    ADD_SUBSCRIPTION_TO_TXN = "ADD_SUBSCRIPTION_TO_TXN"
    ADD_SUBSCRIPTION_TO_TXN_RESPONSE = "ADD_SUBSCRIPTION_TO_TXN_RESPONSE"
    END_TXN = "END_TXN"
    END_TXN_RESPONSE = "END_TXN_RESPONSE"
    END_TXN_ON_PARTITION = "END_TXN_ON_PARTITION"
    END_TXN_ON_PARTITION_RESPONSE = "END_TXN_ON_PARTITION_RESPONSE"
    END_TXN_ON_SUBSCRIPTION = "END_TXN_ON_SUBSCRIPTION"
    END_TXN_ON_SUBSCRIPTION_RESPONSE = "END_TXN_ON_SUBSCRIPTION_RESPONSE"
    TC_CLIENT_CONNECT_REQUEST = "TC_CLIENT_CONNECT_REQUEST"
    TC_CLIENT_CONNECT_RESPONSE = "TC_CLIENT_CONNECT_RESPONSE"
    WATCH_TOPIC_LIST = "WATCH_TOPIC_LIST"
    WATCH_TOPIC_LIST_SUCCESS = "WATCH_TOPIC_LIST_SUCCESS"
    WATCH_TOPIC_UPDATE = "WATCH_TOPIC_UPDATE"
    WATCH_TOPIC_LIST_CLOSE = "WATCH_TOPIC_LIST_CLOSE"
    TOPIC_MIGRATED = "TOPIC_MIGRATED"


_GAP: Final = 50 - 41
"""Between the types that a client and a broker have had from the beginning, and those of
transactions.
"""
NUMBERS: Final = {
    command: number + 2 if number + 2 <= 40 else number + 2 + _GAP  # noqa: PLR2004 - types count from 2 to 40, and from 50
    for number, command in enumerate(Command)
}
"""The number of each type."""
OF_NUMBER: Final = {number: command for command, number in NUMBERS.items()}
EITHER_WAY: Final = frozenset(
    {Command.CLOSE_PRODUCER, Command.CLOSE_CONSUMER, Command.PING, Command.PONG}
)
TO_CLIENT: Final = EITHER_WAY | frozenset(
    {
        Command.CONNECTED,
        Command.SEND_RECEIPT,
        Command.SEND_ERROR,
        Command.MESSAGE,
        Command.SUCCESS,
        Command.ERROR,
        Command.PRODUCER_SUCCESS,
        Command.REACHED_END_OF_TOPIC,
        Command.ACTIVE_CONSUMER_CHANGE,
        Command.AUTH_CHALLENGE,
        Command.WATCH_TOPIC_LIST_SUCCESS,
        Command.WATCH_TOPIC_UPDATE,
        Command.TOPIC_MIGRATED,
        *(
            command
            for command in Command
            if command.endswith("_RESPONSE") and command is not Command.AUTH_RESPONSE
        ),
    }
)
"""What a broker says."""
ANSWERED_BY: Final = {
    Command.SEND: Command.SEND_ERROR,
    Command.ACK: Command.ACK_RESPONSE,
    Command.NEW_TXN: Command.NEW_TXN_RESPONSE,
    Command.ADD_PARTITION_TO_TXN: Command.ADD_PARTITION_TO_TXN_RESPONSE,
    Command.ADD_SUBSCRIPTION_TO_TXN: Command.ADD_SUBSCRIPTION_TO_TXN_RESPONSE,
    Command.END_TXN: Command.END_TXN_RESPONSE,
}
"""What refuses each of what can be refused."""
ERRORS: Final = {
    "MetadataError": 1,
    "PersistenceError": 2,
    "ServiceNotReady": 6,
    "ChecksumError": 9,
    "TopicTerminatedError": 15,
    "TransactionCoordinatorNotFound": 20,
    "InvalidTxnStatus": 21,
    "NotAllowedError": 22,
    "TransactionConflict": 23,
    "TransactionNotFound": 24,
    "ProducerFenced": 25,
}
"""``ServerError``, as far as it is told by its name."""
_REFUSALS: Final[Mapping[Command, Mapping[str, bool]]] = {
    Command.SEND: {"PersistenceError": True, "NotAllowedError": False},
    Command.ACK: {"TransactionConflict": False},
    Command.NEW_TXN: {"ServiceNotReady": False},
    Command.ADD_PARTITION_TO_TXN: {"TransactionNotFound": False},
    Command.ADD_SUBSCRIPTION_TO_TXN: {"TransactionNotFound": False},
    Command.END_TXN: {"TransactionNotFound": False},
}
_OF_RECORDS: Final = frozenset({"record", "topic", "transactional_id"})
_OF_TRANSACTIONS: Final = frozenset(
    {
        Command.NEW_TXN_RESPONSE,
        Command.ADD_PARTITION_TO_TXN,
        Command.ADD_PARTITION_TO_TXN_RESPONSE,
        Command.ADD_SUBSCRIPTION_TO_TXN,
        Command.ADD_SUBSCRIPTION_TO_TXN_RESPONSE,
    }
)
_SELECTS: Final = {
    Command.MESSAGE: frozenset({"record", "topic"}),
    Command.REDELIVER: frozenset({"record", "topic"}),
    **dict.fromkeys(
        (
            Command.SEND,
            Command.SEND_RECEIPT,
            Command.SEND_ERROR,
            Command.ACK,
            Command.ACK_RESPONSE,
            Command.END_TXN,
            Command.END_TXN_RESPONSE,
        ),
        _OF_RECORDS,
    ),
    **dict.fromkeys(_OF_TRANSACTIONS, frozenset({"transactional_id"})),
    **dict.fromkeys((Command.PRODUCER, Command.SUBSCRIBE), frozenset({"topic"})),
}
_DURABLE: Final = frozenset(
    {
        Command.SEND,
        Command.ACK,
        Command.SUBSCRIBE,
        Command.UNSUBSCRIBE,
        Command.SEEK,
        Command.NEW_TXN,
        Command.END_TXN,
        Command.ADD_PARTITION_TO_TXN,
        Command.ADD_SUBSCRIPTION_TO_TXN,
        Command.END_TXN_ON_PARTITION,
        Command.END_TXN_ON_SUBSCRIPTION,
    }
)
_REMOVABLE: Final = frozenset({Command.MESSAGE, Command.ACK, Command.FLOW, Command.REDELIVER})
"""Steps that can be dropped alone, because they are not numbered. (A missing receipt is noticed at
the next one.)
"""


def _steps() -> Mapping[tuple[str, Direction], Step]:
    found = {}
    for command in Command:
        ways = (
            set(Direction)
            if command in EITHER_WAY
            else {Direction.RESPONSE if command in TO_CLIENT else Direction.REQUEST}
        )
        for way in ways:
            asks = way is Direction.REQUEST
            found[str(command), way] = Step(
                selects=_SELECTS.get(command, frozenset()),
                removable=command in _REMOVABLE,
                durable=asks and command in _DURABLE,
                errors=_REFUSALS.get(command, {}) if asks else {},
            )
    return found


STEPS: Final = Command.tabled(_steps())
ACTS: Final = {
    Act.SEND: Command.SEND,
    Act.SENT: Command.SEND_RECEIPT,
    Act.GIVE: Command.MESSAGE,
    Act.ACK: Command.ACK,
    Act.ACKED: Command.ACK_RESPONSE,
    Act.COMMIT: Command.END_TXN,
    Act.COMMITTED: Command.END_TXN_RESPONSE,
}
