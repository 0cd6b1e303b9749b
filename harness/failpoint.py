"""In-process failpoints: for the places that no wire can see.

A program calls ``failpoint("after-record", record_id)`` at a place worth crashing. Unless a harness has armed that name,
the call does nothing. Armed, the program reports the hit into its cell's history *first*, and then kills (SIGKILL) or
pauses (SIGSTOP) itself, or is told to fail, so the trigger is exact and counted. Standard library only: any Python program can
use it.

The harness arms a name by a file ``<name>.json`` in the folder named by the environment variable
``LOSTACK_FAILPOINTS``::

    {"record": "k1-7" | null, "hit": 1, "action": "kill" | "pause" | "hold" | "fail", "history": "<file>", "cell": "<cell id>",
     "called": "k1-7" | null}

``hold`` is for a program of several processes: it stands still, for the harness to kill or pause all of them, until a
file ``<name>.go`` appears. ``fail`` is for a program that can fail at the work at hand, and go on.

The file is claimed by an atomic rename, so of several processes, and over any number of restarts, exactly one fires.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

from harness.model.events import FAILPOINT
from harness.model.history import HistoryWriter
from harness.model.waiting import wait_until

VARIABLE = "LOSTACK_FAILPOINTS"
FAIL = "fail"
_ACTIONS = {"kill": signal.SIGKILL, "pause": signal.SIGSTOP, "hold": None, FAIL: None}
HELD_S = 600.0
"""Longer than a harness that lives lets anybody be held."""
_hits: dict[str, int] = {}


def failpoint(name: str, record: str | None = None) -> bool:
    """Crash or pause this process here, if the harness says so for this name and record.

    ``record`` is the id of the record in hand. Where the arming names a record, only calls with it count as hits. Returns true
    where the work at hand is to fail.
    """
    folder = os.environ.get(VARIABLE)
    file = Path(folder, f"{name}.json") if folder else None
    order = _due(file, name, record) if file else None
    if file is None or order is None:
        return False
    with HistoryWriter(Path(order["history"]), cell=order["cell"], by="failpoint") as history:
        history.write(
            FAILPOINT, name=name, record=order.get("called", record), hit=_hits[name], action=order["action"], pid=os.getpid()
        )
    act = _ACTIONS[order["action"]]
    if act is not None:
        os.kill(os.getpid(), act)
    elif order["action"] != FAIL:
        wait_until(file.with_suffix(".go").exists, within_s=HELD_S, because=f"the harness to act on {name}")
    return bool(order["action"] == FAIL)


def _due(file: Path, name: str, record: str | None) -> dict[str, Any] | None:
    """Return what is armed, where this call hits it; then it is this process's, and no other's."""
    try:
        order: dict[str, Any] = json.loads(file.read_text())
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


def arm(folder: Path, name: str, *, record: str | None, action: str, history: Path, cell: str, hit: int = 1,
        place: tuple[int, int] | None = None, called: str | None = None) -> None:  # fmt: skip
    """Arm ``name`` in ``folder`` (the harness's side). ``action``: ``kill``, ``pause``, ``hold`` or ``fail``.

    ``called`` is the name of the record in the history, where that is not the id that the program has.
    ``place`` is the record's partition and offset, for a program that knows batches of offsets and no records.

    Raises:
        ValueError: there is no such action.
    """
    if action not in _ACTIONS:
        raise ValueError(f"a failpoint can {' or '.join(_ACTIONS)}, not {action}")
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f".{name}.part"
    partition, offset = place or (-1, -1)
    part.write_text(json.dumps(
        {"record": record, "hit": hit, "action": action, "history": str(history), "cell": cell,
         "partition": partition, "offset": offset, "called": called or record}
    ))  # fmt: skip
    part.rename(folder / f"{name}.json")


def release(folder: Path, name: str) -> None:
    """Let a program go on that is held."""
    (folder / f"{name}.go").touch()


def disarm(folder: Path, name: str) -> None:
    """Take an arming back; does nothing where it has fired."""
    (folder / f"{name}.json").unlink(missing_ok=True)
