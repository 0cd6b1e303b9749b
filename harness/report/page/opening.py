"""What a report opens with, in plain sentences: of each cell that is not green what was seen and
where the record went; of a run what was proved, what was never reached, and what does not apply.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from harness.judge.verdict import Kind
from harness.model.prediction import examples
from harness.model.semantics import Anomaly, forbids
from harness.model.states import LastHop
from harness.report.summary import GREEN, Outcome, counted, outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.saved import CellResult, SavedRun

NAMED: Final = 2
"""How many records a sentence names."""
NO_FAULT: Final = "none"
"""The trigger of a cell without a fault."""
_WENT: Final = {
    LastHop.NEVER_SENT: "no send of it was seen",
    LastHop.SENT: "it was sent, and the broker does not have it",
    LastHop.ACKED: "the broker acknowledged it, and does not have it",
    LastHop.DELETED: "the broker stored it, and its retention deleted it",
    LastHop.COMPACTED: "the broker stored it, and kept only a later record of the same key",
    LastHop.PURGED: "the broker stored it, and then purged it",
    LastHop.DUPLICATE: "the broker took it for a duplicate, and has no other copy",
    LastHop.GIVEN_UP: "it was acknowledged before its delivery, and never delivered",
    LastHop.EXPIRED: "it expired in the broker",
    LastHop.LIMIT: "the broker removed it at a limit",
    LastHop.REJECTED: "it was delivered, rejected, and put nowhere",
    LastHop.DEAD_LETTER: "it was taken to the dead letters, and is not there",
    LastHop.MOVED: "it was moved, and is not where it was moved to",
    LastHop.ABORTED: "only aborted transactions have it, and no committed reader sees those",
    LastHop.SKIPPED: "the broker has it, and no reader was given it",
    LastHop.DELIVERED: "a reader was given it, and the output does not have it",
}
"""Where a lost record went, by its last hop."""


def story(result: CellResult) -> list[str]:
    """Say in one or two sentences what was seen in a cell that is not green, and where the record
    went. Empty if the verdict's reason says it already.
    """
    word = outcome(result.verdict)
    if word is Outcome.VOID:
        why = "its fault never struck" if never_reached(result) else ""
        return [f"This cell proves nothing{': ' if why else ''}{why}."]
    if word is Outcome.NOT_CONVICTED:
        return [
            "This control must break its promise, to show that a break is seen, and it did not."
        ]
    if word is Outcome.STUCK:
        return [_stopped(result)]
    return list(_harm(result)) if result.verdict.kind is Kind.BROKEN else []


def never_reached(result: CellResult) -> bool:
    """Say whether a cell had a fault that never struck, as far as a history was read."""
    planned = result.plan.evidence.trigger != NO_FAULT
    known = bool(result.judgement.account.counts["offered"])
    return planned and known and not result.verdict.fired


def _harm(result: CellResult) -> Iterator[str]:
    """Yield a sentence for each last hop of lost records and each kind of duplicates that the claim
    forbids.
    """
    account, semantic = result.judgement.account, result.plan.semantic
    if forbids(semantic, Anomaly.LOST):
        hops: dict[LastHop, set[str]] = defaultdict(set)
        for row in account.rows:
            if row["record"] in account.lost and row["last_hop"] is not None:
                hops[row["last_hop"]].add(row["record"])
        for hop, records in sorted(hops.items()):
            one = len(records) == 1
            lost = "was lost" if one else "were lost, each in the same way"
            yield f"{examples(records, NAMED)} {lost}: {_WENT[hop]}."
    if forbids(semantic, Anomaly.DUPLICATED):
        stored = {row["record"] for row in account.rows if row["stored_twice"] > 0}
        delivered = {row["record"] for row in account.rows if row["delivered_twice"] > 0}
        for records, words in (
            (stored, "the log or queue has further copies"),
            (delivered, "one copy was delivered again"),
        ):
            if records:
                verb = "was" if len(records) == 1 else "were"
                yield f"{examples(records, NAMED)} {verb} recorded more than once: {words}."


def _stopped(result: CellResult) -> str:
    """Say how far the records of a stuck cell came."""
    counts = result.judgement.account.counts
    rest = (
        ("left_in_source", "in the source"),
        ("left_in_topic", "in the log or queue"),
        ("stalled", "behind an open transaction"),
    )
    where = ", ".join(f"{counts[name]} {place}" for name, place in rest if counts[name])
    stopped = f"; left are {where}" if where else ""
    return (
        "All was healed, and nothing moved until the deadline: "
        f"{counts['recorded']} of {counts['offered']} records are in the output{stopped}."
    )


def proved(run: SavedRun) -> list[str]:
    """Say what the green cells of a run prove."""
    green = [result for result in run.results if outcome(result.verdict) in GREEN]
    kept = [result for result in green if outcome(result.verdict) is Outcome.KEPT]
    struck = sum(result.verdict.fired > 0 for result in kept)
    calm = sum(result.plan.evidence.trigger == NO_FAULT for result in kept)
    shown = sum(not result.verdict.effect for result in kept)
    controls = len(green) - len(kept)
    said = []
    if struck:
        said.append(f"In {counted(struck, 'cell')} the fault struck, and the promise held.")
    if shown:
        what = "it shows" if shown == 1 else "they show"
        said.append(f"In {shown} of them the fault left no trace on its record: {what} little.")
    if calm:
        said.append(f"In {counted(calm, 'cell')} without a fault the promise held.")
    if controls:
        said.append(
            f"{counted(controls, 'control')} broke {'its' if controls == 1 else 'their'} promise, "
            "as a control must: losses and duplicates are seen here."
        )
    if green:
        of = {
            name: sum(result.judgement.account.counts[name] for result in green)
            for name in ("offered", "lost", "duplicated")
        }
        permitted = (
            " Each is one that the claim permits, or that a control must show."
            if of["lost"] or of["duplicated"]
            else ""
        )
        said.append(
            f"{of['offered']:,} records offered in these cells: {of['lost']:,} lost, "
            f"{of['duplicated']:,} duplicated.{permitted}"
        )
    return said


def not_applicable(run: SavedRun) -> list[tuple[str, str]]:
    """Return the points that do not apply, each with its reason. A point that applies to
    other semantics is named with those that it does not apply to.
    """
    ran = {result.plan.scenario for result in run.results}
    found: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for row in run.info.not_applicable:
        found[row.scenario, row.because][str(row.semantic)] = None
    return [
        (f"{name} ({', '.join(semantics)})" if name in ran else name, because)
        for (name, because), semantics in found.items()
    ]
