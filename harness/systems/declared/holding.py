"""The three waves of a load that lostack does not offer: of a producer that makes its records itself, or has them in a file.

It has all of them from the start, and may have sent the last one before the fault strikes: then nothing is behind it. So the
wire holds two of its requests: the Produce request with the first record of the second third until the step that the fault is
at was seen once, and the one with the first record of the last third until the fault is healed. To the program that is a broker
that takes its time. Nothing of a request is changed, and nothing overtakes on its connection. No request is held for longer than
``HELD_S``; where the fault is not healed by then, the next one is held in place of the last, ``ALL_S`` in all: what is behind a
held request has been sent, too, and its client counts from there.

A request in which the wait would be in vain goes on at once. Nothing was sent before it that could bring the step about; or the
target is in it, comes behind it, or is in a transaction that is still open: readers would never be given it, and the fault would
wait for them. In place of such a last one the next Produce request is looked at, whatever is in it; likewise behind one that has
the first records of both. Where target and all that is behind it are in one request, there is none.

A held request whose client has given it up, because it has waited for long enough or its connection has ended (a broker that
dies takes the connection with it), is discarded and not released: the client sends its records again, and both would arrive.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.faults import NoFault
from harness.model import events as kinds
from harness.model.cell import middle_of
from harness.model.scenario import Role
from harness.pipelines.declaration import InputKind
from harness.protocols.kafka.steps import Api
from harness.systems.declared.silence import place_of
from harness.wire.messages import WireError
from harness.wire.rules import Action, How, Rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.model.cell import Load
    from harness.model.history import Event
    from harness.model.tail import SoFar
    from harness.systems.declared.sighted import Sighted
    from harness.wire.control import WireControl
    from harness.wire.rules import StepName

HELD_S = 9.0
"""How long a request is held at most: longer than an auto-commit interval, shorter than the 10 s that programs give a send."""
ALL_S = 18.0
"""How long requests are held at most, all together: shorter than the 30 s that clients wait for the answer to one."""
LOOK_S = 0.02
"""How often it is looked whether a request is held, or may go on."""


def is_held_back(kind: InputKind, fault: Any) -> bool:
    """Say whether the producer has all records at the start, and the fault neither ends nor stops it, nor is at its requests."""
    if kind not in {InputKind.FILE, InputKind.OWN} or isinstance(fault, NoFault):
        return False
    evidence = fault.evidence()
    return Role.PRODUCER not in {place_of(fault).role, *evidence.killed, *evidence.paused, *evidence.told}


def _hits_of(rule: str) -> Callable[[Event], bool]:
    return lambda event: event["rule"] == rule and event["phase"] == "hit"


@dataclass(slots=True)
class _Wave:
    """What is still to come: the rule that stops it, the place of its first record (from 1), and what is held of it."""

    rule: str
    position: int
    hits: Callable[[], list[Event]]
    """What the history says of the rule's hits so far."""
    taken: int = 0
    """How many of them were seen to."""
    hit: Event | None = None
    since: int = 0
    """When that was seen, monotonic ns."""


class Holding:
    """Lets the wire hold what the producer sends. :meth:`release` ends that; nothing is held behind it."""

    def __init__(
        self, wire: WireControl, cell: str, load: Load, *, seen: Callable[[], bool], sighted: Sighted, so_far: SoFar,
        step: StepName = Api.PRODUCE,
    ) -> None:  # fmt: skip
        """``seen``: whether the step that the fault is at was seen once. ``so_far``: what the history says.

        ``step``: by which the producer sends.
        """
        self._step = step
        self._wire = wire
        self._cell = cell
        self._load = load
        self._seen = seen
        self._sighted = sighted
        self._spent_s = 0.0
        """For how long requests have been held that went on since."""
        second, third = middle_of(len(load.records))
        self._coming = [
            _Wave(rule, position, so_far.finder(kinds.RULE, _hits_of(rule)))
            for rule, position in ((kinds.SECOND_WAVE, second + 1), (kinds.LAST_WAVE, third + 1))
        ]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="holding", daemon=True)

    def start(self) -> None:
        """Arm the rules, before the producer starts.

        Raises:
            WireError: the wire is gone.
        """
        for wave in self._coming:
            self._arm(wave, self._first_of(wave))
        self._thread.start()

    @property
    def holds(self) -> bool:
        """Whether the producer waits for a request that is held."""
        return any(wave.hit is not None for wave in self._coming)

    def release(self) -> None:
        """Let everything through, from now on.

        Raises:
            WireError: the wire is gone.
        """
        self.close()
        for wave in self._coming:
            self._wire.disarm(self._cell, wave.rule)
            self._take(wave)  # it may have been hit a moment ago
            self._resolve(wave)
        self._coming = []

    def close(self) -> None:
        """Look no more; what is held stays so."""
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
        self._wire.arm(self._cell, Rule(wave.rule, Action.HOLD, self._step, role=Role.PRODUCER, record=record))

    def _take(self, wave: _Wave) -> None:
        if wave.hit is None and len(hits := wave.hits()) > wave.taken:
            wave.hit, wave.since = hits[wave.taken], time.monotonic_ns()
            wave.taken += 1

    def _treat(self, wave: _Wave, hit: Event) -> None:
        in_vain, last = self._is_in_vain(wave, hit), self._coming[-1]
        held_s = (time.monotonic_ns() - wave.since) / 1e9
        late = held_s > min(HELD_S, ALL_S - self._spent_s)
        if not (in_vain or late or (wave is not last and self._seen()) or self._is_given_up(wave, hit)):
            return
        self._spent_s += held_s
        again = (in_vain or late) if wave is last else self._first_of(last) in hit["records"]
        if again and self._spent_s < ALL_S:
            self._wire.disarm(self._cell, last.rule)
            self._arm(last, None)  # before this one goes on: nothing can slip through
        self._resolve(wave)

    def _is_in_vain(self, wave: _Wave, hit: Event) -> bool:
        """Whether nobody can be given what is waited for, as long as this is held."""
        before = self._sighted.readable() - set(hit["records"])
        return self._load.target.id not in before if wave is self._coming[-1] else not before

    def _is_given_up(self, wave: _Wave, hit: Event) -> bool:
        """Whether its client waits for it no more: its connection has ended, or its records were sent again."""
        attached = any(held.held == hit["held"] and held.attached for held in self._wire.holds())
        return not attached or not self._sighted.tried(since=wave.since).isdisjoint(hit["records"])

    def _resolve(self, wave: _Wave) -> None:
        """Let what is held of a wave go on, or discard what was given up."""
        if (hit := wave.hit) is not None and hit["held"] is not None:
            self._wire.resolve(hit["held"], How.DISCARD if self._is_given_up(wave, hit) else How.RELEASE)
        wave.hit = None
