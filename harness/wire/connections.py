"""All open connections, and the verbs for many of them: freeze, black hole, delay, cut."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.wire.messages import Frozen, WireError
from harness.wire.rules import FreezeScope, is_prefix

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from harness.wire.cell import WireCell
    from harness.wire.connection import Connection
    from harness.wire.messages import Traffic
    from harness.wire.rules import Direction


@dataclass(frozen=True, slots=True)
class Freeze:
    """A freeze: it covers all connections of one client incarnation, or those of a cell to one
    broker node.

    Without a ``cell`` it covers every connection to the node.
    """

    id: str
    scope: FreezeScope
    target: str
    cell: WireCell | None = None

    def covers(self, conn: Connection) -> bool:
        """Return whether the freeze covers a connection."""
        if self.scope is FreezeScope.NODE:
            return conn.route.node == self.target and self.cell in (None, conn.cell)
        return bool(conn.process) and conn.process == self.target


@dataclass(frozen=True, slots=True)
class Selection:
    """Selects connections by client prefix, role and node. A field that is None matches all."""

    client: str | None = None
    role: str | None = None
    node: str | None = None

    def __post_init__(self) -> None:
        if self.client is None and self.role is None and self.node is None:
            raise WireError("say which connections: client, role or node")

    def covers(self, conn: Connection) -> bool:
        """Return whether the selection matches a connection."""
        return (
            (self.client is None or is_prefix(self.client, conn.client))
            and (self.role is None or self.role == conn.route.role)
            and (self.node is None or self.node == conn.route.node)
        )


class Connections:
    """The open connections, by number. Each new freeze gets a number of ``numbers``."""

    def __init__(self, numbers: Iterator[int]) -> None:
        self._numbers = numbers
        self._live: dict[int, Connection] = {}
        self._freezes: dict[str, Freeze] = {}
        self._dark: dict[tuple[Selection, Direction], None] = {}
        self._delays: dict[tuple[Selection, Direction], float] = {}

    def __iter__(self) -> Iterator[Connection]:
        return iter(self._live.values())

    def add(self, conn: Connection) -> None:
        """Add a connection, and apply the freezes that cover it."""
        self._live[conn.id] = conn
        self.freeze_newcomer(conn)

    def remove(self, conn: Connection) -> None:
        """Remove a closed connection."""
        self._live.pop(conn.id, None)

    def is_dark(self, conn: Connection, direction: Direction) -> bool:
        """Say whether a black hole swallows this direction."""
        return bool(self._dark) and any(
            way is direction and which.covers(conn) for which, way in self._dark
        )

    def delay_of(self, conn: Connection, direction: Direction) -> float:
        """Return the standing delay of a direction, in seconds."""
        if not self._delays:
            return 0.0
        return sum(
            s for (which, way), s in self._delays.items() if way is direction and which.covers(conn)
        )

    def freeze_newcomer(self, conn: Connection) -> None:
        """Apply to a connection, whose client has just become known, the freezes that cover it."""
        for freeze in self._freezes.values():
            if freeze.covers(conn):
                conn.freeze(freeze.id)

    def freeze(self, scope: FreezeScope, target: str) -> Frozen:
        """Stop the connections of a process, or to a broker, until :meth:`thaw`."""
        freeze = self.start_freeze(f"f{next(self._numbers)}", scope, target)
        return Frozen(freeze.id, sum(freeze.id in conn.frozen_by for conn in self))

    def thaw(self, freeze: str) -> Frozen:
        """End a freeze that no rule has begun.

        Raises:
            WireError: there is no such freeze.
        """
        if freeze not in self._freezes:
            raise WireError(f"there is no freeze {freeze}")
        count = sum(freeze in conn.frozen_by for conn in self)
        self.end_freeze(freeze)
        return Frozen(freeze, count)

    def start_freeze(
        self, name: str, scope: FreezeScope, target: str, cell: WireCell | None = None
    ) -> Freeze:
        """Stop the connections that the freeze covers, and those that are opened later."""
        freeze = self._freezes[name] = Freeze(name, scope, target, cell)
        for conn in self:
            if freeze.covers(conn):
                conn.freeze(name)
        return freeze

    def end_freeze(self, name: str | None) -> None:
        """End the freeze."""
        if name is None:
            return
        self._freezes.pop(name, None)
        for conn in self:
            conn.thaw(name)

    def traffic(self, cell: WireCell, role: str, *, restart: bool) -> Traffic:
        """Return the traffic of one role of a cell since the last ``restart``. With ``restart``,
        count from now on.
        """
        meter = cell.meter(role)
        mine = [
            conn for conn in self if conn.alive and conn.cell is cell and conn.route.role == role
        ]
        for conn in mine:
            conn.tell_waits(meter)
        live = [conn.traffic() for conn in mine]
        found = meter.read(live)
        if restart:
            meter.restart(asyncio.get_running_loop().time(), live)
        return found

    async def cut(self, which: Selection) -> int:
        """Close the selected connections, and return their number."""
        return await self.end(conn for conn in self if which.covers(conn))

    async def end(self, conns: Iterable[Connection]) -> int:
        """Close these connections, and return how many of them were open."""
        meant = [conn for conn in conns if conn.alive]
        for conn in meant:
            conn.cut()
        for conn in meant:
            await conn.until_over()
        return len(meant)

    async def black_hole(self, which: Selection, direction: Direction, *, on: bool) -> int:
        """Discard all bytes of a direction, or stop this and cut the connections that lost bytes.
        Return the number of connections.

        Raises:
            WireError: one is to end that is not there.
        """
        if on:
            self._dark[which, direction] = None
            return sum(which.covers(conn) for conn in self)
        if self._dark.pop((which, direction), self) is self:
            raise WireError("there is no such black hole")
        return await self.end(
            conn for conn in self if which.covers(conn) and conn.flows[direction].swallowed
        )

    def delay(self, which: Selection, direction: Direction, seconds: float) -> None:
        """Delay every frame of a direction; 0 ends the delay."""
        if seconds > 0:
            self._delays[which, direction] = seconds
        else:
            self._delays.pop((which, direction), None)
