"""The ends of a log are asked for one after the other, while records flow: none of that is an open
transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from kafka import TopicPartition

from harness.audit.extents import extent_by_brokers
from harness.audit.spec import Rows, parse
from harness.systems.kafka.log_copies import LogEnds
from harness.systems.kafka.observer import Observer
from tests.audit.log_broker import Stored, Topic, broker

if TYPE_CHECKING:
    from collections.abc import Iterable

OF = TopicPartition("t", 0)


class Growing:
    """A log that has one more record at each question. ``opened``: where an open transaction
    begins, if there is one.
    """

    def __init__(self, opened: int | None) -> None:
        self.end = 10
        self.opened = opened

    def ask(self, *, committed: bool) -> int:
        """Return the end for an isolation level."""
        self.end += 1
        return min(self.end, self.opened or self.end) if committed else self.end


class Reader:
    """A client that asks for the ends of a log."""

    def __init__(self, log: Growing, isolation: str) -> None:
        self._log = log
        self._committed = isolation == "read_committed"

    def partitions_for_topic(self, topic: str) -> set[int]:
        """Return the one partition."""
        assert topic == "t"
        return {0}

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return where the log begins."""
        return dict.fromkeys(partitions, 0)

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return where it ends now."""
        return {partition: self._log.ask(committed=self._committed) for partition in partitions}


@pytest.mark.parametrize(("opened", "stable"), [(None, 11), (7, 7), (11, 11), (10, 10)])
def test_records_that_arrive_between_two_questions_are_no_open_transaction(
    opened: int | None, stable: int
) -> None:
    """Only a transaction that is open keeps the last stable offset behind; one that begins
    meanwhile is behind the end.
    """
    log = Growing(opened)
    observer = Observer("nowhere", lambda: None)
    observer._readers = {
        isolation: Reader(log, isolation) for isolation in ("read_committed", "read_uncommitted")
    }
    assert observer.ends("t") == {0: LogEnds(0, stable, 11)}


class Filling(Stored):
    """A partition that has one more record at each question."""

    asked = 0

    @property
    def end(self) -> int:
        """The offset behind the last record."""
        self.asked += 1
        return self.asked


def test_an_audit_of_a_topic_that_is_filled_sees_no_open_transaction() -> None:
    """Its extent is what readers of committed records may read."""
    with broker(Topic("t", [Filling()])) as at:
        side = parse(f"kafka:{at}/t#id=key")
        assert isinstance(side, Rows)
        assert extent_by_brokers(side).doubts == ()
