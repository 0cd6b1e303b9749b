"""The scene of a cell on Kafka: what its parts share, its topics and its group among it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.run.scene import CellScene
from harness.stages.settings import GroupProtocol, SaveCursor, ShareSettings, ours
from harness.systems.kafka.rewound import rewound

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from harness.model.cell import Cell
    from harness.model.history import Event, HistoryWriter
    from harness.systems.kafka.observer import Observer, Placement
    from harness.systems.kafka.transport import KafkaTransport

UNSAVED = -1
"""The saved position where there is none."""


class Scene(CellScene):
    """What the parts of one cell share. ``placement`` says which brokers keep a partition; ``None``: Kafka does.

    The names of its topics and its group begin with the cell's key.
    """

    def __init__(
        self, cell: Cell, directory: Path, history: HistoryWriter, transport: KafkaTransport, placement: Placement | None = None
    ) -> None:
        super().__init__(cell, directory, history)
        self.transport = transport
        self.placement = placement
        self.settings = ours(cell.settings)
        self.source = f"{cell.key}.in"
        self.sink = f"{cell.key}.out"
        self.cursor = f"{cell.key}.cursor"
        self.group = f"{cell.key}.group"
        self.added = 0
        """How many partitions the source has got since."""
        self.rewound = False
        """Whether positions were behind when they were asked for last, and stay so: a late commit has taken them back."""

    @property
    def observer(self) -> Observer:
        """Who reads the logs, past the wire."""
        return self.transport.observer

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that are used, the source first."""
        used = [self.source]
        if self.cell.scenario.pipeline.to_topic:
            used.append(self.sink)
        if self.settings.producer.cursor is SaveCursor.IN_TRANSACTION:
            used.append(self.cursor)
        return tuple(used)

    def make_topics(self) -> None:
        """Make them; again, where a volume with all of them was lost. Where a reader is to begin at the start, say so."""
        topic = self.settings.topic
        config = {} if topic.flush_messages is None else {"flush.messages": str(topic.flush_messages)}
        if topic.replicas > 1:
            config |= {"min.insync.replicas": str(topic.min_insync), "unclean.leader.election.enable": str(topic.unclean).lower()}
        sizes = {self.cursor: 1}
        wanted = {name: (sizes.get(name, topic.partitions), config) for name in self.topics}
        self.observer.create_topics(wanted, self.placement)

    def save_beginning(self) -> None:
        """Let the group begin at the start of the source, where its clients would begin elsewhere by themselves."""
        if self.settings.consumer.reset != "earliest":
            beginning = dict.fromkeys(range(self.settings.topic.partitions), 0)
            self.observer.save_positions(self.group, self.source, beginning)

    def tell_group(self) -> None:
        """Set a group's settings at the broker, before it has a member: the new protocol takes none from its members."""
        consumer, share = self.settings.consumer, self.settings.consumer.share
        kind = str(consumer.protocol)
        if consumer.protocol is GroupProtocol.CLASSIC:
            return
        told = {
            f"{kind}.session.timeout.ms": str(consumer.session_ms), f"{kind}.heartbeat.interval.ms": str(consumer.heartbeat_ms),
        }  # fmt: skip
        if self.shared:
            told |= {
                "share.auto.offset.reset": "earliest", "share.isolation.level": consumer.isolation,
                "share.record.lock.duration.ms": str(share.lock_ms),
            }  # fmt: skip
            if share.limit != ShareSettings().limit:
                told["share.delivery.count.limit"] = str(share.limit)
        self.observer.tell_group(self.group, told, {f"{kind}.assignment.interval.ms": "0"})

    def members(self) -> Mapping[str, str]:
        """Return the members of the group: client id by member id."""
        return self.observer.members(self.group, self.settings.consumer.protocol)

    @property
    def shared(self) -> bool:
        """Whether it is a share group that reads: to it the source is a queue."""
        return self.settings.consumer.protocol is GroupProtocol.SHARE

    def group_positions(self) -> Mapping[int, int]:
        """Return the saved position per partition, of those that the group has one of."""
        return self.observer.positions(self.group, self.source)

    def every_partition(self, found: Mapping[int, int]) -> dict[int, int]:
        """Return positions by partition, of all that the source has; UNSAVED where there is none."""
        return {p: found.get(p, UNSAVED) for p in range(self.settings.topic.partitions + self.added)}

    def log_trouble(self) -> str | None:
        """Return which partition has an open transaction, or ``None``."""
        for topic in self.topics:
            for partition, ends in self.observer.ends(topic).items():
                if ends.stable != ends.end:
                    return f"{topic}/{partition}: last stable offset {ends.stable}, high watermark {ends.end}"
        return None

    def position_trouble(self, saved_positions: Callable[[], Mapping[int, int]]) -> str | None:
        """Return which partition has visible records behind the saved position, or ``None``; so where it was :attr:`rewound`."""
        saved = saved_positions()
        last = self.observer.visible(self.source, {p: max(o - 1, 0) for p, o in saved.items()})
        behind = {partition: offset for partition, offset in last.items() if saved.get(partition, UNSAVED) <= offset}
        self.rewound = bool(behind) and rewound(
            behind, saved, self._commits(kinds.COMMITTED), self._commits(kinds.COMMIT_ANSWER), self.so_far.of(kinds.NODE)
        )
        if self.rewound:
            return None
        for partition, offset in behind.items():
            return f"partition {partition}: position {saved.get(partition, UNSAVED)}, last record at {offset}"
        return None

    def _commits(self, kind: str) -> list[Event]:
        """Return what the wire saw of positions that the group has committed, or been answered, outside of transactions."""
        mine = (self.group, self.source, None)
        return [e for e in self.so_far.of(kind) if (e["group"], e["topic"], e.get("transactional_id")) == mine]
