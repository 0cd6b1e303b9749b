"""Programs that ended by themselves while their cell ran: neither lostack's fault ended them, nor
the end of the cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from signal import SIGKILL, SIGTERM
from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.model.events import DrainPhase, NodePhase

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.model.events import Event


@dataclass(frozen=True, slots=True)
class Death:
    """One node whose process ended by itself, ``times`` times. ``at_s``: when it did so first, in
    seconds since the cell began. ``again``: whether it was started again after the last time.
    """

    node: str
    how: str
    at_s: float
    times: int
    again: bool

    @property
    def words(self) -> str:
        """What happened, in words."""
        when = f"at {self.at_s:.1f} s"
        often = when if self.times == 1 else f"{self.times} times, first {when}"
        again = ", and was started again" if self.again else ""
        return f"the {self.node} {self.how} {often}{again}"


def how_it_ended(event: kinds.Node) -> str:
    """Say how a process ended, from its line.

    >>> from functools import partial
    >>> end = partial(kinds.Node, t=0, node="n", role="r", incarnation=1, phase=NodePhase.EXITED)
    >>> how_it_ended(end(signal=9)), how_it_ended(end(status=1))
    ('was killed', 'ended by itself (status 1)')
    >>> how_it_ended(end(signal=11)), how_it_ended(end(signal=9, asked=True))
    ('ended by itself (signal 11)', 'ended, as it was told to (SIGTERM),')
    >>> how_it_ended(end())
    'ended, nobody saw how,'
    """
    if event.asked:
        return "ended, as it was told to (SIGTERM),"
    if event.signal == SIGKILL:
        return "was killed"
    if event.signal:
        return f"ended by itself (signal {event.signal})"
    if event.status is None:
        return "ended, nobody saw how,"
    return f"ended by itself (status {event.status})"


def deaths(events: Iterable[Event]) -> list[Death]:
    """Return the nodes of which a process ended by itself, with an error, before the drain was
    over.
    """
    ended: dict[str, list[kinds.Node]] = {}
    started: dict[str, int] = {}
    zero = None
    for event in events:
        zero = event.t if zero is None else zero
        if isinstance(event, kinds.Drain) and event.phase != DrainPhase.BEGUN:
            break
        if not isinstance(event, kinds.Node):
            continue
        node = event.node
        if event.phase == NodePhase.STARTED:
            started[node] = event.t
        elif event.phase == NodePhase.EXITED and _by_itself(event):
            ended.setdefault(node, []).append(event)
    return [
        Death(
            node,
            how_it_ended(found[-1]),
            (found[0].t - (zero or 0)) / 1e9,
            len(found),
            started.get(node, 0) > found[-1].t,
        )
        for node, found in ended.items()
    ]


def _by_itself(event: kinds.Node) -> bool:
    """Whether a process ended with an error that nobody gave it."""
    if event.asked:
        return False
    signal = event.signal
    return bool(event.status) if not signal else signal not in (SIGKILL, SIGTERM)
