"""In-process failpoints: named places inside a program, which the wire cannot see, where lostack
can kill it.

A program calls ``failpoint("after-record", record_id)`` at such a place. Unless the harness has
armed that name, the call does nothing. If it is armed, the program *first* writes the hit into its
cell's history, and then kills (SIGKILL) or pauses (SIGSTOP) itself, or is told to fail. So the
trigger is exact and counted.

This file needs only the standard library, and no other file of lostack: a program that is shipped
without lostack carries a copy of it (``lostack vendor failpoint FILE``).

The harness arms a name by writing a file ``<name>.json`` into the folder that the environment
variable ``LOSTACK_FAILPOINTS`` names::

    {"record": "k1-7" | null, "hit": 1, "action": "kill" | "pause" | "hold" | "fail", "history":
        "<file>", "cell": "<cell id>",
     "called": "k1-7" | null}

``hold`` is for a program of several processes: the caller waits until a file ``<name>.go`` appears,
so that the harness can kill or pause all of them. ``fail`` is for a program whose work on one
record can fail while the program goes on.

A process claims the file by an atomic rename. So exactly one call fires, among several processes
and after any number of restarts.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

VARIABLE = "LOSTACK_FAILPOINTS"
FAIL = "fail"
_ACTIONS = {"kill": signal.SIGKILL, "pause": signal.SIGSTOP, "hold": None, FAIL: None}
HELD_S = 600.0
"""Seconds after which a held program gives up. A living harness releases it sooner."""
POLL_S = 0.01
_APPENDING = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
_hits: dict[str, int] = {}


def failpoint(name: str, record: str | None = None) -> bool:
    """Kill, pause or hold this process here, if the harness has armed this name (for this record).

    ``record`` is the id of the record that the program works on. If the armed file names a record,
    only calls with that record count as hits. Returns true if the program must let its work on the
    record fail.
    """
    folder = os.environ.get(VARIABLE)
    file = Path(folder, f"{name}.json") if folder else None
    order = _due(file, name, record) if file else None
    if file is None or order is None:
        return False
    _write_hit(order, name, record)
    act = _ACTIONS[order["action"]]
    if act is not None:
        os.kill(os.getpid(), act)
    elif order["action"] != FAIL:
        _wait_for(file.with_suffix(".go"), name)
    return bool(order["action"] == FAIL)


def _write_hit(order: dict[str, object], name: str, record: str | None) -> None:
    """Append one line to the cell's history, as the harness's own writers do.

    Raises:
        OSError: the line could not be written whole.
    """
    line = {
        "line": 1,
        "t": time.monotonic_ns(),
        "w": time.time_ns(),
        "cell": order["cell"],
        "by": "failpoint",
        "event": "failpoint",
        "name": name,
        "record": order.get("called", record),
        "hit": _hits[name],
        "action": order["action"],
        "pid": os.getpid(),
    }
    data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
    history = Path(str(order["history"]))
    history.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(history, _APPENDING, 0o644)
    try:
        if os.write(descriptor, data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(history))
    finally:
        os.close(descriptor)


def _wait_for(released: Path, name: str) -> None:
    """Wait until the harness lets this program go on.

    Raises:
        TimeoutError: it did not within :data:`HELD_S`.
    """
    ends = time.monotonic() + HELD_S
    while not released.exists():
        if time.monotonic() > ends:
            raise TimeoutError(f"waited {HELD_S:g} s for the harness to act on {name}")
        threading.Event().wait(POLL_S)


def _due(file: Path, name: str, record: str | None) -> dict[str, Any] | None:
    """Return the armed order if this call hits it, and claim it, so that no other process fires."""
    try:
        order = dict(json.loads(file.read_text()))
    except FileNotFoundError:
        return None
    if order["record"] is not None and order["record"] != record:
        return None
    _hits[name] = _hits.get(name, 0) + 1
    if _hits[name] < order["hit"]:
        return None
    try:
        file.rename(file.with_suffix(".fired"))
    except FileNotFoundError:  # another process was first
        return None
    return order


def arm(
    folder: Path,
    name: str,
    *,
    record: str | None,
    action: str,
    history: Path,
    cell: str,
    hit: int = 1,
    place: tuple[int, int] | None = None,
    called: str | None = None,
) -> None:
    """Arm the failpoint ``name`` in ``folder`` (the harness calls this). ``action``: ``kill``,
    ``pause``, ``hold`` or ``fail``.

    ``called`` is the record's name in the history, if the program knows the record by another id.
    ``place`` is the record's partition and offset, for a program that knows batches of offsets
    instead of single records.

    Raises:
        ValueError: ``action`` is none of the four.
    """
    if action not in _ACTIONS:
        raise ValueError(f"a failpoint can {' or '.join(_ACTIONS)}, not {action}")
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f".{name}.part"
    partition, offset = place or (-1, -1)
    part.write_text(
        json.dumps(
            {
                "record": record,
                "hit": hit,
                "action": action,
                "history": str(history),
                "cell": cell,
                "partition": partition,
                "offset": offset,
                "called": called or record,
            }
        )
    )
    part.rename(folder / f"{name}.json")


def release(folder: Path, name: str) -> None:
    """Let a program that is held at ``name`` go on."""
    (folder / f"{name}.go").touch()


def disarm(folder: Path, name: str) -> None:
    """Disarm ``name``; does nothing if it has fired."""
    (folder / f"{name}.json").unlink(missing_ok=True)
