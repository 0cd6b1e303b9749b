"""Who was killed, by the kernel's word: a server that lives on, or never served, makes its cell
void.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from harness.model import events as kinds
from harness.model.failures import CellFailure
from harness.model.history import HistoryWriter, read_history
from harness.model.waiting import wait_until
from harness.run.nodes import ServerNode
from harness.runtimes.interface import NodeSpec
from harness.runtimes.ports import PortLease
from harness.runtimes.process.peers import listening_at
from harness.runtimes.process.runtime import ProcessRuntime

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SERVES = "import socket,sys; s=socket.create_server(('127.0.0.1', int(sys.argv[1]))); s.accept()"
WAITS = "import signal; signal.pause()"
WITHIN_S = 30.0


@pytest.fixture
def port() -> Iterator[int]:
    """A port that nobody else has."""
    lease = PortLease(1)
    yield lease.ports[0]
    lease.close()


@pytest.mark.parametrize("victim", ["server", "helper"])
def test_only_the_death_of_the_server_is_a_death(victim: str, port: int, tmp_path: Path) -> None:
    """Whoever kills a helper of it has killed nobody: the server listens on. What was killed stands
    in the history in both cases.
    """
    with (
        ProcessRuntime(directory=tmp_path) as runtime,
        HistoryWriter(tmp_path / "h" / "runner.jsonl", cell="c", by="runner") as said,
    ):
        programs = {
            "server": (sys.executable, "-c", SERVES, str(port)),
            "helper": (sys.executable, "-c", WAITS),
        }
        nodes = {
            name: runtime.start(NodeSpec(name, "broker", argv)) for name, argv in programs.items()
        }
        wait_until(lambda: listening_at([port]), within_s=WITHIN_S, because="the server to listen")
        node = ServerNode(
            said,
            lambda: nodes["server"],
            nodes[victim].kill,
            lambda: None,
            serves_at=lambda: [port],
        )
        if victim == "server":
            node.kill()
        else:
            with pytest.raises(CellFailure, match=f"still listens at port {port}") as failure:
                node.kill()
            assert f"process {nodes['helper'].pid} was killed as broker-1" in str(failure.value)
    [end] = read_history(tmp_path / "h").of(kinds.Node)
    assert (end.phase, end.pid) == (kinds.NodePhase.EXITED, nodes[victim].pid)


def test_who_did_not_serve_cannot_be_killed(port: int, tmp_path: Path) -> None:
    with HistoryWriter(tmp_path / "h" / "runner.jsonl", cell="c", by="runner") as said:
        killed: list[str] = []
        node = ServerNode(
            said,
            lambda: None,  # type: ignore[arg-type, return-value]
            lambda: killed.append("it"),  # type: ignore[arg-type, return-value]
            lambda: None,
            serves_at=lambda: [port],
        )
        with pytest.raises(CellFailure, match=f"nobody listens at port {port}"):
            node.kill()
    assert not killed
