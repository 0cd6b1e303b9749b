"""The parts of which a system composes a cell: resources, stages, feed, drain, authorities."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from harness.controls import Controls


class Part(Protocol):
    """A resource of a cell: folders, a place on the wire, topics, a sink, processes."""

    def open(self) -> None:
        """Make or acquire it."""

    def close(self) -> None:
        """Free it. Called once, even if ``open`` failed or was never called."""


class Stages(Protocol):
    """The processes that read, and record results."""

    def start(self) -> None:
        """Start them, and wait until they do their work."""

    def stand_by(self) -> None:
        """Prepare what takes long. Called when records flow, for stages that start later."""


class Feed(Protocol):
    """What feeds records into the pipeline."""

    def start(self) -> None:
        """Let them flow; does not wait for their end."""

    def await_filled(self) -> None:
        """Wait until all records are there that must be there before reading begins."""


class When(Enum):
    """When the reading stages start."""

    BEFORE_LOAD = auto()
    """They are ready before the first record."""
    FILLED = auto()
    """They start when all records are there."""
    AFTER_FAULT = auto()
    """They start when the fault is over."""
    NEVER = auto()
    """They never start: the client must refuse the settings."""


@dataclass(frozen=True, slots=True)
class Drained:
    """The end of a drain. ``because`` says why it failed, and at which ``stage``; null: it is complete."""

    because: str | None = None
    stage: str | None = None
    more: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of its line."""


class Drain(Protocol):
    """How a cell knows that everything is at rest."""

    def wait(self) -> Drained:
        """Wait (bounded) until it is."""


@dataclass(frozen=True)
class Parts:
    """What one cell is made of.

    ``ground`` is opened in order and closed in reverse. ``authorities`` write what they know, in order: positions first, then
    results, logs last. So if something still moves, a record past a position is still found in the log. ``freed`` is called
    when the fault is over, whether it fired or not.
    """

    ground: Sequence[Part]
    feed: Feed
    stages: Stages
    controls: Controls
    drain: Callable[[], Drain]
    authorities: Sequence[Callable[[], None]]
    when: When = When.BEFORE_LOAD
    armed_before_load: bool = True
    """Whether the fault is armed before there is a record; else when the records before the target are there."""
    freed: Sequence[Callable[[], None]] = ()


@dataclass(frozen=True)
class Opened:
    """A part that is made by a call."""

    make: Callable[[], object]
    end: Callable[[], object] | None = None

    def open(self) -> None:
        """Make it."""
        self.make()

    def close(self) -> None:
        """End it, where it has an end."""
        if self.end is not None:
            self.end()
