"""The durable writes of a stage: logged from a moment on, or stopped at one of them."""

from __future__ import annotations

import glob
import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from harness.model import events as kinds
from harness.model.writes import WRITES, FirstWrites, is_within
from harness.runtimes.process.durable import Tracing, TracingError, why_no_tracing
from harness.runtimes.process.processes import written_by
from harness.runtimes.process.traced import files_since, is_below, made_since

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from harness.model.writes import Point
    from harness.runtimes.process.traced import ThreadHold
    from harness.systems.declared.programs.process import StageProcesses

WORK = "{work}"
"""Stands for the work folder in the name of a file, which is different in each run."""
TEMPORARY = "{temporary}"
"""Stands for the folder of temporary files there."""


@dataclass(frozen=True)
class StageWrites:
    """The durable calls of each thread of a stage, the busiest first, and the files that it wrote;
    see :class:`harness.model.events.Writes`. A file below the work folder is named by ``{work}``,
    a temporary one by ``{temporary}``.
    """

    made: dict[str, list[int]] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    unrepeated: tuple[str, ...] = ()


@dataclass
class StageTracer:
    """Traces the durable writes of a stage's present incarnation."""

    processes: StageProcesses
    tracing: Tracing | None = None
    """What traces this incarnation; ``None``: nothing does."""
    _held: bool = field(default=False)
    """Whether the history has the write at which a thread was stopped."""
    _temporary: str = field(default="")

    def start(
        self,
        log: Path,
        point: Point | FirstWrites | None = None,
        among: Collection[int] | None = None,
    ) -> None:
        """Log the durable writes of this incarnation from now on; stop a thread at a point if one
        is given. ``among``: only those of these processes.

        Raises:
            TracingError: the stage is a container, or the kernel does not allow tracing.
        """
        command = self.processes.command
        if command.stage.image:
            raise TracingError(
                f"the {command.name} is a container: lostack does not trace processes in containers"
            )
        if why := why_no_tracing():
            raise TracingError(why)
        node: Any = self.processes.alive()  # without an image: a process
        self._temporary = node.temporary
        if isinstance(point, FirstWrites) or (point is not None and point.call in WRITES):
            opened = {
                file
                for pid in self.processes.members()
                for file in written_by(pid)
                if not is_below(file, self._temporary)
            } - self._uncounted
            point = in_this_run(point, self._work, opened, prints=command.prints)
        self.tracing = Tracing(node, log, point, plain=point is None, among=among)

    def written(self, since_ns: int, records: int) -> StageWrites:
        """Return the durable writes since a time (wall ns), while so many records came."""
        if self.tracing is None:
            return StageWrites()
        writes, work, temporary = self.tracing.writes(), self._work, self._temporary
        files, unrepeated = files_since(
            writes, since_ns, self._uncounted, records=records, work=work, temporary=temporary
        )

        def named(file: str) -> str:
            for folder, name in ((temporary, TEMPORARY), (work, WORK)):
                if is_below(file, folder):
                    return name + file.removeprefix(folder)
            return file

        return StageWrites(
            made_since(writes, since_ns, files, temporary),
            tuple(map(named, files)),
            tuple(map(named, unrepeated)),
        )

    def saved(self) -> str | None:
        """Return the first durable write that is done, as call and files; ``None``: there is none.
        Temporary files and the log do not count.
        """
        writes = () if self.tracing is None else self.tracing.writes()
        return next(
            (
                f"{each.call} {' '.join(each.files)}"
                for each in writes
                if (each.result or "").isdecimal()
                and not each.is_in(self._temporary)
                and self._uncounted.isdisjoint(each.files)
            ),
            None,
        )

    def held(self) -> ThreadHold | None:
        """Return the durable write at which a thread is stopped, or ``None``; the history notes it
        once.
        """
        found = None if self.tracing is None else self.tracing.held()
        if found is not None and not self._held:
            self._held = True
            self.processes.history.write(
                kinds.Durable(
                    role=self.processes.command.name,
                    incarnation=self.processes.incarnation,
                    side=found.point.side,
                    call=found.write.call,
                    occurrence=found.write.occurrence,
                    number=found.write.number,
                    files=tuple(found.write.files),
                    thread=found.write.tid,
                    pid=found.pid,
                    result=found.write.result,
                    made=dict(found.made),
                    at=found.write.at_ns,
                )
            )
        return found

    def end(self) -> None:
        """End the tracing. A thread that was stopped before a write then does it, if its process
        lives.
        """
        if self.tracing is not None:
            self.tracing.end()
            self.tracing = None

    @property
    def _work(self) -> str:
        """The work folder, as the kernel names it."""
        return os.path.realpath(self.processes.command.work)

    @property
    def _uncounted(self) -> set[str]:
        """The files whose writes do not count: the stage's log, unless that is the output."""
        command = self.processes.command
        return set() if command.prints else {str(command.log.resolve())}


def in_this_run(
    point: Point | FirstWrites, work: str, opened: Iterable[str], *, prints: bool
) -> Point | FirstWrites:
    """Return a point with the names that its files have in this run. Files that are ``opened``
    count, too; of a first write only those in its glob, unless the stage ``prints`` the output.
    """
    named = {file.replace(WORK, work) for file in point.files}
    if isinstance(point, FirstWrites) and not prints:
        within = point.within.replace(WORK, glob.escape(work))
        opened = (file for file in opened if within and is_within(file, within))
    return replace(point, files=tuple(sorted({*named, *opened})))
