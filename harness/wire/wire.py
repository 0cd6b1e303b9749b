"""The wire: its routes, cells, holds and freezes, and every verb of the control connection."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import sys
import traceback
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from harness.core import events as kinds
from harness.core.history import HistoryError, HistoryWriter
from harness.core.waiting import POLL_S
from harness.wire import codec, frames
from harness.wire.cell import Frame, WireCell
from harness.wire.connection import Connection, Lane, reset
from harness.wire.database import DatabaseLane
from harness.wire.delivery import DeliveryError, deliver
from harness.wire.messages import LOOPBACK, CellSummary, Frozen, Held, Resolved, Route, RouteState, Traffic, WireError
from harness.wire.rules import Direction, FreezeScope, How, Rule, RuleCounts, is_prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from harness.core.identity import Identity

BY = "wire"
BACKLOG = 512
LARGE_BYTES, SMALL_BYTES = 1 << 20, 1 << 18
"""Blocks for bytes that only pass through: a large one costs a third less per byte, small ones bound what many hold."""
LARGE_BLOCKS = 8
BIND_WITHIN_S = 5.0
PEEK_BYTES = 512
CONNECT_WITHIN_S = 10.0
DEFAULT_DECODE_LIMIT = 16 << 20
_INCARNATION_WORDS = 3
LANES: dict[str, type[Lane]] = {"kafka": Lane, "postgres": DatabaseLane}
"""How each protocol is read."""


@dataclass(slots=True, eq=False)
class Hold:
    """A frame that stands still until somebody says what becomes of it."""

    id: str
    frame: Frame
    cell: WireCell
    rule: Rule
    conn: Connection
    freeze: str | None
    decided: asyncio.Event = field(default_factory=asyncio.Event)
    forwarded: asyncio.Event = field(default_factory=asyncio.Event)
    how: How | None = None
    detached: bool = False

    @property
    def attached(self) -> bool:
        """Whether its connection still lives and waits for it."""
        return self.conn.alive and not self.detached


@dataclass(frozen=True, slots=True)
class Freeze:
    """What stands still: everything of one client incarnation, or what a cell has to do with one broker node.

    Without a ``cell`` it is everything that anybody has to do with the node.
    """

    id: str
    scope: FreezeScope
    target: str
    cell: WireCell | None = None

    def covers(self, conn: Connection) -> bool:
        """Whether a connection stands still under this."""
        if self.scope is FreezeScope.NODE:
            return conn.route.node == self.target and self.cell in (None, conn.cell)
        return bool(conn.process) and conn.process == self.target


@dataclass(frozen=True, slots=True)
class Selection:
    """Which connections a verb means: by client prefix, role and node; what is None matches anything."""

    client: str | None = None
    role: str | None = None
    node: str | None = None

    def __post_init__(self) -> None:
        if self.client is None and self.role is None and self.node is None:
            raise WireError("say which connections: client, role or node")

    def covers(self, conn: Connection) -> bool:
        """Whether a connection is meant."""
        return (
            (self.client is None or is_prefix(self.client, conn.client))
            and (self.role is None or self.role == conn.route.role)
            and (self.node is None or self.node == conn.route.node)
        )


@dataclass(slots=True)
class Listener:
    """A route at work."""

    route: Route
    sock: socket.socket | None = None
    task: asyncio.Task[None] | None = None

    def state(self, connections: int) -> RouteState:
        """Return what can be told about it."""
        route, listening = self.route, self.sock is not None
        ports = (route.listen_port, route.upstream_port)
        return RouteState(route.name, route.node, route.role, *ports, listening, connections)


def incarnation(client: str) -> str:
    """Return the part of a client id of ours that names one process: ``<cell key>.<role>.<incarnation>``.

    >>> incarnation("3f9a2c1d.processor.2-restore-consumer"), incarnation("3f9a2c1d.processor.2")
    ('3f9a2c1d.processor.2', '3f9a2c1d.processor.2')
    """
    words = client.split(".", _INCARNATION_WORDS)
    if len(words) < _INCARNATION_WORDS:
        return client
    last = words[_INCARNATION_WORDS - 1]
    end = next((at for at, char in enumerate(last) if not char.isalnum()), len(last))
    return ".".join((*words[: _INCARNATION_WORDS - 1], last[:end]))


class Wire:
    """Everything between the nodes. One event loop, one thread. ``push`` sends a message to whoever controls it."""

    def __init__(
        self, directory: Path, *, push: Callable[[dict[str, Any]], None], decode_limit: int = DEFAULT_DECODE_LIMIT
    ) -> None:
        self.decode_limit = decode_limit
        self.names: dict[str, str] = {}
        self.failure: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._push = push
        self._directory = directory
        self._own = HistoryWriter(directory / "wire.jsonl", cell="", by=BY)
        self._listeners: dict[str, Listener] = {}
        self._cells: dict[str, WireCell] = {}
        self._by_key: dict[str, WireCell] = {}
        self._by_route: dict[str, WireCell] = {}
        self._conns: dict[int, Connection] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._holds: dict[str, Hold] = {}
        self._freezes: dict[str, Freeze] = {}
        self._dark: dict[tuple[Selection, Direction], None] = {}
        self._delays: dict[tuple[Selection, Direction], float] = {}
        self._numbers = itertools.count(1)
        self._large = [memoryview(bytearray(LARGE_BYTES)) for _ in range(LARGE_BLOCKS)]
        self._small: list[memoryview] = []

    # -- what connections ask ---------------------------------------------------------------------------------------

    def cell_of(self, client: str, route: Route) -> WireCell | None:
        """Return the cell a client belongs to: by its route where that is claimed, else by the first word of its id."""
        if not self._cells:
            return None
        return self._by_key.get(client.partition(".")[0]) or self._by_route.get(route.name)

    def process_of(self, client: str, route: Route | None = None) -> str:
        """Return what names the process behind a client id; of a foreign client that is the whole of it.

        Over a route that a cell has claimed it is the route: a foreign program may have several clients, which die together.
        """
        if route is not None and route.name in self._by_route:
            return f"route {route.name}"
        return incarnation(client) if client.partition(".")[0] in self._by_key else client

    def is_dark(self, conn: Connection, direction: Direction) -> bool:
        """Whether a black hole swallows this direction."""
        return bool(self._dark) and any(way is direction and which.covers(conn) for which, way in self._dark)

    def delay_of(self, conn: Connection, direction: Direction) -> float:
        """Return the standing delay of a direction, in seconds."""
        if not self._delays:
            return 0.0
        return sum(s for (which, way), s in self._delays.items() if way is direction and which.covers(conn))

    def freeze_newcomer(self, conn: Connection) -> None:
        """Let a connection that has just become known share the freezes it falls under."""
        for freeze in self._freezes.values():
            if freeze.covers(conn):
                conn.freeze(freeze.id)

    def note(self, cell: WireCell | None, kind: str, **fields: object) -> None:
        """Write to the cell's history, or to the wire's own where the connection is of no cell."""
        if cell is not None:
            cell.write(kind, **fields)
        else:
            self._own.write(kind, **fields)

    def hold(self, frame: Frame, cell: WireCell, rule: Rule, conn: Connection) -> Hold:
        """Register a held frame, and freeze what its rule says, in this very instant."""
        name = f"h{next(self._numbers)}"
        freeze = None
        if rule.freeze is not None:
            target = conn.route.node if rule.freeze is FreezeScope.NODE else conn.process
            freeze = self._start_freeze(name, rule.freeze, target, cell).id
        hold = Hold(name, frame, cell, rule, conn, freeze)
        self._holds[name] = hold
        return hold

    @contextlib.contextmanager
    def scratch(self) -> Iterator[memoryview]:
        """Lend a block of memory for bytes that only pass through; as many exist as were ever lent at once."""
        free = self._large or self._small
        block = free.pop() if free else memoryview(bytearray(SMALL_BYTES))
        try:
            yield block
        finally:
            (self._large if len(block) == LARGE_BYTES else self._small).append(block)

    # -- routes -----------------------------------------------------------------------------------------------------

    async def add_route(self, route: Route) -> RouteState:
        """Listen for one (node, role). The port is the one asked for, or a free one."""
        if route.name in self._listeners:
            raise WireError(f"there is a route {route.name} already")
        if route.protocol not in LANES:
            raise WireError(f"route {route.name}: the wire does not read {route.protocol}")
        listener = Listener(route)
        await self._listen(listener)
        self._listeners[route.name] = listener
        return listener.state(0)

    async def open_route(self, name: str) -> RouteState:
        """Listen again, on the same port."""
        listener = self._listener(name)
        if listener.sock is None:
            await self._listen(listener)
        return self._state(listener)

    async def close_route(self, name: str) -> RouteState:
        """Listen no more, so that connections are refused, and cut those there are."""
        listener = self._listener(name)
        self._deafen(listener)
        await self._cut(conn for conn in self._conns.values() if conn.route.name == name)
        return self._state(listener)

    async def remove_route(self, name: str) -> None:
        """Close a route and forget it."""
        await self.close_route(name)
        del self._listeners[name]

    def routes(self) -> list[RouteState]:
        """Return all routes as they are."""
        return [self._state(listener) for listener in self._listeners.values()]

    def _listener(self, name: str) -> Listener:
        try:
            return self._listeners[name]
        except KeyError:
            raise WireError(f"there is no route {name}") from None

    def _state(self, listener: Listener) -> RouteState:
        return listener.state(sum(conn.route.name == listener.route.name for conn in self._conns.values()))

    async def _listen(self, listener: Listener) -> None:
        route = listener.route
        sock = await _bind(route.listen_host, route.listen_port)
        port: int = sock.getsockname()[1]
        listener.route = replace(route, listen_port=port)
        listener.sock = sock
        listener.task = asyncio.create_task(self._accept(listener.route, sock))
        self._own.write("route", phase="open", route=route.name, node=route.node, role=route.role, port=port)

    def _deafen(self, listener: Listener) -> None:
        if listener.task is not None:
            listener.task.cancel()
        if listener.sock is not None:
            listener.sock.close()
            self._own.write("route", phase="closed", route=listener.route.name)
        listener.sock = listener.task = None

    async def _accept(self, route: Route, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, _ = await loop.sock_accept(sock)
            except OSError as error:  # no descriptor is free, or the client has gone again: the listener must live on
                self._own.write("route", phase="accept-failed", route=route.name, because=str(error))
                await asyncio.sleep(POLL_S)
                continue
            task = asyncio.create_task(self._serve(route, client))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve(self, route: Route, client: socket.socket) -> None:
        """Run one connection to its end. A history that cannot be written ends the wire; our own fault voids cells."""
        number = next(self._numbers)
        try:
            route = await self._detoured(route, client)
            upstream = await self._reach(route, client, number)
            if upstream is not None:
                await self._join(Connection(self, number, route, client, upstream, lane=LANES[route.protocol]))
        except HistoryError as error:
            self.fail(str(error))

    async def _detoured(self, route: Route, client: socket.socket) -> Route:
        """Return the route by which this client's cell reaches the broker; to know the cell its first request is peeked at."""
        if not any(route.name in cell.detours for cell in self._cells.values()):
            return route
        try:
            cell = self._by_route.get(route.name) or self.cell_of(await _first_client_id(client), route)
        except asyncio.CancelledError:
            client.close()
            raise
        detour = cell.detours.get(route.name) if cell is not None else None
        return route if detour is None else replace(route, upstream_host=detour[0], upstream_port=detour[1])

    async def _reach(self, route: Route, client: socket.socket, number: int) -> socket.socket | None:
        """Connect to the broker; where it refuses, so do we, at once."""
        try:
            _tune(client)
            return await _connect(route.upstream_host, route.upstream_port)
        except OSError as error:
            reset(client)
            fields = {"conn": number, "role": route.role, "node": route.node, "client": ""}
            claimed = self._by_route.get(route.name)
            for cell in (claimed,) if claimed else tuple(self._cells.values()):  # nobody knows yet whose it is
                cell.write("conn", phase="refused", because=str(error), **fields)
            return None
        except asyncio.CancelledError:
            client.close()
            raise

    async def _join(self, conn: Connection) -> None:
        self._conns[conn.id] = conn
        self.freeze_newcomer(conn)
        try:
            await conn.run()
        except HistoryError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the cells it touches prove nothing
            traceback.print_exception(error, file=sys.stderr)
            because = f"the wire failed inside connection {conn.id}: {type(error).__name__}: {error}"
            for cell in (conn.cell,) if conn.cell else tuple(self._cells.values()):
                cell.write(kinds.FAILED, because=because)
        finally:
            self._conns.pop(conn.id, None)

    def fail(self, because: str) -> None:
        """End the wire: nothing it says can be trusted any more."""
        if not self.failure.done():
            self._push({"push": "failed", "because": f"the wire ended: {because}"})
            self.failure.set_result(because)

    # -- cells and rules --------------------------------------------------------------------------------------------

    def open_cell(
        self,
        cell_id: str,
        key: str,
        history_path: Path,
        topics: Mapping[str, str],
        *,
        routes: Iterable[str] = (),
        identity: Identity | None = None,
    ) -> None:
        """Send what belongs to a cell to its own history. ``topics`` maps topic names to their ids, as far as known.

        ``identity`` says where its records carry their ids, where they are not of our own format.
        """
        if not key or "." in key:
            raise WireError(f"{key!r} cannot be a cell key: client ids are split at the first dot")
        if cell_id in self._cells or key in self._by_key:
            raise WireError(f"cell {cell_id} (key {key}) is open already")
        claimed = frozenset(routes)
        if taken := sorted(claimed & self._by_route.keys()):
            raise WireError(f"route {taken[0]} belongs to another cell")
        for name in claimed:
            self._listener(name)
        self.learn(topics)
        try:
            writer = HistoryWriter(history_path, cell=cell_id, by=BY)
        except HistoryError as error:
            raise WireError(str(error)) from error
        cell = WireCell(cell_id, key, routes=claimed, writer=writer, names=self.names, identity=identity)
        self._cells[cell_id] = self._by_key[key] = cell
        self._by_route.update(dict.fromkeys(claimed, cell))

    def learn(self, topics: Mapping[str, str]) -> None:
        """Take note of topic ids (name to id)."""
        try:
            self.names.update({codec.topic_id_name(topic_id): name for name, topic_id in topics.items()})
        except codec.UndecodableError as error:
            raise WireError(str(error)) from error

    async def close_cell(self, cell_id: str) -> CellSummary:
        """Discard what is held of a cell, disarm its rules, end its history."""
        cell = self._cell(cell_id)
        left = [hold.id for hold in self._holds.values() if hold.cell is cell]
        for name in left:
            await self.resolve(name, How.DISCARD)
        cell.close()
        del self._cells[cell_id]
        del self._by_key[cell.key]
        for name in cell.routes:
            del self._by_route[name]
        return CellSummary(cell_id, cell.frames, tuple(left))

    def arm(self, cell_id: str, rule: Rule) -> None:
        """Put a rule to work in a cell."""
        self._cell(cell_id).arm(rule)

    def disarm(self, cell_id: str, rule_id: str) -> RuleCounts:
        """Take a rule away; what it holds stays held."""
        return self._cell(cell_id).disarm(rule_id).counts

    def counts(self, cell_id: str, rule_id: str) -> RuleCounts:
        """Return what a rule has met so far."""
        return self._cell(cell_id).rule(rule_id).counts

    def detour(self, cell_id: str, route: str, upstream_port: int | None, upstream_host: str = LOOPBACK) -> None:
        """Let the cell's new connections over a route reach the broker through another port; None ends that."""
        cell = self._cell(cell_id)
        self._listener(route)
        if upstream_port is None:
            cell.detours.pop(route, None)
        else:
            cell.detours[route] = (upstream_host, upstream_port)

    def traffic(self, cell_id: str, role: str, *, restart: bool = False) -> Traffic:
        """Return what has passed for one role of a cell since the last ``restart``; count from here on where that is set."""
        cell = self._cell(cell_id)
        meter = cell.meter(role)
        conns = [conn for conn in self._conns.values() if conn.alive and conn.cell is cell and conn.route.role == role]
        for conn in conns:
            conn.tell_waits(meter)
        live = [conn.traffic() for conn in conns]
        found = meter.read(live)
        if restart:
            meter.restart(asyncio.get_running_loop().time(), live)
        return found

    def _cell(self, cell_id: str) -> WireCell:
        try:
            return self._cells[cell_id]
        except KeyError:
            raise WireError(f"there is no open cell {cell_id}") from None

    # -- holds ------------------------------------------------------------------------------------------------------

    def holds(self) -> list[Held]:
        """Return what is still held."""
        return [
            Held(
                held=hold.id,
                rule=hold.rule.id,
                cell=hold.cell.id,
                conn=hold.conn.id,
                dir=hold.frame.direction,
                api=hold.frame.api_name,
                client=hold.frame.client,
                attached=hold.attached,
                records=tuple(sorted(hold.frame.insight.subject.records)),
            )
            for hold in self._holds.values()
        ]

    async def resolve(self, held: str, how: How, *, cut: bool = True, within_s: float = 10.0) -> Resolved:
        """Say what becomes of a held frame (see :class:`~harness.wire.rules.How`).

        ``cut`` belongs to ``release-later``: whether the connection ends or goes on without the frame. ``within_s``
        bounds the wait for forwarding, and for the answer of a delivery.
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

    async def resolve_all(self, how: How = How.RELEASE, *, within_s: float = 10.0) -> list[Resolved]:
        """Resolve whatever is still held; what has no connection to be released on is discarded."""
        results = []
        for hold in tuple(self._holds.values()):
            way = How.DISCARD if how is How.RELEASE and not hold.attached else how
            results.append(await self.resolve(hold.id, way, within_s=within_s))
        return results

    async def _release(self, hold: Hold, within_s: float) -> Resolved:
        if not hold.attached:
            return await self._discard(hold, "its connection is gone")
        del self._holds[hold.id]
        hold.how = How.RELEASE
        hold.cell.phase(hold.rule, "released", hold.frame, held=hold.id)
        self._end_freeze(hold.freeze)
        hold.decided.set()
        forwarded = asyncio.create_task(hold.forwarded.wait())
        ended = asyncio.create_task(hold.conn.until_closed())
        await asyncio.wait({forwarded, ended}, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        forwarded.cancel()
        ended.cancel()
        reached = hold.forwarded.is_set()
        because = None if reached else f"it has not gone through within {within_s:g} s"
        return Resolved(hold.id, "released", reached, because=because)

    async def _discard(self, hold: Hold, because: str | None) -> Resolved:
        del self._holds[hold.id]
        await self._end_frozen(hold)
        hold.cell.settle(hold.frame, reached=False)
        extra = {} if because is None else {"because": because}
        hold.cell.phase(hold.rule, "discarded", hold.frame, held=hold.id, **extra)
        return Resolved(hold.id, "discarded", reached=False, because=because)

    async def _deliver(self, hold: Hold, within_s: float) -> Resolved:
        if hold.frame.direction is Direction.RESPONSE:
            return await self._discard(hold, "a response has nobody left to go to")
        self._must_be_movable(hold)
        await self._end_frozen(hold)
        hold.detached = True
        try:
            answer = await deliver(hold.conn.route, hold.frame, hold.cell, within_s)
        except DeliveryError as error:
            raise WireError(f"{hold.id} could not be delivered and is still held: {error}") from error
        self._holds.pop(hold.id, None)
        because = None if answer.answered or hold.frame.unanswered else f"no answer within {within_s:g} s"
        told = {"answered": answer.answered, "error": answer.error}
        hold.cell.phase(hold.rule, "delivered", hold.frame, held=hold.id, **told)
        return Resolved(hold.id, "delivered", True, answer.answered, answer.error, because)  # noqa: FBT003 - reached

    def _must_be_movable(self, hold: Hold) -> None:
        """Raise WireError where a held frame cannot leave its connection."""
        if hold.conn.route.protocol != "kafka":
            raise WireError(f"{hold.id} belongs to its connection, as a transaction does: it can only go on in place")
        if hold.frame.payload is None:
            raise WireError(f"{hold.id} is above the limit of {self.decode_limit} bytes: it can only go on in place")

    async def _detach(self, hold: Hold, *, cut: bool) -> Resolved:
        self._must_be_movable(hold)
        if hold.attached:
            hold.how = How.RELEASE_LATER
            hold.detached = True
            if cut:
                await self._cut((hold.conn,))
                hold.cell.phase(hold.rule, "cut", hold.frame, held=hold.id)
            hold.decided.set()
            self._end_freeze(hold.freeze)
        hold.cell.phase(hold.rule, "detached", hold.frame, held=hold.id)
        return Resolved(hold.id, "detached", reached=False)

    async def _end_frozen(self, hold: Hold) -> None:
        """End the held frame's connection, unless it has left it, and everything frozen with it."""
        frozen = [conn for conn in self._conns.values() if hold.freeze is not None and hold.freeze in conn.frozen_by]
        await self._cut(frozen if hold.detached else {*frozen, hold.conn})
        self._end_freeze(hold.freeze)  # who came meanwhile goes on, to whatever is there now

    # -- direct verbs -----------------------------------------------------------------------------------------------

    def freeze(self, scope: FreezeScope, target: str) -> Frozen:
        """Let a client's or a broker's connections stand still until :meth:`thaw`."""
        name = target if scope is FreezeScope.NODE else self.process_of(target)
        freeze = self._start_freeze(f"f{next(self._numbers)}", scope, name)
        return Frozen(freeze.id, sum(freeze.id in conn.frozen_by for conn in self._conns.values()))

    def thaw(self, freeze: str) -> Frozen:
        """End a freeze begun by hand."""
        if freeze not in self._freezes:
            raise WireError(f"there is no freeze {freeze}")
        count = sum(freeze in conn.frozen_by for conn in self._conns.values())
        self._end_freeze(freeze)
        return Frozen(freeze, count)

    def _start_freeze(self, name: str, scope: FreezeScope, target: str, cell: WireCell | None = None) -> Freeze:
        freeze = self._freezes[name] = Freeze(name, scope, target, cell)
        for conn in self._conns.values():
            if freeze.covers(conn):
                conn.freeze(name)
        return freeze

    def _end_freeze(self, name: str | None) -> None:
        if name is None:
            return
        self._freezes.pop(name, None)
        for conn in self._conns.values():
            conn.thaw(name)

    async def cut(self, which: Selection) -> int:
        """End the connections meant; return how many there were."""
        return await self._cut(conn for conn in self._conns.values() if which.covers(conn))

    async def _cut(self, conns: Iterable[Connection]) -> int:
        meant = [conn for conn in conns if conn.alive]
        for conn in meant:
            conn.cut()
        for conn in meant:
            await conn.until_over()
        return len(meant)

    async def black_hole(self, which: Selection, direction: Direction, *, on: bool) -> int:
        """Let a direction go silent, or end that and cut connections that lost bytes to it. Return how many."""
        if on:
            self._dark[which, direction] = None
            return sum(which.covers(conn) for conn in self._conns.values())
        if self._dark.pop((which, direction), self) is self:
            raise WireError("there is no such black hole")
        return await self._cut(conn for conn in self._conns.values() if which.covers(conn) and conn.lanes[direction].swallowed)

    def delay(self, which: Selection, direction: Direction, seconds: float) -> None:
        """Let every frame wait in this direction; 0 ends it."""
        if seconds > 0:
            self._delays[which, direction] = seconds
        else:
            self._delays.pop((which, direction), None)

    # -- end --------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """End everything; what is still held is discarded and logged."""
        for listener in self._listeners.values():
            self._deafen(listener)
        with contextlib.suppress(HistoryError):
            for cell in tuple(self._cells):
                await self.close_cell(cell)
        await self._cut(tuple(self._conns.values()))
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._own.close()


async def _bind(host: str, port: int) -> socket.socket:
    """Listen on a port, waiting a bounded time for it to become free."""
    deadline = asyncio.get_running_loop().time() + BIND_WITHIN_S
    while True:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setblocking(False)  # noqa: FBT003 - the standard library's signature
        try:
            sock.bind((host, port))
            sock.listen(BACKLOG)
        except OSError as error:
            sock.close()
            if asyncio.get_running_loop().time() >= deadline:
                raise WireError(f"cannot listen on {host}:{port}: {error.strerror}") from error
            await asyncio.sleep(POLL_S)
        else:
            return sock


async def _connect(host: str, port: int) -> socket.socket:
    """Connect to a broker; raises OSError when it refuses, or does not answer in time."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setblocking(False)  # noqa: FBT003 - the standard library's signature
    try:
        async with asyncio.timeout(CONNECT_WITHIN_S):
            await asyncio.get_running_loop().sock_connect(sock, (host, port))
        _not_itself(sock)
    except BaseException:
        sock.close()
        raise
    _tune(sock)
    return sock


async def _first_client_id(sock: socket.socket) -> str:
    """Return the client id of the first request, left unread in the socket; empty where none can be made out."""
    loop = asyncio.get_running_loop()
    seen = -1
    while True:
        data = await _peek(loop, sock)
        try:
            return frames.peek_client(data)
        except frames.NotAFrameError:
            return ""
        except IndexError:
            if not data:
                return ""
            if len(data) == seen:  # a header in two pieces: readable, and nothing new yet
                await asyncio.sleep(POLL_S)
            seen = len(data)


async def _peek(loop: asyncio.AbstractEventLoop, sock: socket.socket) -> bytes:
    """Wait for bytes and return them without taking them; empty at the end of the stream."""
    ready: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(sock.fileno(), wake)
    try:
        await ready
        return sock.recv(PEEK_BYTES, socket.MSG_PEEK)
    except OSError:
        return b""
    finally:
        loop.remove_reader(sock.fileno())


def _not_itself(sock: socket.socket) -> None:
    """Refuse a connection that a port of the ephemeral range made to itself, as it can where nobody listens."""
    if sock.getsockname() == sock.getpeername():
        raise ConnectionRefusedError("nobody listens there (the port met itself)")


def _tune(sock: socket.socket) -> None:
    sock.setblocking(False)  # noqa: FBT003 - the standard library's signature
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
