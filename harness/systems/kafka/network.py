"""The network of one cell: Toxiproxy behind the wire (client, wire, Toxiproxy, broker), one proxy per broker and role."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.services.toxiproxy.toxics import name_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.model.cell import Cell
    from harness.model.history import HistoryWriter
    from harness.services.toxiproxy import Toxic
    from harness.services.toxiproxy.client import Toxiproxy
    from harness.wire.control import WireControl
    from harness.wire.messages import Route, Traffic


@dataclass
class CellNetwork:
    """Detours through proxies of the cell's own, so that no other cell on the same broker feels anything."""

    cell: Cell
    history: HistoryWriter
    wire: WireControl
    toxiproxy: Toxiproxy
    bind: str
    """The address that proxies listen on."""
    host: str
    """Where the wire reaches them."""
    _routes: dict[str, Route] = field(default_factory=dict)
    _since: dict[str, float] = field(default_factory=dict)

    def lead(self, routes: Iterable[Route]) -> None:
        """Lead the cell's connections over these routes through proxies. Before any of them is made."""
        for route in routes:
            self._routes[self._name(route)] = route
            port = self.toxiproxy.create(self._name(route), route.upstream_port, host=route.upstream_host, bind=self.bind)
            self.wire.detour(self.cell.id, route.name, port, self.host)

    def worsen(self, role: str, toxics: Iterable[Toxic]) -> None:
        """Put toxics on, and count from here on."""
        toxics = tuple(toxics)
        for name, route in self._of(role):
            self.toxiproxy.put_on(name, toxics)
            self._say("on", route, toxics)
        self.wire.traffic(self.cell.id, role, restart=True)
        self._since[role] = time.monotonic()

    def mend(self, role: str, toxics: Iterable[Toxic]) -> None:
        """Take them off, and write down what passed meanwhile."""
        toxics = tuple(toxics)
        seconds, seen = time.monotonic() - self._since[role], self.traffic(role)
        for name, route in self._of(role):
            self.toxiproxy.take_off(name, toxics)
            self._say("off", route, toxics, seconds=round(seconds, 3), **asdict(seen))

    def traffic(self, role: str) -> Traffic:
        """Return what has passed since the network was made bad: bytes and waits, which the wire counts and has no lines of."""
        return self.wire.traffic(self.cell.id, role)

    def close(self) -> None:
        """End the proxies; the wire forgets the detours with the cell."""
        for name in self._routes:
            self.toxiproxy.destroy(name)
        self._routes = {}

    def _of(self, role: str) -> list[tuple[str, Route]]:
        return [(name, route) for name, route in self._routes.items() if route.role == role]

    def _name(self, route: Route) -> str:
        return f"{self.cell.key}.{route.node}.{route.role}"

    def _say(self, phase: str, route: Route, toxics: tuple[Toxic, ...], **fields: object) -> None:
        said = [{"name": name_of(toxic), **toxic.attributes} for toxic in toxics]
        self.history.write(kinds.NETWORK, phase=phase, role=route.role, node=route.node, toxics=said, **fields)
