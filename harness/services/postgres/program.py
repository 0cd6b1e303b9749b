"""What a PostgreSQL server is started from: programs of this machine, or an image. Here, and nowhere else, the two differ."""

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
    # what is answered before it is durable stays so for long: a control loses what it must lose (10 s is the most)
    "wal_writer_delay": "10s",
    "log_line_prefix": "%m %p %a ",
}
"""Beside the defaults: ``fsync`` and ``synchronous_commit`` are on."""
GONE_S = 10.0


class PostgresProgram(Protocol):
    """How a server is started."""

    def initialise(self, directory: Path) -> NodeSpec | None:
        """Return the node that makes an empty cluster in ``directory``; ``None`` where the server does it itself."""

    def server(self, directory: Path, port: int, bind: str) -> NodeSpec:
        """Return the server as a node, listening on ``bind``:``port``."""

    def kill(self, node: Node) -> Exit:
        """SIGKILL the server and every process it has, and wait until they are gone."""

    def forget(self, directory: Path) -> None:
        """Remove what it has outside of ``directory``, once it is over."""

    @property
    def version(self) -> str:
        """What is known of its version."""


@dataclass(frozen=True, slots=True)
class InstalledPostgres:
    """Programs of this machine."""

    install: PostgresInstall

    @property
    def version(self) -> str:
        """What it says of itself."""
        return self.install.version

    def initialise(self, directory: Path) -> NodeSpec:
        """``initdb``: no password, for it listens on loopback alone."""
        home = self.install.own(directory)
        words = ("-D", str(home / "data"), "-U", USER, "--auth=trust", "-E", "UTF8", "--locale=C", "--no-sync",
                 "--no-instructions")  # fmt: skip
        return NodeSpec(name=f"{NODE}-init", role="tool", argv=self.install.command("initdb", *words),
                        log=directory.parent / f"{NODE}.log", cwd=home)  # fmt: skip

    def server(self, directory: Path, port: int, bind: str) -> NodeSpec:
        """``postgres``, in the foreground, without a socket file."""
        settings = {**SETTINGS, "port": str(port), "listen_addresses": bind, "unix_socket_directories": ""}
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        home = self.install.home(directory)
        return NodeSpec(name=NODE, role=NODE, argv=self.install.command("postgres", "-D", str(home / "data"), *words),
                        log=directory.parent / f"{NODE}.log", cwd=home)  # fmt: skip

    def forget(self, directory: Path) -> None:
        """Remove its files, where they had to lie elsewhere."""
        self.install.forget(directory)

    def kill(self, node: Node) -> Exit:
        """Each of its processes has a group of its own: the postmaster stands still, so no more come, then all die."""
        if node.exit is not None:
            return node.exit
        node.pause()
        others = psutil.Process(node.pid).children(recursive=True)
        for each in others:
            _kill(each.pid)
        end = node.kill()
        wait_until(lambda: not any(_there(each) for each in others), within_s=GONE_S,
                   because="the processes of PostgreSQL to be gone")  # fmt: skip
        return end


@dataclass(frozen=True, slots=True)
class PostgresImage:
    """An image, configured as the official one is: a volume of its own, which outlives what kills the container."""

    version: str

    def initialise(self, directory: Path) -> None:
        """Leave it to the image, which makes a cluster in an empty volume."""

    def server(self, directory: Path, port: int, bind: str) -> NodeSpec:
        """Return the image's own entrypoint."""
        settings = {**SETTINGS, "port": str(port), "listen_addresses": bind}
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return NodeSpec(
            name=NODE, role=NODE, argv=("postgres", *words), log=directory.parent / f"{NODE}.log",
            env={"POSTGRES_USER": USER, "POSTGRES_DB": USER, "POSTGRES_HOST_AUTH_METHOD": "trust"},
            container=ContainerSpec("postgres", ports=(port,), host_pids=False, keep=True),
        )  # fmt: skip

    def kill(self, node: Node) -> Exit:
        """Kill the container, which dies whole."""
        return node.kill()

    def forget(self, directory: Path) -> None:
        """Do nothing: the volume goes with the container."""


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
