"""Cross-checks of queues: a queue has no first and last offset, but its broker counts messages, and
every copy has one place.

:mod:`harness.judge.crosschecks` calls these checks. Each check looks at each line once, and skips
copies in logs. The counts have a check of their own (:func:`wrong_count`), for the judge must be
able to say what is missing although a count is wrong.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.model.events import NodePhase, Outcome
from harness.model.places import MOVABLE, UNDECIDED, Waiting, of_log
from harness.model.scenario import Role
from harness.model.states import Hop

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from harness.model.history import History
    from harness.model.plan import Plan


def contradiction(plan: Plan, history: History) -> str | None:
    """Say which two statements about queues contradict each other, or return ``None``."""
    told = _QueueCopies(plan, history)
    return next((why for check in _CHECKS if (why := check(told))), None)


def wrong_copies(plan: Plan, history: History) -> str | None:
    """Say of which record the authority has more copies than the wire passed on, or fewer than the
    wire saw delivered; ``None``: of none.

    It is for the judge to weigh this: what a sink shows of duplicates is true all the same.
    """
    stored: Counter[str] = Counter()
    targets = {move.to for move in history.of(kinds.Moved)}
    queues: set[str | None] = {e.queue for e in history.of(kinds.Counted) if e.hop == Hop.TOPIC}
    for copy in history.of(kinds.Stored):
        if of_log(copy):
            return None  # the checks of logs are about places
        if copy.record is not None and copy.hop == Hop.TOPIC:
            stored[copy.record] += copy.place not in targets
    return _more_than_sent(history, stored, queues) or (
        None if plan.forgets else _fewer_than_given(history, stored, queues)
    )


def _more_than_sent(
    history: History, stored: Counter[str], queues: Collection[str | None]
) -> str | None:
    requests = list(history.of(kinds.Sent))
    to_queue = [e for e in requests if e.topic in queues]
    sent = Counter(e.record for e in to_queue or requests)
    for record, count in stored.items() if sent else ():
        if count > sent[record]:
            return (
                f"the broker's authority has {count} copies of {record} in its queue, but the wire "
                f"passed on {sent[record]} requests with it"
            )
    return None


def _fewer_than_given(
    history: History, stored: Counter[str], queues: Collection[str | None]
) -> str | None:
    """If a broker has taken the acknowledgement of a copy and then delivers its record, and says
    that it is the first delivery, that is another copy. A broker that died may have forgotten.
    """
    if any(e.role == Role.BROKER and e.phase == NodePhase.EXITED for e in history.of(kinds.Node)):
        return None
    given: Counter[str] = Counter()
    done: set[str] = set()
    for event in history.of(kinds.Fetched, kinds.Acknowledged):
        record = event.record
        if isinstance(event, kinds.Acknowledged):
            ended = event.how == "ack" and event.transactional_id is None
            if ended and event.outcome is Outcome.TAKEN and given[record]:
                done.add(record)
        elif event.topic in queues and event.reached:
            first = event.redelivered is False and record in done
            given[record] += first or not given[record]
            done.discard(record)
    for record, count in given.items() if stored else ():
        if count > stored[record]:
            return (
                f"the wire saw {count} copies of {record} delivered, but the broker's authority "
                f"has {stored[record]} of them"
            )
    return None


class _QueueCopies:
    """What the authorities said of copies in queues, by place."""

    def __init__(self, plan: Plan, history: History) -> None:
        self.plan = plan
        self.history = history
        self.copies = [e for e in history.of(kinds.Stored) if not of_log(e)]
        self.removed = [e for e in history.of(kinds.Removed) if not of_log(e)]
        self.moved = list(history.of(kinds.Moved))
        self.gone: list[kinds.Removed | kinds.Moved] = [*self.removed, *self.moved]
        self.everywhere: list[kinds.Removed | kinds.Moved | kinds.Stored] = [
            *self.moved,
            *self.removed,
            *self.copies,
        ]
        self.counted: dict[str, kinds.Counted] = {e.queue: e for e in history.of(kinds.Counted)}


def _uncounted(told: _QueueCopies) -> str | None:
    """A queue, or a pipeline of queues, whose broker was not asked for its count."""
    is_queue = told.plan.sealed and Hop.TOPIC not in told.plan.logs
    if is_queue and not any(count.hop == Hop.TOPIC for count in told.counted.values()):
        return "the history lacks the broker's own count of the messages in its queue"
    queues = {str(copy.queue) for copy in told.copies if copy.waiting in MOVABLE}
    if missing := sorted(queues - told.counted.keys()):
        return (
            f"messages wait in {missing[0]}, but the history lacks the broker's own count of them"
        )
    return None


def _elsewhere(told: _QueueCopies) -> str | None:
    """Deliveries of offered records that the wire saw, none of them of a queue that its broker has
    counted.

    One of the two gives the queue another name. So nothing compares what was delivered with what is
    in the queue.
    """
    queues = sorted(queue for queue, count in told.counted.items() if count.hop == Hop.TOPIC)
    offered = {e.record for e in told.history.of(kinds.Offered)}
    named = {str(e.topic) for e in told.history.of(kinds.Fetched) if e.record in offered}
    if not queues or not named or named & set(queues):
        return None
    return (
        f"the wire saw deliveries from {min(named)}, but the broker counted the messages of "
        f"{queues[0]}"
    )


def wrong_count(history: History) -> str | None:
    """Say which count of a broker differs from the messages that its observer saw waiting, or
    return ``None``.

    What is ready and what is in flight are compared as one number. No journal says which message a
    consumer has, so the observer takes for it what the wire saw arrive on an open connection. But a
    consumer's library may have dropped it, or given it back; a broker may keep one for a consumer
    that is gone; and some count nothing as in flight.
    """
    seen: Counter[tuple[str, Waiting | None]] = Counter()
    for copy in history.of(kinds.Stored):
        if not of_log(copy):
            seen[str(copy.queue), copy.waiting] += copy.counts
    for queue, count in {e.queue: e for e in history.of(kinds.Counted)}.items():
        there = seen[queue, Waiting.READY] + seen[queue, Waiting.IN_FLIGHT]
        for what, counted, found in (
            ("ready or in flight", count.ready + count.in_flight, there),
            ("scheduled", count.scheduled, seen[queue, Waiting.SCHEDULED]),
        ):
            if counted != found:
                return (
                    f"the broker counts {counted} messages {what} in {queue}, but the observer saw "
                    f"{found} there"
                )
    return None


def _copied_twice(told: _QueueCopies) -> str | None:
    """Two copies at one place, which is the broker's own name for one copy."""
    for place, count in Counter(copy.place for copy in told.copies).items():
        if count > 1:
            return f"the history has {count} copies at {place}: a place holds one copy"
    return None


def _parted(told: _QueueCopies) -> str | None:
    """A copy that was moved to two places, or two that were moved to one."""
    moves = {(move.place, move.to) for move in told.moved}
    for at, way in ((0, "from"), (1, "to")):
        for place, count in Counter(move[at] for move in moves).items():
            if count > 1:
                return (
                    f"the history has {count} moves {way} {place}: a copy moves {way} a place once"
                )
    return None


def _waits_and_does_not(told: _QueueCopies) -> str | None:
    """A copy that waits although it was removed, or that waits for a commit although it is
    committed.
    """
    gone = {line.place: line.event for line in told.gone}
    for copy in told.copies:
        waiting, place = copy.waiting, copy.place
        what = f"the history says that the copy of {copy.record} at {place} waits ({waiting})"
        if waiting is not None and place in gone:
            return f"{what}, but also that it was {gone[place]}"
        if waiting in UNDECIDED and copy.visible:
            return f"{what}, but also that it is committed"
        if waiting in MOVABLE and not copy.visible:
            return f"{what}, but also that it is not committed"
    return None


def _homeless(told: _QueueCopies) -> str | None:
    """A result, or an absorbed copy, of a place where no queue has a copy, or where it has one of
    another record.

    It is no contradiction if the broker forgot the copy because of the fault and had delivered it
    before.
    """
    at = {line.place: line.record for line in told.everywhere}
    offered = {e.record for e in told.history.of(kinds.Offered)}
    given = (
        {e.record for e in told.history.of(kinds.Delivered, kinds.Fetched)}
        if told.plan.forgets
        else set()
    )
    for event in told.history.of(kinds.Recorded, kinds.Absorbed):
        place, record = event.place, event.record
        if place is None or of_log(event):
            continue
        what = f"{record or 'a result'} is {event.event} from {place}"
        if place not in at and record not in given:
            return f"{what}, where no queue has a copy"
        other = at.get(place, record)
        if (
            other != record
            and {other, record} <= offered
            and (isinstance(event, kinds.Absorbed) or event.intact)
        ):
            return f"{what}, where the queue has {other}"
    return None


def _neither(told: _QueueCopies) -> str | None:
    """A committed copy in the queue that waits for nothing, and that was neither removed nor
    moved.
    """
    gone = {line.place for line in told.gone}
    for copy in told.copies:
        if (
            copy.hop == Hop.TOPIC
            and copy.waiting is None
            and copy.visible
            and copy.place not in gone
        ):
            return (
                f"the history has a copy of {copy.record or 'a message'} at {copy.place} that "
                "waits for nothing, but not that it was removed or moved"
            )
    return None


def _never_stored(told: _QueueCopies) -> str | None:
    """A copy that was removed from a queue which never had it."""
    places = {copy.place for copy in told.copies}
    places |= {place for move in told.moved for place in (move.place, move.to)}
    return next(
        (
            f"{line.record or 'a message'} was removed from {line.place}, where no queue has had a "
            "copy"
            for line in told.removed
            if line.place not in places
        ),
        None,
    )


_CHECKS: tuple[Callable[[_QueueCopies], str | None], ...] = (
    _uncounted,
    _elsewhere,
    _copied_twice,
    _parted,
    _waits_and_does_not,
    _neither,
    _never_stored,
    _homeless,
)
