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
"""A coarse outcome: verdict, states of records, last hops."""


@dataclass
class Lessons:
    """The lessons so far. A point teaches something if its fault is the first that is proved in its
    protocol state, or if it is the first of its act with its outcome.
    """

    struck: set[ProtocolState] = field(default_factory=set)
    came: set[tuple[str, Came]] = field(default_factory=set)
    dry: int = 0
    """The number of latest points in a row that have taught nothing."""

    @classmethod
    def of(cls, outcomes: Iterable[Outcome]) -> Lessons:
        """Return the lessons of outcomes, in their order."""
        lessons = cls()
        for one in outcomes:
            lessons.note(one)
        return lessons

    def note(self, one: Outcome) -> None:
        """Add the outcome of the next point. One without a proof teaches nothing."""
        came = base_of(one.where.act), one.signature.outcome
        new = one.proved and (one.where.state not in self.struck or came not in self.came)
        if one.proved:
            self.struck.add(one.where.state)
            self.came.add(came)
        self.dry = 0 if new else self.dry + 1
