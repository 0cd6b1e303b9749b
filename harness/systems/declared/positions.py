"""How far a declared pipeline has read, as its groups have saved it, or as the wire saw it where nobody can ask."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from harness.model import events as kinds
from harness.protocols.kafka.steps import Api
from harness.systems.declared.nodes import StageError
from harness.systems.declared.outputs import OutputError
from harness.systems.declared.tail import is_recorded, was_given

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.model.scenario import Role
    from harness.systems.declared.found import Found
    from harness.systems.declared.nodes import CommandNode
    from harness.systems.declared.owners import Owners
    from harness.systems.declared.scene import Scene

ELSEWHERE_S = 45.0
"""How long a reader whose position nobody can ask for may take to read on."""
ASKS_NOBODY_S = 3.0
"""How long a reader that has asked for no group may take to save a position all the same."""
COMMITS_S = 35.0
"""Longer than the longest commit interval that clients have by themselves: Kafka Streams', 30 s."""


class Positions:
    """The positions of a cell's readers."""

    def __init__(self, scene: Scene, stages: Mapping[Role, CommandNode], owners: Owners, found: Found) -> None:
        self._scene = scene
        self._stages = stages
        self._owners = owners
        self._found = found
        self.tail = False
        """Whether the last records are recorded, and no position will be saved behind them."""
        self._written: tuple[Any, float] = None, time.monotonic()
        """How much the output held when it was last seen to have changed, and when that was."""

    @property
    def kept_by_group(self) -> bool:
        """Whether the first reader saves its position with its group, as the declaration says."""
        reader = self._scene.reader
        stage = None if reader is None else self._scene.pipeline.stage(reader)
        return stage is not None and stage.position == "group"

    def saved(self) -> dict[int, int]:
        """Return the lowest saved position of any group that has one in the topic; -1 where there is none."""
        found: dict[int, int] = {}
        pipeline = self._scene.pipeline
        for group in self._scene.groups():
            for partition, offset in self._scene.kafka.observer.positions(group, pipeline.topic).items():
                found[partition] = min(offset, found.get(partition, offset))
        return {p: found.get(p, -1) for p in range(pipeline.partitions)}

    def trouble(self) -> str | None:
        """Return which partition of a topic that is read has visible records behind its group's position, or ``None``."""
        return self.trouble_in_topic() or self._lag_beside()

    def trouble_in_topic(self) -> str | None:
        """Say the same of the pipeline's topic alone.

        Raises:
            StageError: without a fault no position is saved.
        """
        if not self.kept_by_group:
            return self._elsewhere_trouble()
        topic = self._scene.pipeline.topic
        saved, self.tail = self.saved(), False
        last = self._scene.kafka.observer.visible(topic, {p: max(o - 1, 0) for p, o in saved.items()})
        if last and all(offset < 0 for offset in saved.values()):
            never = (
                f"no consumer group has ever saved a position in {topic}; a program that keeps it "
                'anywhere else, or nowhere, is declared so by position = "elsewhere" in its stage'
            )
            if self._scene.faultless and self._saves_none(last):
                raise StageError(never)
            return never
        behind = {partition: offset for partition, offset in last.items() if saved.get(partition, -1) <= offset}
        self.tail = bool(behind) and self._leaves(behind, saved)
        if self.tail:
            return None
        return next(
            (f"partition {p}: position {saved.get(p, -1)}, last record at {offset}" for p, offset in behind.items()), None
        )

    def observe(self) -> Mapping[int, int]:
        """Write the positions, and return them."""
        if self.kept_by_group:
            saved, where = self.saved(), "group"
        else:  # nobody can ask: the declaration says that it keeps it elsewhere, and the drain that it is quiet
            ends = self._scene.kafka.observer.ends(self._scene.pipeline.topic)
            saved, where = {partition: end.end for partition, end in ends.items()}, "elsewhere"
        for partition, offset in saved.items():
            self._scene.history.write(kinds.POSITION, partition=partition, offset=offset, where=where)
        return saved

    def _leaves(self, behind: Mapping[int, int], saved: Mapping[int, int]) -> bool:
        """Whether what no position is saved behind is a tail that is recorded, and nobody will save a position there.

        ``behind``: the last offset of each such partition. Of a pipeline that has left one without a fault it is known.
        """
        scene, topic = self._scene, self._scene.pipeline.topic
        given = [
            e for e in scene.so_far.of(kinds.FETCHED) if e["reached"] and e["topic"] == topic and self._owners.lives(e["conn"])
        ]
        known = scene.learnt.silences.leaves_tails(scene.cell)
        if not was_given(behind, saved, given) or not (known or self._is_still(COMMITS_S)):
            return False
        try:
            return is_recorded(saved, given, self._found.ids())
        except OutputError:
            return False

    def _saves_none(self, last: Mapping[int, int]) -> bool:
        """Whether a reader that was given everything, and writes nothing more, has had its time to save a position.

        One that asks no group has none to save.
        """
        sighted, reader = self._scene.sighted, self._scene.reader
        reached = sighted.reached(self._scene.pipeline.topic)
        if any(reached.get(partition, -1) < offset for partition, offset in last.items()):
            return False
        asks = reader is not None and sighted.asked(reader, Api.FIND_COORDINATOR.label)
        return self._is_still(COMMITS_S if asks else ASKS_NOBODY_S)

    def _is_still(self, patience_s: float) -> bool:
        """Whether nothing was seen of a record, and the output has not changed, for so long. To be asked again and again."""
        try:
            size = self._found.size()
        except OutputError as error:
            size = str(error)
        if size != self._written[0]:
            self._written = size, time.monotonic()
        return time.monotonic() - max(self._written[1], self._scene.sighted.last / 1e9) > patience_s

    def _elsewhere_trouble(self) -> str | None:
        """Where nobody can ask for the position: whether the reader was given everything, and a restarted one anything.

        A reader that is given nothing for ELSEWHERE_S takes itself to have everything.
        """
        if self._scene.reader is None:
            return None
        reader, sighted, topic = self._stages[self._scene.reader], self._scene.sighted, self._scene.pipeline.topic
        at_work = reader.incarnation == 1 or sighted.given(topic) > reader.since
        reached = sighted.reached(topic)
        visible = self._scene.kafka.observer.visible(topic, {})
        behind = [p for p, last in visible.items() if reached.get(p, -1) < last]
        if not behind and at_work:
            return None
        if time.monotonic_ns() - max(sighted.last, reader.since) > ELSEWHERE_S * 1e9:
            return None
        return f"the {reader.name} has not read {f'partition {behind[0]} to its end' if behind else 'anything since its start'}"

    def _lag_beside(self) -> str | None:
        """Which group is behind in another topic than the first, by which one program of a stage may feed the next, or ``None``.

        A group that saves nothing there, or has no member any more, is not waited for.
        """
        observer = self._scene.kafka.observer
        for topic in sorted(self._scene.sighted.read_topics() - {self._scene.pipeline.topic}):
            for group in self._scene.groups():
                saved = observer.positions(group, topic)
                last = observer.visible(topic, {p: max(o - 1, 0) for p, o in saved.items()}) if saved else {}
                behind = [p for p, offset in last.items() if saved.get(p, -1) <= offset]
                if behind and observer.members(group):
                    at = saved.get(behind[0], -1)
                    return f"{topic}/{behind[0]}: position {at} of {group}, last record at {last[behind[0]]}"
        return None
