"""Says why a promise counts as kept: under which circumstances, what the fault has shown, and who
absorbed what was doubled.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from harness.judge.movement import copies_between, counted
from harness.judge.sentences import (
    duplicates,
    losses,
    lost_ids,
    predicts_nothing,
    rest_lines,
    unnamed,
)
from harness.model import events as kinds
from harness.model.prediction import examples
from harness.model.states import Hop

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

    from harness.judge.accounting import Account
    from harness.judge.course import RunCourse
    from harness.judge.signs import Signs
    from harness.model.history import History
    from harness.model.plan import Plan


def _repeats(history: History, record: str) -> Iterator[str]:
    """Yield what the wire saw more than once of a record. A user's program does not write down its
    attempts.

    A record may pass further topics, one of them several times, as those for retries: these are
    hops. Who sends a record on again into such a topic repeats itself only if it was given no other
    copy of it in between.
    """
    between = {e.topic or e.queue for e in history.of(kinds.Stored) if e.hop == Hop.TOPIC}
    asked: dict[str | None, set[str]] = defaultdict(set)
    given: Counter[tuple[object, ...]] = Counter()
    again = False
    for event in history.of(kinds.Sent, kinds.Unsent, kinds.Fetched):
        if event.record != record:
            continue
        if isinstance(event, kinds.Fetched):
            copy = (event.topic, event.at or event.place)
            given[copy] += 1
            if given[copy] == 1 and event.reached:
                asked = defaultdict(set, {t: asked[t] for t in asked if t in between})
        else:
            asked[event.topic].add(event.request)
            again = again or len(asked[event.topic]) > 1
    if again:
        yield "sent-again"
    if any(count > 1 for count in given.values()):
        yield "fetched-again"


def kept_reason(
    plan: Plan, history: History, found: Account, signs: Signs, course: RunCourse
) -> str:
    """Return the sentence that explains a kept promise."""
    if plan.refused_by_client:
        return "the client refused these settings; nothing was sent"
    counts = found.counts
    parts = [f"{counts['recorded']} of {counts['offered']} recorded"]
    if found.lost or found.set_aside or found.short:
        parts.append(losses(found))
    parts += _superseded(found)
    beside = frozenset(
        row["record"] for row in found.rows if row["recordings"] > 0 and row["aside"] > 0
    )
    if beside:
        parts.append(f"{examples(beside)} recorded, and a copy of it set aside")
    if counts["duplicated"]:
        parts.append(duplicates(found))
    parts += unnamed(history)
    if plan.sign:
        parts.append(f"{plan.target} was protected ({plan.sign})")
    elif predicts_nothing(plan):
        harmed = lost_ids(plan, found) | found.duplicated
        for seen, targets in _by_effect(plan, history, signs, besides=harmed):
            if seen:
                parts.append(f"{', '.join(targets)}: {', '.join(seen)}")
            elif not (lost_ids(plan, found) or counts["duplicated"]):
                parts.append(f"no effect was seen on {', '.join(targets)}")
    parts += (
        [*_absorbed(history, found), *_held_back(history)]
        if predicts_nothing(plan)
        else _held_back(history)
    )
    return "; ".join((*parts, *_circumstances(plan, course)))


def _superseded(found: Account) -> Iterator[str]:
    """Say which records compaction took, before a reader was given them."""
    if found.superseded:
        yield (
            f"{len(found.superseded)} superseded ({examples(found.superseded)}: compaction took "
            "them for later records of their keys)"
        )


def _circumstances(plan: Plan, course: RunCourse) -> Iterator[str]:
    """Say under which circumstances a promise was kept."""
    if course.load and course.load.beside:
        with_it = (
            "1 record" if len(course.load.beside) == 1 else f"{len(course.load.beside)} records"
        )
        yield (
            f"nothing was sent before the fault: the load is {with_it} in one request with "
            f"{plan.target}"
        )
    if course.drain is not None and course.drain.tail:
        yield "no position is saved behind the last records: the next start reads them again"
    yield from rest_lines(course.drain)


def effects(plan: Plan, history: History, signs: Signs) -> list[str]:
    """Return what shows that the fault affected what it struck, where nothing was predicted."""
    return sorted({seen for each in plan.struck for seen in _effects_on(each, history, signs)})


def _effects_on(record: str, history: History, signs: Signs) -> list[str]:
    return sorted({*signs.of(record), *_repeats(history, record)})


def _by_effect(
    plan: Plan, history: History, signs: Signs, *, besides: AbstractSet[str]
) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Yield what was seen on records that the fault struck, and on which of them: each with those
    that it was the same on.
    """
    found: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for each in plan.struck:
        if each not in besides:
            found[tuple(_effects_on(each, history, signs))].append(each)
    yield from found.items()


def _absorbed(history: History, found: Account) -> Iterator[str]:
    """Say who absorbed the second copy of a record that was doubled on its way and is recorded
    once.
    """
    copies, doubled = copies_between(history)
    stored, visible = counted(copies), counted(copy for copy in copies if copy.visible)
    taken = _taken(history, {str(e.topic or e.queue) for e in copies})
    once = {row["record"] for row in found.rows if row["recordings"] == 1}
    by_broker = frozenset(
        record for record, times in taken.items() if times > 1 == stored[record] and record in once
    )
    behind = frozenset(record for record, times in visible.items() if times > 1 and record in once)
    if known := frozenset(doubled & once):
        yield (
            f"{examples(known)} sent twice: absorbed by the broker, which took the second for a "
            "duplicate"
        )
    if by_broker:
        yield (
            f"{examples(by_broker)} sent twice and stored once: absorbed by the broker, for the "
            "producer is idempotent"
        )
    if behind:
        yield (
            f"{examples(behind)} stored twice and recorded once: absorbed by the reader or a key "
            "in the output, or lost there"
        )


def _taken(history: History, topics: set[str]) -> Counter[str]:
    """Return how often a broker acknowledged each record, whether or not the answer arrived."""
    asked = {(e.request, e.record) for e in history.of(kinds.Sent) if e.topic in topics}
    told = {
        (e.request, e.record) for e in history.of(kinds.ProduceAnswer) if e.error == 0 or e.repeated
    }
    return Counter(record for _, record in asked & told)


def _held_back(history: History) -> Iterator[str]:
    """Say which readers were kept waiting by an open transaction."""
    for event in history.of(kinds.HeldBack):
        because = f" ({event.because})" if event.because else ""
        yield (
            f"for at least {event.seconds:.0f} s, readers of committed records of {event.log} "
            f"were given nothing behind a transaction that was left open{because}"
        )
