"""The steps of Kafka's protocol (its APIs), with the facts about each that a plan needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from harness.wire.protocol import Step
from harness.wire.rules import Direction, StepName

if TYPE_CHECKING:
    from collections.abc import Mapping


class Api(StepName):
    """The APIs that rules name. Every other API passes the wire as a number."""

    number: int

    PRODUCE = "Produce", 0
    FETCH = "Fetch", 1
    LIST_OFFSETS = "ListOffsets", 2
    METADATA = "Metadata", 3
    OFFSET_COMMIT = "OffsetCommit", 8
    OFFSET_FETCH = "OffsetFetch", 9
    FIND_COORDINATOR = "FindCoordinator", 10
    JOIN_GROUP = "JoinGroup", 11
    HEARTBEAT = "Heartbeat", 12
    LEAVE_GROUP = "LeaveGroup", 13
    SYNC_GROUP = "SyncGroup", 14
    SASL_HANDSHAKE = "SaslHandshake", 17
    API_VERSIONS = "ApiVersions", 18
    INIT_PRODUCER_ID = "InitProducerId", 22
    OFFSET_FOR_LEADER_EPOCH = "OffsetForLeaderEpoch", 23
    ADD_PARTITIONS_TO_TXN = "AddPartitionsToTxn", 24
    ADD_OFFSETS_TO_TXN = "AddOffsetsToTxn", 25
    END_TXN = "EndTxn", 26
    WRITE_TXN_MARKERS = "WriteTxnMarkers", 27
    TXN_OFFSET_COMMIT = "TxnOffsetCommit", 28
    SASL_AUTHENTICATE = "SaslAuthenticate", 36
    CONSUMER_GROUP_HEARTBEAT = "ConsumerGroupHeartbeat", 68
    SHARE_GROUP_HEARTBEAT = "ShareGroupHeartbeat", 76
    SHARE_GROUP_DESCRIBE = "ShareGroupDescribe", 77
    SHARE_FETCH = "ShareFetch", 78
    SHARE_ACKNOWLEDGE = "ShareAcknowledge", 79
    INITIALIZE_SHARE_GROUP_STATE = "InitializeShareGroupState", 83
    READ_SHARE_GROUP_STATE = "ReadShareGroupState", 84
    WRITE_SHARE_GROUP_STATE = "WriteShareGroupState", 85

    def __new__(cls, label: str, number: int) -> Self:
        """Make a step. ``number``: the API's number on the wire."""
        made = str.__new__(cls, label)
        made._value_ = label
        made.number = number
        return made

    def __index__(self) -> int:
        return self.number

    def selects(self, direction: Direction) -> frozenset[str]:
        """Return the fields by which a rule can select a frame. An incremental Fetch request names
        none: select its response.
        """
        return _SELECTS.get((self, direction), frozenset())

    @property
    def errors(self) -> Mapping[str, bool]:
        """Return the errors by which a broker may refuse it, each with whether the request may be
        done all the same.
        """
        return STEPS[str(self), Direction.REQUEST].errors


_REQ, _RES = Direction.REQUEST, Direction.RESPONSE
_RECORD = frozenset({"record"})
_TOPIC = frozenset({"topic"})
_TRANSACTION = frozenset({"transactional_id"})
_SELECTS: dict[tuple[Api, Direction], frozenset[str]] = {
    (Api.FETCH, _RES): _RECORD | _TOPIC,
    **dict.fromkeys(((Api.OFFSET_COMMIT, way) for way in Direction), _RECORD | _TOPIC),
    **dict.fromkeys(
        ((api, way) for api in (Api.PRODUCE, Api.TXN_OFFSET_COMMIT) for way in Direction),
        _RECORD | _TOPIC | _TRANSACTION,
    ),
    **dict.fromkeys(((Api.END_TXN, way) for way in Direction), _RECORD | _TRANSACTION),
    **dict.fromkeys(((api, way) for api in (Api.WRITE_TXN_MARKERS,) for way in Direction), _RECORD),
    **dict.fromkeys(
        (
            (api, way)
            for api in (Api.SHARE_FETCH, Api.SHARE_ACKNOWLEDGE, Api.WRITE_SHARE_GROUP_STATE)
            for way in Direction
        ),
        _RECORD | _TOPIC,
    ),
    **dict.fromkeys(
        (
            (api, way)
            for api in (Api.INIT_PRODUCER_ID, Api.ADD_PARTITIONS_TO_TXN, Api.ADD_OFFSETS_TO_TXN)
            for way in Direction
        ),
        _TRANSACTION,
    ),
}


LOGIN: Final = frozenset({Api.SASL_HANDSHAKE, Api.SASL_AUTHENTICATE})
"""The steps of a log-in, which have no meaning on another connection."""
_BY_NUMBER: Final = {api.number: api for api in Api}
CELL_APIS: Final = frozenset(
    {
        Api.PRODUCE,
        Api.FETCH,
        Api.OFFSET_COMMIT,
        Api.END_TXN,
        Api.TXN_OFFSET_COMMIT,
        Api.SHARE_FETCH,
        Api.SHARE_ACKNOWLEDGE,
    }
)
"""The steps that must be decoded for every cell, even without rules."""
KEPT_WAITING: Final = frozenset({Api.FETCH, Api.JOIN_GROUP, Api.SYNC_GROUP, Api.SHARE_FETCH})
"""Requests that a broker keeps waiting by design: their waits say nothing about the network."""
DURABLE: Final = frozenset(
    {
        Api.PRODUCE,
        Api.OFFSET_COMMIT,
        Api.INIT_PRODUCER_ID,
        Api.ADD_PARTITIONS_TO_TXN,
        Api.ADD_OFFSETS_TO_TXN,
        Api.END_TXN,
        Api.WRITE_TXN_MARKERS,
        Api.TXN_OFFSET_COMMIT,
        Api.SHARE_FETCH,
        Api.SHARE_ACKNOWLEDGE,
        Api.INITIALIZE_SHARE_GROUP_STATE,
        Api.WRITE_SHARE_GROUP_STATE,
    }
)
"""Requests by which a broker's logs come to hold something else."""


ERRORS: Final = {
    "OFFSET_OUT_OF_RANGE": 1,
    "UNKNOWN_TOPIC_OR_PARTITION": 3,
    "NOT_LEADER_OR_FOLLOWER": 6,
    "REQUEST_TIMED_OUT": 7,
    "MESSAGE_TOO_LARGE": 10,
    "COORDINATOR_LOAD_IN_PROGRESS": 14,
    "COORDINATOR_NOT_AVAILABLE": 15,
    "NOT_COORDINATOR": 16,
    "NOT_ENOUGH_REPLICAS": 19,
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": 20,
    "ILLEGAL_GENERATION": 22,
    "UNKNOWN_MEMBER_ID": 25,
    "REBALANCE_IN_PROGRESS": 27,
    "TOPIC_AUTHORIZATION_FAILED": 29,
    "GROUP_AUTHORIZATION_FAILED": 30,
    "CLUSTER_AUTHORIZATION_FAILED": 31,
    "OUT_OF_ORDER_SEQUENCE_NUMBER": 45,
    "INVALID_PRODUCER_EPOCH": 47,
    "INVALID_TXN_STATE": 48,
    "INVALID_PRODUCER_ID_MAPPING": 49,
    "CONCURRENT_TRANSACTIONS": 51,
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": 53,
    "KAFKA_STORAGE_ERROR": 56,
    "UNKNOWN_PRODUCER_ID": 59,
    "FETCH_SESSION_ID_NOT_FOUND": 70,
    "INVALID_FETCH_SESSION_EPOCH": 71,
    "FENCED_LEADER_EPOCH": 74,
    "FENCED_INSTANCE_ID": 82,
    "PRODUCER_FENCED": 90,
}
"""Their codes. See ``org.apache.kafka.common.protocol.Errors``."""
DUPLICATE_SEQUENCE: Final = 46
"""A broker answers so to a batch that it has stored, but no longer remembers among the last ones.
"""
_NAMES: Final = {code: name for name, code in ERRORS.items()} | {
    2: "CORRUPT_MESSAGE",
    5: "LEADER_NOT_AVAILABLE",
    9: "REPLICA_NOT_AVAILABLE",
    17: "INVALID_TOPIC_EXCEPTION",
    24: "INVALID_GROUP_ID",
    26: "INVALID_SESSION_TIMEOUT",
    33: "UNSUPPORTED_SASL_MECHANISM",
    35: "UNSUPPORTED_VERSION",
    36: "TOPIC_ALREADY_EXISTS",
    41: "NOT_CONTROLLER",
    DUPLICATE_SEQUENCE: "DUPLICATE_SEQUENCE_NUMBER",
    58: "SASL_AUTHENTICATION_FAILED",
    75: "UNKNOWN_LEADER_EPOCH",
    79: "MEMBER_ID_REQUIRED",
    100: "UNKNOWN_TOPIC_ID",
    110: "FENCED_MEMBER_EPOCH",
    113: "STALE_MEMBER_EPOCH",
    120: "TRANSACTION_ABORTABLE",
    121: "INVALID_RECORD_STATE",
    122: "SHARE_SESSION_NOT_FOUND",
    123: "INVALID_SHARE_SESSION_EPOCH",
}
_NO_TOPIC, _NO_GROUP, _NO_CLUSTER, _NO_TRANSACTION = DENIED = (
    "TOPIC_AUTHORIZATION_FAILED",
    "GROUP_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
)
"""Errors of a client that was not given a right, or has lost it."""
_COORDINATOR: Final = (
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "NOT_COORDINATOR",
)
_STRANGER: Final = ("ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID")
_ALIVE: Final = (*_COORDINATOR[1:], *_STRANGER, "REBALANCE_IN_PROGRESS")
"""Of a coordinator that is loading a member's life is not refused, and its assignment as if the
group gathered.
"""
_BEGINS: Final = (
    *_COORDINATOR,
    "CONCURRENT_TRANSACTIONS",
    "INVALID_PRODUCER_EPOCH",
    "PRODUCER_FENCED",
)
_PRODUCER: Final = (*_BEGINS, "INVALID_TXN_STATE", "INVALID_PRODUCER_ID_MAPPING")
_REFUSALS: Final[dict[Api, tuple[str, ...]]] = {
    Api.PRODUCE: (
        "UNKNOWN_TOPIC_OR_PARTITION",
        "NOT_LEADER_OR_FOLLOWER",
        "REQUEST_TIMED_OUT",
        "MESSAGE_TOO_LARGE",
        "NOT_ENOUGH_REPLICAS",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
        "INVALID_PRODUCER_EPOCH",
        "KAFKA_STORAGE_ERROR",
        "UNKNOWN_PRODUCER_ID",
        _NO_TOPIC,
        _NO_CLUSTER,
        _NO_TRANSACTION,
    ),
    Api.FETCH: (
        "FETCH_SESSION_ID_NOT_FOUND",
        "INVALID_FETCH_SESSION_EPOCH",
        "OFFSET_OUT_OF_RANGE",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "NOT_LEADER_OR_FOLLOWER",
        "FENCED_LEADER_EPOCH",
        "KAFKA_STORAGE_ERROR",
        _NO_TOPIC,
    ),
    Api.FIND_COORDINATOR: ("COORDINATOR_NOT_AVAILABLE", _NO_GROUP, _NO_TRANSACTION),
    Api.OFFSET_COMMIT: (*_COORDINATOR, *_STRANGER, "REBALANCE_IN_PROGRESS", _NO_TOPIC, _NO_GROUP),
    Api.JOIN_GROUP: (*_COORDINATOR, "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID", _NO_GROUP),
    Api.SYNC_GROUP: (*_ALIVE, _NO_GROUP),
    Api.HEARTBEAT: (*_ALIVE, _NO_GROUP),
    Api.TXN_OFFSET_COMMIT: (
        *_COORDINATOR,
        *_STRANGER,
        "REQUEST_TIMED_OUT",
        "INVALID_PRODUCER_EPOCH",
        _NO_TOPIC,
        _NO_GROUP,
        _NO_TRANSACTION,
    ),
    Api.INIT_PRODUCER_ID: (*_BEGINS, _NO_CLUSTER, _NO_TRANSACTION),
    Api.ADD_PARTITIONS_TO_TXN: (*_PRODUCER, _NO_TOPIC, _NO_TRANSACTION),
    Api.ADD_OFFSETS_TO_TXN: (*_PRODUCER, _NO_GROUP, _NO_TRANSACTION),
    Api.END_TXN: (*_PRODUCER, _NO_TRANSACTION),
}
"""The errors by which a broker may answer each request, in some version."""
_WRITES: Final = DURABLE - {Api.PRODUCE, Api.WRITE_TXN_MARKERS}
AFTER_ALL: Final = {
    Api.PRODUCE: frozenset(
        {"NOT_ENOUGH_REPLICAS_AFTER_APPEND", "REQUEST_TIMED_OUT", "NOT_LEADER_OR_FOLLOWER"}
    ),
    **dict.fromkeys(
        _WRITES, frozenset({"COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "REQUEST_TIMED_OUT"})
    ),
}
"""Errors after which a request may have been carried out or not. So they may also be given when the
request was forwarded.

A coordinator writes a request into its own log. If it does not know whether that write was
replicated, it answers that it is not available or, if it has lost the log meanwhile, that it is not
the coordinator. The record may be replicated all the same.
"""


def step_of(number: int) -> str:
    """Return what the API of a number is called, also of one that has no name here.

    >>> str(step_of(28)), step_of(75)
    ('TxnOffsetCommit', 'api-75')
    """
    return _BY_NUMBER.get(number) or f"api-{number}"


def error_name(code: int) -> str:
    """Return what Kafka calls an error by its code, also one that has no name here.

    >>> error_name(90), error_name(9999)
    ('PRODUCER_FENCED', 'error 9999')
    """
    return _NAMES.get(code, f"error {code}")


def _step(api: Api, way: Direction) -> Step:
    asks = way is Direction.REQUEST
    errors = (
        {error: error in AFTER_ALL.get(api, ()) for error in _REFUSALS.get(api, ())} if asks else {}
    )
    movable = asks and api not in LOGIN
    return Step(
        selects=api.selects(way),
        waits=api in KEPT_WAITING,
        movable=movable,
        durable=asks and api in DURABLE,
        errors=errors,
        again=movable,
    )


STEPS: Final = {
    (str(api), way): _step(api, way) for api in _BY_NUMBER.values() for way in Direction
}
