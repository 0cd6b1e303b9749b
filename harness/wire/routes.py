"""The routes: where the wire listens, and how it comes to the broker behind each."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from harness.model.history import Line
from harness.model.waiting import POLL_S
from harness.wire.cells import base_of
from harness.wire.messages import RouteState, WireError
from harness.wire.sockets import bind

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable

    from harness.model.history import HistoryWriter
    from harness.wire.connections import Connections
    from harness.wire.messages import Route, Tls


@dataclass(slots=True)
class Listener:
    """A route that listens."""

    route: Route
    sock: socket.socket | None = None
    task: asyncio.Task[None] | None = None

    def state(self, connections: int) -> RouteState:
        """Return the route's state."""
        route, listening = self.route, self.sock is not None
        ports = (route.listen_port, route.upstream_port)
        return RouteState(route.name, route.node, route.role, *ports, listening, connections)


class Routes:
    """All routes. ``serve`` handles each new connection; ``own`` is the wire's own history."""

    def __init__(
        self,
        conns: Connections,
        own: HistoryWriter,
        serve: Callable[[Route, socket.socket], Awaitable[None]],
    ) -> None:
        self._conns = conns
        self._own = own
        self._serve = serve
        self._listeners: dict[str, Listener] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def add(self, route: Route) -> RouteState:
        """Listen for one (node, role). The port is the one asked for, or a free one."""
        self.must_be_new(route.name)
        listener = Listener(route)
        await self._listen(listener)
        self._listeners[route.name] = listener
        return listener.state(0)

    def __contains__(self, name: str) -> bool:
        return name in self._listeners

    def must_be_new(self, name: str) -> None:
        """Raise :class:`WireError` if there is such a route."""
        if name in self._listeners:
            raise WireError(f"there is a route {name} already")

    async def open(self, name: str) -> RouteState:
        """Listen again, on the same port."""
        listener = self.listener(name)
        if listener.sock is None:
            await self._listen(listener)
        return self._state(listener)

    async def close(self, name: str) -> RouteState:
        """Stop listening, so that new connections are refused, and cut the open ones."""
        listener = self.listener(name)
        self._deafen(listener)
        await self._conns.end(conn for conn in self._conns if conn.route.name == name)
        return self._state(listener)

    async def remove(self, name: str) -> None:
        """Close a route, and those to servers that its answers have named, and forget them."""
        self.listener(name)
        for each in [other for other in self._listeners if name in (other, base_of(other))]:
            await self.close(each)
            del self._listeners[each]

    def relocate(self, name: str, host: str, port: int, tls: Tls | None) -> None:
        """Connect new clients of a route to a server's new address."""
        listener = self.listener(name)
        there = listener.route
        if (there.upstream_host, there.upstream_port, there.tls) != (host, port, tls):
            listener.route = replace(there, upstream_host=host, upstream_port=port, tls=tls)

    def states(self) -> list[RouteState]:
        """Return the state of every route."""
        return [self._state(listener) for listener in self._listeners.values()]

    def listener(self, name: str) -> Listener:
        """Return a route by its name.

        Raises:
            WireError: no route has this name.
        """
        try:
            return self._listeners[name]
        except KeyError:
            raise WireError(f"there is no route {name}") from None

    def _state(self, listener: Listener) -> RouteState:
        return listener.state(sum(conn.route.name == listener.route.name for conn in self._conns))

    async def _listen(self, listener: Listener) -> None:
        route = listener.route
        sock = await bind(route.listen_host, route.listen_port)
        port: int = sock.getsockname()[1]
        listener.route = replace(route, listen_port=port)
        listener.sock = sock
        listener.task = asyncio.create_task(self._accept(listener, sock))
        self._say("open", route, node=route.node, role=route.role, port=port)

    def _say(self, phase: str, route: Route, **fields: object) -> None:
        self._own.write(Line("route", {"phase": phase, "route": route.name, **fields}))

    def _deafen(self, listener: Listener) -> None:
        if listener.task is not None:
            listener.task.cancel()
        if listener.sock is not None:
            listener.sock.close()
            self._say("closed", listener.route)
        listener.sock = listener.task = None

    async def _accept(self, listener: Listener, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, _ = await loop.sock_accept(sock)
            # no descriptor is free, or the client has gone again: the listener must live on
            except OSError as error:
                self._say("accept-failed", listener.route, because=str(error))
                await asyncio.sleep(POLL_S)
                continue
            task = asyncio.create_task(self._served(listener.route, client))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _served(self, route: Route, client: socket.socket) -> None:
        await self._serve(route, client)

    def deafen(self) -> None:
        """Stop listening on all routes."""
        for listener in self._listeners.values():
            self._deafen(listener)

    async def end(self) -> None:
        """Wait until all connections have ended; drop those that have not."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
