"""The steps of Core: its packets, by their own names."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

from harness.protocols.acts import Act
from harness.protocols.stepping import TabledStep
from harness.wire.protocol import Step
from harness.wire.rules import Direction

if TYPE_CHECKING:
    from collections.abc import Mapping

REFUSED: Final = "refused"
"""The only refusal: an EXCEPTION packet. The request is then not carried out."""


class Kind(IntEnum):
    """The types of packets (a signed byte), except those between brokers."""

    PING = 10
    DISCONNECT = 11
    DISCONNECT_CONSUMER = 12
    EXCEPTION = 20
    NULL_RESPONSE = 21
    PACKETS_CONFIRMED = 22
    CREATESESSION = 30
    CREATESESSION_RESP = 31
    REATTACH_SESSION = 32
    REATTACH_SESSION_RESP = 33
    CREATE_QUEUE = 34
    DELETE_QUEUE = 35
    CREATE_SHARED_QUEUE = 36
    SESS_XA_FAILED = 39
    SESS_CREATECONSUMER = 40
    SESS_ACKNOWLEDGE = 41
    SESS_EXPIRED = 42
    SESS_COMMIT = 43
    SESS_ROLLBACK = 44
    SESS_QUEUEQUERY = 45
    SESS_QUEUEQUERY_RESP = 46
    SESS_BINDINGQUERY = 49
    SESS_BINDINGQUERY_RESP = 50
    SESS_XA_START = 51
    SESS_XA_END = 52
    SESS_XA_COMMIT = 53
    SESS_XA_PREPARE = 54
    SESS_XA_RESP = 55
    SESS_XA_ROLLBACK = 56
    SESS_XA_JOIN = 57
    SESS_XA_SUSPEND = 58
    SESS_XA_RESUME = 59
    SESS_XA_FORGET = 60
    SESS_XA_INDOUBT_XIDS = 61
    SESS_XA_INDOUBT_XIDS_RESP = 62
    SESS_XA_SET_TIMEOUT = 63
    SESS_XA_SET_TIMEOUT_RESP = 64
    SESS_XA_GET_TIMEOUT = 65
    SESS_XA_GET_TIMEOUT_RESP = 66
    SESS_START = 67
    SESS_STOP = 68
    SESS_CLOSE = 69
    SESS_FLOWTOKEN = 70
    SESS_SEND = 71
    SESS_SEND_LARGE = 72
    SESS_SEND_CONTINUATION = 73
    SESS_CONSUMER_CLOSE = 74
    SESS_RECEIVE_MSG = 75
    SESS_RECEIVE_LARGE_MSG = 76
    SESS_RECEIVE_CONTINUATION = 77
    SESS_FORCE_CONSUMER_DELIVERY = 78
    SESS_PRODUCER_REQUEST_CREDITS = 79
    SESS_PRODUCER_CREDITS = 80
    SESS_INDIVIDUAL_ACKNOWLEDGE = 81
    SESS_ADD_METADATA = 104
    SESS_ADD_METADATA2 = 105
    SESS_UNIQUE_ADD_METADATA = 106
    SUBSCRIBE_TOPOLOGY = 112
    SUBSCRIBE_TOPOLOGY_V2 = 113
    CLUSTER_TOPOLOGY_V3 = 122
    DISCONNECT_V2 = 124
    CHECK_FOR_FAILOVER = -4
    CHECK_FOR_FAILOVER_REPLY = -5
    SESS_QUEUEQUERY_RESP_V2 = -7
    SESS_BINDINGQUERY_RESP_V2 = -8
    SESS_BINDINGQUERY_RESP_V3 = -10
    CREATE_ADDRESS = -11
    CREATE_QUEUE_V2 = -12
    CREATE_SHARED_QUEUE_V2 = -13
    SESS_QUEUEQUERY_RESP_V3 = -14
    SESS_BINDINGQUERY_RESP_V4 = -15
    CLUSTER_TOPOLOGY_V4 = -17
    CREATESESSION_V2 = -18
    DISCONNECT_V3 = -19
    CREATE_PRODUCER = -20
    REMOVE_PRODUCER = -21
    SESS_BINDINGQUERY_RESP_V5 = -22


class Packet(TabledStep):
    """The name of a packet in rules and in the history. Both types of acknowledgement have the same
    name. A topic is an address. None can be dropped, because both sides count packets.

    When a program acknowledges, the library sends an acknowledgement, which may be answered, and
    then commits it.
    """

    SEND = "SESS_SEND"
    RECEIVE = "SESS_RECEIVE_MSG"
    ACKNOWLEDGE = "SESS_ACKNOWLEDGE"
    COMMIT = "SESS_COMMIT"
    ROLLBACK = "SESS_ROLLBACK"
    NULL_RESPONSE = "NULL_RESPONSE"
    COMMITTED = "NULL_RESPONSE to SESS_COMMIT"
    XA_START = "SESS_XA_START"
    XA_END = "SESS_XA_END"
    XA_PREPARE = "SESS_XA_PREPARE"
    XA_COMMIT = "SESS_XA_COMMIT"
    XA_ROLLBACK = "SESS_XA_ROLLBACK"
    XA_RESPONSE = "SESS_XA_RESP"
    XA_PREPARED = "SESS_XA_RESP to SESS_XA_PREPARE"
    XA_COMMITTED = "SESS_XA_RESP to SESS_XA_COMMIT"
    EXCEPTION = "EXCEPTION"
    PACKETS_CONFIRMED = "PACKETS_CONFIRMED"
    CREATE_SESSION = "CREATESESSION"
    SESSION_CREATED = "CREATESESSION_RESP"
    CREATE_CONSUMER = "SESS_CREATECONSUMER"
    CLOSE = "SESS_CLOSE"
    FLOW = "SESS_FLOWTOKEN"


SAME: Final = {
    Kind.SESS_INDIVIDUAL_ACKNOWLEDGE: Kind.SESS_ACKNOWLEDGE,
    Kind.CREATESESSION_V2: Kind.CREATESESSION,
    Kind.SESS_ADD_METADATA2: Kind.SESS_ADD_METADATA,
    Kind.SESS_UNIQUE_ADD_METADATA: Kind.SESS_ADD_METADATA,
}
"""Types that have the name of another one."""
ANSWERED: Final[Mapping[tuple[int, str], Packet]] = {
    (Kind.NULL_RESPONSE, Packet.COMMIT): Packet.COMMITTED,
    (Kind.SESS_XA_RESP, Packet.XA_PREPARE): Packet.XA_PREPARED,
    (Kind.SESS_XA_RESP, Packet.XA_COMMIT): Packet.XA_COMMITTED,
}
"""What answers are called that say what became of records, by their type and what they answer."""
BRANCHES: Final = frozenset(
    {
        Kind.SESS_XA_START,
        Kind.SESS_XA_END,
        Kind.SESS_XA_PREPARE,
        Kind.SESS_XA_COMMIT,
        Kind.SESS_XA_ROLLBACK,
    }
)
"""Which begin with the name of a distributed transaction."""
ANSWERS: Final = frozenset({Kind.EXCEPTION} | {each for each in Kind if "RESP" in each.name})
_UNANSWERED: Final = frozenset(
    {
        Kind.PING,
        Kind.DISCONNECT,
        Kind.PACKETS_CONFIRMED,
        Kind.SESS_EXPIRED,
        Kind.SESS_START,
        Kind.SESS_FLOWTOKEN,
        Kind.SESS_FORCE_CONSUMER_DELIVERY,
        Kind.SESS_PRODUCER_REQUEST_CREDITS,
        Kind.SUBSCRIBE_TOPOLOGY,
        Kind.SUBSCRIBE_TOPOLOGY_V2,
        Kind.CREATE_PRODUCER,
        Kind.REMOVE_PRODUCER,
        Kind.SESS_SEND_LARGE,
        Kind.SESS_SEND_CONTINUATION,
        Kind.SESS_XA_FAILED,
    }
)
_SAY_SO: Final = frozenset(
    {Kind.SESS_SEND, Kind.SESS_ACKNOWLEDGE, Kind.SESS_INDIVIDUAL_ACKNOWLEDGE}
)
"""Which say themselves whether an answer is asked for."""
BLOCKING: Final = frozenset(Kind) - _UNANSWERED - _SAY_SO - ANSWERS
"""Which always do."""
_ANY: Final = frozenset({"record", "topic", "transactional_id"})
_SELECTS: Final = {
    **dict.fromkeys(
        (Packet.SEND, Packet.ACKNOWLEDGE, Packet.NULL_RESPONSE, Packet.COMMITTED, Packet.EXCEPTION),
        _ANY,
    ),
    **dict.fromkeys((Packet.COMMIT, Packet.ROLLBACK), _ANY),
    Packet.RECEIVE: frozenset({"record", "topic"}),
    **dict.fromkeys(
        (
            Packet.XA_PREPARE,
            Packet.XA_COMMIT,
            Packet.XA_ROLLBACK,
            Packet.XA_PREPARED,
            Packet.XA_COMMITTED,
        ),
        _ANY,
    ),
    **dict.fromkeys((Packet.XA_START, Packet.XA_END), frozenset({"transactional_id"})),
}
_DURABLE: Final = frozenset({Packet.SEND, Packet.ACKNOWLEDGE, Packet.COMMIT})
_BY_BROKER: Final = frozenset(
    {
        Packet.RECEIVE,
        Packet.NULL_RESPONSE,
        Packet.COMMITTED,
        Packet.EXCEPTION,
        Packet.SESSION_CREATED,
        Packet.XA_RESPONSE,
        Packet.XA_PREPARED,
        Packet.XA_COMMITTED,
    }
)


_DISTRIBUTED: Final = frozenset({Packet.XA_PREPARE, Packet.XA_COMMIT, Packet.XA_ROLLBACK})
"""These are refused by codes, and not by an EXCEPTION."""


def _ways(packet: Packet) -> tuple[Direction, ...]:
    if packet is Packet.PACKETS_CONFIRMED:
        return tuple(Direction)
    return (Direction.RESPONSE if packet in _BY_BROKER else Direction.REQUEST,)


STEPS: Final = Packet.tabled(
    {
        (str(packet), way): Step(
            selects=_SELECTS.get(packet, frozenset()),
            durable=packet in _DURABLE | _DISTRIBUTED,
            errors={REFUSED: False} if packet in _DURABLE else {},
        )
        for packet in Packet
        for way in _ways(packet)
    }
)
ACTS: Final = {
    Act.SEND: Packet.SEND,
    Act.SENT: Packet.NULL_RESPONSE,
    Act.GIVE: Packet.RECEIVE,
    Act.ACK: Packet.COMMIT,
    Act.ACKED: Packet.COMMITTED,
    Act.COMMIT: Packet.COMMIT,
    Act.COMMITTED: Packet.COMMITTED,
    Act.PREPARE: Packet.XA_PREPARE,
    Act.PREPARED: Packet.XA_PREPARED,
    Act.DECIDE: Packet.XA_COMMIT,
    Act.DECIDED: Packet.XA_COMMITTED,
}
"""A program's acknowledgement is done by the commit behind it."""
