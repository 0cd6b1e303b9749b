"""How a PostgreSQL server is started: by installed programs or from an image. All differences
between the two are here.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import psutil

from harness.model.waiting import wait_until
from harness.runtimes.interface import ContainerSpec, NodeSpec

if TYPE_CHECKING:
    from pathlib import Path

    from harness.provision.postgres import PostgresInstall
    from harness.runtimes.interface import Exit, Node

USER = "lostack"
NODE = "database"
SETTINGS = {
    "shared_buffers": "16MB",
    "max_connections": "50",
    "max_wal_senders": "0",
    "wal_level": "minimal",
    "autovacuum": "off",
    # what is answered before it is durable stays so for long: a control loses what it must lose (10
    # s is the most)
    "wal_writer_delay": "10s",
    "log_line_prefix": "%m %p %a ",
}
"""Settings that differ from PostgreSQL's defaults. ``fsync`` and ``synchronous_commit`` stay on."""
GONE_S = 10.0
PASSWORD = "password"  # noqa: S105 - the name of a file
"""The file from which ``initdb`` reads the password. It is removed when the server starts."""


class PostgresProgram(Protocol):
    """A way to start a PostgreSQL server."""

    def initialise(self, directory: Path, password: str) -> NodeSpec | None:
        """Return the node that makes an empty database cluster in ``directory``, whose only user
        has this password; ``None`` if the server makes it itself.
        """

    def server(self, directory: Path, port: int, bind: str, password: str) -> NodeSpec:
        """Return the server as a node, listening on ``bind``:``port``."""

    def kill(self, node: Node) -> Exit:
        """Send SIGKILL to the server and all its processes, and wait until they are gone."""

    def forget(self, directory: Path) -> None:
        """Remove the server's files outside of ``directory``, after the server has ended."""

    @property
    def version(self) -> str:
        """The server's version, for the report."""


@dataclass(frozen=True, slots=True)
class InstalledPostgres:
    """A server started by the programs installed on this machine."""

    install: PostgresInstall

    @property
    def version(self) -> str:
        """The version that the programs print."""
        return self.install.version

    def initialise(self, directory: Path, password: str) -> NodeSpec:
        """Return the ``initdb`` node. Every user of the machine can connect to the server, and its
        superuser can run programs, so it has a password.
        """
        home = self.install.own(directory)
        file = self.install.private(home / PASSWORD, password)
        words = (
            "-D",
            str(home / "data"),
            "-U",
            USER,
            "--auth=scram-sha-256",
            f"--pwfile={file}",
            "-E",
            "UTF8",
            "--locale=C",
            "--no-sync",
            "--no-instructions",
        )
        return NodeSpec(
            name=f"{NODE}-init",
            role="tool",
            argv=self.install.command("initdb", *words),
            log=directory.parent / f"{NODE}.log",
            cwd=home,
        )

    def server(
        self,
        directory: Path,
        port: int,
        bind: str,
        password: str,  # noqa: ARG002 - its database cluster knows it
    ) -> NodeSpec:
        """Return the ``postgres`` node: in the foreground, without a Unix socket."""
        settings = {
            **SETTINGS,
            "port": str(port),
            "listen_addresses": bind,
            "unix_socket_directories": "",
        }
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        home = self.install.home(directory)
        (home / PASSWORD).unlink(missing_ok=True)
        return NodeSpec(
            name=NODE,
            role=NODE,
            argv=self.install.command("postgres", "-D", str(home / "data"), *words),
            log=directory.parent / f"{NODE}.log",
            cwd=home,
        )

    def forget(self, directory: Path) -> None:
        """Remove the server's files if they had to be outside of ``directory``."""
        self.install.forget(directory)

    def kill(self, node: Node) -> Exit:
        """Stop the postmaster, so that it starts no more processes, then kill all of them (each has
        its own process group).
        """
        if node.exit is not None:
            return node.exit
        node.pause()
        others = psutil.Process(node.pid).children(recursive=True)
        for each in others:
            _kill(each.pid)
        end = node.kill()
        wait_until(
            lambda: not any(_there(each) for each in others),
            within_s=GONE_S,
            because="the processes of PostgreSQL to be gone",
        )
        return end


@dataclass(frozen=True, slots=True)
class PostgresImage:
    """A server from an image that is configured like the official one. Its volume survives the
    container's death.
    """

    version: str

    def initialise(self, directory: Path, password: str) -> None:
        """Return ``None``: the image makes a cluster in an empty volume by itself."""

    def server(self, directory: Path, port: int, bind: str, password: str) -> NodeSpec:
        """Return the server as a node that runs the image's own entrypoint."""
        settings = {**SETTINGS, "port": str(port), "listen_addresses": bind}
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return NodeSpec(
            name=NODE,
            role=NODE,
            argv=("postgres", *words),
            log=directory.parent / f"{NODE}.log",
            env={"POSTGRES_USER": USER, "POSTGRES_DB": USER, "POSTGRES_PASSWORD": password},
            container=ContainerSpec("postgres", ports=(port,), host_pids=False, keep=True),
        )

    def kill(self, node: Node) -> Exit:
        """Kill the container with all its processes."""
        return node.kill()

    def forget(self, directory: Path) -> None:
        """Do nothing: the runtime removes the volume with the container."""


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _there(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
