"""Proves with real workers what a source and a sink connector lose and duplicate when they are
killed, and that this can fail.
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
pytestmark = [pytest.mark.kafka, pytest.mark.rest(together=True)]
WITHIN_S = 600.0
WRONG = """
import sys
if "harness.cli" in sys.orig_argv:
    from harness.runtimes.interface import NodeSpec
    from harness.run.nodes import StageNode

    def kill(self):
        spec = NodeSpec("helper", self.role, ("sleep", "600"))
        end = self.runtime.start(spec).kill()
        self._say(NodePhase.EXITED, pid=end.pid, status=end.status, signal=end.signal)

    StageNode.kill = kill
"""


def run(folder: Path, *words: str, first: str = "") -> tuple[int, list[dict[str, Any]], str]:
    """Run cells; return the exit status, what the report says of each, and what was printed."""
    done = subprocess.run(
        [sys.executable, "-m", "harness.cli", "run", "--system", "connect", *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (first, str(ROOT))))},
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN_S,
    )
    report = folder / "reports" / "latest" / "report.json"
    cells = json.loads(report.read_text())["cells"] if report.exists() else []
    return done.returncode, cells, done.stdout + done.stderr


def test_cells_find_what_is_lost_doubled_and_protected(tmp_path: Path) -> None:
    """A worker that dies with an acknowledgement on its way, with transactions and without; two
    wrong connectors; and places inside tasks, with reports in a folder of the present one.
    """
    only = (
        "connect-source/producer-crash-before-ack",
        "control-connect-offset-too-far",
        "control-connect-row-too-late",
        "connect-source-task-fails",
        "connect-sink/consumer-crash-before-commit",
    )
    words = [word for each in only for word in ("--only", each)]
    status, cells, said = run(tmp_path, *words)
    assert status == 0, said
    found = {
        (cell["scenario"], cell["semantic"]): (
            cell["outcome"],
            len(cell["lost_ids"]),
            len(cell["duplicated_ids"]),
        )
        for cell in cells
    }
    assert found["producer-crash-before-ack", "at-least-once"] == ("kept", 0, 1)
    assert found["producer-crash-before-ack", "exactly-once"] == ("kept", 0, 0)
    assert found["control-connect-offset-too-far", "at-least-once"] == ("convicted", 1, 0)
    assert found["control-connect-row-too-late", "at-least-once"][0] == "convicted"


def test_a_kill_that_hits_something_else_proves_nothing(tmp_path: Path) -> None:
    """A helper is killed in the worker's place: void, whatever was counted."""
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "sitecustomize.py").write_text(WRONG)
    only = ("--only", "connect-source/producer-crash-before-ack/at-least-once")
    status, cells, said = run(tmp_path, *only, first=str(tmp_path / "first"))
    assert status == 4, said
    assert [cell["outcome"] for cell in cells] == ["void"]
