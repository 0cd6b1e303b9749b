"""Cells on a real nats-server, with real kills, as anybody runs them; and that they can fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.server
WITHIN_S = 240.0


def run(folder: Path, *words: str, first: str = "") -> tuple[int, list[dict[str, Any]], str]:
    """Run cells; return the exit status, what the report says of each, and what was printed."""
    done = subprocess.run(
        [sys.executable, "-m", "harness.cli", "run", "--suite", "night", *words],
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
    """On a stream with limits and on a work queue; a server killed behind the store."""
    only = (
        "stream/none",
        "stream/request-lost/at-most-once",
        "stream/ack-lost",
        "stream/broker-crash-before-ack",
        "work-queue/none/exactly-once",
        "work-queue/broker-crash-after-acknowledgement/exactly-once",
    )
    words = [word for each in only for word in ("--only", each)]
    status, cells, said = run(tmp_path, "--system", "nats", *words)
    assert status == 0, said
    assert {cell["outcome"] for cell in cells} == {"kept"}
    found = {
        (cell["scenario"], cell["semantic"]): (len(cell["lost_ids"]), len(cell["duplicated_ids"]))
        for cell in cells
        if cell["pipeline"] == "stream"
    }
    assert found["none", "at-least-once"] == (0, 0)
    assert found["request-lost", "at-most-once"] == (1, 0)
    assert found["ack-lost", "at-least-once"] == (0, 1)
    assert found["broker-crash-before-ack", "at-least-once"][1] >= 1
    assert {"nats-deduplicated", "nats-taken-off"} <= {cell["sign"] for cell in cells}


WRONG = """
import sys
if "harness.cli" in sys.orig_argv:
    from harness.runtimes.interface import NodeSpec
    from lostack_nats.broker import NatsServer

    def kill(self):
        return self.runtime.start(NodeSpec("helper", "helper", ("sleep", "600"))).kill()

    NatsServer.kill = kill
"""


def test_a_kill_that_hits_something_else_is_void(tmp_path: Path) -> None:
    """A helper is killed in place of the server, which serves on: the kernel knows better."""
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "sitecustomize.py").write_text(WRONG)
    only = ("--only", "work-queue/broker-crash-after-acknowledgement/exactly-once")
    status, cells, said = run(tmp_path, "--system", "nats", *only, first=str(tmp_path / "first"))
    assert status == 4, said
    assert [cell["outcome"] for cell in cells] == ["void"]
    assert "was killed as broker-1, but broker-1 still listens at port" in said


def test_a_stream_with_three_copies_outlives_its_leader(tmp_path: Path) -> None:
    """Another server leads, and has the message; who sends it again doubles it, but by its id. What
    nobody acknowledged comes again from the next leader of the consumer.
    """
    only = (
        "replicated/leader-crash-before-ack/at-least-once",
        "replicated/follower-crash/exactly-once",
    )
    words = [word for each in only for word in ("--only", each)]
    status, cells, said = run(tmp_path, "--system", "nats", *words)
    assert status == 0, said
    found = {cell["scenario"]: (len(cell["duplicated_ids"]), cell["sign"]) for cell in cells}
    assert found["leader-crash-before-ack"][0] == 1
    assert found["follower-crash"] == (0, "served-on")


FOLLOWER = """
import sys
if "harness.cli" in sys.orig_argv:
    from harness.run.queue_served import QueueServed

    QueueServed.home = lambda self, role: self.servers[1 if role == "producer" else 2]
    from harness.run.queue_cluster import QueueCluster

    QueueCluster.place = lambda self: self.say()
    from lostack_nats.broker import NatsServer

    settle = NatsServer.create

    def create(self, queue, pipeline):
        settle(self, queue, pipeline)
        while not (led := self.led(queue)[0]).leader or led.leader == "broker-2":
            if led.leader:
                self.hand_over(led, "broker-1")

    NatsServer.create = create
"""


@pytest.mark.rest
def test_a_kill_of_another_than_the_leader_is_void(tmp_path: Path) -> None:
    """The producer is connected to a follower, which would die in place of the leader."""
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "sitecustomize.py").write_text(FOLLOWER)
    only = ("--only", "replicated/leader-crash-before-ack/exactly-once")
    status, cells, said = run(tmp_path, "--system", "nats", *only, first=str(tmp_path / "first"))
    assert status == 4, said
    assert [cell["outcome"] for cell in cells] == ["void"]
