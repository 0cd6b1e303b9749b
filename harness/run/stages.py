"""The stages of a cell: its producer, and the processes that read, each a process of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.run.drain import StageEndedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.model.history import HistoryWriter
    from harness.model.scenario import Role
    from harness.run.nodes import StageNode


class Producing:
    """The producer, and those whose place it has taken. Implements :class:`harness.run.parts.Feed`; a part of the ground."""

    def __init__(self, history: HistoryWriter, first: StageNode) -> None:
        self._history = history
        self.node = first
        self._replaced: tuple[StageNode, ...] = ()

    def open(self) -> None:
        """Do nothing yet: it starts with the load."""

    def start(self) -> None:
        """Start it."""
        self.node.start()

    def await_filled(self) -> None:
        """Do not wait. Nobody waits: who reads is there first."""

    def succeed(self, node: StageNode) -> None:
        """Put another producer in the place of the one that there is, which is written down as replaced."""
        first, self.node = self.node, node
        self._replaced = (*self._replaced, first)
        self._history.write(kinds.NODE, node=first.name, role=first.role, incarnation=first.stage.incarnation, phase="replaced")

    def has_ended(self) -> bool:
        """Say whether it has sent everything it will send."""
        return self.node.started and self.node.ended() is not None

    def trouble(self) -> str | None:
        """Say why the source is not exhausted yet, or return ``None``.

        Raises:
            StageEndedError: a stage has ended, so the source never will be exhausted.
        """
        end = self.node.ended()
        if end is None:
            return "the producer has not sent everything yet"
        if end.status != 0:
            raise StageEndedError(f"the producer ended with {end} before the source was exhausted")
        return None

    def close(self) -> None:
        """End them."""
        kill_all((*self._replaced, self.node))


class Reading:
    """The processes that read, ``count`` of a role, and those that join them.

    Implements :class:`harness.run.parts.Stages`; a part of the ground.
    """

    def __init__(self, make: Callable[[Role, str], StageNode], role: Role, count: int = 1) -> None:
        self._make = make
        names = [str(role)] if count == 1 else [f"{role}-{n}" for n in range(1, count + 1)]
        self.nodes = tuple(make(role, name) for name in names)

    def open(self) -> None:
        """Do nothing yet: they start when the run says so."""

    def start(self) -> None:
        """Start them, and wait until they are ready."""
        for node in self.nodes:
            node.start()
        for node in self.nodes:
            node.await_ready()

    def stand_by(self) -> None:
        """Do nothing ahead: they start at once."""

    def newcomer(self, role: Role) -> StageNode:
        """Return one more process, of the cell from then on."""
        node = self._make(role, f"{role}-{len(self.nodes) + 1}")
        self.nodes = (*self.nodes, node)
        return node

    def trouble(self) -> str | None:
        """Find no trouble.

        Raises:
            StageEndedError: one has ended although it should go on.
        """
        for node in self.nodes:
            if node.started and (end := node.ended()) is not None:
                raise StageEndedError(f"the {node.name} ended with {end}")
        return None

    def close(self) -> None:
        """End them."""
        kill_all(self.nodes)


def kill_all(nodes: Sequence[StageNode]) -> None:
    """SIGKILL all nodes that were started. An error is raised when all have been tried."""
    if not nodes:
        return
    try:
        if nodes[0].started:
            nodes[0].kill()
    finally:
        kill_all(nodes[1:])
