"""Tell the drain what in a declared cell is not at rest."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.model.scenario import Role
from harness.model.waiting import WaitTimeoutError
from harness.pipelines.dialects import Moment
from harness.pipelines.inputs import InputKind
from harness.systems.declared.learnt.silence import struck_by
from harness.systems.declared.programs.errors import StageError
from harness.systems.declared.programs.workers import REPLACED_S

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from harness.systems.declared.drain.progress import Progress
    from harness.systems.declared.feed.feed import DeclaredFeed
    from harness.systems.declared.programs.nodes import CommandNode
    from harness.systems.declared.programs.owners import Owners
    from harness.systems.declared.programs.services import Services
    from harness.systems.declared.programs.workers import Workers
    from harness.systems.declared.results.matcher import RecordMatcher
    from harness.systems.declared.scene import Scene
    from harness.systems.declared.transport.interface import Transport


@dataclass(eq=False)
class DrainConditions:
    """Says what in a cell is not at rest. ``look``: called whenever the owners of connections are
    looked for.
    """

    scene: Scene
    stages: Mapping[Role, CommandNode]
    feed: DeclaredFeed
    matcher: RecordMatcher
    owners: Owners
    transport: Transport
    workers: Workers
    progress: Progress
    services: Services | None = None
    look: Callable[[], None] = lambda: None

    @property
    def offered(self) -> set[str]:
        """The ids of all records."""
        return set(self.scene.known)

    def offered_so_far(self) -> int:
        """Return how many records were offered."""
        return self.feed.offered_so_far()

    def advanced(self) -> int:
        """Return how far the load has come: a count that grows only by what records do for the
        first time.
        """
        return self.progress.count()

    def attribute(self) -> None:
        """Find the processes behind new connections."""
        self.owners.attribute()
        self.look()

    def size(self) -> Any:
        """Return a value that changes while results arrive."""
        return self.matcher.size()

    def results(self) -> Sequence[str | None]:
        """Return the id of every result that is in the output now.

        Raises:
            OutputError: the output cannot be read.
        """
        return self.matcher.ids()

    def set_aside(self) -> set[str | None]:
        """Return the id of every record that rests where the declaration says that one may end, or
        that compaction took.

        Raises:
            OutputError: a value there cannot be read.
        """
        return self.matcher.set_aside() | self.scene.superseded

    def source_trouble(self) -> str | None:
        """Say why records are still to be sent, or return ``None``."""
        if trouble := self.feed.trouble():
            return trouble
        producer = self.stages.get(Role.PRODUCER)
        if producer is None or producer.ended() is not None:
            return None
        seen, offered = self.scene.records_seen, self.offered
        missing = len(offered - seen.tried())
        if (
            not missing
            or self.scene.pipeline.input.kind in {InputKind.HTTP, InputKind.TABLE}
            or seen.tried(since=producer.since)
        ):
            # a producer is at rest that has sent once and stopped, or was given records by HTTP or
            # in a table
            return None
        return (
            f"the producer has sent nothing since its start; {missing} of {len(offered)} records "
            "were never sent"
        )

    def send_trouble(self) -> str | None:
        """Say which stage waits for answers to its sends, or return ``None``."""
        for role, node in self.stages.items():
            count = self.scene.records_seen.unanswered(role)
            if count and node.ended() is None:
                return f"{count} requests of the {role} are not answered yet"
        return None

    def unacknowledged(self) -> int:
        """Return how many records of living stages are unacknowledged: the stages may send them
        again.
        """
        return sum(
            self.scene.records_seen.unacknowledged(role)
            for role, node in self.stages.items()
            if node.ended() is None
        )

    def away(self, since: int) -> bool:
        """Say whether a living stage that the fault struck has not moved since a time (monotonic
        ns): see :meth:`harness.systems.declared.wire.stages.StagesOnWire.moved`.
        """
        load = self.scene.load
        targets = [record.id for record in load.targets or (load.target,)]
        seen, pipeline = self.scene.stages_seen, self.scene.pipeline
        struck = struck_by(self.scene.cell)
        several = {stage.known for stage in pipeline.stages if stage.one_dies}
        return any(
            not seen.moved(role, targets, since, several=role in several)
            for role, node in self.stages.items()
            if role in struck and node.ended() is None
        )

    def all_ended(self) -> bool:
        """Say whether every stage has ended."""
        return all(node.ended() is not None for node in self.stages.values())

    def stage_trouble(self) -> str | None:
        """Start stages and services again that ended by themselves; say what was done, or return
        ``None``.

        Raises:
            StageError: a restart would not help: a stage ends again and again, or, in a run without
                a fault, the broker refuses a record or a process ended without a replacement;
                or the wire does not read what a stage speaks.
        """
        for stage in self.stages.values():
            stage.check_read()
        if self.scene.faultless and (refused := self.transport.refused()):
            raise StageError(refused, "topic")
        if self.scene.faultless and (one := self.workers.missed()):
            raise self.stages[one.role].error(
                f"has lost one of its processes: {one.pid} ({one.command}) ended by itself in a "
                f"run without a fault, and no other process took its place in {REPLACED_S:g} s"
            )
        nodes = [*(self.services.nodes if self.services else ()), *self.stages.values()]
        return next((trouble for node in nodes if (trouble := node.supervise()) is not None), None)

    def supervise(self) -> None:
        """Start stages again that ended by themselves. If one cannot be started, the drain tells
        later.
        """
        for node in self.stages.values():
            with suppress(StageError, WaitTimeoutError, *self.transport.unanswered):
                node.supervise()

    def check_anything_sent(self, when: str) -> None:
        """Raise StageError if the producer has sent no record."""
        producer = self.stages.get(Role.PRODUCER)
        if producer is not None and not self.scene.stages_seen.asked(
            Role.PRODUCER, self.scene.pipeline.dialect.label(Moment.SEND)
        ):
            raise producer.error(f"has sent nothing to {self.scene.pipeline.topic} {when}")
