"""What an observer has read of a log: its copies, its ends, and who leads its partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.model.places import InLog, Waiting, log_fields, waits_in_log
from harness.model.record import ATTEMPT_HEADER, ORIGIN_HEADER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka.consumer.fetcher import ConsumerRecord


class OfLogCopy(InLog):
    """What the line of a copy says of it by its log."""

    visible: bool
    waiting: Waiting | None


@dataclass(frozen=True, slots=True)
class LogCopy:
    """One copy of a record in a log. ``visible``: whether a read-committed reader sees it."""

    partition: int
    epoch: int
    offset: int
    key: bytes | None
    value: bytes | None
    attempt: str | None
    origin: str | None
    visible: bool
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True)
class Leadership:
    """The leader of a partition and its epoch, and the brokers that keep copies and are in sync,
    all by number.
    """

    leader: int
    epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LogEnds:
    """Offsets of one partition: first, last stable offset, and high watermark."""

    start: int
    stable: int
    end: int


@dataclass(frozen=True, slots=True)
class WholeLog:
    """A topic at one moment: the end offsets of every partition, and every copy between them."""

    ends: Mapping[int, LogEnds]
    copies: tuple[LogCopy, ...]

    def last_visible(self, partition: int) -> int:
        """Return the offset of a partition's last copy that a read-committed reader sees; -1 if
        there is none.
        """
        return max(
            (copy.offset for copy in self.copies if copy.partition == partition and copy.visible),
            default=-1,
        )

    def said_of(
        self, copy: LogCopy, saved: Mapping[int, int] | None = None, topic: str | None = None
    ) -> OfLogCopy:
        """Return the fields of a copy's history line: its place, whether it is visible, and what it
        waits for.

        ``saved``: the saved positions of the log's reader by partition; ``None`` if the log has no
        reader that counts. ``topic``: of several with such places.
        """
        ends = self.ends.get(copy.partition)
        waiting = waits_in_log(
            visible=copy.visible,
            offset=copy.offset,
            stable=ends.stable if ends else None,
            saved=None if saved is None else saved.get(copy.partition, -1),
        )
        return {
            **log_fields(copy.partition, copy.epoch, copy.offset, topic),
            "visible": copy.visible,
            "waiting": waiting,
        }


def copy_of(record: ConsumerRecord, *, visible: bool) -> LogCopy:
    """Return the copy that a client has read."""
    headers = {
        name: value.decode("ascii", "replace")
        for name, value in record.headers
        if value is not None
    }
    return LogCopy(
        record.partition,
        record.leader_epoch,
        record.offset,
        record.key,
        record.value,
        headers.get(ATTEMPT_HEADER),
        headers.get(ORIGIN_HEADER),
        visible,
        tuple(record.headers),
    )
