"""The held frames, and how each is resolved."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from harness.model.events import RulePhase
from harness.wire.connection import Hold
from harness.wire.delivery import DeliveryError, deliver
from harness.wire.messages import Held, Resolved, WireError
from harness.wire.protocol import Immovable
from harness.wire.rules import Direction, FreezeScope, How

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.wire.cell import FrameInFlight, WireCell
    from harness.wire.connection import Connection
    from harness.wire.connections import Connections
    from harness.wire.protocol import Move
    from harness.wire.rules import Rule


class Holds:
    """The held frames. Each has a number of ``numbers``."""

    def __init__(self, conns: Connections, numbers: Iterator[int], *, decode_limit: int) -> None:
        self._conns = conns
        self._numbers = numbers
        self._decode_limit = decode_limit
        self._holds: dict[str, Hold] = {}

    def hold(self, carried: FrameInFlight, cell: WireCell, rule: Rule, conn: Connection) -> Hold:
        """Register a held frame and apply the freeze of its rule, with nothing in between."""
        name = f"h{next(self._numbers)}"
        freeze = None
        if rule.freeze is not None:
            target = conn.route.node if rule.freeze is FreezeScope.NODE else conn.process
            freeze = self._conns.start_freeze(name, rule.freeze, target, cell).id
        hold = Hold(name, carried, cell, rule, conn, freeze)
        self._holds[name] = hold
        return hold

    def of(self, cell: WireCell) -> list[str]:
        """Return the numbers of a cell's held frames."""
        return [hold.id for hold in self._holds.values() if hold.cell is cell]

    def told(self) -> list[Held]:
        """Return the frames that are still held."""
        return [
            Held(
                held=hold.id,
                rule=hold.rule.id,
                cell=hold.cell.id,
                conn=hold.conn.id,
                dir=hold.carried.direction,
                api=hold.carried.frame.step,
                client=hold.carried.client,
                attached=hold.attached,
                records=tuple(sorted(hold.carried.insight.subject.records)),
            )
            for hold in self._holds.values()
        ]

    async def resolve(
        self, held: str, how: How, *, cut: bool = True, within_s: float = 10.0
    ) -> Resolved:
        """Release, discard or deliver a held frame (see :class:`~harness.wire.rules.How`).

        ``cut`` belongs to ``release-later``: whether the connection ends or goes on without the
        frame. ``within_s`` bounds the wait for forwarding, and for the answer of a delivery.

        Raises:
            WireError: no such frame is held.
        """
        hold = self._holds.get(held)
        if hold is None:
            raise WireError(f"there is no held frame {held}")
        match how:
            case How.RELEASE:
                return await self._release(hold, within_s)
            case How.DISCARD:
                return await self._discard(hold, None)
            case How.DELIVER:
                return await self._deliver(hold, within_s)
            case How.RELEASE_LATER:
                return await self._detach(hold, cut=cut)

    async def _release(self, hold: Hold, within_s: float) -> Resolved:
        if not hold.attached:
            return await self._discard(hold, "its connection is gone")
        del self._holds[hold.id]
        hold.how = How.RELEASE
        hold.cell.phase(hold.rule, RulePhase.RELEASED, hold.carried, held=hold.id)
        self._conns.end_freeze(hold.freeze)
        hold.decided.set()
        forwarded = asyncio.create_task(hold.forwarded.wait())
        ended = asyncio.create_task(hold.conn.until_closed())
        await asyncio.wait(
            {forwarded, ended}, timeout=within_s, return_when=asyncio.FIRST_COMPLETED
        )
        forwarded.cancel()
        ended.cancel()
        reached = hold.forwarded.is_set()
        because = None if reached else f"it has not gone through within {within_s:g} s"
        return Resolved(hold.id, RulePhase.RELEASED, reached, because=because)

    async def _discard(self, hold: Hold, because: str | None) -> Resolved:
        del self._holds[hold.id]
        await self._end_frozen(hold)
        hold.cell.settle(hold.carried, reached=False)
        extra = {} if because is None else {"because": because}
        hold.cell.phase(hold.rule, RulePhase.DISCARDED, hold.carried, held=hold.id, **extra)
        return Resolved(hold.id, RulePhase.DISCARDED, reached=False, because=because)

    async def _deliver(self, hold: Hold, within_s: float) -> Resolved:
        if hold.carried.direction is Direction.RESPONSE:
            return await self._discard(hold, "a response has nobody left to go to")
        move = self._move(hold)
        await self._end_frozen(hold)
        hold.detached = True
        try:
            answer = await deliver(hold.conn, move, hold.carried, within_s=within_s)
        except DeliveryError as error:
            raise WireError(
                f"{hold.id} could not be delivered and is still held: {error}"
            ) from error
        self._holds.pop(hold.id, None)
        because = (
            None
            if answer.answered or hold.carried.frame.id is None
            else f"no answer within {within_s:g} s"
        )
        told = {"answered": answer.answered, "error": answer.error}
        hold.cell.phase(hold.rule, RulePhase.DELIVERED, hold.carried, held=hold.id, **told)
        return Resolved(
            hold.id,
            RulePhase.DELIVERED,
            reached=True,
            answered=answer.answered,
            error=answer.error,
            because=because,
        )

    def _move(self, hold: Hold) -> Move:
        """Return how a held frame can leave its connection.

        Raises:
            WireError: the frame cannot leave in this way.
        """
        carried = hold.carried
        if hold.rule.half:
            raise WireError(f"{hold.id} is half on its way: it can only go on in place")
        if carried.payload is None:
            raise WireError(
                f"{hold.id} is above the limit of {self._decode_limit} bytes: it can only go on "
                "in place"
            )
        move = carried.session.move(carried.frame, carried.payload)
        if isinstance(move, Immovable):
            raise WireError(f"{hold.id} {move.because}: it can only go on in place")
        return move

    async def _detach(self, hold: Hold, *, cut: bool) -> Resolved:
        self._move(hold)
        if hold.attached:
            hold.how = How.RELEASE_LATER
            hold.detached = True
            if cut:
                await self._conns.end((hold.conn,))
                hold.cell.phase(hold.rule, RulePhase.CUT, hold.carried, held=hold.id)
            hold.decided.set()
            self._conns.end_freeze(hold.freeze)
        hold.cell.phase(hold.rule, RulePhase.DETACHED, hold.carried, held=hold.id)
        return Resolved(hold.id, RulePhase.DETACHED, reached=False)

    async def _end_frozen(self, hold: Hold) -> None:
        """End the held frame's connection, unless it has left it, and everything frozen with it."""
        frozen = [
            conn
            for conn in self._conns
            if hold.freeze is not None and hold.freeze in conn.frozen_by
        ]
        await self._conns.end(frozen if hold.detached else {*frozen, hold.conn})
        # connections made meanwhile go on to the server that is there now
        self._conns.end_freeze(hold.freeze)
