"""Signs of a Storm topology: its spout fetched a record again, or it worked while a daemon was
dead.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from harness.model import events as kinds
from harness.model.events import NodePhase
from harness.model.sign import Sign
from harness.systems.storm.settings import NIMBUS, SUPERVISOR

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.model.history import History

DAEMONS: Final = frozenset({NIMBUS, SUPERVISOR})
POLLED_AGAIN: Final = Sign(
    "polled-again", "a copy of this record was fetched over one connection, and over a later one"
)
"""Only the wire sees a record that the spout polled and did not emit."""

WENT_ON: Final = Sign(
    "went-on",
    (
        "the result of this record was written while a daemon of Storm was dead, and no other "
        "worker was ever started"
    ),
)


def storm_signs(history: History) -> Mapping[Sign, set[str]]:
    """Return, for each sign, the records that show it."""
    connections: defaultdict[tuple[str, str | None, object], set[int]] = defaultdict(set)
    for event in history.of(kinds.Fetched):
        if event.reached and event.conn is not None:  # a copy in another topic is another one
            connections[event.record, event.topic, event.at].add(event.conn)
    return {
        POLLED_AGAIN: {record for (record, *_), found in connections.items() if len(found) > 1},
        WENT_ON: _went_on(history),
    }


def _went_on(history: History) -> set[str]:
    """Return the records whose results were written between the death of a daemon and
    its return.
    """
    lives = [event for event in history.of(kinds.Node) if event.role in DAEMONS]
    dead = next((event.t for event in lives if event.phase == NodePhase.EXITED), None)
    back = next((event.t for event in lives if event.phase == NodePhase.STARTED), None)
    others = [event for event in history.of(kinds.Ready) if event.by.startswith("worker-")]
    if dead is None or back is None or len(others) != 1:
        return set()
    answers = (
        event
        for event in history.of(kinds.ProduceAnswer)
        if not event.error and dead < event.t < back
    )
    answered = {(event.record, event.request) for event in answers}
    sent = (event for event in history.of(kinds.Sent) if str(event.attempt).startswith("worker-"))
    return {event.record for event in sent if (event.record, event.request) in answered}
