"""What one frame is about. The bookkeeping keeps this until it is known whether the
frame arrived.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.protocols.kafka.codec import is_unresolved
from harness.wire import protocol
from harness.wire.rules import Subject

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from harness.model.events import Event
    from harness.protocols.kafka.reading import Content

Place = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True, slots=True)
class Insight(protocol.Insight):
    """What one frame is about. ``content`` is ``None`` if the frame was not decoded."""

    content: Content | None = None
    request: str = ""
    lines: tuple[Event, ...] = ()
    """Its lines in the history, whose ``reached`` is not known yet."""
    copies: tuple[tuple[Place, int, str], ...] = ()
    """Of a Produce request: where (by the frame's own topic name), which delta, which record."""


NOTHING = Insight()


def subject_of(
    records: Iterable[str], topics: Iterable[str], transactional_id: str | None
) -> Subject:
    """Return what a frame is about, by the records and topics in it and its transaction."""
    ids = frozenset((transactional_id,)) if transactional_id else frozenset[str]()
    return Subject(frozenset(records), frozenset(topics), ids)


def worst(errors: Iterable[int]) -> int:
    """Return the first error; 0 if there is none."""
    return next((error for error in errors if error), 0)


def unresolved(topics: set[str], carried: Collection[object]) -> str | None:
    """Say which topic's name is unknown, if something of the cell is in it; else
    return ``None``.
    """
    nameless = sorted(topic for topic in topics if is_unresolved(topic))
    return f"the name of topic {nameless[0]} is not known" if nameless and carried else None
