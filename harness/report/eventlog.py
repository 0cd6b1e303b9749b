"""The events of saved cells as lines for a terminal: those of one record, or what the wire saw, in
the protocol's own names.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from harness.model import events as kinds
from harness.model.events import Direction, RulePhase
from harness.model.history import line_of
from harness.protocols.kafka.steps import error_name
from harness.report.escaping import visible
from harness.report.page.detail import history_of
from harness.report.reading import record_of, records_of
from harness.report.record import NoRecordError, no_record
from harness.report.summary import SIGNS, counted, outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from harness.model.history import Event
    from harness.saved import CellResult

ON_THE_WIRE: Final = (kinds.OfFrame, kinds.Conn)
"""Kinds of events about frames and connections."""
_SHOWN_ELSEWHERE = frozenset({"line", "t", "w", "cell", "by", "event"})
_OF_A_FRAME = frozenset(
    {
        "conn",
        "role",
        "node",
        "client",
        "dir",
        "api",
        "version",
        "corr",
        "size",
        "records",
        "error",
        "record",
    }
)
_CARRIED: Final = (
    kinds.OfSend,
    kinds.ProduceAnswer,
    kinds.Acknowledged,
    kinds.ShareState,
    kinds.Ending,
    kinds.DatabaseCommit,
)
"""What names a record, and the request that carried it or was answered."""
MS_NS = 1_000_000


def event_lines(
    results: Sequence[CellResult],
    *,
    record: str | None = None,
    frames: bool = False,
    as_json: bool = False,
) -> Iterator[str]:
    """Yield the events of these cells, in the order of time: a heading and a line each, or the
    history's own JSON.

    ``record``: only the events about this record; ``frames``: only the frames and connections that
    the wire saw.

    Raises:
        NoRecordError: no cell has any.
    """
    found = [
        (result, zero, list(chosen))
        for result, zero, chosen in _chosen(results, record, frames=frames)
        if chosen
    ]
    if not found:
        known = record is not None and any(
            row["record"] == record for result in results for row in result.judgement.account.rows
        )
        if record is not None and not known:
            raise no_record(results, record)
        what = f"frames{f' with {record}' if record else ''}" if frames else "events"
        raise NoRecordError(f"the histories of {counted(len(results), 'cell')} hold no {what}")
    for result, zero, chosen in found:
        if not as_json:
            yield visible(
                f"{result.plan.id}  {SIGNS[outcome(result.verdict)]} {outcome(result.verdict)}"
            )
        for event in chosen:
            yield (
                json.dumps(line_of(event))
                if as_json
                else visible(f"  {(event.t - zero) / MS_NS:>11.1f} ms  {event_text(event)}")
            )
        if not as_json:
            yield ""


def _chosen(
    results: Iterable[CellResult], record: str | None, *, frames: bool
) -> Iterator[tuple[CellResult, int, list[Event]]]:
    for result in results:
        history = history_of(result)
        if history is None or not history.events:
            continue
        carrying = {
            event.request
            for event in history.events
            if isinstance(event, _CARRIED) and event.record == record
        }
        yield (
            result,
            history.events[0].t,
            [
                event
                for event in history.events
                if (not frames or isinstance(event, ON_THE_WIRE))
                and (record is None or _about(event, record, carrying))
            ],
        )


def _about(event: Event, record: str, carrying: set[str | None]) -> bool:
    """Whether a line is about a record: it names it, or is the frame that carried it
    or its answer.
    """
    if record == record_of(event) or record in (records_of(event) or ()):
        return True
    return isinstance(event, kinds.Frame) and f"{event.conn}:{event.corr}" in carrying


def event_text(event: Event) -> str:
    """Return one event as readable text, without its time.

    >>> event_text(
    ...     kinds.Frame(
    ...         t=0, role="producer", node="broker-1", dir=Direction.RESPONSE, api="Produce",
    ...         version=9, conn=3, corr=7, size=53, error=6, records=("k1-2",),
    ...     )
    ... )
    'broker-1 → producer  Produce v9 response  NOT_LEADER_OR_FOLLOWER  connection 3, correlation 7,
    53 bytes: k1-2'
    """
    match event:
        case kinds.Frame():
            return _frame(event)
        case kinds.Rule() if event.phase != RulePhase.ARMED and event.api:
            return (
                f"rule {event.rule} {event.phase}: "
                f"{_frame(event)}{_more(event, {'rule', 'phase'} | _OF_A_FRAME)}"
            )
        case kinds.Conn():
            peer = f"{event.role} → {event.node}"
            more = _more(event, {"phase", "conn", "role", "node"})
            return f"{peer}  connection {event.conn} {event.phase}{more}"
        case _:
            return f"{event.by}  {event.event}{_more(event, set())}"


def _frame(event: kinds.OfFrame) -> str:
    sides = [str(event.role), str(event.node)]
    start, end = sides if event.dir != Direction.RESPONSE else reversed(sides)
    error = event.error
    said = f"  {error_name(error) if isinstance(error, int) else error}" if error else ""
    size = f", {event.size} bytes" if event.size is not None else ""
    of = f"connection {event.conn}, correlation {event.corr}{size}"
    version = f" v{event.version}" if event.version is not None else ""
    records = ", ".join(event.records or ())
    library = f" ({event.software})" if event.software else ""
    return (
        f"{start} → {end}  {event.api}{version} {event.dir}{said}  "
        f"{of}{f': {records}' if records else ''}{library}"
    )


def _more(event: Event, known: set[str] | frozenset[str]) -> str:
    """Return what else a line says, as ``name value``, its record first; what is null or empty says
    nothing.
    """
    line = line_of(event, defaults=False)
    left = {
        name: _listed(line[name])
        for name in sorted(line, key=lambda name: name != "record")
        if name not in _SHOWN_ELSEWHERE | known
    }
    words = ", ".join(
        f"{name} {value}" for name, value in left.items() if value not in (None, "", [])
    )
    return f"  {words}" if words else ""


def _listed(value: object) -> object:
    """Return a value of a field as JSON has it, where lists are lists."""
    return [_listed(each) for each in value] if isinstance(value, tuple) else value
