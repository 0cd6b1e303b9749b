"""The stages of a cell: its producer and its readers, each a process of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.model.events import NodePhase
from harness.run.drain import StageEndedError
from harness.run.nodes import LIVES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.model.history import HistoryWriter
    from harness.model.scenario import Role
    from harness.run.nodes import StageNode


class Producing:
    """The producer, and the producers that it has replaced. Implements
    :class:`harness.run.parts.Feed`; a part of the ground.
    """

    def __init__(self, history: HistoryWriter, first: StageNode) -> None:
        self._history = history
        self.node = first
        self._replaced: tuple[StageNode, ...] = ()

    def open(self) -> None:
        """Do nothing yet: the producer starts with the load."""

    def start(self) -> None:
        """Start the producer."""
        self.node.start()

    def await_filled(self) -> None:
        """Do not wait: here readers always start before the first record."""

    def succeed(self, node: StageNode) -> None:
        """Replace the producer by another one, and write that to the history."""
        first, self.node = self.node, node
        self._replaced = (*self._replaced, first)
        self._history.write(
            kinds.Node(
                node=first.name,
                role=first.role,
                incarnation=first.stage.incarnation,
                phase=NodePhase.REPLACED,
            )
        )

    def supervise(self) -> str | None:
        """Start the producer again if it comes back; return a message about that, or ``None``."""
        return self.node.supervise()

    def has_ended(self) -> bool:
        """Say whether the producer has ended for good."""
        return self.node.started and self.node.ended() is not None and not self.node.comes_back()

    def trouble(self) -> str | None:
        """Say why the source is not exhausted yet, or return ``None``.

        Raises:
            StageEndedError: the producer has ended with an error, so the source will never be
                exhausted.
        """
        if told := self.supervise():
            return told
        end = self.node.ended()
        if end is None:
            return "the producer has not sent everything yet"
        if end.status != 0:
            raise _given_up(
                self.node, f"the producer ended with {end} before the source was exhausted"
            )
        return None

    def close(self) -> None:
        """Kill all producers."""
        kill_all((*self._replaced, self.node))


class Reading:
    """The reading processes: ``count`` of one role, and newcomers that join later.

    Implements :class:`harness.run.parts.Stages` and :class:`harness.abilities.Beginning`; a part of
    the ground.
    """

    def __init__(self, make: Callable[[Role, str], StageNode], role: Role, count: int = 1) -> None:
        self._make = make
        names = [str(role)] if count == 1 else [f"{role}-{n}" for n in range(1, count + 1)]
        self.nodes = tuple(make(role, name) for name in names)

    def open(self) -> None:
        """Do nothing yet: the readers start when the run says so."""

    def start(self) -> None:
        """Start the readers, and wait until they are ready."""
        for node in self.nodes:
            node.start()
        for node in self.nodes:
            node.await_ready()

    def begin(self, _role: Role) -> None:
        """Start the readers, which were left out, and wait until they are ready."""
        self.start()

    def stand_by(self) -> None:
        """Do nothing: these readers need no preparation."""

    def newcomer(self, role: Role) -> StageNode:
        """Make one more reading process, and return it. The caller starts it."""
        node = self._make(role, f"{role}-{len(self.nodes) + 1}")
        self.nodes = (*self.nodes, node)
        return node

    def trouble(self) -> str | None:
        """Return ``None``: readers never keep a drain from completing, unless one has ended. A
        supervised one is started again.

        Raises:
            StageEndedError: a reader has ended although it should go on.
        """
        if told := supervise(self.nodes):
            return told
        for node in self.nodes:
            if node.started and (end := node.ended()) is not None:
                raise _given_up(node, f"the {node.name} ended with {end}")
        return None

    def close(self) -> None:
        """Kill all readers."""
        kill_all(self.nodes)


def supervise(nodes: Sequence[StageNode]) -> str | None:
    """Start supervised nodes again that have ended with an error; return a message about one of
    them, or ``None``.
    """
    return next((told for node in nodes if (told := node.supervise()) is not None), None)


def _given_up(node: StageNode, because: str) -> StageEndedError:
    """Return the error that a node has ended for good."""
    given_up = node.supervised and node.stage.incarnation >= LIVES
    return StageEndedError(
        f"{because}, started {LIVES} times" if given_up else because, given_up=given_up
    )


def kill_all(nodes: Sequence[StageNode]) -> None:
    """Send SIGKILL to all nodes that were started. If one fails, try the others, then raise its
    error.
    """
    if not nodes:
        return
    try:
        if nodes[0].started:
            nodes[0].kill()
    finally:
        kill_all(nodes[1:])
