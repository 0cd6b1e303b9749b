"""Cross-checks of queues: a broker that forgets has no ends to be held against, but it counts, and every copy has one place.

Like :mod:`harness.judge.crosschecks`, which calls them; each looks at each line once. A copy in a log is none of theirs.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.model.places import MOVABLE, UNDECIDED, Waiting, of_log
from harness.model.states import Hop

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.model.history import Event, History
    from harness.model.plan import Plan

_COUNTS = {Waiting.READY: "ready", Waiting.IN_FLIGHT: "in_flight", Waiting.SCHEDULED: "scheduled"}
"""The field of a broker's own count, by what its messages wait for."""


def contradiction(plan: Plan, history: History) -> str | None:
    """Say what contradicts what, or ``None``."""
    told = _Told(plan, history)
    return next((why for check in _CHECKS if (why := check(told))), None)


class _Told:
    """What the authorities said of copies that stand in queues, by place."""

    def __init__(self, plan: Plan, history: History) -> None:
        self.plan = plan
        self.history = history
        self.copies = [e for e in history.of(kinds.STORED) if not of_log(e)]
        self.removed = [e for e in history.of(kinds.REMOVED) if not of_log(e)]
        self.moved = list(history.of(kinds.MOVED))
        self.counted: dict[str, Event] = {e["queue"]: e for e in history.of(kinds.COUNTED)}


def _uncounted(told: _Told) -> str | None:
    """A pipeline without a log of which nobody asked the broker for its count, or one queue of it."""
    is_queue = told.plan.sealed and Hop.TOPIC not in told.plan.logs
    if is_queue and not any(count["hop"] == Hop.TOPIC for count in told.counted.values()):
        return "nobody asked the broker how many messages wait in its queue"
    queues = {str(copy.get("queue")) for copy in told.copies if copy.get("waiting") in MOVABLE}
    if missing := sorted(queues - told.counted.keys()):
        return f"messages wait in {missing[0]}, and nobody asked the broker how many"
    return None


def _miscounted(told: _Told) -> str | None:
    """A broker that counts a message that its observer has not seen, or has none of one that was seen to wait."""
    seen = Counter((copy.get("queue"), copy.get("waiting")) for copy in told.copies)
    for queue, count in told.counted.items():
        for waiting, field in _COUNTS.items():
            if (there := seen[queue, waiting]) != count[field]:
                return f"the broker counts {count[field]} messages {waiting} in {queue}, and {there} were seen there"
    return None


def _copied_twice(told: _Told) -> str | None:
    """Two copies at one place: a place is the broker's own name for one."""
    for place, count in Counter(copy["place"] for copy in told.copies).items():
        if count > 1:
            return f"{count} copies are said to be at {place}"
    return None


def _parted(told: _Told) -> str | None:
    """A copy that was moved to two places, or two that were moved to one."""
    moves = {(move["place"], move["to"]) for move in told.moved}
    for at, way in ((0, "from"), (1, "to")):
        for place, count in Counter(move[at] for move in moves).items():
            if count > 1:
                return f"{count} copies are said to have been moved {way} {place}"
    return None


def _waits_and_does_not(told: _Told) -> str | None:
    """A copy that waits where it was taken away, or that is committed and waits for that."""
    gone = {line["place"]: line["event"] for line in (*told.removed, *told.moved)}
    for copy in told.copies:
        waiting, place = copy.get("waiting"), copy["place"]
        what = f"the copy of {copy['record']} at {place} is said to wait ({waiting})"
        if waiting is not None and place in gone:
            return f"{what}, and to have been {gone[place]}"
        if waiting in UNDECIDED and copy["visible"]:
            return f"{what}, and to be committed"
        if waiting in MOVABLE and not copy["visible"]:
            return f"{what}, and not to be committed"
    return None


def _homeless(told: _Told) -> str | None:
    """A result, or a copy that was turned away, of a place where no queue has one, or has another record's.

    What the fault has made the broker forget may have been given to somebody before.
    """
    at = {line["place"]: line["record"] for line in (*told.moved, *told.removed, *told.copies)}
    offered = {e["record"] for e in told.history.of(kinds.OFFERED)}
    given = {e["record"] for e in told.history.of(kinds.DELIVERED, kinds.FETCHED)} if told.plan.forgets else set()
    for event in told.history.of(kinds.RECORDED, kinds.ABSORBED):
        place, record = event.get("place"), event["record"]
        if place is None or of_log(event):
            continue
        what = f"{record or 'a result'} is {event['event']} from {place}"
        if place not in at and record not in given:
            return f"{what}, where no queue has a copy"
        other = at.get(place, record)
        if other != record and {other, record} <= offered and event.get("intact", True):
            return f"{what}, where the queue has {other}"
    return None


_CHECKS: tuple[Callable[[_Told], str | None], ...] = (
    _uncounted, _miscounted, _copied_twice, _parted, _waits_and_does_not, _homeless,
)  # fmt: skip
