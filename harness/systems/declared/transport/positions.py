"""How far a declared pipeline has read: the positions that its groups saved, or what the wire saw
if there is no group.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any

from harness.model import events as kinds
from harness.protocols.kafka.steps import Api
from harness.systems.declared.outputs import OutputError
from harness.systems.declared.programs.errors import StageError
from harness.systems.declared.transport.tail import is_recorded, was_given

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.model.scenario import Role
    from harness.systems.declared.programs.nodes import CommandNode
    from harness.systems.declared.programs.owners import Owners
    from harness.systems.declared.results.matcher import RecordMatcher
    from harness.systems.declared.scene import Scene
    from harness.systems.declared.transport.tail import Log

ELSEWHERE_S = 45.0
"""How long (seconds) a reader that saves its position outside Kafka may take to read on."""
ASKS_NOBODY_S = 3.0
"""How long (seconds) to wait for a saved position of a reader that never asked for a group
coordinator.
"""
COMMITS_S = 35.0
"""Longer than the longest default commit interval, which is 30 s, of Kafka Streams."""


@dataclass(eq=False)
class Positions:
    """Reads the positions of a cell's readers."""

    scene: Scene
    stages: Mapping[Role, CommandNode]
    owners: Owners
    matcher: RecordMatcher
    tail: bool = False
    """Whether the last records are in the output although no position will be
    saved past them.
    """
    _written: tuple[Any, float] = field(default_factory=lambda: (None, time.monotonic()))
    """The size of the output at its last change, and when that was."""

    @property
    def kept_by_group(self) -> bool:
        """Whether the first reader saves its position with its group, as the declaration says."""
        reader = self.scene.reader
        stage = None if reader is None else self.scene.pipeline.stage(reader)
        return stage is not None and stage.position == "group"

    def saved(self) -> dict[Log, int]:
        """Return, for each partition of the topics, the lowest position that any group has saved;
        -1 if none has.
        """
        found: dict[Log, int] = {}
        pipeline, observer = self.scene.pipeline, self.scene.kafka.observer
        for group, topic in product(self.scene.groups(), pipeline.between):
            for partition, offset in observer.positions(group, topic).items():
                at = topic, partition
                found[at] = min(offset, found.get(at, offset))
        size = pipeline.partitions + self.scene.added
        return {at: found.get(at, -1) for at in product(pipeline.between, range(size))}

    def trouble(self) -> str | None:
        """Say which partition has visible records that no group's position covers, or return
        ``None``.
        """
        return self.trouble_in_topic() or self._lag_beside()

    def trouble_in_topic(self) -> str | None:
        """Say which partition of the pipeline's own topics has uncovered visible records, or return
        ``None``.

        Raises:
            StageError: no group saves a position in a run without a fault.
        """
        if not self.kept_by_group:
            return self._elsewhere_trouble()
        topics = self.scene.pipeline.between
        saved, self.tail = self.saved(), False
        last = self._visible({at: max(offset - 1, 0) for at, offset in saved.items()})
        if last and all(offset < 0 for offset in saved.values()):
            never = (
                f"no consumer group has saved a position in {' or '.join(topics)}; if the program "
                'saves its position elsewhere, or nowhere, declare position = "elsewhere" in its '
                "stage"
            )
            if self.scene.faultless and self._saves_none(last):
                raise StageError(never)
            return never
        behind = {at: offset for at, offset in last.items() if saved.get(at, -1) <= offset}
        self.tail = bool(behind) and self._leaves(behind, saved)
        if self.tail:
            return None
        return next(
            (
                f"{self._named(at)}: position {saved.get(at, -1)}, last record at {offset}"
                for at, offset in behind.items()
            ),
            None,
        )

    def _visible(self, since: Mapping[Log, int]) -> dict[Log, int]:
        """Return the offset of the last visible record at or above ``since`` of each log that has
        one.
        """
        return {
            (topic, partition): offset
            for topic in self.scene.pipeline.between
            for partition, offset in self.scene.kafka.observer.visible(
                topic, {p: start for (of, p), start in since.items() if of == topic}
            ).items()
        }

    def _reached(self) -> dict[Log, int]:
        """Return the highest offset that any reader was given, of each log that was read."""
        return {
            (topic, partition): offset
            for topic in self.scene.pipeline.between
            for partition, offset in self.scene.topics_seen.reached(topic).items()
        }

    def _named(self, at: Log) -> str:
        """Name a log: without its topic, if there is only one."""
        return f"{at[0]}/{at[1]}" if self.scene.cell.topics else f"partition {at[1]}"

    def observe(self) -> Mapping[Log, int]:
        """Write the saved positions, and return them by log."""
        if self.kept_by_group:
            saved, where = self.saved(), "group"
        # the position cannot be read; the drain has shown that the reader is at rest, so it counts
        # as at the end
        else:
            saved, where = {}, "elsewhere"
            for topic in self.scene.pipeline.between:
                for partition, end in self.scene.kafka.observer.ends(topic).items():
                    saved[topic, partition] = end.end
        several = bool(self.scene.cell.topics)
        for (topic, partition), offset in saved.items():
            self.scene.history.write(
                kinds.Position(
                    topic=topic if several else None,
                    partition=partition,
                    offset=offset,
                    where=where,
                )
            )
        return saved

    def _leaves(self, behind: Mapping[Log, int], saved: Mapping[Log, int]) -> bool:
        """Whether the records past the saved positions are a tail: they are in the output, and no
        position will follow.

        ``behind``: the last offset of each log with such records. If the pipeline left a tail
        in the run without a fault, nothing has to be waited for.
        """
        scene, topics = self.scene, self.scene.pipeline.between
        given = [
            e
            for e in scene.so_far.of(kinds.Fetched)
            if e.reached and e.topic in topics and e.conn is not None and self.owners.lives(e.conn)
        ]
        known = scene.learnt.silences.leaves_tails(scene.cell)
        if not was_given(behind, saved, given) or not (known or self._is_still(COMMITS_S)):
            return False
        try:
            ended = {
                *self.matcher.ids(),
                *self.matcher.set_aside(),
                *scene.superseded,
            }
            return is_recorded(saved, given, ended)
        except OutputError:
            return False

    def _saves_none(self, last: Mapping[Log, int]) -> bool:
        """Whether the reader was given everything, is quiet, and has had enough time to save a
        position.

        A reader that never asked for a group coordinator has no position to save.
        """
        scene, reader = self.scene, self.scene.reader
        reached = self._reached()
        if any(reached.get(at, -1) < offset for at, offset in last.items()):
            return False
        asks = reader is not None and scene.stages_seen.asked(reader, Api.FIND_COORDINATOR.label)
        return self._is_still(COMMITS_S if asks else ASKS_NOBODY_S)

    def _is_still(self, patience_s: float) -> bool:
        """Whether no record was seen and the output did not change for ``patience_s``. Call it
        repeatedly.
        """
        try:
            size = self.matcher.size()
        except OutputError as error:
            size = str(error)
        if size != self._written[0]:
            self._written = size, time.monotonic()
        last_s = max(self._written[1], self.scene.records_seen.last / 1e9)
        return time.monotonic() - last_s > patience_s

    def _elsewhere_trouble(self) -> str | None:
        """Say what a reader with a position outside Kafka has not read, or return ``None``.

        The reader must have been given everything; a restarted one must have been given something.
        A reader that was given records, and none for ELSEWHERE_S since it is ready, counts as done.
        """
        if self.scene.reader is None:
            return None
        reader = self.stages[self.scene.reader]
        seen, began = self.scene.topics_seen, reader.ready_at or reader.since
        given = max(map(seen.given, self.scene.pipeline.between))
        at_work = reader.processes.incarnation == 1 or given > reader.since
        reached = self._reached()
        behind = [at for at, last in self._visible({}).items() if reached.get(at, -1) < last]
        if not behind and at_work:
            return None
        patience_s = self.scene.still(ELSEWHERE_S)
        quiet_ns = time.monotonic_ns() - max(self.scene.records_seen.last, began)
        if given and quiet_ns > patience_s * 1e9:
            return None
        return (
            f"the {reader.name} has not read "
            f"{f'{self._named(behind[0])} to its end' if behind else 'anything since its start'}"
        )

    def _lag_beside(self) -> str | None:
        """Say which group is behind in a topic other than the pipeline's, or return ``None``.

        One program of a stage may feed the next through such a topic. A group that saves no
        position there, or has no member, does not count.
        """
        observer = self.scene.kafka.observer
        for topic in sorted(self.scene.topics_seen.read() - {*self.scene.pipeline.between}):
            for group in self.scene.groups():
                saved = observer.positions(group, topic)
                last = (
                    observer.visible(topic, {p: max(o - 1, 0) for p, o in saved.items()})
                    if saved
                    else {}
                )
                behind = [p for p, offset in last.items() if saved.get(p, -1) <= offset]
                if behind and observer.members(group):
                    at = saved.get(behind[0], -1)
                    return (
                        f"{topic}/{behind[0]}: position {at} of {group}, last record at "
                        f"{last[behind[0]]}"
                    )
        return None
