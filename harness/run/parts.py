"""The parts of a cell, which a system composes: what stands, what flows, what is asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from harness.controls import Controls


class Part(Protocol):
    """Something that a cell stands on: folders, a place on the wire, topics, a sink, processes."""

    def open(self) -> None:
        """Make it, or take it."""

    def close(self) -> None:
        """Free it. Called once, also where ``open`` has failed or never came."""


class Stages(Protocol):
    """The processes that read, and record results."""

    def start(self) -> None:
        """Start them, and wait until they do their work."""

    def stand_by(self) -> None:
        """Get ready what takes long; called when records flow, where they start later than that."""


class Feed(Protocol):
    """What lets the records flow."""

    def start(self) -> None:
        """Let them flow; does not wait for their end."""

    def await_filled(self) -> None:
        """Wait until all records are there that are to be there before anybody reads."""


class When(Enum):
    """When the reading side starts."""

    BEFORE_LOAD = auto()
    """It is ready before there is a record."""
    FILLED = auto()
    """It finds all records there."""
    AFTER_FAULT = auto()
    """It comes when the fault is over."""
    NEVER = auto()
    """The client itself must refuse: nobody is there to read."""


@dataclass(frozen=True, slots=True)
class Drained:
    """The end of a drain. ``because`` says why it failed, and at which ``stage``; null: it is complete."""

    because: str | None = None
    stage: str | None = None
    more: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of its line."""


class Drain(Protocol):
    """How it is known that everything is at rest."""

    def wait(self) -> Drained:
        """Wait (bounded) until it is."""


@dataclass(frozen=True)
class Parts:
    """What one cell is made of.

    ``ground`` is opened in its order and closed in the reverse one. ``authorities`` write what they know, in their order: how
    far somebody has got comes first, then results, logs last; where something still moves, what is past a position is found
    behind it then. ``freed`` is called when the fault is over, whether it fired or not.
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
