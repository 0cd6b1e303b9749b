"""The signature of a point's outcome, by which broken cells with one cause count as one finding."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.judge.verdict import Kind
from harness.model import events as kinds
from harness.model.events import End, FaultPhase
from harness.model.semantics import PROMISES
from harness.model.states import State
from harness.model.struck import first_at
from harness.wire.rules import Direction

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.model.history import History
    from harness.saved import CellResult


@dataclass(frozen=True, slots=True)
class Signature:
    """The outcome of a point, without counts, places and times.

    ``anomalies``: those that some semantic forbids. ``states``: where records that were not
    recorded are at rest. ``last_hops``: where lost records were last seen. ``errors``: those that
    the programs were told, or ended with. ``recovery``: requests after the fault that the dry runs
    do not make from the first record on. It is shown, but not compared, because how often a client
    asks for metadata depends on timing.
    """

    verdict: str
    anomalies: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    last_hops: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    recovery: tuple[str, ...] = dataclasses.field(default=(), compare=False)

    @property
    def outcome(self) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
        """The part by which the points of a class are compared. Errors are left out, because they
        depend on timing.
        """
        return self.verdict, self.anomalies, self.states

    @property
    def broken(self) -> bool:
        """Whether the outcome makes a finding: broken or stuck."""
        return self.verdict in {Kind.BROKEN, Kind.STUCK}

    def without(self, errors: frozenset[str]) -> Signature:
        """Return the signature without these errors."""
        return dataclasses.replace(
            self, errors=tuple(each for each in self.errors if each not in errors)
        )

    def to_json(self) -> dict[str, object]:
        """Return plain data."""
        return dataclasses.asdict(self)

    def text(self) -> str:
        """Return the signature in words, in one line."""
        said = [", ".join(self.anomalies), ", ".join(self.states), ", ".join(self.last_hops)]
        told = f"; the programs were told {', '.join(self.errors)}" if self.errors else ""
        return (
            f"{self.verdict}: {'; '.join(each for each in said if each) or 'nothing missing'}{told}"
        )


def signature_of(
    result: CellResult, history: History, usual: frozenset[str] = frozenset()
) -> Signature:
    """Return the signature of a judged cell. ``usual``: the requests that the dry runs make, as
    ``role api``.
    """
    account = result.judgement.account
    states = Counter(row["state"] for row in account.rows)
    counts = account.counts
    found = [
        str(name) for name in sorted(frozenset().union(*PROMISES.values())) if counts.get(str(name))
    ]
    since = first_at(history, FaultPhase.FIRED)
    return Signature(
        verdict=str(result.verdict.kind),
        anomalies=tuple(found),
        states=tuple(
            sorted(str(state) for state in states if state not in (State.RECORDED, State.LOST))
        ),
        last_hops=tuple(sorted({str(row["last_hop"]) for row in account.rows if row["last_hop"]})),
        errors=tuple(sorted(errors_of(history, since))),
        recovery=tuple(sorted(_asked(history, since) - usual)),
    )


def usual_requests(histories: Iterable[History]) -> frozenset[str]:
    """Return the requests that runs without a fault make from their first record on, as ``role
    api``.
    """
    found: set[str] = set()
    for history in histories:
        frames = list(history.of(kinds.Frame))
        first = next((frame.t for frame in frames if frame.records), None)
        found |= {_asks(frame) for frame in frames if first is not None and frame.t >= first}
    return frozenset(found)


def _asked(history: History, since: int | None) -> set[str]:
    frames = (frame for frame in history.of(kinds.Frame) if since is not None and frame.t > since)
    return {_asks(frame) for frame in frames if frame.dir == Direction.REQUEST}


def _asks(frame: kinds.Frame) -> str:
    return f"{frame.role} {frame.api}"


def repeated_requests(history: History, hit: kinds.Rule | None) -> tuple[str, ...]:
    """Return the requests that name records which an earlier request of their kind named, from the
    hit of a fault on: which of those records, and how often.

    So a batch that is sent again whole differs from one that is sent again in two parts. The
    records themselves are not named: they are others at each point. More than twice is *often*,
    because how often a client tries depends on timing.
    """
    if hit is None:
        return ()
    last: dict[tuple[str, str], frozenset[str]] = {}
    found: Counter[str] = Counter()
    for frame in history.of(kinds.Frame):
        if frame.dir != Direction.REQUEST or not frame.records:
            continue
        what, records = _asks(frame), frozenset(frame.records)
        earlier = next((last[what, one] for one in sorted(records) if (what, one) in last), None)
        if frame.t > hit.t and earlier is not None:
            found[f"{what}: {_compared(records, earlier)}"] += 1
        last |= dict.fromkeys(((what, one) for one in records), records)
    return tuple(sorted(f"{what}, {OFTEN.get(times, 'often')}" for what, times in found.items()))


OFTEN = {1: "once", 2: "twice"}


def _compared(records: frozenset[str], earlier: frozenset[str]) -> str:
    """Say which records of an earlier request a request names.

    >>> _compared(frozenset("ab"), frozenset("abcd")), _compared(frozenset("ab"), frozenset("ab"))
    ('a part', 'the same records')
    >>> _compared(frozenset("abc"), frozenset("ab")), _compared(frozenset("bc"), frozenset("ab"))
    ('the same records and others', 'a part and others')
    """
    if records == earlier:
        return "the same records"
    if records < earlier:
        return "a part"
    return "the same records and others" if records > earlier else "a part and others"


def errors_of(history: History, since: int | None) -> set[str]:
    """Return the names, without the texts, of the errors that the programs recorded after the
    fault.
    """
    told = itertools.chain(
        (
            (e.t, e.error)
            for e in history.of(kinds.Refused, kinds.Unknown, kinds.Saved, kinds.Transaction)
        ),
        ((e.t, e.error) for e in history.of(kinds.Doubt)),
        ((e.t, e.because) for e in history.of(kinds.Stopped) if e.kind == End.ERROR),
    )
    return {_class_of(error) for t, error in told if error and since is not None and t > since}


def _class_of(error: str) -> str:
    """Return the name of an error, without what it says of this one.

    >>> _class_of("KafkaTimeoutError: Batch for TopicPartition(topic='a', partition=0) expired")
    'KafkaTimeoutError'
    >>> _class_of("[Error 47] InvalidProducerEpochError")
    '[Error 47] InvalidProducerEpochError'
    """
    return kinds.root_cause_line(error).partition(":")[0].strip()[:60]
