"""Faults of a connector: its task fails, and somebody restarts the task by the worker's REST
interface; or its settings are changed there, or its worker leaves, while a task has a record in
hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from harness.controls import InProgram, Stop
from harness.faults.triggers import AtTrigger, await_fault
from harness.model import events as kinds
from harness.model.events import NodePhase
from harness.model.scenario import Evidence

if TYPE_CHECKING:
    from harness.controls import Controls
    from harness.judge.proof import ProofContext


class Tasks(Protocol):
    """The task of a connector, which can fail while its worker lives on, be made anew when the
    connector's settings change, and be given to another worker.
    """

    def restart_task(self) -> None:
        """Wait until the task has failed, restart it, and wait until it works."""

    def reconfigure(self) -> None:
        """Change a setting of the connector, and wait until a new task works."""

    def let_go(self) -> None:
        """Release the failpoint that holds the old task."""

    def move(self, node: str) -> None:
        """Tell the worker to end. When it has told its task to stop, release the failpoint that
        holds the task, and wait until another worker has started it and this one has ended.
        """

    def come_back(self, node: str) -> None:
        """Start the worker again."""


@dataclass(frozen=True, slots=True)
class StartedElsewhere:
    """The worker whose task was held lived on until it was told to end, and another one started the
    task behind that.
    """

    name: ClassVar[str] = "task-started-elsewhere"

    def trouble(self, course: ProofContext) -> str | None:
        """Say why this is not proved, or return ``None``."""
        nodes = list(course.history.of(kinds.Node))
        held = {e.pid for e in course.history.of(kinds.Failpoint)}
        told = next((e for e in nodes if e.phase == NodePhase.TOLD and e.pid in held), None)
        if told is None:
            return "the worker that had the record in hand was not told to end"
        own = f"{told.node}-"
        starts = (e for e in course.history.of(kinds.Ready) if e.t > told.t)
        if not any(not str(e.by).startswith(own) for e in starts):
            return "no other worker started the task"
        end = next((e for e in nodes if e.phase == NodePhase.EXITED and e.pid == told.pid), None)
        return (
            None if end and end.asked and end.signal is None else "the worker did not end by itself"
        )


@dataclass(frozen=True, slots=True)
class StartedAgain:
    """After the failpoint was hit, the same worker, which lived on, started the task again."""

    name: ClassVar[str] = "task-started-again"

    def trouble(self, course: ProofContext) -> str | None:
        """Say why this is not proved, or return ``None``."""
        since = course.fired_at or 0
        failed = {e.pid for e in course.history.of(kinds.Failpoint)}
        workers = {e.node: e for e in course.history.of(kinds.Node) if e.pid in failed}
        again = [
            e
            for e in course.history.of(kinds.Ready)
            if e.t > since and any(e.by == f"{n}-{w.incarnation}" for n, w in workers.items())
        ]
        return None if again else "the worker did not start its task again"


@dataclass(frozen=True, slots=True)
class TaskFails(AtTrigger):
    """At ``at`` the work on the target fails, and the task with it. When the worker says so, the
    task is restarted.
    """

    id: ClassVar[str] = "task-fails"
    abilities: ClassVar[tuple[type, ...]] = (Tasks,)
    stops: ClassVar[Stop] = Stop.FAIL

    at: InProgram

    def evidence(self) -> Evidence:
        """Return what the history must show: the failpoint was hit at the target, nobody died, and
        the task was started again.
        """
        return Evidence("failpoint", proofs=(StartedAgain(),))

    def inject(self, controls: Controls) -> None:
        """Wait until the task has failed, and restart it."""
        await_fault(controls, self.at)
        controls.ability(Tasks).restart_task()
        controls.say("healed")


@dataclass(frozen=True, slots=True)
class Reconfigured(AtTrigger):
    """At ``at`` the task is held with the target in hand, and the settings of its connector are
    changed. The worker gives up waiting for the task, and a new one does all the work; then the old
    one goes on.
    """

    id: ClassVar[str] = "reconfigured"
    abilities: ClassVar[tuple[type, ...]] = (Tasks,)
    stops: ClassVar[Stop] = Stop.PAUSE

    at: InProgram

    def evidence(self) -> Evidence:
        """Return what the history must show: the failpoint was hit at the target, nobody died, and
        a new task was started in the same worker.
        """
        return Evidence("failpoint", proofs=(StartedAgain(),))

    def inject(self, controls: Controls) -> None:
        """Change the settings when the task is held, wait until the new task has done all, and let
        the old one go on.
        """
        await_fault(controls, self.at)
        connector = controls.ability(Tasks)
        connector.reconfigure()
        controls.say("applied")
        controls.await_exhausted()
        controls.settle()
        connector.let_go()
        controls.say("healed")


@dataclass(frozen=True, slots=True)
class Moved(AtTrigger):
    """At ``at`` the task is held with the target in hand, and its worker is told to end (SIGTERM).
    The task goes on when the worker has told it to stop, so that it is given up in good order;
    another worker starts it, and does the rest.
    """

    id: ClassVar[str] = "moved"
    abilities: ClassVar[tuple[type, ...]] = (Tasks,)
    stops: ClassVar[Stop] = Stop.PAUSE

    at: InProgram

    def evidence(self) -> Evidence:
        """Return what the history must show: the failpoint was hit at the target, its worker was
        told to end and did, and another one started the task.
        """
        return Evidence("failpoint", told=(self.at.role,), proofs=(StartedElsewhere(),))

    def inject(self, controls: Controls) -> None:
        """Let the worker end when the task is held, wait until another one has done the rest, and
        start the worker again.
        """
        fired = await_fault(controls, self.at)
        workers = controls.ability(Tasks)
        workers.move(str(fired.node))
        controls.say("applied", node=fired.node)
        controls.await_exhausted()
        controls.settle()
        workers.come_back(str(fired.node))
        controls.say("healed")
