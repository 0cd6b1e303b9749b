"""Who has ended a worker, and what it has in hand: its supervisor's word, and the wire's."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from harness.model import events as kinds
from harness.run.control_port import ControlPort
from harness.run.drain import StageEndedError
from harness.systems.storm.cluster import Cluster
from harness.systems.storm.desk import DeskError, ask
from harness.systems.storm.settings import STORM_AT_LEAST_ONCE
from harness.systems.storm.topology import RunningTopology
from tests.events import told as line_told
from tests.events import typed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from harness.systems.kafka.scene import Scene

SUPERVISOR = """18:00:01,000 INFO  BasicContainer SLOT_11001 - Launching worker with assignment x for this supervisor y id w-1
18:00:09,000 INFO  BasicContainer Thread-9 - Worker Process w-1 exited with code: 137
18:00:19,000 INFO  BasicContainer Thread-9 - Worker Process w-2 exited with code: 20
"""  # noqa: E501


class SoFar:
    """What a history says so far."""

    def __init__(self) -> None:
        self.events: list[kinds.Event] = []

    def tell(self, kind: str, **fields: Any) -> None:
        """Let the history have an event."""
        self.events.append(typed({"event": kind, **fields}))

    def of(self, kind: type[kinds.Event]) -> list[kinds.Event]:
        """Return the events of a kind."""
        return [event for event in self.events if isinstance(event, kind)]

    def finder(
        self, kind: type[kinds.Event], fits: Callable[[Any], bool]
    ) -> Callable[[], list[kinds.Event]]:
        """Return what finds those that fit."""
        return lambda: [event for event in self.of(kind) if fits(event)]


class Stage:
    """A topology whose supervisor's log is a file of ours, and whose worker is a
    process of ours.
    """

    def __init__(self, folder: Path) -> None:
        self.log = folder / "supervisor.log"
        self.log.write_text("")
        self.so_far = SoFar()
        self.told: list[dict[str, Any]] = []
        history = SimpleNamespace(write=lambda event: self.told.append(line_told(event)))
        cell = SimpleNamespace(settings=STORM_AT_LEAST_ONCE, key="k")
        scene = SimpleNamespace(history=history, so_far=self.so_far, sink="k.out", cell=cell)
        cluster = Cluster(cast("Any", None), cast("Any", None), folder)
        cluster._nodes["supervisor"] = cast("Any", SimpleNamespace(log_path=self.log))
        self.topology = RunningTopology(cast("Scene", scene), cluster, cast("Any", None))
        self.process = subprocess.Popen((sys.executable, "-c", "input()"), stdin=subprocess.PIPE)

    def ready(self, worker: str) -> None:
        """Let the worker say that it does its work."""
        number = self.topology.worker.incarnation + 1
        self.so_far.tell(kinds.READY, by=f"worker-{number}", pid=self.process.pid, worker=worker)
        self.topology.worker.await_ready()

    def given(self, record: str, *, answered: bool, by: str = "worker-1") -> None:
        """Let the bolt be given a record, and its client ask for the result to be written."""
        self.so_far.tell(kinds.DELIVERED, by=by, record=record)
        asked = {"record": record, "request": f"1:{record}"}
        self.so_far.tell("sent", topic="k.out", attempt=f"{by}.0.1", **asked)
        if answered:
            self.so_far.tell(kinds.PRODUCE_ANSWER, error=0, **asked)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """One, whose worker is gone afterwards."""
    made = Stage(tmp_path)
    yield made
    made.process.kill()
    made.process.communicate()


def test_a_worker_has_ended_when_its_supervisor_says_so(stage: Stage) -> None:
    """By the signal that a shell would tell of, or by itself; and only the one that is meant."""
    stage.ready("w-3")
    stage.log.write_text(SUPERVISOR)
    assert stage.topology.worker.ended() is None
    for worker, how in (("w-1", (9, None)), ("w-2", (None, 20))):
        stage.ready(worker)
        assert stage.topology.worker.ended() is not None
        assert (
            stage.told[-1]["phase"],
            stage.told[-1].get("signal"),
            stage.told[-1].get("status"),
        ) == (
            "exited",
            *how,
        )
    stage.topology.worker.ended()
    assert [each["phase"] for each in stage.told].count("exited") == 2


def test_who_is_killed_dies_by_sigkill(stage: Stage) -> None:
    stage.ready("w-1")
    threading.Thread(target=lambda: stage.process.wait() or None).start()
    stage.log.write_text(SUPERVISOR)
    stage.topology.worker.kill()
    assert stage.process.wait() == -signal.SIGKILL
    assert stage.told[-1]["signal"] == signal.SIGKILL


def test_a_worker_that_ends_by_itself_is_missed(stage: Stage) -> None:
    stage.ready("w-2")
    assert stage.topology.trouble() is None
    os.kill(stage.process.pid, signal.SIGTERM)
    stage.process.wait()
    stage.log.write_text(SUPERVISOR)
    with pytest.raises(StageEndedError, match="20"):
        stage.topology.trouble()


def test_what_the_bolt_has_in_hand_is_waited_for(stage: Stage) -> None:
    """A result is written when that was answered; what an earlier worker had is nobody's."""
    stage.ready("w-1")
    stage.given("k0-1", answered=True)
    assert stage.topology.unwritten() is None
    stage.given("k0-2", answered=False)
    assert "k0-2" in str(stage.topology.unwritten())
    stage.ready("w-2")
    assert stage.topology.unwritten() is None
    stage.given("k0-2", answered=True, by="worker-2")
    assert stage.topology.unwritten() is None


def answering(lines: bytes) -> int:
    """Serve one answer; return the port."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with server, server.accept()[0] as client:
            client.recv(1 << 16)
            client.sendall(lines)

    threading.Thread(target=serve, daemon=True).start()
    return int(server.getsockname()[1])


def test_a_desk_answers_with_lines_or_says_why_not() -> None:
    def desk(port: int) -> ControlPort:
        return ControlPort(port, 5.0)

    assert ask(desk(answering(b'{"supervisor": "s", "slots": 8}\n\n')), "list") == [
        {"supervisor": "s", "slots": 8}
    ]
    for port in (answering(b'{"error": "NotAliveException: t\\nat x"}\n\n'), answering(b""), 1):
        with pytest.raises(DeskError, match=r"^kill: [^\n]*$"):
            ask(desk(port), "kill", "t")
