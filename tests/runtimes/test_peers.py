"""The servers that processes are connected to: by the kernel's tables, and by a tracer's log."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from harness.runtimes.process.peers import UNIX, Peers, peers_in, peers_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CLIENT = """
import socket, sys
for at in sys.argv[1:]:
    host, _, port = at.rpartition(":")
    if at[0] == "/":
        sock = socket.socket(socket.AF_UNIX); sock.connect(at)
    else:
        sock = socket.create_connection((host.strip("[]"), int(port)))
    globals()[at] = sock
print("there", flush=True)
sys.stdin.read()
"""


@dataclass
class Servers:
    """Servers of this process, by TCP and at a Unix socket, as a client names them."""

    tcp: tuple[str, str]
    path: str
    local: socket.socket

    @property
    def names(self) -> set[str]:
        """The names that are told."""
        return {*self.tcp, UNIX + self.path}


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    """Three servers."""
    with ExitStack() as ends:
        four = ends.enter_context(socket.create_server(("127.0.0.1", 0)))
        six = ends.enter_context(socket.create_server(("::1", 0), family=socket.AF_INET6))
        local = ends.enter_context(socket.socket(socket.AF_UNIX))
        local.bind(str(tmp_path / "x.sock"))
        local.listen()
        tcp = f"127.0.0.1:{four.getsockname()[1]}", f"[::1]:{six.getsockname()[1]}"
        yield Servers(tcp, str(tmp_path / "x.sock"), local)


def test_a_process_is_connected_to_what_the_kernel_knows(servers: Servers) -> None:
    """Of another process, which is no server; and of its servers together with it, they are its
    own.
    """
    words = [sys.executable, "-c", CLIENT, *servers.tcp, servers.path]
    client = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert client.stdout is not None
        assert client.stdout.readline() == b"there\n"
        accepted, _ = servers.local.accept()
        with accepted:
            found = peers_of([client.pid])
            assert found == Peers(servers.names)
            assert found.others() == servers.names
            assert peers_of([client.pid, os.getpid()]).others().isdisjoint(servers.names)
    finally:
        client.communicate()
    assert peers_of([client.pid]) == Peers()


def test_a_connection_to_itself_leads_nowhere() -> None:
    """A program wakes itself by one; what it listened at for that is closed at once."""
    before = peers_of([os.getpid()]).others()
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    with near, far:
        assert peers_of([os.getpid()]).others() == before


LOG = """\
7 1795796109.804262 write(3</tmp/f>, ""..., 4) = 4
8 1795796109.828262 accept4(3<UNIX-STREAM:[32,"/tmp/own.sock"]>,  <unfinished ...>
7 1795796109.828725 connect(7<UNIX-STREAM:[33]>, {sa_family=AF_UNIX, sun_path="/tmp/own.sock"}, 26) = 0
7 1795796109.828726 connect(7<UNIX-STREAM:[33]>, {sa_family=AF_UNIX, sun_path="/db/.s.PGSQL.5432"}, 26) = 0
7 1795796109.828727 connect(7<UNIX-STREAM:[33]>, {sa_family=AF_UNIX, sun_path="/run/systemd/x"}, 26) = 0
7 1795796109.828728 connect(7<UNIX-STREAM:[33]>, {sa_family=AF_UNIX, sun_path=@"kept"}, 26) = 0
8 1795796109.832297 accept4(4<TCP:[0.0.0.0:34801]>,  <unfinished ...>
7 1795796109.839081 connect(8<TCP:[32]>, {sa_family=AF_INET, sin_port=htons(34801), sin_addr=inet_addr("127.0.0.1")}, 16) = 0
7 1795796109.839082 connect(8<TCP:[32]>, {sa_family=AF_INET, sin_port=htons(3306), sin_addr=inet_addr("127.0.0.1")}, 16) = -1 EINPROGRESS (Operation now in progress)
7 1795796109.839083 connect(8<TCP:[32]>, {sa_family=AF_INET, sin_port=htons(7), sin_addr=inet_addr("127.0.0.1")}, 16) = -1 ECONNREFUSED (Connection refused)
7 1795796109.839084 connect(8<UDP:[32]>, {sa_family=AF_INET, sin_port=htons(8125), sin_addr=inet_addr("127.0.0.1")}, 16) = 0
7 1795796109.839085 connect(8<TCP:[32]>, {sa_family=AF_INET, sin_port=htons(53), sin_addr=inet_addr("10.0.0.1")}, 16) = 0
7 1795796109.855922 connect(9<TCPv6:[32]>, {sa_family=AF_INET6, sin6_port=htons(6379), sin6_flowinfo=htonl(0), inet_pton(AF_INET6, "::1", &sin6_addr), sin6_scope_id=0}, 28) = 0
7 1795796109.855923 connect(9<TCPv6:[32]>, {sa_family=AF_INET6, sin6_port=htons(80), sin6_flowinfo=htonl(0), inet_pton(AF_INET6, "::ffff:10.0.0.2", &sin6_addr), sin6_scope_id=0}, 28) = 0
8 1795796109.879024 accept4(5<TCPv6:[[::1]:32883]>, {sa_family=AF_INET6, sin6_port=htons(5)}, [28], 0) = 6
7 1795796109.855924 connect(9<TCPv6:[32]>, {sa_family=AF_INET6, sin6_port=htons(32883), sin6_flowinfo=htonl(0), inet_pton(AF_INET6, "::1", &sin6_addr), sin6_scope_id=0}, 28) = 0
"""  # noqa: E501


def test_a_log_tells_of_connections_however_short(tmp_path: Path) -> None:
    """Neither those that were refused, nor by UDP, nor to the traced processes themselves, nor name
    resolution and the machine's plumbing.
    """
    log = tmp_path / "log.txt"
    log.write_text(LOG, encoding="utf-8")
    assert peers_in(log).others() == {
        "127.0.0.1:3306",
        "[::1]:6379",
        "10.0.0.2:80",
        "unix:/db/.s.PGSQL.5432",
        "unix:@kept",
    }
