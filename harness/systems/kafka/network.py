"""Put Toxiproxy behind the wire for one cell (client, wire, Toxiproxy, broker), with one proxy per
broker and role.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.model.events import NetworkPhase
from harness.services.toxiproxy.toxics import name_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from harness.model.cell import Cell
    from harness.model.history import HistoryWriter
    from harness.services.toxiproxy import Toxic
    from harness.services.toxiproxy.client import Toxiproxy
    from harness.wire.control import WireControl
    from harness.wire.messages import Route, Traffic


@dataclass
class CellNetwork:
    """Leads a cell's connections through its own proxies, so that other cells on the same broker
    are not affected.
    """

    cell: Cell
    history: HistoryWriter
    wire: WireControl
    toxiproxy: Toxiproxy
    bind: str
    """The address on which the proxies listen."""
    host: str
    """The host name by which the wire reaches the proxies."""
    _routes: dict[str, Route] = field(default_factory=dict)
    _since: dict[str, float] = field(default_factory=dict)

    def lead(self, routes: Iterable[Route]) -> None:
        """Lead the cell's connections on these routes through proxies. Call it before any
        connection is made.
        """
        for route in routes:
            self._routes[self._name(route)] = route
            port = self.toxiproxy.create(
                self._name(route), route.upstream_port, host=route.upstream_host, bind=self.bind
            )
            self.wire.detour(self.cell.id, route.name, port, self.host)

    def worsen(self, role: str, toxics: Iterable[Toxic]) -> None:
        """Add toxics to the proxies of a role, and count traffic from then on."""
        toxics = tuple(toxics)
        for name, route in self._of(role):
            self.toxiproxy.put_on(name, toxics)
            self._say(NetworkPhase.ON, route, toxics)
        self.wire.traffic(self.cell.id, role, restart=True)
        self._since[role] = time.monotonic()

    def mend(self, role: str, toxics: Iterable[Toxic]) -> None:
        """Remove the toxics, and write down how much traffic passed meanwhile."""
        toxics = tuple(toxics)
        seconds, seen = time.monotonic() - self._since[role], self.traffic(role)
        for name, route in self._of(role):
            self.toxiproxy.take_off(name, toxics)
            self._say(NetworkPhase.OFF, route, toxics, seconds=round(seconds, 3), **asdict(seen))

    def traffic(self, role: str) -> Traffic:
        """Return the traffic since the toxics were added: bytes and waits, which the wire counts
        without history lines.
        """
        return self.wire.traffic(self.cell.id, role)

    def close(self) -> None:
        """Remove the proxies. The wire drops the detours when it closes the cell."""
        for name in self._routes:
            self.toxiproxy.destroy(name)
        self._routes = {}

    def _of(self, role: str) -> list[tuple[str, Route]]:
        return [(name, route) for name, route in self._routes.items() if route.role == role]

    def _name(self, route: Route) -> str:
        return f"{self.cell.key}.{route.node}.{route.role}"

    def _say(self, phase: NetworkPhase, route: Route, toxics: Iterable[Toxic], **seen: Any) -> None:
        self.history.write(
            kinds.Network(
                phase=phase,
                role=route.role,
                node=route.node,
                toxics=tuple({"name": name_of(toxic), **toxic.attributes} for toxic in toxics),
                **seen,
            )
        )
