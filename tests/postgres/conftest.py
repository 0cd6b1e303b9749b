"""One PostgreSQL server per module, in a runtime of processes."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.provision.postgres import ensure_postgres
from harness.runtimes.ports import PortLease
from harness.runtimes.process.runtime import ProcessRuntime
from harness.services.postgres.program import InstalledPostgres
from harness.services.postgres.server import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A running server, below a folder that others may enter: pytest closes its own, and a server
    of root's is another user.
    """
    with tempfile.TemporaryDirectory() as folder, PortLease(1) as lease:
        directory = Path(folder)
        directory.chmod(0o711)
        with ProcessRuntime(directory=directory) as runtime:
            running = PostgresServer(
                runtime,
                InstalledPostgres(ensure_postgres()),
                lease.ports[0],
                directory / "database",
            )
            running.start()
            yield running
            running.stop()
