"""Routes to the servers that answers name: each gets a port of the wire when it is first named."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from harness.wire.cells import FOLLOWS, base_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from harness.wire.messages import Route, RouteState
    from harness.wire.protocol import Address
    from harness.wire.routes import Routes


class Following:
    """Opens such routes. ``add`` opens one."""

    def __init__(self, routes: Routes, add: Callable[[Route], Awaitable[RouteState]]) -> None:
        self._routes = routes
        self._add = add
        self._opening = asyncio.Lock()

    async def follow(self, route: Route, servers: Mapping[int, Address]) -> dict[int, Address]:
        """Return the wire's own address for each server. A server that has moved keeps its port.

        Raises:
            WireError: a port cannot be opened.
        """
        async with self._opening:
            return {
                number: (route.listen_host, await self._port(route, number, at))
                for number, at in servers.items()
            }

    async def _port(self, route: Route, number: int, at: Address) -> int:
        base = base_of(route.name)
        name = f"{base}{FOLLOWS}{number}"
        host, port = _located(route, at)
        if name not in self._routes:
            tls = None if route.tls is None else replace(route.tls, name=at[0])
            made = replace(
                route,
                name=name,
                node=f"broker-{number}",
                listen_port=0,
                upstream_host=host,
                upstream_port=port,
                tls=tls,
            )
            return (await self._add(made)).listen_port
        there = self._routes.listener(name).route
        if (there.upstream_host, there.upstream_port) != (host, port):
            self._routes.relocate(name, host, port)
        return there.listen_port


def _located(route: Route, at: Address) -> Address:
    """Return where a server is, which answers name by this address."""
    told = route.located.get(f"{at[0]}:{at[1]}")
    if told is None:
        return at
    host, _, port = told.rpartition(":")
    return host, int(port)
