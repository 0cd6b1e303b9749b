"""What is said of each record follows from the wire's lines."""

from __future__ import annotations

import json

import pytest

from harness.model import events as kinds
from harness.model.identity import whole
from harness.proxy.ways import RecordPassage, ways

RECORD = '{"key": null, "headers": {}, "value": "17"}'


def sent(topic: str | None, request: str) -> kinds.Sent:
    """Return a line: the record went to this topic."""
    return kinds.Sent(t=1, record=RECORD, topic=topic, partition=0, request=request)


def answered(request: str, *, reached: bool = True) -> kinds.ProduceAnswer:
    """Return a line: the broker has stored it."""
    return kinds.ProduceAnswer(
        t=2, record=RECORD, request=request, error=0, offset=0, reached=reached
    )


def fetched(topic: str | None) -> kinds.Fetched:
    """Return a line: somebody got it."""
    return kinds.Fetched(t=3, record=RECORD, topic=topic, partition=0, offset=0, reached=True)


def test_an_equal_record_in_another_topic_is_another() -> None:
    """Each test of a suite may have a topic of its own, and send the same to each."""
    lines = [
        sent("first", "1:1"),
        sent("second", "2:1"),
        answered("2:1"),
        answered("1:1", reached=False),
        fetched("second"),
    ]
    [first, second] = ways(lines)
    assert (first.topic, first.sent, first.acknowledged, first.fetched) == ("first", 1, 0, 0)
    assert (second.topic, second.sent, second.acknowledged, second.fetched) == ("second", 1, 1, 1)
    assert ways(lines, "second") == [second]
    assert len(second.steps) == 3


def test_a_line_without_a_topic_is_about_the_newest_of_its_record() -> None:
    """A Fetch may name none; and where the topic is named later, it is the record's."""
    [way] = ways([sent("first", "1:1"), fetched(None)])
    assert (way.topic, way.sent, way.fetched) == ("first", 1, 1)
    [way] = ways([sent(None, "1:1"), fetched("first"), answered("9:9")])
    assert (way.topic, way.sent, way.fetched, way.acknowledged) == ("first", 1, 1, 1)


@pytest.mark.parametrize(
    "value", [b'{"order": 17}', b"\x80\x01", b"plain", b"x" * 9000, json.dumps({"a": "x" * 9000})]
)
def test_a_record_is_known_by_what_was_sent(value: bytes | str) -> None:
    """Bytes or text, short or long; and what differs in one byte that is no text is another."""
    data = value.encode() if isinstance(value, str) else value
    way = RecordPassage(whole(None, data))
    assert way.is_of(value)
    assert way.is_of(data)
    assert not way.is_of(data + b"\x82")
    assert not RecordPassage(whole(None, data + b"\x81")).is_of(data + b"\x82")
    assert whole(data + b"\x81", b"") != whole(data + b"\x82", b"")


def test_bytes_name_a_key_and_a_field_too() -> None:
    way = RecordPassage(whole(b"k", b'{"order": 17}'))
    assert way.is_of(b"k")
    assert way.is_of(b"17")
    assert not way.is_of(b"18")
