"""Proof of a bad network: its effect on what the wire counted."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from harness.model import events as kinds
from harness.model.events import NetworkPhase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from harness.judge.proof import ProofContext


class Effect(StrEnum):
    """Which effect the wire must have measured while the network was bad. ``limit`` is that of
    :class:`NetworkBad`.
    """

    LATE = "late"
    """A request waited at least ``limit`` seconds for its answer (requests that a broker keeps
    waiting do not count).
    """
    SILENT = "silent"
    """Bytes were sent, and no request was answered."""
    CUT = "cut"
    """At least ``limit`` connections were ended from the broker's side of the wire."""
    SLOW = "slow"
    """Requests were answered, together at no more than ``limit`` bytes per second of waiting.

    The rate of a single request proves nothing: a limiter that has slept too long lets the next
    bytes through sooner.
    """
    SLICED = "sliced"
    """The bytes of an answer came in at least ``limit`` pieces on average."""


@dataclass(frozen=True, slots=True)
class NetworkBad:
    """Between wire and broker the network was bad ``times`` times for each of ``roles``, had
    ``effect``, and was mended.
    """

    name: ClassVar[str] = "network-bad"

    roles: Sequence[str]
    effect: Effect
    limit: float = 0.0
    times: int = 1

    def trouble(self, course: ProofContext) -> str | None:
        """Name a role whose network was not made bad, was not mended, or showed no effect."""
        return trouble(self, course.history.of(kinds.Network))


def trouble(need: NetworkBad, events: Iterable[kinds.Network]) -> str | None:
    """Say what of ``need`` the ``network`` events do not show, or return ``None``.

    >>> from functools import partial
    >>> need = NetworkBad(("producer",), Effect.CUT, 2)
    >>> net = partial(kinds.Network, t=0, role="producer", node="producer")
    >>> on, off = net(phase=NetworkPhase.ON), partial(net, phase=NetworkPhase.OFF, sent=9)
    >>> trouble(need, [on, off(lost=1)])
    "the network was made to cut for the producer, without effect: 1 connections were ended from the
    broker's side, not 2"
    >>> trouble(need, [on, off(lost=2)]) is None
    True
    """
    events = list(events)
    for role in need.roles:
        on, off = (
            [e for e in events if e.role == role and e.phase == phase] for phase in NetworkPhase
        )
        if len(on) < need.times:
            return (
                f"the network was made {need.effect} for the {role} {len(on)} times, not "
                f"{need.times}"
            )
        if len(off) < len(on):
            return f"the network was never mended for the {role}"
        for event in off:
            if missed := _SHOWS[need.effect](event, need.limit):
                verb = "to cut" if need.effect == Effect.CUT else str(need.effect)
                return f"the network was made {verb} for the {role}, without effect: {missed}"
    return None


def _late(event: kinds.Network, limit: float) -> str | None:
    longest = event.longest_s or 0.0
    return (
        None
        if longest >= limit
        else f"no request waited {limit:g} s for its answer, the longest waited {longest:.3f} s"
    )


def _silent(event: kinds.Network, _limit: float) -> str | None:
    if not event.sent:
        return "nothing was sent"
    return f"{event.answers} requests were answered" if event.answers else None


def _cut(event: kinds.Network, limit: float) -> str | None:
    lost = int(event.lost or 0)
    return (
        None
        if lost >= limit
        else f"{lost} connections were ended from the broker's side, not {limit:g}"
    )


def _slow(event: kinds.Network, limit: float) -> str | None:
    if not event.answers:
        return "no request was answered"
    rate = event.rate or 0.0
    return (
        None
        if rate <= limit
        else f"requests were answered at {rate:.0f} bytes a second, above the limit of {limit:g}"
    )


def _sliced(event: kinds.Network, limit: float) -> str | None:
    reads, answers = int(event.reads or 0), int(event.answers or 0)
    if not answers:
        return "no request was answered"
    return None if reads >= limit * answers else f"{answers} answers came in {reads} pieces"


_SHOWS: dict[Effect, Callable[[kinds.Network, float], str | None]] = {
    Effect.LATE: _late,
    Effect.SILENT: _silent,
    Effect.CUT: _cut,
    Effect.SLOW: _slow,
    Effect.SLICED: _sliced,
}
