"""The database server of a deployment, behind the wire: a database for each cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.services.postgres.program import NODE
from harness.wire.messages import Route

if TYPE_CHECKING:
    from harness.runtimes.interface import Exit, Node, Runtime
    from harness.services.postgres.server import PostgresServer
    from harness.wire.control import WireControl


@dataclass
class DatabaseServer:
    """A PostgreSQL server, and the one route to it."""

    server: PostgresServer
    wire: WireControl
    runtime: Runtime
    role: str
    """The role of the connections on its route."""
    _port: int = 0

    def start(self) -> None:
        """Start the server, and let the wire listen on its route."""
        self.server.start()
        route = Route(
            NODE,
            NODE,
            self.role,
            0,
            self.server.port,
            self.runtime.bind,
            self.runtime.address(NODE),
            protocol="postgres",
        )
        self._port = self.wire.add_route(route).listen_port

    def create(self, database: str) -> None:
        """Make an empty database."""
        self.server.create(database)

    def direct(self, database: str) -> str:
        """Return the address of a database for the harness."""
        return self.server.address(database)

    def by_wire(self, database: str) -> str:
        """Return its address for a program."""
        return self.server.address(database, host=self.runtime.address("wire"), port=self._port)

    def process(self) -> Node:
        """Return its process, or its container."""
        return self.server.node

    def kill(self) -> Exit:
        """Kill it by SIGKILL. The wire refuses connections until it is back."""
        end = self.server.kill()
        self.wire.close_route(NODE)
        return end

    def restart(self) -> None:
        """Start it again on the same data; the wire connects again once it has answered a query."""
        self.server.start()
        self.wire.open_route(NODE)
