"""Cells on a real node, with real kills, as anybody runs them; and that they can fail.

Proves that what is lost and doubled on a quorum queue is found, that a killed node is back with its
messages, and that a log which is not read whole proves nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
pytestmark = [pytest.mark.rabbitmq, pytest.mark.rest(together=True)]
WITHIN_S = 400.0


def run(folder: Path, *only: str, first: str = "") -> tuple[int, dict[str, Any], str]:
    """Run cells; return the exit status, what the report says of each, and what was printed."""
    words = ["run", "--system", "rabbitmq", "--suite", "night"]
    words += [word for each in only for word in ("--only", each)]
    done = subprocess.run(
        [sys.executable, "-m", "harness.cli", *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (first, str(ROOT))))},
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN_S,
    )
    report = folder / "reports" / "latest" / "report.json"
    cells = json.loads(report.read_text())["cells"] if report.exists() else []
    named = {f"{each['pipeline']}/{each['scenario']}": each for each in cells}
    return done.returncode, named, done.stdout + done.stderr


def test_cells_find_what_is_lost_and_doubled(tmp_path: Path) -> None:
    """A killed node keeps what it has confirmed, and one whose power goes what it has flushed. Dead
    letters are set aside; without a queue for them they are lost, as what no queue takes is, unless
    it is mandatory.
    """
    wanted = {
        "quorum/none/at-least-once": (0, 0, 0),
        "quorum/request-lost/at-most-once": (1, 0, 0),
        "quorum/commit-lost+cut/at-most-once": (0, 1, 0),
        "quorum/broker-crash-before-ack/at-least-once": (0, 1, 0),
        "quorum/restarted/at-least-once": (0, 0, 0),
        "quorum/power-loss+unflushed/at-least-once": (1, 0, 0),
        "dead-letters/work-fails+poisoned/at-least-once": (0, 0, 1),
        "delivery-limit/work-fails+poisoned/at-least-once": (1, 0, 0),
        "late-queue/unroutable/at-least-once": (0, 0, 0),
        "late-queue/unroutable+not-mandatory/at-least-once": (1, 0, 0),
    }
    status, cells, said = run(tmp_path, *wanted)
    assert status == 0, said
    counted = {
        f"{name}/{cell['semantic']}": (
            min(len(cell["lost_ids"]), 1),
            len(cell["duplicated_ids"]),
            cell["set_aside"],
        )
        for name, cell in cells.items()
    }
    assert counted == wanted, said


FORGETS = """
import sys
if "harness.cli" in sys.orig_argv:
    from lostack_rabbitmq.raft import Log
    entries = Log.entries

    def without_the_first(self):
        return entries(self)[1:]

    Log.entries = without_the_first
"""


def test_a_log_that_is_not_read_whole_proves_nothing(tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "sitecustomize.py").write_text(FORGETS)
    status, cells, said = run(tmp_path, "quorum/none/at-least-once", first=str(tmp_path / "first"))
    assert status != 0, said
    assert {cell["outcome"] for cell in cells.values()} == {"void"}
