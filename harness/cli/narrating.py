"""Tell on the terminal what happens in a cell, while it happens."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from harness.cli.telling import tell_lines
from harness.model import events as kinds
from harness.model.events import CellPhase, DrainPhase, NodePhase, RulePhase
from harness.model.history import HISTORY
from harness.model.tail import HistoryChangedError, SoFar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from harness.model.cell import Cell
    from harness.model.history import Event
    from harness.saved import CellResult

EVERY_S: Final = 0.1
"""How often (seconds) a history is looked at for something new."""
KAFKA: Final = "starting a Kafka of its own"
RULE: Final = "fault"
"""The rule of the wire that belongs to the cell's fault."""


class Narrator:
    """Tells what happens in each cell. Implements :class:`harness.matrix.listener.Progress`.

    ``quiet``: it tells nothing. One cell at a time.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def lines(self, lines: Iterable[str]) -> None:
        """Print lines."""
        if not self._quiet:
            tell_lines(lines)

    def say(self, text: str) -> None:
        """Print a line about the set-up, such as a download. A reader need not know the name of the
        broker that is started.
        """
        self.lines([f"   {KAFKA if text.startswith('starting ') else text}"])

    def planned(self, cells: Sequence[Cell]) -> None:
        """Print nothing: who asks for the cells says what they are."""

    def began(self, cell: Cell, directory: Path) -> None:
        """Follow the history of a cell from now on."""
        self._over.clear()
        arguments = (Story(), directory / HISTORY)
        self._thread = threading.Thread(
            target=self._follow, args=arguments, name=f"story of {cell.id}", daemon=True
        )
        self._thread.start()

    def ended(self, _: CellResult) -> None:
        """Tell the rest of the cell's history."""
        self.close()

    def close(self) -> None:
        """Tell the rest of a cell that is being followed."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _follow(self, story: Story, history: Path) -> None:
        """Tell a history until the cell is over."""
        so_far, seen = SoFar(history), 0
        last = False
        while not last:
            last = self._over.wait(EVERY_S)
            with suppress(HistoryChangedError):  # the judge says what is wrong with it
                events = so_far.events(seen)
                seen += len(events)
                self.lines(filter(None, map(story.line, sorted(events, key=lambda each: each.t))))


class Story:
    """Turns the events of one cell into lines for a reader, in the order in which they come."""

    def __init__(self) -> None:
        self._zero: int | None = None
        self._started: set[str] = set()
        self._drained = False

    def line(self, event: Event) -> str | None:
        """Return the line for an event; ``None`` if a reader need not hear of it."""
        if self._zero is None:
            self._zero = event.t
        told = self._told(event)
        return None if told is None else f"   {(event.t - self._zero) / 1e9:5.1f} s  {told}"

    def _told(self, event: Event) -> str | None:
        match event:
            case kinds.Cell(phase=CellPhase.LOADED):
                return "the orders begin to flow"
            case kinds.Node():
                return self._node(event)
            case kinds.Rule(rule=rule) if rule == RULE:
                return _rule(event)
            case kinds.Drain(phase=DrainPhase.BEGUN):
                return "lostack waits until everything is at rest"
            case kinds.Drain(phase=DrainPhase.COMPLETED):
                self._drained = True
                return "everything is at rest; lostack counts what is in Kafka and in the database"
            case _:
                return None

    def _node(self, event: kinds.Node) -> str | None:
        """Tell of a process. What ends behind the drain is ended by lostack, to clean up."""
        match event.phase:
            case NodePhase.STARTED:
                again = event.role in self._started
                self._started.add(event.role)
                return f"the {event.role} {'is started again' if again else 'is started'}"
            case NodePhase.EXITED if event.signal and not self._drained:
                return f"the {event.role} is killed (signal {event.signal})"
            case _:
                return None


def _rule(event: kinds.Rule) -> str | None:
    match event.phase:
        case RulePhase.ARMED:
            return f"lostack will hold the answer to the {event.api} behind record {event.record}"
        case RulePhase.HELD:
            return f"the {event.role} has asked for it, Kafka has done it: the answer is held"
        case _:
            return None
