"""The names of the requests to a log broker by which histories are judged."""

from __future__ import annotations

from enum import StrEnum


class Request(StrEnum):
    """A request, by the name that the ``api`` of a line has. The codec has the same names, which a
    test holds against these.
    """

    PRODUCE = "Produce"
    """It carries records."""
    FETCH = "Fetch"
    """It asks for records."""
    METADATA = "Metadata"
    """By it a client asks for a topic."""
    OFFSET_COMMIT = "OffsetCommit"
    OFFSET_FETCH = "OffsetFetch"
    JOIN_GROUP = "JoinGroup"
    SYNC_GROUP = "SyncGroup"
    HEARTBEAT = "Heartbeat"
    LEAVE_GROUP = "LeaveGroup"
    CONSUMER_GROUP_HEARTBEAT = "ConsumerGroupHeartbeat"
    """The heartbeat of the newer group protocol: its answer has the partitions, if they change."""
    INIT_PRODUCER_ID = "InitProducerId"
    ADD_PARTITIONS_TO_TXN = "AddPartitionsToTxn"
    ADD_OFFSETS_TO_TXN = "AddOffsetsToTxn"
    TXN_OFFSET_COMMIT = "TxnOffsetCommit"
    END_TXN = "EndTxn"


SAVES_POSITION = frozenset({Request.OFFSET_COMMIT, Request.TXN_OFFSET_COMMIT})
MAY_END_TRANSACTION = frozenset({Request.INIT_PRODUCER_ID, Request.END_TXN})
OF_TRANSACTION = frozenset(
    {Request.END_TXN, Request.ADD_PARTITIONS_TO_TXN, Request.ADD_OFFSETS_TO_TXN}
)
"""Requests to the coordinator of a transaction."""
OF_GROUP = SAVES_POSITION | {
    Request.OFFSET_FETCH,
    Request.JOIN_GROUP,
    Request.SYNC_GROUP,
    Request.HEARTBEAT,
    Request.LEAVE_GROUP,
    Request.CONSUMER_GROUP_HEARTBEAT,
}
"""Requests to the coordinator of a group."""
