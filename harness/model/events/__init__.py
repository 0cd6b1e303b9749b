"""The kinds of history events, who writes them, and their fields.

This page is the contract between everything that observes and everything that judges. Each count
has one authority: the outbox for *offered*, the wire for *sent*, the program for *acked* and
*refused*, the observer for *stored*, the sink for *recorded*. Lines of other writers about the same
thing are lower bounds.
"""

from __future__ import annotations

from typing import Final

from harness.model.events import authorities, programs, runner, topics, wire
from harness.model.events.authorities import *  # noqa: F403 - every kind is a name of this package
from harness.model.events.base import *  # noqa: F403
from harness.model.events.programs import *  # noqa: F403
from harness.model.events.runner import *  # noqa: F403
from harness.model.events.topics import *  # noqa: F403
from harness.model.events.wire import *  # noqa: F403
from harness.model.kinds import *  # noqa: F403

AUTHORITIES: Final = (
    authorities.Offered,
    authorities.Cursor,
    authorities.Stored,
    authorities.Log,
    authorities.Counted,
    authorities.Position,
    authorities.Recorded,
    authorities.Folded,
    authorities.Total,
    authorities.Invariant,
    authorities.OutputRead,
)
"""Events that are true only of a system at rest, after the drain. ``absorbed`` is not among them:
it is true at any time.
"""

CLASSES: Final = {
    str(each.__struct_config__.tag): each
    for module in (authorities, programs, wire, runner, topics)
    for each in vars(module).values()
    if isinstance(each, type) and issubclass(each, Event) and each.__module__ == module.__name__  # noqa: F405
    # a class from which others are derived is no kind
    if not each.__subclasses__()
}
"""The class of each kind. A line of any other kind voids its cell, because the judge does not know
what it means.
"""
KINDS: Final = frozenset(CLASSES)
