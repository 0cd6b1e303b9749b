"""What is made of what a broker says of its ledgers: places, what waits, what is gone, batches,
transactions.
"""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from typing import Any

import pytest

from harness.model.places import Removal, Waiting
from harness.protocols.pulsar.protobuf import made
from harness.systems.pulsar.ledgers import (
    Done,
    Entry,
    StrangeLedgerError,
    entries_of,
    messages,
    only_subscription,
)


def internal(*ledgers: tuple[int, int], last: str) -> dict[str, Any]:
    """Return what ``internalStats`` says of ledgers."""
    return {
        "ledgers": [{"ledgerId": each, "entries": count} for each, count in ledgers],
        "lastConfirmedEntry": last,
    }


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (internal((7, 0), last="7:2"), [(7, 0), (7, 1), (7, 2)]),
        (internal((7, 0), last="7:-1"), []),
        (internal((7, 2), (9, 0), last="7:1"), [(7, 0), (7, 1)]),
        (internal((7, 2), (9, 0), last="9:0"), [(7, 0), (7, 1), (9, 0)]),
        (internal(last="-1:-1"), []),
    ],
)
def test_entries_stand_in_ledgers(said: dict[str, Any], found: list[tuple[int, int]]) -> None:
    """Of the one that is written only the last position tells how many it has; that may still stand
    in the one before.
    """
    assert list(entries_of(said)) == found


def cursor(upto: str, ranges: str = "[]") -> dict[str, str]:
    """Return what is said of a cursor."""
    return {"markDeletePosition": upto, "individuallyDeletedMessages": ranges}


def test_what_is_done_with_is_a_position_and_ranges_behind_it() -> None:
    done = Done.of(cursor("7:1", "[(7:2..7:5],(9:-1..9:0]]"))
    where = [(5, 9), (7, 0), (7, 1), (7, 2), (7, 3), (7, 5), (7, 6), (9, 0), (9, 1)]
    assert [at in done for at in where] == [True, True, True, False, True, True, False, True, False]


def test_copies_wait_or_are_gone() -> None:
    entries = [
        Entry(
            (7, n),
            {"x-pulsar-property": json.dumps({"lostack-attempt": f"a-{n}", "x": "y"})},
            b"v%d" % n,
        )
        for n in range(3)
    ]
    found = messages(entries, Done.of(cursor("7:0", "[(7:1..7:2]]")))
    assert [(m.place, m.name, m.value, m.attempt) for m in found] == [
        (f"7:{n}:0", f"7:{n}:0", b"v%d" % n, f"a-{n}") for n in range(3)
    ]
    assert [(m.waiting, m.removed) for m in found] == [
        (None, Removal.ACK),
        (Waiting.READY, None),
        (None, Removal.ACK),
    ]
    assert all(m.waiting is Waiting.READY for m in messages(entries, None))
    with pytest.raises(StrangeLedgerError, match="properties at"):
        messages([Entry((7, 0), {"x-pulsar-property": "?"}, b"v")], None)


def test_an_entry_may_be_a_batch() -> None:
    """Whose messages have their numbers; one that is cut is strange."""
    own = made({1: [made({1: "lostack-attempt", 2: "a"})], 3: 2})
    body = (struct.pack(">I", len(own)) + own + b"v1") * 2
    found = messages([Entry((7, 0), {"x-pulsar-num-batch-message": "2"}, body)], None)
    assert [(m.place, m.value, m.attempt) for m in found] == [
        ("7:0:0", b"v1", "a"),
        ("7:0:1", b"v1", "a"),
    ]
    with pytest.raises(StrangeLedgerError, match="batch at"):
        messages([Entry((7, 0), {"x-pulsar-num-batch-message": "3"}, body)], None)


def test_of_a_transaction_the_broker_says_whether_it_is_open() -> None:
    """What is not committed is not visible; the mark of an end is no copy."""
    entries = [
        Entry((7, 0), {"x-pulsar-txn-uncommitted": "true"}, b"a"),
        Entry((7, 1), {"x-pulsar-txn-aborted": "true"}, b"b"),
        Entry((7, 2), {"x-pulsar-marker-type": "21"}, b""),
        Entry((7, 3), {"x-pulsar-txn-uncommitted": "false", "x-pulsar-txn-aborted": "false"}, b"c"),
    ]
    assert [
        (m.value, m.visible, m.waiting, m.removed)
        for m in messages(entries, Done.of(cursor("7:3")))
    ] == [
        (b"a", False, Waiting.OPEN, None),
        (b"b", False, None, None),
        (b"c", True, None, Removal.ACK),
    ]
    assert [entry.is_final for entry in entries] == [False, True, True, True]


def test_a_topic_has_one_subscription_here() -> None:
    assert only_subscription({"pulsar.dedup": {"a": 1}}) is None
    assert only_subscription({"pulsar.dedup": {"a": 1}, "workers": {"a": 2}}) == {"a": 2}
    with pytest.raises(StrangeLedgerError, match="the topic has several: a, b"):
        only_subscription({"a": {}, "b": {}})


def part(entry: int, number: int, of: int, body: bytes, message: str = "m") -> Entry:
    """Return an entry that is a part of a message."""
    said = {
        "x-pulsar-uuid": message,
        "x-pulsar-chunk-id": str(number),
        "x-pulsar-num-chunks-from-msg": str(of),
    }
    return Entry((7, entry), said, body)


def test_a_message_in_parts_stands_where_its_last_part_does() -> None:
    """Parts of several may stand between each other, and those of one that stands for itself."""
    entries = [
        part(0, 0, 2, b"a"),
        part(1, 0, 2, b"x", "n"),
        Entry((7, 2), {}, b"whole"),
        part(3, 1, 2, b"b"),
        part(4, 1, 2, b"y", "n"),
    ]
    found = messages(entries, Done.of(cursor("7:3")))
    assert [(m.place, m.value, m.removed) for m in found] == [
        ("7:2:0", b"whole", Removal.ACK),
        ("7:3:0", b"ab", Removal.ACK),
        ("7:4:0", b"xy", None),
    ]


def test_parts_that_nothing_completes_are_no_message() -> None:
    """A first part begins anew; one that was there is passed over; behind a gap all is in vain, and
    so is a last part alone.

    What is in vain waits all the same.
    """
    whole = [part(0, 0, 3, b"a"), part(1, 1, 3, b"b"), part(2, 2, 3, b"c")]
    for entries, want in (
        (whole[:2], []),
        ([whole[0], *whole], [b"abc"]),
        ([*whole[:2], whole[1], whole[2]], [b"abc"]),
        ([whole[0], whole[2]], []),
        ([*whole, whole[2]], [b"abc"]),
        ([*whole, *whole], [b"abc", b"abc"]),
        ([*whole, *whole[:2]], [b"abc"]),
    ):
        found = messages(
            [replace(entry, at=(7, number)) for number, entry in enumerate(entries)], None
        )
        assert [m.value for m in found if m.whole] == want
        assert sum(m.counts for m in found) == len(entries)


def test_a_broker_counts_parts() -> None:
    """A message counts for its parts that wait. One that waits and is in no message that does is
    told by itself, behind them.
    """
    taken = [part(0, 0, 2, b"a", "m"), part(1, 1, 2, b"b", "m")]
    half = [part(2, 0, 2, b"c", "n"), part(3, 1, 2, b"d", "n")]
    whole = [part(4, 0, 3, b"e", "o"), part(5, 1, 3, b"f", "o"), part(6, 2, 3, b"g", "o")]
    alone = [part(7, 1, 2, b"h", "p"), part(8, 0, 2, b"i", "q"), Entry((7, 9), {}, b"k")]
    found = messages([*taken, *half, *whole, *alone], Done.of(cursor("7:-1", "[(7:0..7:2]]")))
    assert [(m.place, m.value, m.waiting, m.counts, m.whole) for m in found] == [
        ("7:1:0", b"ab", None, 1, True),
        ("7:3:0", b"cd", Waiting.READY, 1, True),
        ("7:6:0", b"efg", Waiting.READY, 3, True),
        ("7:9:0", b"k", Waiting.READY, 1, True),
        ("7:0:0", b"a", Waiting.READY, 1, False),
        ("7:7:0", b"h", Waiting.READY, 1, False),
        ("7:8:0", b"i", Waiting.READY, 1, False),
    ]
    assert sum(m.counts for m in found if m.waiting) == 8, "all but 7:1 and 7:2"
