"""What members of a classic group are told, as the wire reads it for a user's own programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from kafka.protocol.consumer.group import (
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupResponse,
)
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

from harness.model.identity import Identity
from harness.protocols.kafka import messages
from harness.protocols.kafka.codec import topic_id_name
from harness.protocols.kafka.session import Kafka
from harness.wire.rules import Direction
from tests.events import fields_of
from tests.wire.kafka_frames import encoded, heartbeat, join, sync

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka.protocol.api_message import ApiMessage

    from harness.protocols.kafka.session import KafkaFrame

GROUP, MEMBER = "g", "m"
THEIRS = Identity("k")
PARTS = ConsumerProtocolAssignment.TopicPartition
OWNED = ConsumerProtocolSubscription.TopicPartition


def frames_of(
    *said: tuple[bytes, ApiMessage | None], identity: Identity | None = THEIRS
) -> Iterator[tuple[KafkaFrame, list[dict[str, Any]]]]:
    """Yield each frame of a conversation with its lines: requests, each with its answer."""
    protocol = Kafka()
    ledger = protocol.ledger("k", identity)
    session = protocol.session(7, limit=1 << 20)
    for corr, (asked, answer) in enumerate(said, 1):
        frames = [(Direction.REQUEST, asked)]
        frames += [(Direction.RESPONSE, encoded(answer, corr))] if answer is not None else []
        for way, data in frames:
            frame: KafkaFrame = session.feed(way, data)  # type: ignore[assignment]  # it is whole
            session.read(frame, data, ledger)
            if way is Direction.REQUEST:
                session.sending(frame)
            lines = session.settled(frame, ledger, reached=True)
            yield frame, [{"event": event.event, **fields_of(event)} for event in lines]


def talk(
    *said: tuple[bytes, ApiMessage | None], identity: Identity | None = THEIRS
) -> list[dict[str, Any]]:
    """Return the lines of a conversation."""
    return [line for _, lines in frames_of(*said, identity=identity) for line in lines]


def joining(owned: tuple[int, ...], corr: int = 1, instance: str | None = None) -> bytes:
    """Make the request of a consumer that has not given up these partitions."""
    told = ConsumerProtocolSubscription(
        version=1,
        topics=["orders"],
        user_data=None,
        owned_partitions=[OWNED(version=1, topic="orders", partitions=[*owned])] if owned else [],
    )
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(
        version=7, name="range", metadata=told.encode()
    )
    request = JoinGroupRequest(
        version=7,
        group_id=GROUP,
        session_timeout_ms=6000,
        rebalance_timeout_ms=1,
        member_id="",
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=[protocol],
    )
    return encoded(request, corr, "c")


def joined(error: int = 0) -> JoinGroupResponse:
    """Make the answer, in which the broker names the member."""
    return JoinGroupResponse(
        version=7,
        throttle_time_ms=0,
        error_code=error,
        generation_id=3,
        protocol_type="consumer",
        protocol_name="range",
        leader="",
        member_id="m-1",
        members=[],
    )


@pytest.mark.parametrize(("owned", "instance"), [((), None), ((0, 2), "booker-1")])
def test_who_joins_and_what_it_has_not_given_up(
    owned: tuple[int, ...], instance: str | None
) -> None:
    """The broker gives the id, a static member has a name besides; an eager member has given up
    everything, another has not.
    """
    [line] = talk((joining(owned, instance=instance), joined()))
    assert line == {
        "event": "group_member",
        "conn": 7,
        "request": "7:1",
        "api": "JoinGroup",
        "group": GROUP,
        "member": "m-1",
        "generation": 3,
        "error": 0,
        "owned": [f"orders/{each}" for each in owned],
        "assigned": None,
        "instance": instance,
        "poll_ms": 1,
        "assignor": "range",
        "reached": True,
    }


@pytest.mark.parametrize("version", [3, 5])
def test_what_a_member_is_assigned(version: int) -> None:
    told = ConsumerProtocolAssignment(
        version=1,
        assigned_partitions=[PARTS(version=1, topic="orders", partitions=[1, 2])],
        user_data=None,
    )
    answer = SyncGroupResponse(
        version=version,
        throttle_time_ms=0,
        error_code=0,
        protocol_type="consumer",
        protocol_name="range",
        assignment=told.encode(),
    )
    [line] = talk((sync(1, "c", version=version), answer))
    assert line["assigned"] == ["orders/1", "orders/2"]
    assert (line["member"], line["generation"]) == (MEMBER, 1)

    *_, (held, _) = frames_of((sync(1, "c", version=version), answer))
    assert held.facts["assigned"] == ("orders/1", "orders/2")


@pytest.mark.parametrize(
    ("epoch", "partitions"), [(0, (1, 2)), (0, ()), (0, None), (-1, None)], ids=str
)
def test_a_member_of_the_newer_protocol(epoch: int, partitions: tuple[int, ...] | None) -> None:
    """Its heartbeat is answered with partitions, if they change; -1: it leaves. What it is assigned
    is known while the answer is held.
    """
    topic = UUID(int=7)
    request = messages.ConsumerGroupHeartbeatRequest(
        version=0, group_id=GROUP, member_id=MEMBER, member_epoch=epoch, rebalance_timeout_ms=6000
    )
    answers = messages.ConsumerGroupHeartbeatResponse
    told = None
    if partitions is not None:
        told = answers.Assignment(
            version=0,
            topic_partitions=[
                answers.Assignment.TopicPartitions(
                    version=0, topic_id=topic, partitions=[*partitions]
                )
            ],
        )
    answer = answers(
        version=0,
        throttle_time_ms=0,
        error_code=0,
        member_id=MEMBER,
        member_epoch=epoch or 5,
        heartbeat_interval_ms=5000,
        assignment=told,
    )
    *_, (held, lines) = frames_of((encoded(request, 1, "c"), answer))
    logs = [f"{topic_id_name(topic)}/{each}" for each in partitions or ()]
    if partitions is None and not epoch:
        assert not lines
        assert "assigned" not in held.facts
        return
    [line] = lines
    assert (line["assigned"], line["generation"], line["poll_ms"]) == (logs, epoch or 5, 6000)
    assert held.facts["assigned"] == tuple(logs)


def test_a_group_of_others_than_consumers_says_nothing_that_can_be_read() -> None:
    answer = SyncGroupResponse(
        version=5,
        throttle_time_ms=0,
        error_code=0,
        protocol_type="connect",
        protocol_name="compatible",
        assignment=b"\x00\x01whatever",
    )
    assert talk((sync(1, "c"), answer)) == []


@pytest.mark.parametrize("error", [0, 27])
def test_a_heartbeat_is_told_only_if_it_is_refused(error: int) -> None:
    """27: the group shares out anew."""
    answer = HeartbeatResponse(version=4, throttle_time_ms=0, error_code=error)
    lines = talk((heartbeat(1, "c"), answer))
    assert [line["error"] for line in lines] == [each for each in [error] if each]


def test_who_leaves_has_no_partitions() -> None:
    leaving = LeaveGroupRequest.MemberIdentity(version=4, member_id="m-1", group_instance_id=None)
    request = LeaveGroupRequest(version=4, group_id=GROUP, members=[leaving])
    answer = LeaveGroupResponse(version=4, throttle_time_ms=0, error_code=0, members=[])
    [line] = talk((encoded(request, 1, "c"), answer))
    assert (line["member"], line["assigned"]) == ("m-1", [])


def test_a_frame_that_cannot_be_read_is_no_damage() -> None:
    """What members are told is a proof of some faults, and no part of an account."""
    answer = SyncGroupResponse(
        version=5,
        throttle_time_ms=0,
        error_code=0,
        protocol_type="consumer",
        protocol_name="range",
        assignment=b"\x00",
    )
    assert talk((sync(1, "c"), answer)) == []


def test_of_programs_of_our_own_nothing_is_told() -> None:
    assert talk((joining(()), joined()), identity=None) == []
    assert talk((join(1, "c"), joined()), identity=None) == []
