"""Lease loopback ports, so that two runs on one machine never get the same port."""

from __future__ import annotations

import errno
import secrets
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.model.closing import Closing
from harness.model.failures import EnvironmentFailure

if TYPE_CHECKING:
    from collections.abc import Iterator

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


class PortLease(Closing):
    """``count`` ports that no other run gets until ``close`` or the death of this process.

    A lease is a Unix socket that is bound to a name of the kernel's (no file). Such a name is seen
    by every user of the machine, within the network namespace to which the port belongs, too, and
    is free again when its process dies. Ports that another program has bound are skipped. Raises
    EnvironmentFailure if there are not enough.
    """

    def __init__(self, count: int = 1) -> None:
        self._held: dict[int, socket.socket] = {}
        found = _from_somewhere(candidates(ephemeral_range()))
        try:
            while len(self._held) < count:
                self._try(next(found))
        except StopIteration:
            self.close()
            raise EnvironmentFailure(
                f"{count} free loopback ports are needed, but there are fewer: end programs that "
                "use ports"
            ) from None
        except OSError as error:
            self.close()
            raise EnvironmentFailure(f"cannot lease ports: {error.strerror}") from error
        self.ports: tuple[int, ...] = tuple(self._held)

    @property
    def port(self) -> int:
        """The first of the ports."""
        return self.ports[0]

    def _try(self, port: int) -> None:
        """Lease one port if it is free."""
        lease = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            lease.bind(f"\0lostack-port-{port}")
        except OSError as error:
            lease.close()
            if error.errno != errno.EADDRINUSE:
                raise
            return
        if is_free(port):
            self._held[port] = lease
        else:
            lease.close()

    def close(self) -> None:
        """Give the ports back. Safe to call twice."""
        while self._held:
            self._held.popitem()[1].close()


def _from_somewhere(ports: list[int]) -> Iterator[int]:
    """Yield all ports once, starting at a random one, so that runs seldom try the same port."""
    start = secrets.randbelow(len(ports))
    yield from ports[start:]
    yield from ports[:start]
