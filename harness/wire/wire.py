"""The wire: what stands between the nodes, put together, and every verb of the control
connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
import traceback
from dataclasses import replace
from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.model.history import HistoryError, HistoryWriter
from harness.wire.cells import BY, Cells, base_of
from harness.wire.connection import Connection
from harness.wire.connections import Connections
from harness.wire.following import Following
from harness.wire.holds import Holds
from harness.wire.inside import Inside
from harness.wire.lane import carry
from harness.wire.messages import LOOPBACK, CellSummary, WireError
from harness.wire.protocol import NamesServers
from harness.wire.routes import Routes
from harness.wire.rules import Action, How
from harness.wire.sockets import connect, owner_of, port_of, tune
from harness.wire.spoken import Protocols, admit
from harness.wire.streams import Stream
from harness.wire.tls import make_ends

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from harness.model.events import Event
    from harness.model.identity import Identity
    from harness.wire.cell import FrameInFlight, WireCell
    from harness.wire.connection import Hold
    from harness.wire.messages import Route, RouteState, Traffic
    from harness.wire.protocol import Address
    from harness.wire.rules import Rule, RuleCounts
    from harness.wire.tls import Ends

LARGE_BYTES, SMALL_BYTES = 1 << 20, 1 << 18
"""Blocks for bytes that only pass through: a large one costs a third less per byte, small ones
bound what many hold.
"""
LARGE_BLOCKS = 8
DEFAULT_DECODE_LIMIT = 16 << 20


class Wire:
    """The proxy between all nodes. It has one event loop and one thread. ``push`` sends a message
    to the controlling program.
    """

    def __init__(
        self,
        directory: Path,
        run: Path,
        *,
        push: Callable[[dict[str, object]], None],
        decode_limit: int = DEFAULT_DECODE_LIMIT,
    ) -> None:
        self.decode_limit = decode_limit
        self.inside = Inside(run)
        """The folders below which the wire may read and write."""
        self.failure: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._push = push
        self._own = HistoryWriter(directory / "wire.jsonl", cell="", by=BY)
        self._numbers = itertools.count(1)
        self.conns = Connections()
        self.holding = Holds(self.conns, self._numbers, decode_limit=decode_limit)
        self.cells = Cells()
        self._routes = Routes(self.conns, self._own, self._serve)
        self._following = Following(self._routes)
        self._protocols = Protocols()
        self._ends: dict[str, Ends] = {}
        """By the route's name. A route to a server that an answer has named has none."""
        self._large = [memoryview(bytearray(LARGE_BYTES)) for _ in range(LARGE_BLOCKS)]
        self._small: list[memoryview] = []

    # -- what connections ask ----------------------------------------------------------------------

    def cell_of(self, client: str, route: Route) -> WireCell | None:
        """Return the cell a client belongs to."""
        return self.cells.of_client(client, route)

    def process_of(self, client: str, route: Route | None = None) -> str:
        """Return what names the process behind a client id."""
        return self.cells.process_of(client, route)

    def freeze_newcomer(self, conn: Connection) -> None:
        """Apply to a connection, whose client has just become known, the freezes that cover it."""
        self.conns.freeze_newcomer(conn)

    def hold(self, carried: FrameInFlight, cell: WireCell, rule: Rule, conn: Connection) -> Hold:
        """Register a held frame and apply the freeze of its rule, with nothing in between."""
        return self.holding.hold(carried, cell, rule, conn)

    def note(self, cell: WireCell | None, event: Event) -> None:
        """Write a line to the cell's history, or without a cell to the wire's own history."""
        if cell is not None:
            cell.write(event)
        else:
            self._own.write(event)

    async def follow(self, route: Route, servers: Mapping[int, Address]) -> dict[int, Address]:
        """Return the wire's own address for each server that an answer has named."""
        return await self._following.follow(route, servers)

    @contextlib.contextmanager
    def scratch(self) -> Iterator[memoryview]:
        """Lend a buffer for bytes that are forwarded without being read. As many exist as were ever
        lent at once.
        """
        free = self._large or self._small
        block = free.pop() if free else memoryview(bytearray(SMALL_BYTES))
        try:
            yield block
        finally:
            (self._large if len(block) == LARGE_BYTES else self._small).append(block)

    # -- routes ------------------------------------------------------------------------------------

    async def add_route(self, route: Route) -> RouteState:
        """Listen for one (node, role). The port is the one asked for, or a free one.

        Raises:
            WireError: there is such a route, or its protocol cannot do what it asks for.
        """
        self._routes.must_be_new(route.name)
        for file in route.files():
            self.inside.path(file)
        protocol = self._protocols.of(route)
        if route.follows and not isinstance(protocol.session(0, limit=0), NamesServers):
            raise WireError(f"route {route.name}: no answer of {route.protocol} names a server")
        if route.tls is not None:
            self._ends[route.name] = make_ends(route.tls)
        if route.users:
            admit(protocol, route)
        return await self._routes.add(route)

    def _ends_of(self, route: Route) -> Ends | None:
        """Return how TLS ends on a route. One to a server that an answer has named takes it from
        the route that the answer came by; its certificate has a name of its own.
        """
        ends = self._ends.get(base_of(route.name))
        return None if ends is None or route.tls is None else replace(ends, name=route.tls.name)

    async def open_route(self, name: str) -> RouteState:
        """Listen again, on the same port."""
        return await self._routes.open(name)

    async def close_route(self, name: str) -> RouteState:
        """Stop listening, so that new connections are refused, and cut the open ones."""
        return await self._routes.close(name)

    async def remove_route(self, name: str) -> None:
        """Close a route and forget it."""
        await self._routes.remove(name)
        for each in [other for other in self._ends if other not in self._routes]:
            del self._ends[each]

    def routes(self) -> list[RouteState]:
        """Return the state of every route."""
        return self._routes.states()

    async def _serve(self, route: Route, sock: socket.socket) -> None:
        """Run one connection to its end. A history that cannot be written ends the wire; our own
        fault voids cells.
        """
        number, client, ends = next(self._numbers), Stream(sock), self._ends_of(route)
        at_once = ends if ends is not None and ends.at_once else None
        upstream = None
        try:
            tune(sock)
            route = await self._detoured(route, client, at_once)
            upstream = await connect(route.upstream_host, route.upstream_port)
            if at_once is not None:
                await upstream.speak_tls(at_once)
                if not client.secured:
                    await client.serve_tls(at_once)
            conn = Connection(
                self, number, route, self._protocols.of(route), port_of(sock), ends=ends
            )
            await self._join(conn, client, upstream)
        except OSError as error:  # the broker refuses, and so do we, or they do not agree on TLS
            self._refused(route, number, str(error))
            client.reset()
        except HistoryError as error:
            self.fail(str(error))
        finally:
            for stream in (client, upstream):
                if stream is not None:
                    stream.close()

    async def _detoured(self, route: Route, client: Stream, at_once: Ends | None) -> Route:
        """Return the route by which this client's cell reaches the broker. The client's first
        request is read before, because it names the cell.
        """
        if not any(route.name in cell.detours for cell in self.cells):
            return route
        cell = self.cells.of_route(route.name)
        if cell is None:
            if at_once is not None:
                await client.serve_tls(at_once)
            session = self._protocols.of(route).session(0, limit=self.decode_limit)
            cell = self.cell_of(await owner_of(client, session), route)
        detour = cell.detours.get(route.name) if cell is not None else None
        return (
            route
            if detour is None
            else replace(route, upstream_host=detour[0], upstream_port=detour[1])
        )

    def _refused(self, route: Route, number: int, because: str) -> None:
        try:
            self.cells.say_refused(route, number, because)
        except HistoryError as error:
            self.fail(str(error))

    async def _join(self, conn: Connection, client: Stream, upstream: Stream) -> None:
        self.conns.add(conn)
        try:
            await carry(self, conn, client, upstream)
        except HistoryError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the cells it touches prove nothing
            traceback.print_exception(error, file=sys.stderr)
            because = (
                f"the wire failed inside connection {conn.id}: {type(error).__name__}: {error}"
            )
            for cell in (conn.cell,) if conn.cell else tuple(self.cells):
                cell.write(kinds.Failed(because=because))
        finally:
            self.conns.remove(conn)

    def fail(self, because: str) -> None:
        """End the wire, because its histories can no longer be trusted."""
        if not self.failure.done():
            self._push({"push": "failed", "because": f"the wire ended: {because}"})
            self.failure.set_result(because)

    # -- cells and rules ---------------------------------------------------------------------------

    def open_cell(
        self,
        cell_id: str,
        key: str,
        history_path: Path,
        topics: Mapping[str, str],
        *,
        routes: Iterable[str] = (),
        identity: Identity | None = None,
        reads: bool = True,
    ) -> None:
        """Send what belongs to a cell to its own history. ``topics`` maps topic names to their ids,
        as far as known.

        ``identity`` says where its records carry their ids, where they are not of our own format.
        Unless it ``reads``, only the headers of frames are looked at.
        """
        claimed = frozenset(routes)
        self.cells.check(cell_id, key, claimed)
        for name in claimed:
            self._routes.listener(name)
        self._protocols.learn(topics)
        self.cells.open(cell_id, key, history_path, claimed, identity, reads=reads)

    async def close_cell(self, cell_id: str) -> CellSummary:
        """Discard a cell's held frames, disarm its rules, and close its history."""
        cell = self.cells.get(cell_id)
        left = self.holding.of(cell)
        for name in left:
            await self.holding.resolve(name, How.DISCARD)
        self.cells.close(cell)
        return CellSummary(cell_id, cell.frames, tuple(left))

    def arm(self, cell_id: str, rule: Rule) -> None:
        """Arm a rule in a cell.

        Raises:
            RuleError: the rule would give an answer that no broker gives.
        """
        cell = self.cells.get(cell_id)
        if rule.action is Action.ANSWER:
            step = str(rule.api)
            rule.check_error(step, self._protocols.errors(step))
        cell.arm(rule)

    def disarm(self, cell_id: str, rule_id: str) -> RuleCounts:
        """Disarm a rule. Its held frames stay held."""
        return self.cells.get(cell_id).disarm(rule_id).counts

    def counts(self, cell_id: str, rule_id: str) -> RuleCounts:
        """Return the counts of a rule so far."""
        return self.cells.get(cell_id).rule(rule_id).counts

    def detour(
        self, cell_id: str, route: str, upstream_port: int | None, upstream_host: str = LOOPBACK
    ) -> None:
        """Let the cell's new connections over a route reach the broker through another port; None
        ends that.
        """
        cell = self.cells.get(cell_id)
        self._routes.listener(route)
        if upstream_port is None:
            cell.detours.pop(route, None)
        else:
            cell.detours[route] = (upstream_host, upstream_port)

    def traffic(self, cell_id: str, role: str, *, restart: bool = False) -> Traffic:
        """Return the traffic of a role; see :meth:`Connections.traffic`."""
        return self.conns.traffic(self.cells.get(cell_id), role, restart=restart)

    # -- end ---------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Close every route and connection. Frames that are still held are discarded and logged."""
        self._routes.deafen()
        with contextlib.suppress(HistoryError):
            for cell in self.cells:
                await self.close_cell(cell.id)
        await self.conns.end(tuple(self.conns))
        await self._routes.end()
        self._own.close()
