"""Sentences of which reasons are made: losses, duplicates, rows that are no results, how long the
drain rested.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.judge import reasons
from harness.judge.claims import wrong_totals
from harness.model import events as kinds
from harness.model.prediction import Permitted, examples
from harness.model.states import State

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from harness.judge.accounting import Account
    from harness.model.history import History
    from harness.model.plan import Plan

UNSURE = ("patience", "learnt")
"""Reasons for a drain to rest: something was missing or not acknowledged, and nothing was known to
be on its way.
"""
LONG_S = 1.0
"""The shortest silence that a verdict mentions, if something came after it. In seconds."""


def lost_ids(plan: Plan, found: Account) -> frozenset[str]:
    """Return the lost records. Records set aside count, unless dead letters are part of the
    pipeline.

    So do totals that have missed records, although a total does not say which.
    """
    gone = found.lost | found.short
    return gone if plan.dead_letters else gone | found.set_aside


def unnamed(history: History) -> Iterator[str]:
    """Say which rows of the output are no results: they have no id, or columns that should have a
    value are empty.
    """
    for unnamed in history.of(kinds.Unnamed):
        yield f"{_rows_have(unnamed.count)} no id, as {unnamed.text!r}"
    for event in history.of(kinds.Unfilled):
        columns = (
            f"column{'s' if len(event.columns) > 1 else ''} {' and '.join(map(str, event.columns))}"
        )
        yield (
            f"{_rows_have(event.count)} nothing in {columns}, where every row had something "
            f"without a fault, as {event.text!r}"
        )


def _rows_have(count: int) -> str:
    return "1 row of the output has" if count == 1 else f"{count} rows of the output have"


def rest_lines(drain: kinds.Drain | None) -> Iterator[str]:
    """Yield how long the drain rested, where something could still have come."""
    if drain is not None and drain.why in UNSURE:
        silent_s, rested_s = drain.gap or 0.0, drain.rested or 0.0
        gap = f", after a silence of {silent_s:.1f} s" if silent_s >= LONG_S else ""
        yield f"rested {rested_s:.0f} s{gap}"


def losses(found: Account) -> str:
    """Say which records were lost, by where they were last seen, and which were set aside."""
    lost = [row for row in found.rows if row["state"] == State.LOST]
    seen: dict[str, set[str]] = {}
    for row in lost:
        seen.setdefault(str(row["last_hop"]), set()).add(row["record"])
    hops = [f"{examples(seen[hop])}{of_topics(found, seen[hop])} {hop}" for hop in sorted(seen)]
    doubts = [row["record"] for row in lost if row["in_doubt"]]
    hops += [f"{examples(doubts)} {reasons.DOUBT}"] if doubts else []
    said = [f"{len(lost)} lost ({'; '.join(hops)})"] if hops else []
    said += wrong_totals(found, high=False)
    if found.set_aside:
        where = f" in {' and '.join(found.aside_in)}" if found.aside_in else ""
        why = reasons.told(row for row in found.rows if row["state"] == State.SET_ASIDE)
        said.append(
            f"{len(found.set_aside)} set aside{where} ({why or examples(found.set_aside)}: only "
            "dead letters are left)"
        )
    return "; ".join(said)


def of_topics(found: Account, records: Iterable[str]) -> str:
    """Say of which topics records are, if several are offered records."""
    topics = sorted({found.topics[record] for record in records if record in found.topics})
    return f" of {' and '.join(topics)}" if topics else ""


def duplicates(found: Account) -> str:
    """Say which records were recorded twice, and in which ways."""
    counts = found.counts
    ways = [
        f"{counts[name]} {text}"
        for name, text in (("stored_twice", "stored twice"), ("delivered_twice", "delivered twice"))
        if counts[name]
    ]
    named = len(found.duplicated)
    records = f"{examples(found.duplicated)}{of_topics(found, found.duplicated)}"
    said = [f"{counts['duplicated']} duplicated ({records}: {', '.join(ways)})"] if named else []
    return "; ".join((*said, *wrong_totals(found, high=True)))


def predicts_nothing(plan: Plan) -> bool:
    """Whether a fault was planned without a prediction, as for a declared pipeline."""
    permitted = isinstance(plan.lost, Permitted) and isinstance(plan.duplicated, Permitted)
    return permitted and plan.sign is None and plan.evidence.trigger != "none"
