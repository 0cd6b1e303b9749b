"""Routes to the servers that answers name: each gets a port of the wire when it is first named."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from harness.wire.cells import FOLLOWS, base_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.wire.messages import Route
    from harness.wire.protocol import Address
    from harness.wire.routes import Routes


class Following:
    """Opens such routes, which need no files: they end TLS, and log in, as the first one does."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes
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
        tls = None if route.tls is None else replace(route.tls, name=at[0])
        if name in self._routes:
            self._routes.relocate(name, host, port, tls)
            return self._routes.listener(name).route.listen_port
        made = replace(
            route,
            name=name,
            node=f"broker-{number}",
            listen_port=0,
            upstream_host=host,
            upstream_port=port,
            tls=tls,
        )
        return (await self._routes.add(made)).listen_port


def _located(route: Route, at: Address) -> Address:
    """Return where a server is, which answers name by this address."""
    told = route.located.get(f"{at[0]}:{at[1]}")
    if told is None:
        return at
    host, _, port = told.rpartition(":")
    return host, int(port)
