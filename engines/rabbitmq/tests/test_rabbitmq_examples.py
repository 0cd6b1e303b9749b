"""What the package says of its examples, by lostack check.

Proves that the right one keeps its records, also where the node is killed or its reader comes late,
and that automatic acknowledgement, and messages that no queue takes, are found and lost.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
WITHIN_S = 300.0
LATE = "consumer-started-late"
ON_ITS_WAY = "consumer-crash-at-last-delivery"
LOST = "acknowledgement-lost"

pytestmark = [
    pytest.mark.rabbitmq,
    pytest.mark.rest(together=True),
    pytest.mark.timeout(WITHIN_S + 60),
]


def check(example: str, folder: Path, *points: str) -> tuple[int, dict[str, dict[str, Any]], str]:
    """Check an example; return the exit status, what the report says of each cell, and what was
    printed.
    """
    only = [word for name in points for word in ("--only", name)]
    file = EXAMPLES / example / "pipeline.toml"
    done = subprocess.run(
        [sys.executable, "-m", "harness.cli", "check", str(file), *only],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN_S,
    )
    report = folder / "reports" / "latest" / "report.json"
    assert report.exists(), done.stdout + done.stderr
    cells = json.loads(report.read_text(encoding="utf-8"))["cells"]
    return done.returncode, {cell["scenario"]: cell for cell in cells}, done.stdout


def test_who_acknowledges_after_the_work_keeps_everything(tmp_path: Path) -> None:
    """And nothing that it says is left untried: pika's connection to itself is no server."""
    points = ON_ITS_WAY, "broker-crash-before-ack", LATE
    status, cells, said = check("orders", tmp_path, *points)
    assert {name: cell["outcome"] for name, cell in cells.items()} == dict.fromkeys(points, "kept")
    assert "is not tried" not in said
    assert status == 0, said


def test_what_is_refused_for_good_is_a_dead_letter_or_dropped(tmp_path: Path) -> None:
    """One that its queue has moved to another one is set aside; without that it is lost, and told
    as refused, not as acknowledged.
    """
    status, cells, said = check("letters", tmp_path, ON_ITS_WAY)
    assert (cells[ON_ITS_WAY]["outcome"], cells[ON_ITS_WAY]["set_aside"]) == ("kept", 4), said
    assert status == 0, said
    status, cells, said = check("dropped", tmp_path, "none")
    assert {cell["outcome"] for cell in cells.values()} == {"broken"}
    assert "4 lost" in said
    assert "delivered, rejected" in said
    assert status == 1, said


def test_over_stomp_a_lost_acknowledgement_gives_the_work_again(tmp_path: Path) -> None:
    """Which at-least-once permits. The protocol is a declaration's choice."""
    _, cells, said = check("stomp", tmp_path, LOST)
    assert {name: cell["outcome"] for name, cell in cells.items()} == {LOST: "kept"}, said
    assert cells[LOST]["duplicated_ids"] == [cells[LOST]["target"]], said


def test_automatic_acknowledgement_loses_what_is_on_its_way(tmp_path: Path) -> None:
    status, cells, said = check("hasty", tmp_path, ON_ITS_WAY)
    assert {name: cell["outcome"] for name, cell in cells.items()} == {ON_ITS_WAY: "broken"}
    assert len(cells[ON_ITS_WAY]["lost_ids"]) == 1
    assert "acknowledged before delivery, never delivered" in said
    assert status == 1, said


def test_what_no_queue_takes_is_confirmed_and_lost(tmp_path: Path) -> None:
    """Where its reader, which declares the queue, is started late."""
    status, cells, said = check("unrouted", tmp_path, LATE)
    assert {name: cell["outcome"] for name, cell in cells.items()} == {LATE: "broken"}
    assert cells[LATE]["target"] in cells[LATE]["lost_ids"]
    assert status == 1, said
