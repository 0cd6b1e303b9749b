"""What the kernel says about processes, read from ``/proc``."""

from __future__ import annotations

from pathlib import Path

import psutil

STOPPED = frozenset("TtZX")
"""States of a thread that does nothing: stopped, traced, zombie, dead."""


def _stat(path: Path) -> list[str] | None:
    """Return the fields of a ``stat`` file behind the name (state, parent, group, …); None where it is gone."""
    try:
        return path.read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None


def group_members(group: int) -> list[int]:
    """Pids of the living members of a process group (zombies are not living)."""
    stats = ((entry.name, _stat(entry / "stat")) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [int(pid) for pid, fields in stats if fields and int(fields[2]) == group and fields[0] not in "ZX"]


def thread_states(pid: int) -> list[str]:
    """Return the state letter of every thread of a process; empty where it is gone."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return []
    return [fields[0] for task in tasks if (fields := _stat(task / "stat"))]


def owner_of(group: int, local: int) -> int | None:
    """Return the member of a process group that has a TCP connection from the port ``local``; None where none has."""
    return next((pid for pid in group_members(group) if local in local_ports(pid)), None)


def local_ports(pid: int) -> set[int]:
    """Return the ports from which a process has TCP connections; none where it is gone, or somebody else's."""
    try:
        return {each.laddr.port for each in psutil.Process(pid).net_connections(kind="tcp") if each.raddr}
    except psutil.Error:
        return set()


def command_of(pid: int) -> str:
    """Return a process's command line; empty where it is gone."""
    try:
        return " ".join(psutil.Process(pid).cmdline())
    except psutil.Error:
        return ""


def is_alive(pid: int) -> bool:
    """Whether a process is there and has not ended; a zombie has."""
    fields = _stat(Path(f"/proc/{pid}/stat"))
    return fields is not None and fields[0] not in "ZX"


def stopped(pid: int) -> bool:
    """Whether every thread of a process stands still, or it is gone."""
    return all(state in STOPPED for state in thread_states(pid))


def group_stopped(group: int) -> bool:
    """Whether every thread of every member of the group stands still."""
    return all(state in STOPPED for pid in group_members(group) for state in thread_states(pid))


def group_running(group: int) -> bool:
    """Whether no thread of the group is stopped by a signal."""
    return all(state != "T" for pid in group_members(group) for state in thread_states(pid))
