"""A cgroup for each foreign node, where this machine lets one be made: whatever the node starts is in it, whatever it does.

Only of version 2 (which can kill all that is in one at once), below the one that the guardian is in, without controllers: it
bounds nothing, and takes no share of anything. Where none can be made, members are found without (``members.py``). Standard
library only: the guardian has no other.
"""

# ruff: noqa: PTH102, PTH106, PTH110, PTH123, PTH208 - pathlib would double the guardian's start-up

from __future__ import annotations

import contextlib
import os

MINE = "lostack-"
"""Before the guardian's process id: the name of what holds the cgroups of its nodes."""


def make_parent() -> str:
    """Make what is to hold the cgroups of nodes; return where it is, or nothing where there can be none."""
    base = _own()
    if not base or not os.path.exists(f"{base}/cgroup.procs"):
        return ""
    _sweep(base)
    made = f"{base}/{MINE}{os.getpid()}"
    try:
        os.mkdir(made)
    except OSError:
        return ""
    if os.path.exists(f"{made}/cgroup.kill"):
        return made
    remove(made)
    return ""


def make(parent: str, name: str) -> str:
    """Make one for a node; return where it is, or nothing where that cannot be."""
    try:
        os.mkdir(f"{parent}/{name}")
    except OSError:
        return ""
    return f"{parent}/{name}"


def enter(cgroup: str) -> None:
    """Put this process, and all that it will start, into a cgroup, unless the kernel refuses."""
    _write(f"{cgroup}/cgroup.procs", b"0")


def kill(cgroup: str) -> None:
    """SIGKILL to all that is in it, and to who is being forked there."""
    _write(f"{cgroup}/cgroup.kill", b"1")


def remove(cgroup: str) -> None:
    """Remove one with those below it, as far as nothing lives there."""
    for folder, _, _ in os.walk(cgroup, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def _own() -> str:
    """Return the folder of the cgroup that this process is in; nothing where there is none of version 2, or it is not seen."""
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
    """Remove what guardians have left behind that were killed with all that looked after them."""
    for name in os.listdir(base):
        if name.startswith(MINE) and name[len(MINE) :].isdigit() and not os.path.exists(f"/proc/{name[len(MINE) :]}"):
            remove(f"{base}/{name}")


def _write(path: str, data: bytes) -> None:
    with contextlib.suppress(OSError), open(path, "wb", buffering=0) as file:
        file.write(data)
