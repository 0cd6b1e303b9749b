"""What observers write down, on logs that stand still only in part: nothing of it contradicts
itself.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

from kafka import TopicPartition

from harness.model.record import Record
from harness.model.semantics import Semantic
from harness.stages.producer_settings import SaveCursor
from harness.stages.settings import Settings
from harness.systems.kafka.authorities import observe_reading, observe_source
from harness.systems.kafka.log_copies import LogCopy, LogEnds, WholeLog
from harness.systems.kafka.observer import Observer
from tests.judge.scenes import CELL, Kept, scene_of
from tests.narrow import narrow

if TYPE_CHECKING:
    from pathlib import Path


def copy(
    offset: int, value: bytes | None = None, *, partition: int = 0, visible: bool = True
) -> LogCopy:
    """One copy."""
    return LogCopy(partition, 0, offset, b"k", value, None, None, visible)


def ours(record: str, key: str) -> bytes:
    """Make a payload of a cell."""
    return Record(record, "k", 1, "").encode(key)


class Growing(Observer):
    """A topic that gets one more copy whenever it is looked at."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def ends(self, topic: str) -> dict[int, LogEnds]:  # noqa: ARG002 - there is one
        """Say how long it is."""
        self.asked.append("ends")
        return {0: LogEnds(0, len(self.asked), len(self.asked))}

    def copies(self, topic: str) -> list[LogCopy]:  # noqa: ARG002 - there is one
        """Return what is in it."""
        self.asked.append("copies")
        return [copy(offset) for offset in range(len(self.asked))]


def test_a_log_is_read_up_to_where_it_ended_when_it_was_asked() -> None:
    """What is appended while it is read was not there: the ends bound the copies, and no copy is
    missing below them.
    """
    observer = Growing()
    log = observer.log("t")
    assert observer.asked == ["ends", "copies"]
    assert [found.offset for found in log.copies] == list(range(log.ends[0].end)) == [0]
    assert (log.last_visible(0), log.last_visible(1)) == (0, -1)


def test_a_cell_on_kafka_is_asked_for_its_log_last(tmp_path: Path) -> None:
    """Whatever moves meanwhile: what is past a cursor or a position is found behind it, and what is
    in the sink in the log.
    """
    asked: list[str] = []
    logs = {
        "cursor": WholeLog({0: LogEnds(0, 3, 3)}, (copy(0, b"2"), copy(1, b"3", visible=False)))
    }

    def log(topic: str) -> WholeLog:
        asked.append(name := topic.partition(".")[2])
        return logs[name]

    def saved() -> dict[int, int]:
        asked.append("positions")
        return {0: 1}

    history = Kept()
    scene = scene_of(
        tmp_path, cell=replace(CELL, semantic=Semantic.EXACTLY_ONCE), history=history, log=log
    )
    assert narrow(scene.cell.settings, Settings).producer.cursor is SaveCursor.IN_TRANSACTION
    logs["in"] = WholeLog(
        {0: LogEnds(0, 1, 2)}, (copy(0, ours("k-1", scene.cell.key)), copy(1, b"?", visible=False))
    )
    observe_source(scene)
    observe_reading(scene, saved, lambda: asked.append("sink"))
    assert asked == ["cursor", "positions", "sink", "in"]
    assert history.of("stored", "hop", "offset", "record", "visible") == [
        ("topic", 0, "k-1", True),
        ("topic", 1, None, False),
    ]
    ends = history.of("log", "hop", "partition", "stable", "end", "last_data")
    assert ends == [("cursor", 0, 3, 3, 0), ("topic", 0, 1, 2, 0)]
    assert history.of("cursor", "position", "where") == [(2, "topic")]
    assert history.of("position", "partition", "offset") == [(0, 1)]
    assert len(history.of("offered")) == len(scene.load.records)


class Reader:
    """Stands in for a client: three partitions, of which the second has a copy that is no longer
    open, and one that still is.
    """

    logs: ClassVar = {0: [0, 1], 1: [0, 1, 2], 2: []}
    committed: ClassVar = {0: {0, 1}, 1: {0}, 2: set()}
    stable: ClassVar = {0: 2, 1: 2, 2: 0}

    def __init__(self, isolation: str) -> None:
        self._all = isolation == "read_uncommitted"
        self._given = False

    def partitions_for_topic(self, _: str) -> set[int]:
        """Say how many there are."""
        return set(self.logs)

    def beginning_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Say where they begin."""
        return dict.fromkeys(partitions, 0)

    def end_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Say where they end for this reader."""
        return {
            p: len(self.logs[p.partition]) if self._all else self.stable[p.partition]
            for p in partitions
        }

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Begin anew."""
        self._given, self._assigned = False, partitions

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """It begins at the beginning."""

    def position(self, partition: TopicPartition) -> int:
        """Say how far it is."""
        return self.end_offsets([partition])[partition] if self._given else 0

    def poll(self, timeout_ms: int) -> dict[TopicPartition, list[Any]]:
        """Give all there is at once."""
        del timeout_ms
        self._given = True
        return {
            p: [
                self._record(p.partition, offset)
                for offset in self.logs[p.partition]
                if self._all or offset in self.committed[p.partition]
            ]
            for p in self._assigned
        }

    def _record(self, partition: int, offset: int) -> Any:
        return SimpleNamespace(
            partition=partition, leader_epoch=0, offset=offset, key=b"k", value=b"v", headers=[]
        )


class Reading(Observer):
    """An observer whose clients are these."""

    def _reader(self, isolation: str) -> Any:
        return Reader(isolation)

    def _admin_client(self) -> Any:
        places = {TopicPartition("t", 0): 2, TopicPartition("t", 1): -1, TopicPartition("u", 0): 7}
        found = {place: SimpleNamespace(offset=offset) for place, offset in places.items()}
        return SimpleNamespace(list_group_offsets=lambda _: {"g": found})


def test_an_observer_says_what_there_is() -> None:
    """Every partition, an empty one too; every copy, and whether a read-committed reader sees it;
    what is stable; positions.
    """
    observer = Reading("nowhere", lambda: None)
    log = observer.log("t")
    assert log.ends == {0: LogEnds(0, 2, 2), 1: LogEnds(0, 2, 3), 2: LogEnds(0, 0, 0)}
    assert [(found.partition, found.offset, found.visible) for found in log.copies] == [
        (0, 0, True),
        (0, 1, True),
        (1, 0, True),
        (1, 1, False),
        (1, 2, False),
    ]
    assert observer.positions("g", "t") == {0: 2}
