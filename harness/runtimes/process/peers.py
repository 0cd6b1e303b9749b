"""The servers that processes are connected to, from the kernel's tables and from a tracer's log.

A TCP server is named by its address, ``127.0.0.1:5432``, and one at a Unix socket by ``unix:`` and
the path. Servers that are among the processes themselves do not count, nor does name resolution. A
connection of which they have both ends (a program wakes itself by one, as pika does) leads nowhere.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import socket
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from harness.runtimes.process.members import read
from harness.runtimes.process.processes import held_by

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from pathlib import Path

UNIX: Final = "unix:"
RESOLVING: Final = 53
"""The port of name servers."""
PLUMBING: Final = (
    "/dev/",
    "/run/nscd",
    "/var/run/nscd",
    "/run/systemd/",
    "/run/dbus/",
    "/run/user/",
)
"""Where the sockets of a machine's own services are: logging, names, sessions."""
_ESTABLISHED, _LISTENING = b"01", b"0A"
_STATE, _INODE = 3, 9
_HEAD: Final = 16
"""Bytes of a message's header, and of the fixed part of what it tells of a socket."""
_WORD: Final = 8
"""An address in the kernel's table is words of so many hex digits, each in the machine's order."""
_CONNECT: Final = re.compile(
    r"connect\(\d+<TCP[^>]*>, .*?port=htons\((?P<port>\d+)\).*?\"(?P<host>[0-9a-fA-F.:]+)\""
    r"|connect\(\d+<UNIX[^>]*>, \{sa_family=AF_UNIX, sun_path=(?P<path>@?\"[^\"]+\")"
)
_DONE: Final = re.compile(r"= (0|-1 EINPROGRESS)")
_ACCEPT: Final = re.compile(
    r"accept4?\(\d+<(?:TCP[^>]*:(?P<port>\d+)\]>|UNIX[^\"]*\"(?P<path>[^\"]+)\")"
)
_DIAG: Final = 4
"""NETLINK_SOCK_DIAG."""
_DUMP, _BY_FAMILY, _SHOW_NAME, _SHOW_PEER, _NAME, _PEER = 0x301, 20, 1, 4, 0, 2


@dataclass
class Peers:
    """What is known of the servers of some processes: those that they are ``connected`` to, and
    those that they are themselves (``own``).
    """

    connected: set[str] = field(default_factory=set)
    own: set[str] = field(default_factory=set)

    def add(self, other: Peers) -> None:
        """Add what is known besides."""
        self.connected |= other.connected
        self.own |= other.own

    def others(self) -> set[str]:
        """Return the servers that are none of the processes, and no plumbing of the machine."""
        ports = {port_of(each) for each in self.own} - {None}
        return {
            each
            for each in self.connected - self.own
            if not each.removeprefix(UNIX).startswith(PLUMBING)
            and port_of(each) != RESOLVING
            and not (port_of(each) in ports and _is_here(each))
        }


def port_of(server: str) -> int | None:
    """Return the port in the name of a server; ``None`` for one at a Unix socket.

    >>> port_of("127.0.0.1:5432"), port_of("unix:/run/x.sock")
    (5432, None)
    """
    return None if server.startswith(UNIX) else int(server.rpartition(":")[2])


def peers_of(pids: Iterable[int]) -> Peers:
    """Return the servers of living processes, as the kernel knows them at this moment."""
    inodes = set[int]().union(*map(held_by, pids))
    found = Peers()
    mine = [row for row in _tcp() if int(row[_INODE]) in inodes]
    listening = {_address(row[1]).rpartition(":")[2] for row in mine if row[_STATE] == _LISTENING}
    found.own |= {f"127.0.0.1:{port}" for port in listening}
    ends = {(_address(row[1]), _address(row[2])) for row in mine if row[_STATE] == _ESTABLISHED}
    found.connected |= {
        there
        for here, there in ends
        if (there, here) not in ends and here.rpartition(":")[2] not in listening
    }
    names = dict(_unix())
    found.own |= {UNIX + name for inode, (name, _) in names.items() if inode in inodes and name}
    found.connected |= {
        UNIX + names[peer][0]
        for inode, (name, peer) in names.items()
        if inode in inodes and not name and peer in names and names[peer][0]
    }
    return found


def listening_at(ports: Collection[int]) -> set[int]:
    """Return those of the ports at which some process of this machine listens, as the kernel knows
    it at this moment.
    """
    if not ports:  # the kernel walks all its sockets for an answer
        return set()
    found = (int(row[1].rpartition(b":")[2], 16) for row in _tcp() if row[_STATE] == _LISTENING)
    return set(ports).intersection(found)


def peers_in(log: Path) -> Peers:
    """Return the servers that a tracer's log names."""
    found = Peers()
    for line in read(str(log)).decode("utf-8", "replace").split("\n"):
        if (asked := _CONNECT.search(line)) and _DONE.search(line):
            path = asked["path"]
            found.connected.add(
                f"{_plain(asked['host'])}:{asked['port']}"
                if path is None
                else UNIX + path.replace('"', "")
            )
        elif answered := _ACCEPT.search(line):
            port, path = answered["port"], answered["path"]
            found.own.add(UNIX + path if path else f"127.0.0.1:{port}")
    return found


def _is_here(server: str) -> bool:
    return ipaddress.ip_address(server.rpartition(":")[0].strip("[]")).is_loopback


def _plain(host: str) -> str:
    """Return an address as it is written; IPv4 within IPv6 as IPv4."""
    address = ipaddress.ip_address(host)
    if isinstance(address, ipaddress.IPv6Address):
        return str(address.ipv4_mapped or f"[{address}]")
    return str(address)


def _tcp() -> Iterator[list[bytes]]:
    for name in ("tcp", "tcp6"):
        yield from (row.split() for row in read(f"/proc/net/{name}").splitlines()[1:])


def _address(column: bytes) -> str:
    """Return an address of the kernel's table.

    >>> _address(b"0100007F:1538")
    '127.0.0.1:5432'
    """
    host, _, port = column.decode().partition(":")
    words = (host[at : at + _WORD] for at in range(0, len(host), _WORD))
    packed = b"".join(struct.pack("=I", int(word, 16)) for word in words)
    return f"{_plain(str(ipaddress.ip_address(packed)))}:{int(port, 16)}"


def _unix() -> Iterator[tuple[int, tuple[str, int]]]:
    """Yield every Unix socket: its inode, its name (empty for most clients), and its peer's inode.
    Nothing if the kernel does not tell.
    """
    with (
        contextlib.suppress(OSError),
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _DIAG) as asked,
    ):
        body = struct.pack(
            "=BBHIIIII", socket.AF_UNIX, 0, 0, 0xFFFFFFFF, 0, _SHOW_NAME | _SHOW_PEER, 0, 0
        )
        asked.send(struct.pack("=IHHII", _HEAD + len(body), _BY_FAMILY, _DUMP, 1, 0) + body)
        while True:
            data = asked.recv(1 << 16)
            while len(data) >= _HEAD:
                size, kind = struct.unpack_from("=IH", data)
                if kind != _BY_FAMILY:  # done, or refused
                    return
                yield _told(data[_HEAD:size])
                data = data[(size + 3) & ~3 :]


def _told(message: bytes) -> tuple[int, tuple[str, int]]:
    """Return what one answer tells of a socket."""
    inode, name, peer, at = struct.unpack_from("=I", message, 4)[0], "", 0, _HEAD
    while at + 4 <= len(message):
        size, kind = struct.unpack_from("=HH", message, at)
        value = message[at + 4 : at + size]
        if kind == _NAME:
            name = (
                os.fsdecode(value.rstrip(b"\0"))
                if value[:1] != b"\0"
                else "@" + os.fsdecode(value[1:])
            )
        elif kind == _PEER:
            [peer] = struct.unpack("=I", value)
        at += max((size + 3) & ~3, 4)
    return inode, (name, peer)
