"""What the wire saw of each transactional id: its records, and the requests that end transactions.

A client may end a transaction by an EndTxn request, and a successor by an InitProducerId request
under the same transactional id.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from harness.model import events as kinds
from harness.model.events import Direction
from harness.model.requests import MAY_END_TRANSACTION
from harness.model.states import Hop

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.model.history import History
    from harness.model.plan import Plan

MS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Appended:
    """A record that a broker has stored in a transaction, and where."""

    sent: kinds.Sent
    topic: str
    partition: int
    offset: int


@dataclass
class Producer:
    """What the wire saw of one transactional id."""

    ends: list[kinds.InitProducer | kinds.EndTxn] = field(default_factory=list)
    """The requests that reached the broker, or may have, and end an open transaction."""
    stored: list[Appended] = field(default_factory=list)

    def left_open(self) -> Iterator[tuple[Appended, int]]:
        """Yield what was stored since the last end, each with the time at which its transaction may
        have ended by itself, at the earliest (ns).

        It yields nothing if the wire has not seen how the producer began.
        """
        timeouts = [end.timeout_ms for end in self.ends if isinstance(end, kinds.InitProducer)]
        if not timeouts:
            return
        last = max(end.t for end in self.ends)
        for appended in self.stored:
            if appended.sent.t > last:
                yield appended, last + min(timeouts) * MS


def producers(history: History) -> dict[str, Producer]:
    """Return what the wire saw of each transactional id.

    A record that stands twice in one request is left out: the answer does not say which is where.
    """
    found: dict[str, Producer] = defaultdict(Producer)
    sent: dict[tuple[str, str, str], list[kinds.Sent]] = defaultdict(list)
    for event in history.of(kinds.InitProducer, kinds.EndTxn, kinds.Sent, kinds.ProduceAnswer):
        if isinstance(event, kinds.ProduceAnswer):
            if event.error == 0 and event.offset is not None and event.offset >= 0:
                asked = sent.get((event.by, event.request, event.record), [])
                for each in asked if len(asked) == 1 else ():
                    if each.transactional_id is not None and each.partition is not None:
                        found[each.transactional_id].stored.append(
                            Appended(each, each.topic or "", each.partition, event.offset)
                        )
        elif isinstance(event, kinds.Sent):
            # what goes to a queue has no partition: its transactions end with their connection
            sent[event.by, event.request, event.record].append(event)
        elif event.transactional_id is not None and event.reached is not False:
            found[event.transactional_id].ends.append(event)
    return found


@dataclass(frozen=True, slots=True)
class Passed:
    """A record in a transaction that cannot have ended, and its log, whose last stable offset is
    past it.
    """

    name: str
    """The transactional id."""
    copy: Appended
    log: kinds.Log
    there: bool
    """The log has the record at that offset."""


def passed_open(plan: Plan, history: History) -> Iterator[Passed]:
    """Yield the records that a last stable offset has passed although their transaction cannot have
    ended.

    It cannot have ended if no EndTxn request has reached the broker, no InitProducerId under the
    same transactional id has either, and its time-out has not passed. A producer whose beginning
    the wire has not seen is skipped, and there are none at all if the outcome of such a request is
    unknown.
    """
    if plan.forgets or not plan.sealed or unsettled(history):
        return
    logs = {(e.topic, e.partition): e for e in history.of(kinds.Log) if e.hop != Hop.CURSOR}
    there = {(e.topic, e.at, e.record) for e in history.of(kinds.Stored)}
    for name, producer in producers(history).items():
        for copy, ends in producer.left_open():
            log = logs.get((copy.topic, copy.partition))
            if log is not None and log.t < ends and log.stable > copy.offset:
                spot = (copy.topic, (copy.partition, copy.offset), copy.sent.record)
                yield Passed(name, copy, log, spot in there)


def unsettled(history: History) -> set[str]:
    """Return the requests that begin or end a producer's transaction and that the wire could not
    read.
    """
    asked = {
        f"{e.conn}:{e.corr}"
        for e in history.of(kinds.Frame)
        if e.api in MAY_END_TRANSACTION and e.dir == Direction.REQUEST
    }
    return asked - {e.request for e in history.of(kinds.InitProducer, kinds.EndTxn)}
