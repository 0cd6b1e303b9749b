"""Watch a client whose peer is silent, until it gives the connection up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.abilities import GivingUp
from harness.controls import NotFiredError, await_met
from harness.model import events as kinds
from harness.model.events import Direction
from harness.proofs.silence import SILENCE_S, first_repeated_request, hit_of, leaving

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.model.tail import SoFar

LOOK_S = 0.1


@dataclass
class WatchedClient(GivingUp):
    """Reads from the history that a client has given up. ``supervise``: starts programs again that
    have ended by themselves.
    """

    so_far: SoFar
    supervise: Callable[[], object]

    def await_given_up(self, *, supervised: bool = True) -> bool:
        """Wait until the client has closed the silent connection, or has its answer from another
        one. Return whether the silent connection lives. ``supervised``: start programs again
        meanwhile.

        Raises:
            NotFiredError: the client still waits.
        """
        hit = hit_of(self.so_far.of(kinds.Rule))
        if hit is None:
            raise NotFiredError("no connection is silent")
        await_met(
            lambda: self._over(hit, supervised=supervised),
            SILENCE_S,
            f"the {hit.role} to give up a silent connection",
            poll_s=LOOK_S,
        )
        return leaving(self.so_far.of(kinds.Conn), hit) is None

    def _over(self, hit: kinds.Rule, *, supervised: bool) -> bool:
        if supervised:
            self.supervise()
        if leaving(self.so_far.of(kinds.Conn), hit):
            return True
        again = first_repeated_request(
            self.so_far.of(kinds.Frame), self.so_far.of(kinds.Owner), hit
        )
        return again is not None and any(
            e.dir == Direction.RESPONSE and (e.conn, e.corr) == (again.conn, again.corr)
            for e in self.so_far.of(kinds.Frame)
        )
