"""Feed a declared cell: offer its records in three waves; hold them back in three waves if the
producer has them itself.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from harness.faults import CommitOvertakesWork, InBacklog, PartedFromWork
from harness.model.scenario import Edge, Role
from harness.pipelines.braces import fill
from harness.pipelines.dialects import Moment
from harness.pipelines.inputs import InputKind
from harness.systems.declared.feed.feeders import (
    FileFeeder,
    OwnFeeder,
    StdinFeeder,
    TopicFeeder,
)
from harness.systems.declared.feed.holding import Holding, is_held_back
from harness.systems.declared.feed.http import HttpFeeder
from harness.systems.declared.feed.waves import STILL_S, Waves
from harness.systems.declared.programs.errors import StageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.run.controls import FaultState
    from harness.systems.declared.feed.feeders import Feeder
    from harness.systems.declared.programs.nodes import CommandNode
    from harness.systems.declared.programs.owners import Owners
    from harness.systems.declared.scene import Scene


class DeclaredFeed:
    """The feed of a cell. Implements :class:`harness.run.parts.Feed`; opened and closed with the
    cell.

    ``fault``: whether the cell's fault has fired.
    """

    def __init__(
        self,
        scene: Scene,
        stages: Mapping[Role, CommandNode],
        owners: Owners,
        fault: FaultState,
    ) -> None:
        self._scene = scene
        self._stages = stages
        self._owners = owners
        self._fault = fault
        declared = scene.cell.scenario.fault
        work = declared.work if isinstance(declared, CommitOvertakesWork | PartedFromWork) else None
        self._waves = Waves(
            len(scene.load.records),
            seen=lambda: isinstance(declared, InBacklog) or scene.has_stepped(),
            moves=self._moves,
            fired=lambda: fault.fired,
            targets=max(1, len(scene.load.targets)),
            still_s=scene.still(STILL_S),
            target_at=scene.load.target.position,
            alone_at=scene.load.target.position if work else None,
            rest_s=work.quiet_s if work else 0.0,
        )
        self._last = scene.cell.scenario.edge is Edge.LAST
        if scene.faultless or self._last:  # nothing comes behind the last record
            self._waves.release()
        self._feeder: Feeder | None = None
        self._holding: Holding | None = None
        """Holds back a producer that has all records from the start."""
        self.loaded_at = 0
        """When the first record could flow, monotonic ns."""

    def open(self) -> None:
        """Do nothing: :meth:`start` begins."""

    def start(self) -> None:
        """Start the producer and offer it the records, or put them into the topic."""
        scene, pipeline = self._scene, self._scene.pipeline
        self._feeder = self._make_feeder()
        if not self._last and is_held_back(pipeline.input.kind, scene.cell.scenario.fault):
            step, _ = pipeline.dialect.steps[Moment.SEND]
            self._holding = Holding(
                scene.brokers.wire,
                scene.cell.id,
                scene.load,
                seen=scene.has_stepped,
                records_seen=scene.records_seen,
                so_far=scene.so_far,
                step=step,
            )
            self._holding.start()
        if producer := self._stages.get(Role.PRODUCER):
            producer.start()
            producer.await_ready()
        self._owners.attribute()
        self.loaded_at = time.monotonic_ns()
        self._feeder.start()

    def await_filled(self) -> None:
        """Do nothing: the readers start first, so nothing has to be in the topic."""

    def release(self) -> None:
        """Let all records through: the fault is over."""
        self._waves.release()
        if self._holding:
            self._holding.release()

    @property
    def waits(self) -> bool:
        """Whether the remaining records wait until the fault is healed."""
        return self._waves.waiting

    def go_on(self) -> None:
        """Let the records through up to those behind the next target."""
        self._waves.go_on()

    def end_input(self) -> None:
        """Give the producer all remaining records, then close its standard input.

        Raises:
            StageError: the input is not the producer's standard input.
        """
        if not isinstance(self._feeder, StdinFeeder):
            raise StageError(
                "the producer's input cannot be ended: only an input of kind stdin has an end"
            )
        self._feeder.hurry()

    def exhausted(self) -> bool:
        """Say whether nothing can be offered: everything was, or the rest waits until the fault is
        healed.
        """
        held = self._holding is not None and self._holding.holds and not self._fault.has_fired
        return self._feeder is not None and (
            (self._feeder.exhausted() and not held) or self._waves.waiting
        )

    def trouble(self) -> str | None:
        """Say why records are still to be offered; ``None`` if all were.

        Raises:
            StageError: some records can never be offered.
        """
        if self._feeder is None:
            return "no record has been offered yet"
        if trouble := self._feeder.trouble():
            raise StageError(trouble)
        return None if self._feeder.exhausted() else "some records have not been offered yet"

    def offered_so_far(self) -> int:
        """Return how many records were offered."""
        return self._feeder.offered if self._feeder else 0

    def has_taken_over(self, record: str) -> bool:
        """Say whether the producer has answered the POST of a record: lostack never offers it
        again.
        """
        return isinstance(self._feeder, HttpFeeder) and record in self._feeder.taken_over

    def close(self) -> None:
        """Stop offering records and holding requests."""
        with ExitStack() as ends:  # the last comes first
            if self._holding:
                ends.callback(self._holding.close)
            if self._feeder:
                ends.callback(self._feeder.close)

    def _moves(self) -> object:
        """Return a value that changes while anything moves."""
        return self._scene.records_seen.last, self.offered_so_far()

    def _make_feeder(self) -> Feeder:
        scene, pipeline = self._scene, self._scene.pipeline
        given, lines = pipeline.input, scene.cell.lines()
        match given.kind:
            case InputKind.STDIN:
                return StdinFeeder(
                    self._stages[Role.PRODUCER],
                    lines,
                    rate=pipeline.pace,
                    resend=pipeline.resend,
                    history=scene.history,
                    so_far=scene.so_far,
                    records_seen=scene.records_seen,
                    waves=self._waves,
                    header=given.header,
                )
            case InputKind.FILE:
                return FileFeeder(scene.work / "input.txt", lines, given.header)
            case InputKind.HTTP:
                url = fill(given.url, scene.values(Role.PRODUCER))
                return HttpFeeder(
                    url,
                    lines,
                    rate=pipeline.pace,
                    resend=pipeline.resend,
                    history=scene.history,
                    waves=self._waves,
                    writers=given.at_once,
                )
            case InputKind.TABLE:
                from harness.systems.declared.feed.table import TableFeeder  # noqa: PLC0415 - its client loads slowly

                return TableFeeder(
                    fill(given.database, scene.values_at_rest()),
                    given.table,
                    given.columns,
                    lines,
                    rate=pipeline.pace,
                    history=scene.history,
                    waves=self._waves,
                    writers=given.at_once,
                    sent=scene.records_seen.tried,
                )
            case InputKind.OWN:
                return OwnFeeder()
            case InputKind.TOPIC:
                topics = scene.cell.topic_of()
                return TopicFeeder(
                    scene.kafka,
                    {
                        record.id: (topics[record.id], record.key, lines[record.id])
                        for record in scene.load.records
                    },
                    rate=pipeline.pace,
                    history=scene.history,
                    waves=self._waves,
                )
