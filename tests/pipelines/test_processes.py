"""A stage of several processes: which of them owns a connection, and the death and the pause of one of them alone."""

from __future__ import annotations

import contextlib
import signal
import socket
import sys
from typing import TYPE_CHECKING

import pytest

from harness.core import events as kinds
from harness.core.history import HistoryWriter, read_history
from harness.core.scenario import Role
from harness.core.waiting import wait_until
from harness.pipelines.declaration import Stage
from harness.runtimes.process import ProcessRuntime
from harness.runtimes.process.processes import group_members, stopped
from harness.systems.declared.nodes import CommandNode, OneProcess, StageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WORKER = 'import socket, sys; s = socket.create_connection(("127.0.0.1", int(sys.argv[1]))); s.recv(1)'


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A place to connect to."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        found.settimeout(20)
        yield found


@pytest.fixture
def stage(tmp_path: Path, listener: socket.socket) -> Iterator[CommandNode]:
    """A shell, and two workers that each have a connection."""
    file = tmp_path / "worker.py"
    file.write_text(WORKER, encoding="utf-8")
    one = f"{sys.executable} {file} {listener.getsockname()[1]}"
    with (
        ProcessRuntime(directory=tmp_path / "nodes") as runtime,
        HistoryWriter(tmp_path / "r.jsonl", cell="c", by="runner") as out,
    ):
        node = CommandNode(
            stage=Stage(role=Role.CONSUMER, command=("sh", "-c", f"{one} & {one} & wait"), crash="process"),
            values={"bootstrap": "", "work": tmp_path}, runtime=runtime, history=out, cell_key="c", directory=tmp_path,
            log=tmp_path / "log", failpoints=tmp_path, fetches=lambda _: True, stdin=False, hint=lambda: "",
        )  # fmt: skip
        node.start()
        yield node


def test_one_of_them_dies_alone(stage: CommandNode, listener: socket.socket, tmp_path: Path) -> None:
    """The one at the other end of a connection; its sibling and their parent live on, and only it is written down as dead."""
    with contextlib.ExitStack() as ends:
        ports = []
        for _ in range(2):
            end, peer = listener.accept()
            ends.enter_context(end)
            ports.append(peer[1])
        owners = [stage.owner(port) for port in ports]
        assert None not in owners
        assert len(set(owners)) == 2
        assert stage.node is not None
        assert stage.node.pid not in owners, "the shell has no connection"
        victim, other = (pid or 0 for pid in owners)
        assert stage.owner(1) is None
        target = stage.one(victim)
        assert isinstance(target, OneProcess)
        target.pause()
        assert stopped(victim)
        assert not stopped(other)
        target.resume()
        target.kill()
        wait_until(lambda: victim not in group_members(stage.node.pid), within_s=10, because="it to be reaped")
        assert set(group_members(stage.node.pid)) == {stage.node.pid, other}
        with pytest.raises(StageError, match="before it could be killed"):
            target.kill()
    events = list(read_history(tmp_path).of(kinds.NODE))
    assert [(e["phase"], e["pid"] == victim) for e in events[1:]] == [("paused", True), ("resumed", True), ("exited", True)]
    assert events[-1]["signal"] == signal.SIGKILL
    assert events[-1]["of"] == stage.node.pid
