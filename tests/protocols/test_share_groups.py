"""Frames of share groups and of groups by heartbeats, as the Java client 4.3.0 and a broker of that
version exchanged them.

Each file in ``frames/`` is a part of a conversation, in its order: on which connection (a reader's,
or from broker to broker), which way, and the frame in Base64. Records are those of a cell of 12.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.model import events as kinds
from harness.model.history import Line
from harness.model.record import decode_id
from harness.protocols.kafka import codec, messages, reading, sharing
from harness.protocols.kafka.session import Kafka
from harness.protocols.kafka.shares import Shares
from harness.protocols.kafka.steps import STEPS, Api
from harness.wire.rules import Direction
from tests.events import fields_of
from tests.events import told as told_of
from tests.protocols.conversation import check_lines

if TYPE_CHECKING:
    from harness.model.events import Event

FRAMES = Path(__file__).with_name("frames")
TO, FROM = Direction.REQUEST, Direction.RESPONSE
TOPIC = "c77bd365.in"
TOPIC_ID = "afab9325-7eea-4c11-8b29-b89248e1c96b"


def said(name: str) -> list[tuple[str, Direction, bytes]]:
    """Return a conversation."""
    lines = (
        line.split()
        for line in FRAMES.joinpath(f"{name}.txt").read_text(encoding="ascii").splitlines()
    )
    return [(who, Direction(way), base64.b64decode(data)) for who, way, data in lines]


class Heard:
    """A conversation as the wire hears it: of each frame its step, what it is about,
    and its lines.
    """

    def __init__(self, name: str, *, lost: tuple[str, Direction] | None = None) -> None:
        """``lost``: which frames do not reach whom they are for."""
        protocol = Kafka()
        protocol.learn({TOPIC: TOPIC_ID, "8a18180a.in": "add6c4b0-7671-47cb-b68b-548cc3310317"})
        ledger = protocol.ledger("k", None)
        sessions = {
            who: protocol.session(conn, limit=1 << 20)
            for conn, who in enumerate(("reader", "brokers"), 1)
        }
        self.steps: list[tuple[str, Direction]] = []
        self.about: list[Any] = []
        self.lines: list[Event] = []
        for who, way, data in said(name):
            session = sessions[who]
            frame = session.feed(way, data)
            assert isinstance(frame, session.feed(way, data).__class__)
            assert frame.size == frame.head == len(data)  # type: ignore[union-attr]
            insight = session.read(frame, data, ledger)  # type: ignore[arg-type]
            assert insight.because is None
            session.sending(frame)  # type: ignore[arg-type]
            step = (str(frame.step), way)  # type: ignore[union-attr]
            self.lines += session.settled(frame, ledger, reached=step != lost)  # type: ignore[arg-type]
            self.steps.append(step)
            self.about.append(insight)
            check_lines([Line("frame", frame.facts)])  # type: ignore[union-attr]
        check_lines(self.lines)

    def told(self, kind: str) -> list[dict[str, Any]]:
        """Return the lines of a kind."""
        return [fields_of(each) for each in self.lines if each.event == kind]

    def of(self, api: Api, way: Direction) -> Any:
        """Return what the first frame of a step is about."""
        return self.about[self.steps.index((str(api), way))]


def test_a_share_group_begins_reads_acknowledges_and_writes_down() -> None:
    """Each frame is known by its step, and what it is about is the one record that is given."""
    heard = Heard("share-group")
    names = [
        "InitializeShareGroupState",
        "ShareGroupHeartbeat",
        "ShareFetch",
        "ReadShareGroupState",
        "ShareAcknowledge",
        "WriteShareGroupState",
    ]
    assert {step for step, _ in heard.steps} == set(names)
    about = {
        step: insight.subject.records
        for step, insight in zip(heard.steps, heard.about, strict=True)
    }
    record = frozenset({"k1-1"})
    assert about["ShareFetch", FROM] == record
    assert [
        about[api, way]
        for api in ("ShareAcknowledge", "WriteShareGroupState")
        for way in (TO, FROM)
    ] == [record] * 4
    assert (
        about["ShareFetch", TO]
        == about["ReadShareGroupState", TO]
        == about["ShareGroupHeartbeat", TO]
        == frozenset()
    )
    assert heard.of(Api.SHARE_ACKNOWLEDGE, TO).subject.topics == {TOPIC}


def test_what_was_given_and_what_became_of_it_is_told() -> None:
    """By the how-manieth delivery it is; asked and answered; and written down by the share
    coordinator.
    """
    heard = Heard("share-group")
    [fetched] = heard.told(kinds.FETCHED)
    assert fetched == {
        "record": "k1-1",
        "topic": TOPIC,
        "partition": 0,
        "offset": 0,
        "epoch": 0,
        "conn": 1,
        "deliveries": 1,
        "reached": True,
        "redelivered": None,
        "place": None,
    }
    asked, taken = heard.told(kinds.ACKNOWLEDGED)
    assert (asked["record"], asked["how"], asked["outcome"], taken["outcome"]) == (
        "k1-1",
        "ack",
        None,
        "taken",
    )
    assert asked["request"] == taken["request"]
    wanted, written = heard.told(kinds.SHARE_STATE)
    assert (wanted["state"], wanted["outcome"], written["outcome"]) == (
        "acknowledged",
        None,
        "taken",
    )


@pytest.mark.parametrize("way", [TO, FROM])
def test_what_did_not_arrive_is_not_told_as_arrived(way: Direction) -> None:
    """Neither the acknowledgement, nor its answer; the others are."""
    found = Heard("share-group", lost=("ShareAcknowledge", way)).told(kinds.ACKNOWLEDGED)
    assert [line["reached"] for line in found] == [way is not TO, way is not FROM]


def test_one_frame_acknowledges_and_asks_for_more() -> None:
    """A ShareFetch request is about what it acknowledges; its answer gives another record, and says
    that the first was taken.
    """
    heard = Heard("implicit")
    assert heard.steps == [("ShareFetch", TO), ("ShareFetch", FROM)] * 2
    first, second = (insight.subject.records for insight in heard.about[1::2])
    assert [insight.subject.records for insight in heard.about[::2]] == [frozenset(), first]
    assert first != second
    assert len(first) == len(second) == 1
    assert [(line["record"], line["outcome"]) for line in heard.told(kinds.ACKNOWLEDGED)] == [
        (*first, None),
        (*first, "taken"),
    ]
    assert [line["record"] for line in heard.told(kinds.FETCHED)] == [*first, *second]


def test_a_member_by_heartbeats_joins_and_is_assigned() -> None:
    """It begins with epoch 0, and is told its own, and its partitions."""
    heard = Heard("heartbeats")
    joins, told = heard.about[0].content, heard.about[-1].content
    assert isinstance(joins, sharing.Member)
    assert (joins.group, joins.epoch) == ("13fcd3d2.group", 0)
    assert isinstance(told, sharing.MemberAnswer)
    assert (told.error, told.epoch, [partition for _, partition in told.assigned or ()]) == (
        0,
        2,
        [0, 1, 2],
    )


def answer(error: int, *parts: tuple[int, int]) -> Any:
    """Return an answer to a ShareAcknowledge, read; ``parts``: partition and error."""
    of = messages.ShareAcknowledgeResponse
    topics = of.ShareAcknowledgeTopicResponse
    leader = topics.PartitionData.LeaderIdAndEpoch(leader_id=1, leader_epoch=0)
    found = [
        topics.PartitionData(
            partition_index=partition, error_code=each, error_message=None, current_leader=leader
        )
        for partition, each in parts
    ]
    told = of(
        version=2,
        error_code=error,
        error_message=None,
        node_endpoints=[],
        responses=[topics(topic_id=TOPIC_ID, partitions=found)],
    )
    told.with_header(correlation_id=1)
    return reading.decode(Api.SHARE_ACKNOWLEDGE, FROM, 2, bytes(told.encode(header=True)))


REFUSED: dict[str, tuple[Any, str]] = {
    "taken": (answer(0, (0, 0)), "taken"),
    "its partition": (answer(0, (0, 121)), "refused"),
    "the whole": (answer(122), "refused"),
    "another partition": (answer(0, (1, 121)), "taken"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_acknowledgement_may_be_refused(case: str) -> None:
    """As a whole, or that of its partition; not that of another one."""
    told, outcome = REFUSED[case]
    shares = Shares({codec.topic_id_name(TOPIC_ID): TOPIC}, lambda item: decode_id(item.value))
    gave = next(frame for _, way, frame in said("share-group") if way is FROM and len(frame) > 200)
    given: Any = reading.decode(Api.SHARE_FETCH, FROM, 2, gave[4:])
    shares.answered(given, shares.asked(sharing.Acknowledging(()), "1:0"), 1)
    ranges = (sharing.Range(codec.topic_id_name(TOPIC_ID), 0, 0, 0, (sharing.ACCEPT,)),)
    asked = shares.asked(sharing.Acknowledging(ranges), "1:1")
    assert [told_of(line)["outcome"] for line in shares.answered(told, asked, 1).lines] == [outcome]


def test_one_word_stands_for_a_range_of_offsets() -> None:
    assert sharing.Range("t", 0, 4, 6, (1,)).each() == ((4, 1), (5, 1), (6, 1))
    assert sharing.Range("t", 0, 4, 5, (1, 2)).each() == ((4, 1), (5, 2))


def test_every_step_of_a_share_group_can_be_read_both_ways() -> None:
    """And what changes durable state is known before a plan is made."""
    apis = [api for api in Api if "SHARE" in api.name]
    assert len(apis) == 7
    assert all(reading.decodable(api, way) for api in apis for way in Direction)
    durable = {api for api in apis if STEPS[str(api), TO].durable}
    assert durable == {
        Api.SHARE_FETCH,
        Api.SHARE_ACKNOWLEDGE,
        Api.INITIALIZE_SHARE_GROUP_STATE,
        Api.WRITE_SHARE_GROUP_STATE,
    }


@pytest.mark.parametrize("version", [0, 3])
def test_a_version_that_is_not_known_is_not_read(version: int) -> None:
    """0 was an early access, and nobody knows what comes after 2."""
    [(_, _, frame), *_] = [each for each in said("implicit") if each[1] is TO]
    with pytest.raises(codec.UndecodableError, match="outside 1 to 2"):
        reading.decode(Api.SHARE_FETCH, TO, version, frame[4:])
