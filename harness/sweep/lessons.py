"""What the points of a sweep teach: which protocol states a fault has struck, and which outcomes
each act has had.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from harness.sweep.acts import base_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.sweep.classes import ProtocolState
    from harness.sweep.outcomes import Outcome

Came: TypeAlias = tuple[str, tuple[str, ...], tuple[str, ...]]
"""A coarse outcome: verdict, anomalies, states of records."""


@dataclass
class Lessons:
    """The lessons so far. A point teaches something if its fault is the first that is proved in its
    protocol state, or if it is the first of its act with its outcome.
    """

    struck: set[ProtocolState] = field(default_factory=set)
    came: set[tuple[str, Came]] = field(default_factory=set)
    noted: set[str] = field(default_factory=set)
    """The ids of the points so far that have a proof."""
    dry: int = 0
    """The number of latest points in a row that have a proof and have taught nothing."""

    @classmethod
    def of(cls, outcomes: Iterable[Outcome]) -> Lessons:
        """Return the lessons of outcomes, in their order."""
        lessons = cls()
        for one in outcomes:
            lessons.note(one)
        return lessons

    def note(self, one: Outcome) -> None:
        """Add the outcome of the next point. One without a proof does not count, and a point that
        is run again counts once.
        """
        if not one.proved:
            return
        came = base_of(one.where.act), one.signature.outcome
        if one.where.state not in self.struck or came not in self.came:
            self.dry = 0
        elif one.point.id not in self.noted:
            self.dry += 1
        self.struck.add(one.where.state)
        self.came.add(came)
        self.noted.add(one.point.id)
