"""The services beside the brokers, started for the first cell that needs them: Toxiproxy and a
database server.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from harness.model.failures import CellFailure, EnvironmentFailure
from harness.run.database import DatabaseServer
from harness.services.toxiproxy.server import ToxiproxyServer
from harness.systems.kafka.network import CellNetwork

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from harness.model.cell import Cell
    from harness.model.history import HistoryWriter
    from harness.services.postgres.program import PostgresProgram
    from harness.systems.kafka.launcher import ToxiproxyProgram
    from harness.systems.kafka.transport import KafkaTransport


class Services:
    """Starts the services of a deployment. Safe to use from several threads.

    ``reader``: the role that writes into the database. ``toxiproxy`` and ``postgres``: their
    programs, if a cell needs them.
    """

    def __init__(
        self,
        transport: KafkaTransport,
        reader: str,
        toxiproxy: ToxiproxyProgram | None,
        postgres: PostgresProgram | None,
    ) -> None:
        self._transport = transport
        self._reader = reader
        self._programs = toxiproxy, postgres
        self._failed: dict[str, str] = {}
        """Services that did not start, and why: the next cell does not wait for them again."""
        self._toxiproxy: ToxiproxyServer | None = None
        self._database: DatabaseServer | None = None
        self._starting = threading.Lock()

    def network(self, cell: Cell, history: HistoryWriter, roles: Iterable[str]) -> CellNetwork:
        """Lead a cell's connections of these roles through Toxiproxy; start Toxiproxy if it is not
        up.

        Raises:
            CellFailure: Toxiproxy does not start.
        """
        transport = self._transport
        client, host = self._toxiproxy_server().client, transport.runtime.address("toxiproxy")
        network = CellNetwork(cell, history, transport.wire, client, transport.runtime.bind, host)
        network.lead(transport.routes(*roles))
        return network

    def database(self) -> DatabaseServer:
        """Return the database server; start it if it is not up.

        Raises:
            CellFailure: the server does not start.
            RuntimeError: PostgreSQL was not prepared.
        """
        from harness.services.postgres.server import PostgresServer  # noqa: PLC0415 - brings the driver; other cells need none

        with self._starting:
            if self._database is None:
                transport, program = self._transport, self._programs[1]
                if program is None:
                    raise RuntimeError("prepare_for() comes first")
                server = PostgresServer(
                    transport.runtime,
                    program,
                    transport.database_port,
                    transport.directory / "database",
                )
                database = DatabaseServer(server, transport.wire, transport.runtime, self._reader)
                with self._alone("PostgreSQL"):
                    database.start()
                self._database = database
            return self._database

    def check(self) -> None:
        """Raise EnvironmentFailure if Toxiproxy or the database died by itself."""
        if self._toxiproxy is not None:
            self._toxiproxy.check()
        if self._database is not None:
            self._database.server.check()

    def close(self) -> None:
        """Shut the database down; the runtime ends Toxiproxy."""
        if self._database is not None:
            self._database.server.stop()

    @contextmanager
    def _alone(self, service: str) -> Iterator[None]:
        """Start a service, such that its failure voids only the cells that need it."""
        if because := self._failed.get(service):
            raise CellFailure(because)
        try:
            yield
        except EnvironmentFailure as error:
            self._failed[service] = str(error)
            raise CellFailure(str(error)) from error

    def _toxiproxy_server(self) -> ToxiproxyServer:
        with self._starting:
            if self._toxiproxy is None:
                transport, program = self._transport, self._programs[0]
                if program is None:
                    raise RuntimeError("prepare_for() comes first")
                log = transport.directory / "toxiproxy.log"
                with self._alone("Toxiproxy"):
                    server = ToxiproxyServer(
                        transport.runtime, program.path, transport.toxiproxy_port, log
                    )
                    server.await_ready()
                self._toxiproxy = server
            return self._toxiproxy
