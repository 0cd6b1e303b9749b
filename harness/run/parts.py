"""The parts of a cell, which its system makes: resources, stages, feed, drain, authorities."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol, TypedDict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.controls import Controls


class Part(Protocol):
    """A resource of a cell: folders, a place on the wire, topics, a sink, processes."""

    def open(self) -> None:
        """Make or acquire the resource."""

    def close(self) -> None:
        """Free the resource. Called once, even if ``open`` failed or was never called."""


class Stages(Protocol):
    """The processes that read, and record results."""

    def start(self) -> None:
        """Start the processes, and wait until they are ready."""

    def stand_by(self) -> None:
        """Do preparations that take long. Called when records flow, for stages that start later."""


class StagesPart(Part, Stages, Protocol):
    """The processes that read, as a part of the ground."""


class Feed(Protocol):
    """Feeds records into the pipeline."""

    def start(self) -> None:
        """Let the records flow; do not wait for the last one."""

    def await_filled(self) -> None:
        """Wait until all records are in the pipeline that must be there before reading begins."""


@dataclass(frozen=True, slots=True)
class FeedAfter:
    """A feed that starts after something else. Implements :class:`Feed`."""

    wait: Callable[[], None]
    """Called before the feed starts; returns when it may."""
    feed: Feed

    def start(self) -> None:
        """Wait, then start the feed."""
        self.wait()
        self.feed.start()

    def await_filled(self) -> None:
        """Wait until the feed has filled the source."""
        self.feed.await_filled()


class ReadersStart(Enum):
    """When the reading stages start."""

    BEFORE_LOAD = auto()
    """They are ready before the first record."""
    FILLED = auto()
    """They start when all records are there."""
    AFTER_FAULT = auto()
    """They start when the fault is over."""
    NEVER = auto()
    """The run does not start them: a fault does, or the client must refuse the settings."""


class DrainFields(TypedDict, total=False):
    """Further fields of a drain's history line."""

    at_once: bool
    tail: bool
    rested: float
    rest: float
    why: str
    gap: float
    missing: int | None


@dataclass(frozen=True, slots=True)
class Drained:
    """The end of a drain. ``because``: why it failed, at which ``stage``; null: it is complete."""

    because: str | None = None
    stage: str | None = None
    more: DrainFields = field(default_factory=DrainFields)


class Drain(Protocol):
    """Waits until everything in a cell is at rest."""

    def wait(self) -> Drained:
        """Wait, with a time limit, until everything is at rest."""


@dataclass(frozen=True)
class Parts:
    """The parts of one cell.

    ``ground`` is opened in order and closed in reverse. ``authorities`` write what they know to the
    history, in order: positions first, then results, logs last. So if something still moves, a
    record after a saved position is still found in the log. The functions in ``freed`` are called
    when the fault is over, whether it fired or not.
    """

    ground: Sequence[Part]
    feed: Feed
    stages: Stages
    controls: Controls
    drain: Callable[[], Drain]
    authorities: Sequence[Callable[[], None]]
    when: ReadersStart = ReadersStart.BEFORE_LOAD
    armed_before_load: bool = True
    """Whether the fault is armed before the first record is there; else right before the reading
    stages start.
    """
    freed: Sequence[Callable[[], None]] = ()
    where: Callable[[], str] = str
    """Says how far the records are; another thread calls it."""


@dataclass(frozen=True)
class Opened:
    """A part made of two functions: ``make`` opens it, ``end`` closes it."""

    make: Callable[[], object]
    end: Callable[[], object] | None = None

    def open(self) -> None:
        """Call ``make``."""
        self.make()

    def close(self) -> None:
        """Call ``end``, if there is one."""
        if self.end is not None:
            self.end()
