"""Simulate a cell with a log between producer and consumer: copies have offsets, and the consumer
saves its position.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, ClassVar

from harness.model import events as kinds
from harness.model.places import NOWHERE, Removal, log_fields, waits_in_log
from harness.model.states import Hop, LastHop
from harness.stages.settings import Settings
from harness.systems.kafka.signs import FLUSHED
from tests.memory.plants import PlantError
from tests.memory.play import NOT_STORED, Copy, MemoryCellRun

if TYPE_CHECKING:
    from collections.abc import Collection

    from harness.model.record import Record
    from tests.memory.play import Where

TOPIC = "topic"
_HOPS = (
    *NOT_STORED,
    LastHop.NEVER_SENT,
    LastHop.DELETED,
    LastHop.ABORTED,
    LastHop.SKIPPED,
    LastHop.DELIVERED,
)
"""The hops at which a record can be lost if the broker keeps a log."""


class LogRun(MemoryCellRun):
    """The simulated run of one cell with a log."""

    between: ClassVar[str] = TOPIC
    nowhere: ClassVar[Where] = {**log_fields(NOWHERE, 0, NOWHERE)}
    stalled: ClassVar[tuple[str, str]] = (
        "topic",
        "the last stable offset is below the high watermark",
    )
    unread: ClassVar[tuple[str, str]] = ("position", "the saved position is below the last record")
    loses_at: ClassVar[Collection[LastHop]] = (LastHop.DELETED,)

    def prepare(self) -> None:
        """Check that a log can do what is planted, and start the nodes.

        Raises:
            PlantError: only a queue can do what is planted.
        """
        if self.plant.in_queue or self.plant.lose_at not in _HOPS:
            raise PlantError("the plant needs a queue, and this cell has a log")
        self._ends: Counter[int] = Counter()
        super().prepare()

    @property
    def _partitions(self) -> range:
        return range(Settings.of(self.cell.settings).topic.partitions)

    def _partition(self, record: Record) -> int:
        return record.position % len(self._partitions)

    def aim(self, record: Record) -> Where:
        """Return the record's partition, and a producer without an id."""
        return {
            "partition": self._partition(record),
            "producer_id": -1,
            "producer_epoch": -1,
            "sequence": -1,
        }

    def store(
        self, record: Record, attempt: str | None, *, visible: bool, spare: bool = False
    ) -> None:
        """Append a copy to the record's partition."""
        partition = self._partition(record)
        self.copies.append(
            Copy(
                record.id,
                attempt,
                {**log_fields(partition, 0, self._ends[partition])},
                visible,
                spare,
            )
        )
        self._ends[partition] += 1

    def lose(self, record: Record, attempt: str, hop: LastHop) -> None:
        """Write that retention removed the record."""
        del attempt, hop
        self.observed(
            kinds.REMOVED,
            why=Removal.RETENTION,
            topic=TOPIC,
            record=record.id,
            visible=True,
            **log_fields(0, 0, 0),
        )

    def acknowledge(self, copy: Copy) -> None:
        """Do nothing: the consumer saves its position instead."""

    def forget(self) -> None:
        """Write the flushed offsets."""
        for partition in self._partitions:
            self.observed(
                kinds.FLUSHED,
                partition=partition,
                offset=self._ends[partition] if self.shows(FLUSHED) else 0,
            )

    def _first(self, partition: int, records: set[str]) -> int:
        """Return the offset of the first copy of any of ``records`` in a partition, or its end."""
        found = (
            copy.where["offset"]
            for copy in self.copies
            if copy.where["partition"] == partition and copy.record in records
        )
        return min(found, default=self._ends[partition])

    def observe_broker(self) -> None:
        """Write the copies of each partition, its end offsets, and its saved position."""
        last: Counter[int] = Counter()
        stable = {
            partition: self._first(partition, self.cast.stalled) for partition in self._partitions
        }
        saved = {
            partition: self._first(partition, self.cast.stalled | self.cast.unread)
            for partition in self._partitions
        }
        for copy in self.copies:
            partition, offset = copy.where["partition"], copy.where["offset"]
            if copy.visible:
                last[partition] = offset + 1
            waiting = waits_in_log(
                visible=copy.visible,
                offset=offset,
                stable=stable[partition],
                saved=saved[partition],
            )
            self.observed(
                "stored",
                hop=Hop.TOPIC,
                topic=TOPIC,
                record=copy.record,
                key=None,
                intact=True,
                visible=copy.visible,
                waiting=waiting,
                attempt=copy.attempt,
                producer_id=-1,
                **copy.where,
            )
        for partition in self._partitions:
            self.observed(
                "log",
                hop=Hop.TOPIC,
                topic=TOPIC,
                partition=partition,
                start=0,
                stable=stable[partition],
                end=self._ends[partition],
                last_data=last[partition] - 1,
            )
            self.observed("position", partition=partition, offset=saved[partition], where="group")

    def observe(self) -> None:
        """Write what the authorities say, and the ends of the sink's and the cursor's logs."""
        super().observe()
        for hop, partitions in self.plan.logs.items():
            for partition in range(partitions) if hop != Hop.TOPIC else ():
                end = self.results if hop == Hop.SINK and partition == 0 else 0
                self.observed(
                    "log",
                    hop=hop,
                    topic=hop,
                    partition=partition,
                    start=0,
                    stable=end,
                    end=end,
                    last_data=end - 1,
                )

    def recorded(
        self, order: int, record: str | None, where: Where, *, intact: bool = True
    ) -> None:
        """Write one row of the sink; if the sink is a log, also its copy there."""
        super().recorded(order, record, where, intact=intact)
        if Hop.SINK in self.plan.logs:
            self.observed(
                "stored",
                hop=Hop.SINK,
                topic=Hop.SINK,
                record=record,
                key=None,
                intact=intact,
                visible=True,
                waiting=None,
                attempt=None,
                producer_id=-1,
                **log_fields(0, 0, order),
            )
