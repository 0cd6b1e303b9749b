"""What a verdict on a user's pipeline stands on: what was found in the output, and when it was
asked for.

With the rule that was applied (:class:`~harness.judge.rules.Rule`) these are the three things of
which one is wrong if a verdict is: the query that finds results, the moment of reading, or the
conclusion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.model import events as kinds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from harness.judge.verdict import Judgement
    from harness.model.history import History


SEEN: Final[Mapping[type[kinds.Event], str]] = {
    kinds.Sent: "sent",
    kinds.Unsent: "kept from the broker",
    kinds.ProduceAnswer: "answered",
    kinds.Fetched: "delivered",
}
"""What the wire sees of a record, by the kind of the event."""


def evidence_detail(history: History) -> dict[str, dict[str, object]] | None:
    """Return what was found and when it was asked for, as plain data; ``None``: nobody has said how
    the output was read.
    """
    read: kinds.OutputRead | None = None
    for event in history.of(kinds.OutputRead):
        read = event
    if read is None:
        return None
    moving = (kinds.Sent, kinds.Unsent, kinds.ProduceAnswer, kinds.Fetched)
    before = [event for event in history.of(*moving) if event.t <= read.t]
    last = max(before, key=lambda event: event.t, default=None)
    drain: kinds.Drain | None = None
    for told in history.of(kinds.Drain):
        drain = told
    totals = {event.key for event in history.of(kinds.Folded)}
    return {
        "found": {
            "asked": read.asked,
            "rows": read.rows,
            "results": len(totals) or sum(1 for _ in history.of(kinds.Recorded)),
            "unnamed": sum(event.count for event in history.of(kinds.Unnamed)),
            "unfilled": sum(event.count for event in history.of(kinds.Unfilled)),
        },
        "asked": {
            "last": None if last is None else SEEN[type(last)],
            "record": None if last is None else last.record,
            "after_s": None if last is None else round((read.t - last.t) / 1e9, 3),
            "required_s": drain.rest if drain else None,
            "why": drain.why if drain else None,
        },
    }


def evidence_of(judgement: Judgement) -> Iterator[tuple[str, str]]:
    """Yield what was found, when it was asked for and what was concluded, each as (word, sentence);
    nothing where nobody has said how the output was read.
    """
    detail = judgement.details.get("evidence")
    if detail is None:
        return
    found, asked = detail["found"], detail["asked"]
    without = [
        f"{found[name]} {text}"
        for name, text in (("unnamed", "without an id"), ("unfilled", "not filled in"))
        if found[name]
    ]
    counted = ", ".join((f"{found['results']} results", *without))
    yield "found", f"{found['rows']} rows by {found['asked']}: {counted}"
    moment = "before anything was seen of a record"
    if asked["last"] is not None:
        moment = (
            f"{asked['after_s']:.1f} s after the last that was seen of a record "
            f"({asked['record']} {asked['last']})"
        )
    if asked["required_s"] is not None:
        moment += f"; {asked['required_s']:.1f} s of silence were required ({asked['why']})"
    yield "asked", moment
    yield "concluded", str(judgement.verdict.rule)
