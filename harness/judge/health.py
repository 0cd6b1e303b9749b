"""Whether each process was healthy: which ended by itself, by an error, or outlived its kill."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.judge.firing import SIGKILL
from harness.model import events as kinds
from harness.model.events import End, NodePhase

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.judge.firing import Firing
    from harness.model.history import History
    from harness.model.plan import Plan

SIGTERM = 15
ENDED = 128 + SIGTERM
"""The exit status of a JVM that has ended after SIGTERM."""


class Health:
    """The processes of a run, as the lines of their starts and ends tell.

    ``firing``: when the fault fired, which processes it was to end, and when the drain ended.
    """

    def __init__(self, plan: Plan, history: History, firing: Firing) -> None:
        self._plan = plan
        self._history = history
        self._firing = firing

    def gave_up(self) -> Iterator[kinds.Stopped]:
        """Return the programs that ended by an error after the fault and before the drain was given
        up.
        """
        after = self._firing.fired_at or 0
        ends = (e for e in self._history.of(kinds.Stopped) if e.kind == End.ERROR and e.t > after)
        return (e for e in ends if not self._firing.drained_before(e))

    def ended(self) -> str:
        """Name what had ended before the drain was given up: programs that gave up, and processes
        that ended by themselves. Each begins with a semicolon.
        """
        gone = (
            e
            for e in self._history.of(kinds.Node)
            if e.phase == NodePhase.GONE and not self._firing.drained_before(e)
        )
        return "".join(
            f"; {e.by} had ended: {kinds.root_cause_line(e.because)}" for e in self.gave_up()
        ) + "".join(
            f"; process {e.pid} ({e.command}) of the {e.node} had ended by itself" for e in gone
        )

    def before(self) -> str | None:
        """Name a process that ended by itself before the fault."""
        until = self._firing.fired_at
        for event in self._history.of(kinds.Node):
            if event.phase != NodePhase.EXITED or (event.status == 0 and event.signal is None):
                continue
            if until is None and (
                self._plan.refused_by_client or self._firing.drained_before(event)
            ):
                continue
            if until is None or event.t < until:
                return f"{event.node} was not healthy before the fault: {how_ended(event)}"
        return None

    def after(self) -> str | None:
        """Name a process that ended by itself after the fault although the fault
        should not end it.
        """
        for event in self._history.of(kinds.Node):
            if (
                event.phase != NodePhase.EXITED
                or event.signal == SIGKILL
                or self._firing.drained_before(event)
                or event.status == 0
                or self._supervised(event)
                or self._replaced(event)
                or _ended_in_order(event)
            ):
                continue
            was_told = event.asked and event.role in self._plan.evidence.told
            if was_told or event in self._firing.meant(event.role):
                continue
            return f"{event.node} was not healthy after the fault: {how_ended(event)}"
        return None

    def survivors(self) -> str | None:
        """Name a process that was killed and is still alive."""
        for event in self._history.of(kinds.Node):
            if event.left and not self._firing.drained_before(event):
                pid, how, command = event.left[0]
                why = (
                    "and it is unknown whether it belongs to that node"
                    if how == "stray"
                    else "although it belongs to that node"
                )
                return (
                    f"process {pid} ({command}) was still alive after {event.node} had ended, {why}"
                )
        return None

    def strangers(self) -> str | None:
        """Name a process that was connected in a stage's place without being part of it: it takes
        records.
        """
        found = next(self._history.of(kinds.Stranger), None)
        if found is None:
            return None
        who = (
            f"process {found.pid} ({found.command})"
            if found.pid
            else "a process that lostack cannot identify"
        )
        return (
            f"{who} is connected through the {found.role}'s route, but does not belong to the "
            f"{found.role}: end that process, or, if it belongs to another stage, give it the "
            "address of that stage's route"
        )

    def all_live(self) -> bool:
        """Whether no process had ended by an error when the drain was given up."""
        last = {
            e.node: e for e in self._history.of(kinds.Node) if not self._firing.drained_before(e)
        }
        return not any(e.phase == NodePhase.EXITED and e.status != 0 for e in last.values())

    def _supervised(self, end: kinds.Node) -> bool:
        """Whether a process that ended by itself was started again by a supervisor."""
        lives = (e for e in self._history.of(kinds.Node) if e.node == end.node and e.t > end.t)
        return any(e.phase == NodePhase.STARTED and e.supervised is True for e in lives)

    def _replaced(self, end: kinds.Node) -> bool:
        """Whether another process had taken this one's place. It may have been told so, and ended
        because of it.
        """
        lives = (e for e in self._history.of(kinds.Node) if e.node == end.node and e.t < end.t)
        return any(e.phase == NodePhase.REPLACED for e in lives)


def _ended_in_order(event: kinds.Node) -> bool:
    """Whether a server ended by itself after SIGTERM."""
    return event.asked is True and (event.status == ENDED or event.signal == SIGTERM)


def how_ended(event: kinds.Node) -> str:
    """Say how a program ended, as the line of its end tells.

    >>> from functools import partial
    >>> end = partial(kinds.Node, t=0, node="n", role="r", incarnation=1, phase=NodePhase.EXITED)
    >>> how_ended(end(signal=15)), how_ended(end(status=3)), how_ended(end())
    ('ended by signal 15', 'exit status 3', 'ended, nobody saw how')
    """
    if event.signal:
        return f"ended by signal {event.signal}"
    status = event.status
    return "ended, nobody saw how" if status is None else f"exit status {status}"
