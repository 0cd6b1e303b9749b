"""The wire as a process: how it starts, ends, and fails."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from harness.model import events as kinds
from harness.model.history import read_history
from harness.model.waiting import wait_until
from harness.protocols.kafka.steps import Api
from harness.wire.control import WireControl, argv
from harness.wire.door import SECRET, connect, greeting, new_secret
from harness.wire.messages import Route, WireError
from harness.wire.rules import Action, Rule
from tests.wire.broker import WITHIN_S, Client, ScriptedBroker, request, response
from tests.wire.conftest import WireProcess, hit_in

if TYPE_CHECKING:
    from pathlib import Path


def joined(wire: WireProcess, broker: ScriptedBroker) -> Client:
    """Route, cell and a client that has exchanged a frame."""
    state = wire.control.add_route(Route("r", "b", "producer", 0, broker.port, protocol="kafka"))
    wire.control.open_cell("cell", "k", wire.directory / "cell" / "wire.jsonl")
    client = Client(state.listen_port)
    assert client.ask(request(Api.HEARTBEAT, 1)) == response(1, b"answer")
    return client


def test_a_killed_wire_leaves_a_readable_history(tmp_path: Path) -> None:
    """SIGKILL loses no line that was written, the clients see their connections end, the harness
    hears of it.
    """
    wire = WireProcess.start(tmp_path)
    with ScriptedBroker() as broker, joined(wire, broker) as client:
        wire.control.arm("cell", Rule("r", Action.HOLD, Api.SYNC_GROUP))
        wire.process.send_signal(signal.SIGKILL)
        wire.process.wait(WITHIN_S)
        assert client.ended()
        history = read_history(tmp_path / "cell")
        assert [e.event for e in history.events] == ["conn", "frame", "frame", "rule"]
        assert history.damage == ()
        with pytest.raises(WireError, match="the wire is gone"):
            wire.control.routes()
        with pytest.raises(WireError, match="the wire is gone"):
            wait_until(wire.control.check, within_s=WITHIN_S, because="the harness to hear of it")
    wire.control.close()
    for stream in (wire.process.stdin, wire.process.stdout):
        assert stream is not None
        stream.close()


@pytest.mark.parametrize("how", ["stdin", "SIGTERM", "SIGINT"])
def test_an_orderly_end_resolves_what_is_held(tmp_path: Path, how: str) -> None:
    """When its starter leaves or asks it to, the wire discards what it holds, says so, and ends
    with 0.
    """
    wire = WireProcess.start(tmp_path)
    with ScriptedBroker() as broker, joined(wire, broker) as client:
        wire.control.arm("cell", Rule("r", Action.HOLD, Api.SYNC_GROUP))
        client.send(request(Api.SYNC_GROUP, 2))
        hit_in(tmp_path / "cell")
        wire.control.check()
        if how != "stdin":
            wire.process.send_signal(signal.Signals[how])
            wire.process.wait(WITHIN_S)
        assert wire.stop() == 0
        assert client.ended()
        phases = [e.phase for e in read_history(tmp_path / "cell").of(kinds.Rule)]
        assert phases == ["armed", "hit", "held", "discarded", "disarmed"]


def test_a_full_disk_ends_the_wire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A history that cannot be written is worth nothing: the wire says so in one line and ends with
    1.
    """
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")  # it would be half of what it should be
    wire = WireProcess.start(tmp_path, stderr=subprocess.PIPE)
    resource.prlimit(wire.process.pid, resource.RLIMIT_FSIZE, (6000, 6000))
    with ScriptedBroker() as broker, joined(wire, broker) as client:
        client.send(*(request(Api.HEARTBEAT, corr) for corr in range(2, 200)))
        assert wire.process.wait(WITHIN_S) == 1
        _, said = wire.process.communicate(timeout=WITHIN_S)
    assert said.startswith("wire: cannot write the history")
    assert said.count("\n") == 1
    with pytest.raises(WireError, match="cannot write the history"):
        wire.control.routes()
    wire.control.close()


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = subprocess.run(
        argv(tmp_path / "file", tmp_path),
        env={**os.environ, SECRET: new_secret()},
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "cannot write the history" in done.stderr


def test_nonsense_on_the_control_connection_is_answered(tmp_path: Path) -> None:
    """Lines that are no calls get an error, or end their own connection; the wire goes on for
    others.
    """
    wire = WireProcess.start(tmp_path)
    with connect(wire.address, WITHIN_S) as sock:
        lines = sock.makefile("rwb")
        lines.write(greeting(wire.secret))
        for nonsense in (
            b"{}",
            b"nonsense",
            b'{"id":1,"verb":"explode"}',
            b'{"id":2,"verb":"arm","args":{}}',
            b"[]",
        ):
            lines.write(nonsense + b"\n")
            lines.flush()
            assert b'"error"' in lines.readline()
        lines.close()
    assert wire.control.routes() == ()
    assert wire.stop() == 0


def test_nobody_there_is_one_line() -> None:
    free = socket.create_server(("127.0.0.1", 0))
    port = free.getsockname()[1]
    free.close()
    with pytest.raises(WireError, match="no wire answers"):
        WireControl.connect(port, new_secret())


def test_rules_need_neither_asyncio_nor_the_protocol_library() -> None:
    """Scenarios and faults import rules; that must stay cheap."""
    code = (
        "import sys, harness.wire.rules; print(*(m for m in ('asyncio', 'kafka') if m in "
        "sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == []


def test_a_wire_started_with_a_closed_stdin_ends(tmp_path: Path) -> None:
    """Nobody holds the other end of its stdin: it has no reason to live."""
    process = subprocess.Popen(
        argv(tmp_path, tmp_path),
        env={**os.environ, SECRET: new_secret()},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    assert process.stdin is not None
    process.stdin.close()
    wait_until(lambda: process.poll() is not None, within_s=WITHIN_S, because="the wire to end")
    assert process.returncode == 0
