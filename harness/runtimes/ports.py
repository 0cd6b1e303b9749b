"""Lease loopback ports, so that two runs on one machine never get the same port."""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from harness.model.failures import EnvironmentFailure

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

FIRST: Final = 10_000
"""The lowest port to lease. Below it are many well-known ports."""
LAST: Final = 65_535
EPHEMERAL: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
HOST: Final = "127.0.0.1"


def ephemeral_range(path: Path = EPHEMERAL) -> range:
    """Return the ports that the kernel gives to outgoing connections. Each of them may be taken at
    any moment.
    """
    try:
        low, high = path.read_text().split()
    except OSError:
        low, high = "32768", "60999"
    return range(int(low), int(high) + 1)


def candidates(ephemeral: range) -> list[int]:
    """Return the ports that can be leased: those outside the ephemeral range, or all ports if that
    range covers everything.
    """
    outside = [port for port in range(FIRST, LAST + 1) if port not in ephemeral]
    return outside or list(range(FIRST, LAST + 1))


def lease_directory() -> Path:
    """Return the directory of leases, which all runs of this user share, below the system's
    temporary folder.

    Raises:
        EnvironmentFailure: the folder cannot be made, or belongs to another user.
    """
    directory = Path(tempfile.gettempdir()) / f"lostack-ports-{os.getuid()}"
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        owner = directory.lstat().st_uid
    except OSError as error:
        raise EnvironmentFailure(f"cannot lease ports: {directory}: {error.strerror}") from error
    if owner != os.getuid():
        raise EnvironmentFailure(f"cannot lease ports: {directory} belongs to another user")
    return directory


def is_free(port: int) -> bool:
    """Return whether a server could bind the loopback port now."""
    with socket.socket() as probe:
        probe.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
        )  # as servers do: TIME_WAIT is no hindrance
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


class PortLease:
    """``count`` ports that no other run gets until ``close`` or the death of this process.

    A lease is a ``flock`` on a file named after the port. The empty files stay. Ports that another
    program has bound are skipped. Raises EnvironmentFailure if there are not enough.
    """

    def __init__(self, count: int = 1, *, directory: Path | None = None) -> None:
        self._held: dict[int, int] = {}
        where = directory or lease_directory()
        ports = _from_somewhere(candidates(ephemeral_range()))
        try:
            while len(self._held) < count:
                self._try(next(ports), where)
        except StopIteration:
            self.close()
            raise EnvironmentFailure(
                f"{count} free loopback ports are needed, but there are fewer: end programs that "
                "use ports"
            ) from None
        except OSError as error:
            self.close()
            raise EnvironmentFailure(f"cannot lease ports in {where}: {error.strerror}") from error
        self.ports: tuple[int, ...] = tuple(self._held)

    @property
    def port(self) -> int:
        """The first of the ports."""
        return self.ports[0]

    def _try(self, port: int, directory: Path) -> None:
        """Lease one port if it is free."""
        fd = os.open(
            directory / str(port), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return
        if is_free(port):
            self._held[port] = fd
        else:
            os.close(fd)

    def close(self) -> None:
        """Give the ports back. Safe to call twice."""
        while self._held:
            os.close(self._held.popitem()[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()


def _from_somewhere(ports: list[int]) -> Iterator[int]:
    """Yield all ports once, starting at a random one, so that runs seldom try the same port."""
    start = secrets.randbelow(len(ports))
    yield from ports[start:]
    yield from ports[:start]
