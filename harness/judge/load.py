"""The load around a fault: whether records other than the target moved before the fault struck, and
after it.

A fault that strikes an idle pipeline proves nothing. A record moves when a program takes it from
the source, when it is sent, and when it is delivered. The target's own moves do not count. After
the fault, a move that a record had already made before it does not count either: the struck record
comes again by itself, together with the records that were under way beside it.

lostack's own programs write down what they are given, and send in units that the settings fix. A
user's program writes nothing down, and its client alone decides how many records go into one
request. For a user's program three more things count:

- records that the program was given, as the wire saw it;
- before the fault: the records beside the target in the request that was struck. A client that
  sends a whole file at once sends nothing before its first request, and those records were on their
  way when the fault struck;
- after the fault: a position that the program saves behind a record for the first time, or its
  first acknowledgement of a record. A client that was given everything before the fault works on,
  and asks for nothing more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.model.events import FaultPhase

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from harness.judge.firing import Hit
    from harness.model.history import History

LEDGERS = (kinds.Taken, kinds.Delivered, kinds.Batch)
"""Events that only lostack's own programs write."""


@dataclass(frozen=True, slots=True)
class Load:
    """Whether there was load before and after a fault.

    ``beside``: the records in the struck request beside the target, if there was no other load
    before the fault.
    """

    before: bool
    after: bool
    beside: frozenset[str] = frozenset()


def load_of(history: History, target: str, fired_at: int, hits: Sequence[Hit]) -> Load:
    """Return the load around a fault. ``fired_at``: when it struck (monotonic ns); ``hits``: the
    events of its triggers.

    Where the fault strikes one record after the other, what moved before this one was aimed at is
    no load before it.
    """
    told = any(True for _ in history.of(kinds.Delivered, kinds.Batch))
    moves: list[tuple[type[kinds.Event], object, int]] = [
        (type(e), e.batch if isinstance(e, kinds.Batch) else e.record, e.t)
        for e in history.of(kinds.Taken, kinds.Delivered, kinds.Sent, kinds.Batch)
        if isinstance(e, kinds.Batch) or e.record != target
    ]
    moves += [
        (kinds.Fetched, e.record, e.t)
        for e in history.of(kinds.Fetched)
        if not told and e.record != target and e.reached is not False
    ]
    moved = {(kind, what) for kind, what, t in moves if t < fired_at}
    aimed = max((e.t for e in history.of(kinds.Fault) if e.phase == FaultPhase.AIMED), default=0)
    before = any(aimed <= t < fired_at for _, _, t in moves)
    after = any((kind, what) not in moved for kind, what, t in moves if t > fired_at)
    after = after or (not told and any(each != target for each in _finished(history, fired_at)))
    if before or any(True for _ in history.of(*LEDGERS)):
        return Load(before, after)
    beside = _beside(target, hits)
    return Load(bool(beside), after, beside)


def _beside(target: str, hits: Iterable[Hit]) -> frozenset[str]:
    """Return the records that were in a struck request together with the target."""
    struck = (set(hit.records or ()) for hit in hits if isinstance(hit, kinds.Rule))
    return frozenset(
        record for records in struck if target in records for record in records - {target}
    )


def _finished(history: History, since: int) -> Iterator[str]:
    """Yield the records that were first acknowledged, or behind which a position was first saved,
    after a moment.
    """
    given = {
        (e.topic, e.partition, e.offset): e.record
        for e in history.of(kinds.Fetched)
        if e.offset is not None
    }
    saved: dict[tuple[object, ...], int] = {}
    done: set[str] = set()
    for event in sorted(history.of(kinds.Committed, kinds.Acknowledged), key=lambda e: e.t):
        if event.reached is False:
            continue
        if isinstance(event, kinds.Committed):
            log = (event.topic, event.partition)
            at = (event.group, *log)
            before, saved[at] = saved.get(at, 0), max(event.offset, saved.get(at, 0))
            records = [
                given[*log, offset]
                for offset in range(before, event.offset)
                if (*log, offset) in given
            ]
        else:
            records = [event.record] if event.outcome is None and event.how == "ack" else []
        if event.t > since:
            yield from (record for record in records if record not in done)
        done.update(records)
