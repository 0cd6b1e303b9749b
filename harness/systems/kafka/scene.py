"""What the parts of a cell on Kafka share: the settings, the topics, the group, and the brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.run.scene import CellScene
from harness.stages.consumer_settings import GroupProtocol, ShareSettings
from harness.stages.producer_settings import SaveCursor
from harness.stages.settings import Settings
from harness.systems.kafka.rewound import rewound

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from harness.model.cell import Cell
    from harness.model.history import HistoryWriter
    from harness.systems.kafka.observer import Observer, Placement
    from harness.systems.kafka.transport import KafkaTransport

UNSAVED = -1
"""Stands for a position that was never saved."""


class Scene(CellScene):
    """The objects that the parts of one cell share. The names of its topics and its group begin
    with the cell's key.
    """

    def __init__(
        self,
        cell: Cell,
        directory: Path,
        history: HistoryWriter,
        transport: KafkaTransport,
    ) -> None:
        super().__init__(cell, directory, history)
        self.transport = transport
        self.placement: Placement | None = None
        """The brokers of each partition; ``None``: Kafka chooses."""
        self.settings = Settings.of(cell.settings)
        self.source = f"{cell.key}.in"
        self.sink = f"{cell.key}.out"
        self.cursor = f"{cell.key}.cursor"
        self.group = f"{cell.key}.group"
        self.added = 0
        """How many partitions were added to the source while the cell ran."""
        self.rewound = False
        """Whether a late commit moved positions backwards, as the last check found; they stay
        there.
        """

    @property
    def observer(self) -> Observer:
        """The observer, which reads the logs without the wire."""
        return self.transport.observer

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that the cell uses, the source first."""
        used = [self.source]
        if self.cell.scenario.pipeline.to_topic:
            used.append(self.sink)
        if self.settings.producer.cursor is SaveCursor.IN_TRANSACTION:
            used.append(self.cursor)
        return tuple(used)

    def make_topics(self) -> None:
        """Create the topics; also called after a volume with all of them was lost."""
        topic = self.settings.topic
        config = (
            {} if topic.flush_messages is None else {"flush.messages": str(topic.flush_messages)}
        )
        if topic.replicas > 1:
            config |= {
                "min.insync.replicas": str(topic.min_insync),
                "unclean.leader.election.enable": str(topic.unclean).lower(),
            }
        sizes = {self.cursor: 1}
        wanted = {name: (sizes.get(name, topic.partitions), config) for name in self.topics}
        self.observer.create_topics(wanted, self.placement)

    def save_beginning(self) -> None:
        """Save position 0 for the group, if its clients would not begin at the start of the source
        by themselves.
        """
        if self.settings.consumer.reset != "earliest":
            beginning = dict.fromkeys(range(self.settings.topic.partitions), 0)
            self.observer.save_positions(self.group, self.source, beginning)

    def tell_group(self) -> None:
        """Set the group's settings at the broker before it has members: the new protocols take no
        settings from members.
        """
        consumer, share = self.settings.consumer, self.settings.consumer.share
        kind = str(consumer.protocol)
        if consumer.protocol is GroupProtocol.CLASSIC:
            return
        told = {
            f"{kind}.session.timeout.ms": str(consumer.session_ms),
            f"{kind}.heartbeat.interval.ms": str(consumer.heartbeat_ms),
        }
        if self.shared:
            told |= {
                "share.auto.offset.reset": "earliest",
                "share.isolation.level": consumer.isolation,
                "share.record.lock.duration.ms": str(share.lock_ms),
            }
            if share.limit != ShareSettings().limit:
                told["share.delivery.count.limit"] = str(share.limit)
        self.observer.tell_group(self.group, told, {f"{kind}.assignment.interval.ms": "0"})

    def members(self) -> Mapping[str, str]:
        """Return the members of the group: member id → client id."""
        return self.observer.members(self.group, self.settings.consumer.protocol)

    @property
    def shared(self) -> bool:
        """Whether a share group reads: it uses the source as a queue."""
        return self.settings.consumer.protocol is GroupProtocol.SHARE

    def group_positions(self) -> Mapping[int, int]:
        """Return the group's saved position for each partition that has one."""
        return self.observer.positions(self.group, self.source)

    def every_partition(self, found: Mapping[int, int]) -> dict[int, int]:
        """Return the position of every partition of the source; UNSAVED for those without one."""
        return {
            p: found.get(p, UNSAVED) for p in range(self.settings.topic.partitions + self.added)
        }

    def log_trouble(self) -> str | None:
        """Say which partition has an open transaction, or return ``None``."""
        for topic in self.topics:
            for partition, ends in self.observer.ends(topic).items():
                if ends.stable != ends.end:
                    return (
                        f"{topic}/{partition}: last stable offset {ends.stable}, high watermark "
                        f"{ends.end}"
                    )
        return None

    def position_trouble(self, saved_positions: Callable[[], Mapping[int, int]]) -> str | None:
        """Say which partition has visible records past the saved position, or return ``None``, also
        if :attr:`rewound`.
        """
        saved = saved_positions()
        last = self.observer.visible(self.source, {p: max(o - 1, 0) for p, o in saved.items()})
        behind = {
            partition: offset
            for partition, offset in last.items()
            if saved.get(partition, UNSAVED) <= offset
        }
        self.rewound = bool(behind) and rewound(
            behind,
            saved,
            self._commits(),
            [answer for answer in self.so_far.of(kinds.CommitAnswer) if self._is_mine(answer)],
            self.so_far.of(kinds.Node),
        )
        if self.rewound:
            return None
        for partition, offset in behind.items():
            return (
                f"partition {partition}: position {saved.get(partition, UNSAVED)}, last record "
                f"at {offset}"
            )
        return None

    def _commits(self) -> list[kinds.Committed]:
        """Return the group's commits outside transactions, as the wire saw them."""
        return [
            asked
            for asked in self.so_far.of(kinds.Committed)
            if self._is_mine(asked) and asked.transactional_id is None
        ]

    def _is_mine(self, commit: kinds.Committed | kinds.CommitAnswer) -> bool:
        return (commit.group, commit.topic) == (self.group, self.source)
