"""Hold back a producer that has all records from the start: it makes them itself, or reads them
from a file.

Such a producer could send its last record before the fault strikes, and no load would follow the
fault. So the wire holds two of its requests, which divide the load into three waves:

- the Produce request with the first record of the second third, until the step of the fault was
  seen once;
- the Produce request with the first record of the last third, until the fault is healed.

To the program this looks like a slow broker. No request is changed, and requests of a connection
keep their order. No request is held for longer than ``HELD_S``. If the fault is not healed by then,
the wire holds the next request in its place, for at most ``ALL_S`` altogether: the client measures
its time-out from when it sent the first of them.

A request goes on at once if holding it would block the fault:

- nothing was sent before it that could lead to the step of the fault;
- or the target is in it, comes after it, or is in an open transaction, so that no reader could be
  given the target.

If that happens to the second held request, or if one request has the first records of both thirds,
the wire holds the next Produce request instead, whatever it carries. If one request carries the
target and all later records, nothing is held.

A held request is discarded, not released, if its client gave it up: the client timed out, or its
connection ended because the broker died. The client sends these records again, and otherwise both
requests would arrive.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.controls import role_of
from harness.faults import InBacklog, NoFault
from harness.model import events as kinds
from harness.model.cell import middle_of
from harness.model.events import RulePhase
from harness.model.scenario import Role
from harness.pipelines.inputs import InputKind
from harness.protocols.kafka.steps import Api
from harness.wire.messages import WireError
from harness.wire.rules import Action, How, Rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.model.cell import Load
    from harness.model.scenario import Fault
    from harness.model.tail import SoFar
    from harness.systems.declared.wire.records import RecordsOnWire
    from harness.wire.control import WireControl
    from harness.wire.rules import StepName

HELD_S = 9.0
"""How long a request is held at most: longer than an auto-commit interval, shorter than the 10 s
that programs give a send.
"""
ALL_S = 18.0
"""How long requests are held at most, all together: shorter than the 30 s that clients wait for an
answer.
"""
LOOK_S = 0.02
"""The interval (seconds) at which held requests are checked."""


def is_held_back(kind: InputKind, fault: Fault) -> bool:
    """Say whether the producer has all records at the start, and the fault strikes neither the
    producer nor its requests.
    """
    if kind not in {InputKind.FILE, InputKind.OWN} or isinstance(fault, NoFault | InBacklog):
        return False
    evidence = fault.evidence()
    return Role.PRODUCER not in {
        role_of(fault),
        *evidence.killed,
        *evidence.paused,
        *evidence.told,
    }


def _hits_of(rule: str) -> Callable[[kinds.Rule], bool]:
    return lambda event: event.rule == rule and event.phase == RulePhase.HIT


@dataclass(slots=True)
class _Wave:
    """A wave that is still to come: the rule that stops it, the position of its first record (from
    1), and its held request.
    """

    rule: str
    position: int
    hits: Callable[[], list[kinds.Rule]]
    """Returns the rule's hits so far, from the history."""
    taken: int = 0
    """How many hits were handled."""
    hit: kinds.Rule | None = None
    since: int = 0
    """When the hit was seen, monotonic ns."""


class Holding:
    """Lets the wire hold the producer's requests until :meth:`release`."""

    def __init__(
        self,
        wire: WireControl,
        cell: str,
        load: Load,
        *,
        seen: Callable[[], bool],
        records_seen: RecordsOnWire,
        so_far: SoFar,
        step: StepName = Api.PRODUCE,
    ) -> None:
        """``seen``: says whether the step of the fault was seen once. ``so_far``: the history so
        far.

        ``step``: the request with which the producer sends.
        """
        self._step = step
        self._wire = wire
        self._cell = cell
        self._load = load
        self._seen = seen
        self._records_seen = records_seen
        self._spent_s = 0.0
        """For how many seconds the requests that have gone on since were held."""
        second, third = middle_of(len(load.records))
        self._coming = [
            _Wave(rule, position, so_far.finder(kinds.Rule, _hits_of(rule)))
            for rule, position in ((kinds.SECOND_WAVE, second + 1), (kinds.LAST_WAVE, third + 1))
        ]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="holding", daemon=True)

    def start(self) -> None:
        """Arm the rules, before the producer starts.

        Raises:
            WireError: the wire does not answer.
        """
        for wave in self._coming:
            self._arm(wave, self._first_of(wave))
        self._thread.start()

    @property
    def holds(self) -> bool:
        """Whether a request of the producer is held."""
        return any(wave.hit is not None for wave in self._coming)

    def release(self) -> None:
        """Release what is held, and hold nothing more.

        Raises:
            WireError: the wire does not answer.
        """
        self.close()
        for wave in self._coming:
            self._wire.disarm(self._cell, wave.rule)
            self._take(wave)  # it may have been hit a moment ago
            self._resolve(wave)
        self._coming = []

    def close(self) -> None:
        """Stop checking; a held request stays held."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(LOOK_S):
            try:
                for wave in self._coming:
                    self._take(wave)
                    if wave.hit is not None:
                        self._treat(wave, wave.hit)
            except WireError:  # who calls :meth:`release` is told
                return

    def _first_of(self, wave: _Wave) -> str:
        return self._load.records[wave.position - 1].id

    def _arm(self, wave: _Wave, record: str | None) -> None:
        self._wire.arm(
            self._cell, Rule(wave.rule, Action.HOLD, self._step, role=Role.PRODUCER, record=record)
        )

    def _take(self, wave: _Wave) -> None:
        if wave.hit is None and len(hits := wave.hits()) > wave.taken:
            wave.hit, wave.since = hits[wave.taken], time.monotonic_ns()
            wave.taken += 1

    def _treat(self, wave: _Wave, hit: kinds.Rule) -> None:
        in_vain, last = self._is_in_vain(wave, hit), self._coming[-1]
        held_s = (time.monotonic_ns() - wave.since) / 1e9
        late = held_s > min(HELD_S, ALL_S - self._spent_s)
        if not (
            in_vain or late or (wave is not last and self._seen()) or self._is_given_up(wave, hit)
        ):
            return
        self._spent_s += held_s
        again = (in_vain or late) if wave is last else self._first_of(last) in (hit.records or ())
        if again and self._spent_s < ALL_S:
            self._wire.disarm(self._cell, last.rule)
            self._arm(last, None)  # before this one goes on: nothing can slip through
        self._resolve(wave)

    def _is_in_vain(self, wave: _Wave, hit: kinds.Rule) -> bool:
        """Whether holding this request keeps the fault from happening."""
        before = self._records_seen.readable() - set(hit.records or ())
        return self._load.target.id not in before if wave is self._coming[-1] else not before

    def _is_given_up(self, wave: _Wave, hit: kinds.Rule) -> bool:
        """Whether the client gave this request up: its connection ended, or its records were sent
        again.
        """
        attached = any(held.held == hit.held and held.attached for held in self._wire.holds())
        again = self._records_seen.tried(since=wave.since)
        return not attached or not again.isdisjoint(hit.records or ())

    def _resolve(self, wave: _Wave) -> None:
        """Release the held request of a wave; discard it if its client gave it up."""
        if (hit := wave.hit) is not None and hit.held is not None:
            self._wire.resolve(
                hit.held, How.DISCARD if self._is_given_up(wave, hit) else How.RELEASE
            )
        wave.hit = None
