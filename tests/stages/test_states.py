"""The query with state: what its sink makes of the state of a key, batch after batch. No Spark:
frames are lists of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast
from unittest.mock import Mock

import pytest

from harness.model import events as kinds
from harness.model.history import read_history
from harness.model.record import decode_id, make_records
from harness.model.semantics import Semantic
from harness.model.writing import LedgerWriter
from harness.stages.queries import STREAM_TO_STATE
from harness.stages.settings import recipe
from harness.stages.sinks.database import DatabaseSink
from harness.stages.stage import Stage
from harness.stages.streaming import Query

if TYPE_CHECKING:
    from pathlib import Path

    A = TypeVar("A", bound=kinds.Event)

CELL_KEY = "abcdef01"
KEY = "k1"
IDS = tuple(record.id for record in make_records(3, keys=1, filler_bytes=(0, 8), seed=1))


@dataclass(frozen=True)
class Row:
    """A copy, as Spark hands it over inside a state."""

    partition: int
    offset: int
    key: bytes
    value: bytes


@dataclass(frozen=True)
class StateRow:
    """One row of an update: the state of a key."""

    key: bytes
    copies: list[Row]


@dataclass(frozen=True)
class Frame:
    """A batch's frame."""

    rows: list[StateRow]

    def collect(self) -> list[StateRow]:
        """Return its rows."""
        return self.rows


def state(*offsets: int) -> Frame:
    """Return an update with one key, whose state holds the copies at these offsets; the record at n
    is the n-th.
    """
    records = make_records(3, keys=1, filler_bytes=(0, 8), seed=1)
    copies = [Row(0, n, KEY.encode(), records[n].encode(CELL_KEY)) for n in offsets]
    return Frame([StateRow(KEY.encode(), copies)])


class Played:
    """A query that is handed its batches by a test."""

    def __init__(self, folder: Path, semantic: Semantic) -> None:
        self.folder = folder
        DatabaseSink.create(folder / "sink.sqlite")
        (folder / "history").mkdir()
        for log in ("offsets", "commits"):
            (folder / "checkpoint" / log).mkdir(parents=True)
        stage = Stage(
            cell="cell",
            key=CELL_KEY,
            name="driver",
            incarnation=1,
            bootstrap="",
            topic_in="in",
            topic_out="out",
            topic_cursor="cursor",
            group="group",
            sink=str(folder / "sink.sqlite"),
            outbox=str(folder / "outbox.sqlite"),
            history=str(folder / "history"),
            settings=recipe(STREAM_TO_STATE, semantic),
            pipeline=STREAM_TO_STATE.name,
        )
        self.ledger = LedgerWriter(
            folder / "history" / "driver-1.jsonl", cell="cell", by="driver-1"
        )
        self.query = Query(stage, self.ledger, Mock())

    def batch(self, number: int, end: int, frame: Frame) -> None:
        """Hand it a batch that ends at an offset of partition 0."""
        (self.folder / "checkpoint" / "offsets" / str(number)).write_text(
            f'v1\n{{}}\n{{"in":{{"0":{end}}}}}'
        )
        self.query._states(cast("Any", frame), number)

    def recorded(self) -> list[str | None]:
        """Return what stands in the sink."""
        return [
            decode_id(value)
            for _, value, _, _ in DatabaseSink(self.folder / "sink.sqlite").results()
        ]

    def told(self, kind: type[A]) -> list[A]:
        """Return the events of a kind."""
        return list(read_history(self.folder / "history").of(kind))


@pytest.fixture
def exactly_once(tmp_path: Path) -> Played:
    """Return a query whose sink replaces."""
    return Played(tmp_path, Semantic.EXACTLY_ONCE)


def test_what_is_no_record_has_no_name_in_a_state(exactly_once: Played) -> None:
    """Another program may write into the topic, too; the line of such a state is no damage."""
    frame = state(0)
    frame.rows[0].copies.append(Row(0, 1, KEY.encode(), b"foreign"))
    exactly_once.batch(0, 2, frame)
    history = read_history(exactly_once.folder / "history")
    assert history.damage == ()
    assert [(event.records, event.news) for event in history.of(kinds.State)] == [
        ((IDS[0], None), (IDS[0], None))
    ]


def test_a_state_takes_the_place_of_the_one_before(exactly_once: Played) -> None:
    """Run again, a batch leaves what it left before."""
    exactly_once.batch(0, 1, state(0))
    for _ in range(2):
        exactly_once.batch(1, 3, state(0, 1, 2))
    assert exactly_once.recorded() == list(IDS)
    assert [event.news for event in exactly_once.told(kinds.State)] == [
        (IDS[0],),
        (IDS[1], IDS[2]),
        (IDS[1], IDS[2]),
    ]
    assert len(exactly_once.told(kinds.Delivered)) == 5


def test_what_a_state_has_lost_is_lost_in_the_sink(exactly_once: Played) -> None:
    """A state that begins empty while the position goes on: a sum would hide it, the
    sink shows it.
    """
    exactly_once.batch(0, 1, state(0))
    exactly_once.batch(1, 2, state(1))
    assert exactly_once.recorded() == [IDS[1]]


def test_what_a_state_holds_twice_stands_twice_in_the_sink(exactly_once: Played) -> None:
    exactly_once.batch(0, 1, state(0))
    exactly_once.batch(1, 2, state(0, 1, 1))
    assert exactly_once.recorded() == [IDS[0], IDS[1], IDS[1]]


def test_a_sink_that_adds_is_given_what_is_new(tmp_path: Path) -> None:
    """At-least-once: each batch adds its own records, and a batch run again adds them again."""
    played = Played(tmp_path, Semantic.AT_LEAST_ONCE)
    played.batch(0, 1, state(0))
    for _ in range(2):
        played.batch(1, 3, state(0, 1, 2))
    assert played.recorded() == [IDS[0], *IDS[1:], *IDS[1:]]
