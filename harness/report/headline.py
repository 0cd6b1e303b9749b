"""The headline of a run: what broke, where and how, in a few words."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from harness.judge.verdict import Kind
from harness.model.prediction import examples
from harness.model.semantics import Anomaly, forbids
from harness.report.own import labels_of
from harness.report.summary import GREEN, SIGNS, WORST, Outcome, counted, outcome, summarise

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.saved import CellResult, SavedRun

NAMED = 2
"""How many records a headline names."""
MOST = 140
"""The longest reason that a headline quotes, in characters."""


def cells_not_green(run: SavedRun) -> list[CellResult]:
    """Return the cells that are not green, the worst first."""
    found = (result for result in run.results if outcome(result.verdict) not in GREEN)
    return sorted(found, key=lambda result: WORST.index(outcome(result.verdict)))


def seal(run: SavedRun) -> str:
    """Return the sign of a run's worst cell; of a run that is not green without one, that it
    proves less than it was to.
    """
    if red := cells_not_green(run):
        return SIGNS[outcome(red[0].verdict)]
    return SIGNS[Outcome.KEPT if summarise(run).green else Outcome.VOID]


def headline(run: SavedRun) -> str:
    """Return what came of a run in a few words: of its worst cell the records and how they fared,
    and how many others are not green.
    """
    summary, red = summarise(run), cells_not_green(run)
    start = "PARTIAL: " if summary.partial else ""
    if not run.results:
        return f"{start}no cell was run"
    if red:
        labels = dict(zip(map(id, run.results), labels_of(run), strict=True))
        others = Counter(outcome(result.verdict) for result in red[1:])
        beside = ", ".join(f"{others[each]} {each}" for each in WORST if others[each])
        more = f"; beside it {beside}" if beside else ""
        return f"{start}{_worst(red[0], labels[id(red[0])])}{more}"
    if summary.partial:
        left = len({*run.info.planned} - {result.plan.id for result in run.results if result.ended})
        why = f"{counted(left, 'planned cell')} did not run" if left else "the run was cut short"
        return f"{start}every promise kept in the cells that ran; {why}"
    if summary.untried:
        stages = f"{counted(summary.untried, 'stage')} {'was' if summary.untried == 1 else 'were'}"
        return f"every promise kept where it was tried; {stages} not tried"
    return "every promise kept"


def _worst(result: CellResult, label: str) -> str:
    """Say what came of the worst cell."""
    word, reason = outcome(result.verdict), _brief(result.verdict.reason)
    if word is Outcome.NOT_CONVICTED:
        return f"the control {label} was not convicted"
    if word is Outcome.VOID:
        return f"{label} proves nothing: {reason}"
    if word is Outcome.STUCK:
        return f"{label} is stuck: {reason}"
    harm = "; ".join(_harm(result)) if result.verdict.kind is Kind.BROKEN else ""
    astray = "" if result.verdict.by_fault else ", though not by this fault"
    return f"{label}{astray}: {harm or reason}"


def _harm(result: CellResult) -> Iterator[str]:
    """Yield what happened to records that the claim forbids."""
    account, semantic = result.judgement.account, result.plan.semantic
    if account.lost and forbids(semantic, Anomaly.LOST):
        rows = [row for row in account.rows if row["record"] in account.lost]
        hops = sorted({str(row["last_hop"]) for row in rows})
        yield f"{examples(account.lost, NAMED)} lost ({', '.join(hops)})"
    if account.duplicated and forbids(semantic, Anomaly.DUPLICATED):
        ways = [
            words
            for name, words in (
                ("stored_twice", "stored twice"),
                ("delivered_twice", "delivered twice"),
            )
            if account.counts[name]
        ]
        yield f"{examples(account.duplicated, NAMED)} duplicated ({', '.join(ways)})"


def _brief(reason: str) -> str:
    first = reason.partition("; ")[0]
    return first if len(first) <= MOST else f"{first[: MOST - 1]}…"
