"""Show a rollback to a checkpoint: a job's state, offsets and transactions before the crash, after
the rollback, at the end.

Each of the job's history lines about a key says what the key's state holds, and which of these
records came since the last checkpoint. So a restored attempt's first line about a key shows the
restored state; a key without such a line has the state of the checkpoint.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from harness.model import events as kinds
from harness.model.events import DrainPhase, NodePhase
from harness.model.states import Hop
from harness.systems.flink.signs import restorations

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.model.history import History

State = dict[str, list[str | None]]
"""Key → the records in the key's state."""


def rollback_detail(history: History) -> dict[str, Any] | None:
    """Return the three moments, and the keys whose state does not match the offsets, as plain data;
    ``None``: no rollback.
    """
    restored, number = next(iter(restorations(history)), (None, 0))
    if restored is None:
        return None
    new = restored.by
    states, given = list(history.of(kinds.State)), list(history.of(kinds.Delivered))
    before = [event for event in states if event.by != new and event.t < restored.t]
    saved = _last(event for event in before if event.batch < number)
    loaded: State = {}
    for event in states:
        if event.by == new:
            loaded.setdefault(event.key, _without(event.records, event.news))
    back = {key: records for key, records in (saved | loaded).items() if records}
    begins = {
        event.partition: event.position
        for event in history.of(kinds.Resumed)
        if event.where == "job" and event.by == new and event.partition is not None
    }
    died = next(
        (e.t for e in history.of(kinds.Node) if e.phase == NodePhase.EXITED and e.signal),
        restored.t,
    )
    later = [event for event in states if event.t > restored.t]
    ended = history.events[-1].t if history.events else 0
    return {
        "snapshots": [
            _row(
                "before the crash",
                number,
                _ends({}, (e for e in given if e.t < restored.t)),
                _last(before),
                f"checkpoint {number}, and the records since{_transactions(history, died)}",
            ),
            _row(
                "after the rollback",
                number,
                begins,
                back,
                f"checkpoint {number}{_transactions(history, restored.t)}",
            ),
            _row(
                "at the end",
                _checkpoint(history),
                _ends(begins, (e for e in given if e.t > restored.t)),
                back | _last(later),
                f"checkpoint {_checkpoint(history)}{_transactions(history, ended)}",
            ),
        ],
        "torn": sorted(
            key
            for key, records in loaded.items()
            if Counter(records) != Counter(saved.get(key, []))
        ),
    }


def _row(
    moment: str, number: int, offsets: dict[int, int], state: State, said: str
) -> dict[str, object]:
    return {
        "moment": moment,
        "batch": number,
        "offsets": {str(partition): offset for partition, offset in sorted(offsets.items())},
        "state": {key: len(records) for key, records in sorted(state.items())},
        "said": said,
    }


def _last(states: Iterable[kinds.State]) -> State:
    return {event.key: list(event.records) for event in states}


def _without(records: Iterable[str | None], news: Iterable[str | None]) -> list[str | None]:
    rest = list(records)
    for record in news:
        rest.remove(record)
    return rest


def _ends(begins: dict[int, int], given: Iterable[kinds.Delivered]) -> dict[int, int]:
    ends = dict(begins)
    for partition, offset in filter(None, (event.at for event in given)):
        ends[partition] = max(offset + 1, ends.get(partition, 0))
    return ends


def _checkpoint(history: History) -> int:
    return max((event.batch for event in history.of(kinds.Batch)), default=-1)


def _transactions(history: History, until: int) -> str:
    """Say how many of the sink's transactions with records were committed, open and aborted at a
    time; nothing without any.

    A transaction that no request ended was aborted by its time-out, if readers then see everything,
    or everything that was there at the first check of what readers see.
    """
    sinks = {event.topic for event in history.of(kinds.Log) if event.hop == Hop.SINK}
    told: Counter[str] = Counter()
    begun: set[str] = set()
    asked: set[str] = set()
    for event in history.of(kinds.Sent, kinds.EndTxn, kinds.InitProducer, kinds.Fault, kinds.Drain):
        if event.t > until:
            continue
        match event:
            case kinds.Sent(transactional_id=str(name), topic=topic) if topic in sinks:
                begun.add(name)
            case (
                kinds.EndTxn(transactional_id=str(name))
                | kinds.InitProducer(transactional_id=str(name))
            ) if name in begun and event.reached is not False:
                commits = isinstance(event, kinds.EndTxn) and event.commit
                told["committed" if commits else "aborted"] += 1
                begun.discard(name)
            case kinds.Fault(unseen=int(unseen)) if unseen:
                asked = set(begun)
            case kinds.Fault(unseen=int()) | kinds.Drain(phase=DrainPhase.COMPLETED):
                over = begun & asked if isinstance(event, kinds.Fault) and asked else begun
                told["aborted"] += len(over)
                begun = begun - over
    told["open"] = len(begun)
    words = ", ".join(
        f"{told[what]} {what}" for what in ("committed", "open", "aborted") if told[what]
    )
    return f"; transactions: {words}" if words else ""
