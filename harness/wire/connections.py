"""All open connections, and the verbs for many of them: freeze, cut."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.wire.messages import WireError
from harness.wire.rules import FreezeScope, is_prefix

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from harness.wire.cell import WireCell
    from harness.wire.connection import Connection
    from harness.wire.messages import Traffic


@dataclass(frozen=True, slots=True)
class Freeze:
    """A freeze: it covers all connections of one client incarnation, or those of a cell to one
    broker node.
    """

    id: str
    scope: FreezeScope
    target: str
    cell: WireCell

    def covers(self, conn: Connection) -> bool:
        """Return whether the freeze covers a connection."""
        if self.scope is FreezeScope.NODE:
            return conn.route.node == self.target and conn.cell is self.cell
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
    """The open connections, by number."""

    def __init__(self) -> None:
        self._live: dict[int, Connection] = {}
        self._freezes: dict[str, Freeze] = {}

    def __iter__(self) -> Iterator[Connection]:
        return iter(self._live.values())

    def add(self, conn: Connection) -> None:
        """Add a connection, and apply the freezes that cover it."""
        self._live[conn.id] = conn
        self.freeze_newcomer(conn)

    def remove(self, conn: Connection) -> None:
        """Remove a closed connection."""
        self._live.pop(conn.id, None)

    def freeze_newcomer(self, conn: Connection) -> None:
        """Apply to a connection, whose client has just become known, the freezes that cover it."""
        for freeze in self._freezes.values():
            if freeze.covers(conn):
                conn.freeze(freeze.id)

    def start_freeze(self, name: str, scope: FreezeScope, target: str, cell: WireCell) -> Freeze:
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
