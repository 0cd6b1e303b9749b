"""Messages that kafka-python 3.0.12 has no schemas for, or only older ones, in the form in which
it reads its own.

Names, types and versions of the fields are those of Apache Kafka 4.4.0's published message
definitions (``common/message/*.json`` of kafka-clients and of kafka-share-coordinator: KIP-848,
KIP-932, KIP-1071, KIP-1206, KIP-1222, KIP-1226, KIP-1319). A message of a later version is not
read.
"""

from __future__ import annotations

from types import new_class
from typing import Final

from kafka.protocol.api_data import ApiData
from kafka.protocol.api_message import ApiMessage


def _message(name: str, base: type[ApiData] = ApiMessage) -> type[ApiMessage]:
    """Return the class of a message, by the file beside this one that is called after it."""
    return new_class(name, (base,), {"load_json": __name__})


ConsumerGroupHeartbeatRequest: Final = _message("ConsumerGroupHeartbeatRequest")
ConsumerGroupHeartbeatResponse: Final = _message("ConsumerGroupHeartbeatResponse")
ConsumerGroupDescribeRequest: Final = _message("ConsumerGroupDescribeRequest")
ConsumerGroupDescribeResponse: Final = _message("ConsumerGroupDescribeResponse")
StreamsGroupDescribeRequest: Final = _message("StreamsGroupDescribeRequest")
StreamsGroupDescribeResponse: Final = _message("StreamsGroupDescribeResponse")
StreamsGroupHeartbeatRequest: Final = _message("StreamsGroupHeartbeatRequest")
StreamsGroupHeartbeatResponse: Final = _message("StreamsGroupHeartbeatResponse")
ShareGroupHeartbeatRequest: Final = _message("ShareGroupHeartbeatRequest")
ShareGroupHeartbeatResponse: Final = _message("ShareGroupHeartbeatResponse")
ShareGroupDescribeRequest: Final = _message("ShareGroupDescribeRequest")
ShareGroupDescribeResponse: Final = _message("ShareGroupDescribeResponse")
ShareFetchRequest: Final = _message("ShareFetchRequest")
ShareFetchResponse: Final = _message("ShareFetchResponse")
ShareAcknowledgeRequest: Final = _message("ShareAcknowledgeRequest")
ShareAcknowledgeResponse: Final = _message("ShareAcknowledgeResponse")
InitializeShareGroupStateRequest: Final = _message("InitializeShareGroupStateRequest")
InitializeShareGroupStateResponse: Final = _message("InitializeShareGroupStateResponse")
ReadShareGroupStateRequest: Final = _message("ReadShareGroupStateRequest")
ReadShareGroupStateResponse: Final = _message("ReadShareGroupStateResponse")
WriteShareGroupStateRequest: Final = _message("WriteShareGroupStateRequest")
WriteShareGroupStateResponse: Final = _message("WriteShareGroupStateResponse")
DescribeShareGroupOffsetsRequest: Final = _message("DescribeShareGroupOffsetsRequest")
DescribeShareGroupOffsetsResponse: Final = _message("DescribeShareGroupOffsetsResponse")
TxnOffsetCommitRequest: Final = _message("TxnOffsetCommitRequest")
TxnOffsetCommitResponse: Final = _message("TxnOffsetCommitResponse")
ShareUpdateKey: Final = _message("ShareUpdateKey", ApiData)
ShareUpdateValue: Final = _message("ShareUpdateValue", ApiData)
ShareSnapshotValue: Final = _message("ShareSnapshotValue", ApiData)
