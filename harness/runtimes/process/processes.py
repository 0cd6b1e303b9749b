"""Facts about processes and their connections, read from ``/proc``."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil

from harness.model.waiting import WaitTimeoutError, wait_until
from harness.runtimes.process.members import command_of, look, read, stands, stat_of, thread_states

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

__all__ = [
    "command_of",
    "group_members",
    "local_ports",
    "owners_of",
    "stopped",
    "stranger_at",
    "thread_states",
]

GUARDIAN: Final = Path(__file__).with_name("guardian.py")
CLOSED_S: Final = 1.0
"""For how many seconds a connection may have no visible holder. After that, an invisible process is
taken for its holder.
"""
_LOCAL, _REMOTE, _INODE = 1, 2, 9
"""Columns of the kernel's table of connections."""


def group_members(group: int) -> list[int]:
    """Return the ids of the living processes of a process group (without zombies)."""
    return [process.pid for process in look().values() if process.group == group and process.alive]


def owners_of(
    pids: Collection[int], locals_: Collection[int], remotes: Collection[int] = ()
) -> dict[int, int]:
    """Return the processes with TCP connections from the ports ``locals_`` (to one of ``remotes``,
    if given), by port; ports of other processes are left out.

    The kernel's table and what each process has open are read once, for all ports together.
    """
    sockets = {port: inodes for port, inodes in _sockets(locals_, remotes).items() if inodes}
    found: dict[int, int] = {}
    for pid in pids if sockets else ():
        held = held_by(pid)
        found = {port: pid for port, inodes in sockets.items() if inodes & held} | found
    return found


def stranger_at(
    local: int, remotes: Collection[int], members: Callable[[], Collection[int]]
) -> int | None:
    """Return the process that has a TCP connection from the port ``local`` and is not a member;
    ``None`` if there is none.

    The harness's own processes are not strangers either. ``members`` is called after a holder was
    found, and then the holder is looked up again: a process that has just started is a member by
    then, and one that has just ended has no connection any more. Returns 0 if the holder is an
    invisible process.
    """

    def seen() -> set[int]:
        return _sockets((local,), remotes)[local]

    sockets = seen()
    holders = [pid for pid in look() if sockets & held_by(pid)] if sockets else []
    if not holders:  # a dying process hides its descriptors a moment before they close
        with contextlib.suppress(WaitTimeoutError):
            wait_until(
                lambda: not sockets & seen(),
                within_s=CLOSED_S,
                because="it to be closed",
            )
            return None
        holders = [pid for pid in look() if sockets & held_by(pid)] or [0]
    known = members()
    if any(pid in known or _is_harness(pid) for pid in holders) or not sockets & seen():
        return None
    return next((pid for pid in holders if pid == 0 or sockets & held_by(pid)), None)


def _sockets(locals_: Collection[int], remotes: Collection[int]) -> dict[int, set[int]]:
    """Return the inodes of the connections from some ports, by port. Connections that their process
    has closed have none.
    """
    found: dict[int, set[int]] = {port: set() for port in locals_}
    for name in ("tcp", "tcp6"):
        for line in read(f"/proc/net/{name}").splitlines()[1:]:
            row = line.split()
            here, there, inode = _port(row[_LOCAL]), _port(row[_REMOTE]), int(row[_INODE])
            if here in found and there and inode and (not remotes or there in remotes):
                found[here].add(inode)
    return found


def _port(address: bytes) -> int:
    return int(address.rpartition(b":")[2], 16)


def held_by(pid: int) -> set[int]:
    """Return the inodes of a process's open sockets; none if it is gone, or another user's."""
    found = set()
    try:
        for descriptor in os.scandir(f"/proc/{pid}/fd"):
            try:
                kind, _, inode = os.readlink(descriptor.path).partition(":")  # noqa: PTH115 - a path is made for each
            except OSError:  # it has just been closed
                continue
            if kind == "socket":
                found.add(int(inode.strip("[]")))
    except OSError:
        pass
    return found


def written_by(pid: int) -> set[str]:
    """Return the files that a process has open for writing; none if it is gone, or
    another user's.
    """
    found = set()
    with contextlib.suppress(OSError):
        for descriptor in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError, ValueError, StopIteration):  # it has just been closed
                lines = read(f"/proc/{pid}/fdinfo/{descriptor.name}").splitlines()
                flags = next(
                    int(line.split()[1], 8) for line in lines if line.startswith(b"flags:")
                )
                if flags & os.O_ACCMODE and Path(descriptor.path).is_file():
                    found.add(os.readlink(descriptor.path))  # noqa: PTH115 - as above
    return found


def _is_harness(pid: int) -> bool:
    """Return whether a process is this one, or was started by it and is not a node (nodes are below
    a guardian).
    """
    guardian = str(GUARDIAN).encode()
    while pid and pid != os.getpid():
        process = stat_of(pid)
        if process is None or guardian in read(f"/proc/{pid}/cmdline").split(b"\0"):
            return False
        pid = process.parent
    return bool(pid)


def local_ports(pid: int) -> set[int]:
    """Return the ports from which a process has TCP connections; none if it is gone, or another
    user's.
    """
    try:
        return {
            each.laddr.port
            for each in psutil.Process(pid).net_connections(kind="tcp")
            if each.raddr
        }
    except psutil.Error:
        return set()


def is_alive(pid: int) -> bool:
    """Return whether a process lives; a zombie does not."""
    found = stat_of(pid)
    return found is not None and found.alive


def stopped(pid: int) -> bool:
    """Return whether every thread of a process is stopped, or the process is gone."""
    return stands(pid)
