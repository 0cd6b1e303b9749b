"""A cgroup for each foreign node, if this machine allows that. All processes that the node starts
are in it, even detached ones.

Only cgroups of version 2 are used, which can kill all their processes at once. They are below the
guardian's own cgroup and have no controllers, so they limit nothing. Without cgroups, members are
found in other ways (``members.py``). Standard library only, because the guardian uses nothing else.
"""

# ruff: noqa: PTH102, PTH106, PTH110, PTH116, PTH123, PTH208 - pathlib would double the guardian's start-up

from __future__ import annotations

import contextlib
import os

MINE = "lostack-"
"""The name of the parent of the nodes' cgroups, before the guardian's PID namespace and its process
id in there.
"""


def make_parent() -> str:
    """Make the parent of the nodes' cgroups; return its path, or an empty text if it cannot be
    made.
    """
    base = _own()
    if not base or not os.path.exists(f"{base}/cgroup.procs"):
        return ""
    _sweep(base)
    made = f"{base}/{name_of(os.getpid())}"
    try:
        os.mkdir(made)
    except OSError:
        return ""
    if os.path.exists(f"{made}/cgroup.kill"):
        return made
    remove(made)
    return ""


def name_of(pid: int | str) -> str:
    """Return the name of the parent of the cgroups of a guardian in this PID namespace."""
    return f"{_namespace()}{pid}"


def make(parent: str, name: str) -> str:
    """Make a node's cgroup; return its path, or an empty text if it cannot be made."""
    try:
        os.mkdir(f"{parent}/{name}")
    except OSError:
        return ""
    return f"{parent}/{name}"


def enter(cgroup: str) -> None:
    """Move this process, and all processes that it will start, into a cgroup, unless the kernel
    refuses.
    """
    _write(f"{cgroup}/cgroup.procs", b"0")


def kill(cgroup: str) -> None:
    """Send SIGKILL to all processes of a cgroup, including those that are being forked."""
    _write(f"{cgroup}/cgroup.kill", b"1")


def remove(cgroup: str) -> None:
    """Remove a cgroup and those below it, unless processes live there."""
    for folder, _, _ in os.walk(cgroup, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def _own() -> str:
    """Return the folder of this process's cgroup; empty if it is not of version 2, or
    not visible.
    """
    try:
        with open("/proc/self/cgroup", encoding="utf-8") as file:
            path = next((line.strip()[3:] for line in file if line.startswith("0::")), "")
        with open("/proc/self/mountinfo", encoding="utf-8") as file:
            mounts = [line.split(" - ") for line in file]
    except OSError:
        return ""
    for mount, kind in mounts:
        _, _, _, root, point, *_ = mount.split()
        inside = root if root != "/" else ""
        if kind.startswith("cgroup2 ") and path.startswith(inside + "/"):
            return (point + path.removeprefix(inside)).rstrip("/")
    return ""


def _sweep(base: str) -> None:
    """Kill and remove what is left in the cgroups of earlier guardians that were killed together
    with their second.

    Containers may share a tree of cgroups. Only those of this PID namespace are looked at: nobody
    can see from here whether the guardian of another one lives.
    """
    mine = _namespace()
    for name in os.listdir(base):
        pid = name.removeprefix(mine)
        if pid != name and pid.isdigit() and not _lives(pid):
            kill(f"{base}/{name}")
            remove(f"{base}/{name}")


def _namespace() -> str:
    """Return how the names of this PID namespace's cgroups begin."""
    return f"{MINE}{os.stat('/proc/self/ns/pid').st_ino}-"


def _lives(pid: str) -> bool:
    """Whether a process lives; a zombie, which nobody may ever reap, does not."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b") ")[2][:1] not in b"ZX"
    except OSError:
        return False


def _write(path: str, data: bytes) -> None:
    with contextlib.suppress(OSError), open(path, "wb", buffering=0) as file:
        file.write(data)
