"""Topics that were deleted and made anew: what a history says of the deleted ones.

Two topics of one name use the same offsets. The pipeline's programs are down between the two, so
time tells their lines apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from harness.model import events as kinds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.model.events import Event


def former(topic: str) -> str:
    """Return the name of a deleted topic in lines about it.

    >>> former("orders")
    'orders (deleted)'
    """
    return f"{topic} (deleted)"


def with_former_topics(events: Iterable[Event]) -> list[Event]:
    """Return the events, with names of their own for topics that were made anew later."""
    events = list(events)
    made = {event.topic: event.t for event in events if isinstance(event, kinds.Remade)}
    if not made:
        return events

    def now(event: Event) -> Event:
        topic = getattr(event, "topic", None)
        if topic not in made or event.t >= made[topic] or isinstance(event, kinds.Remade):
            return event
        return msgspec.structs.replace(event, topic=former(topic))

    return [now(event) for event in events]
