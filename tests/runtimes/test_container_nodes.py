"""A container's node and its making, with an engine that is played: what is asked of it, and how
its word is read.
"""

from __future__ import annotations

import os
import signal
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from docker.errors import APIError
from testcontainers.core.container import DockerContainer

from harness.runtimes.docker.creation import create
from harness.runtimes.docker.engine import EngineError
from harness.runtimes.docker.node import KILLED, DockerNode
from harness.runtimes.interface import ContainerSpec, Exit, NodeSpec, NodeStateError, SmallDisk

if TYPE_CHECKING:
    from pathlib import Path

KILL, TERM, CONT = signal.SIGKILL, signal.SIGTERM, signal.SIGCONT


class Container:
    """A container of the played engine: what it was asked, and the state that follows."""

    short_id = "c0ffee"

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.state: dict[str, Any] = {"Paused": False, "OOMKilled": False}
        self.processes = [["7", "S"]]
        self.refuses = ""

    def _do(self, what: str) -> None:
        self.asked.append(what)
        if self.refuses:
            raise APIError("Conflict", explanation=self.refuses)

    def kill(self, signal: str) -> None:
        """Note a signal; who is told to go on does."""
        self._do(signal)
        if signal == CONT.name:
            self.processes = [["7", "S"]]

    def pause(self) -> None:
        """Freeze it."""
        self._do("pause")
        self.state["Paused"] = True

    def unpause(self) -> None:
        """Thaw it."""
        self._do("unpause")
        self.state["Paused"] = False

    def top(self, ps_args: str) -> dict[str, Any]:
        """Show its processes."""
        assert ps_args == "-eo pid,stat"
        return {"Processes": self.processes}


class Host:
    """A runtime that knows the state of its containers, and nothing else."""

    def check(self) -> None:
        """All is well."""

    def state(self, node: DockerNode) -> dict[str, Any]:
        """Return what the engine says."""
        return dict(node.container.state)


@pytest.fixture
def node(tmp_path: Path) -> DockerNode:
    """A node that is up."""
    host: Any = Host()
    made = DockerNode(
        host, NodeSpec("b", "broker", ("run",)), log_path=tmp_path / "b.log", incarnation=1
    )
    made.container = Container()
    return made


def test_a_pause_is_what_the_engine_shows(node: DockerNode) -> None:
    """Frozen and thawed; where the engine says so and shows something else, nobody believes it."""
    node.pause()
    assert node.container.state["Paused"]
    node.resume()
    assert node.container.asked == ["pause", "unpause"]
    node.container.pause = lambda: None
    with pytest.raises(NodeStateError, match="not paused, although the engine reported success"):
        node.pause()


def test_who_has_stopped_itself_is_told_to_go_on(node: DockerNode) -> None:
    node.container.processes = [["7", "S"], ["8", "Tl"]]
    assert node.stands_still()
    node.resume()
    assert not node.stands_still()
    assert node.container.asked == [CONT.name]


def test_an_ended_node_is_asked_nothing(node: DockerNode) -> None:
    node.end(Exit(7, None, KILL, 1))
    assert not node.tell_to_end()
    assert (node.kill().signal, node.container.asked, node.stands_still()) == (KILL, [], False)
    with pytest.raises(NodeStateError, match="cannot pause node b: it has ended by"):
        node.pause()


def test_a_signal_that_the_engine_did_not_take_was_not_sent(node: DockerNode) -> None:
    """It had just ended: an end by that signal is not ours. Any other refusal is told."""
    node.container.refuses = "Container c0ffee is not running"
    assert not node.tell_to_end()
    assert node.sent == set()
    node.container.refuses = "disk on fire"
    with pytest.raises(EngineError, match="disk on fire"):
        node.tell_to_end()


@pytest.mark.parametrize(
    ("code", "sent", "oom", "host_pids", "number"),
    [
        (0, set(), False, False, None),
        (1, {TERM}, False, True, None),
        (KILLED + KILL, {KILL}, False, False, KILL),
        (KILLED + KILL, set(), False, False, None),  # a shell whose child has died so
        (KILLED + TERM, {KILL}, False, False, None),
        (KILLED + KILL, set(), True, False, KILL),
        (KILLED + TERM, set(), True, False, None),
        (KILLED + KILL, set(), False, True, KILL),  # a failpoint
        (255, {KILL}, True, True, None),
    ],
)
def test_an_exit_code_is_a_signal_where_somebody_sent_it(
    node: DockerNode, *, code: int, sent: set[int], oom: bool, host_pids: bool, number: int | None
) -> None:
    """The engine shows a death by signal n as 128 + n, and so may a program that
    leaves by itself.
    """
    node.sent = sent
    node.spec = NodeSpec("b", "broker", ("run",), container=ContainerSpec(host_pids=host_pids))
    assert node.signal_of(code, oom=oom) == number


def test_a_death_for_want_of_memory_is_awaited(
    node: DockerNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine learns of the death first; who was killed by us is asked once."""
    told = iter([False, False, True])
    monkeypatch.setattr(Host, "state", lambda *_: {"OOMKilled": next(told, True)})
    assert node.out_of_memory(KILLED + KILL)
    monkeypatch.setattr("harness.runtimes.docker.node.REASON_WITHIN_S", 0.1)
    monkeypatch.setattr(Host, "state", lambda *_: {"OOMKilled": False})
    assert not node.out_of_memory(KILLED + KILL)
    asked: list[int] = []

    def state(*_: object) -> dict[str, bool]:
        asked.append(1)
        return {"OOMKilled": False}

    monkeypatch.setattr(Host, "state", state)
    node.sent = {KILL}
    assert not node.out_of_memory(KILLED + KILL)
    assert asked == [1]


def test_a_container_is_made_as_its_spec_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Image, name, network and the name there, ports on loopback only, folders, volumes, a disk,
    labels and user.
    """
    made: list[DockerContainer] = []
    monkeypatch.setattr(
        DockerContainer,
        "__init__",
        lambda self, image: self.__dict__.update(
            image=image,
            volumes={},
            env={},
            ports={},
            _network=None,
            _network_aliases=None,
            _kwargs={},
            _name=None,
            _command=None,
        ),
    )
    monkeypatch.setattr(DockerContainer, "start", lambda self: made.append(self))  # noqa: PLW0108 - a method
    monkeypatch.setattr(DockerContainer, "get_wrapped_container", lambda self: self)
    monkeypatch.setattr("os.getuid", lambda: 12345)
    wants = ContainerSpec(
        image="kafka",
        ports=(9092,),
        folders=(tmp_path / "data",),
        volumes=(("v", tmp_path / "v"),),
        memory="256m",
        disk=SmallDisk(tmp_path / "small", 1 << 20),
    )
    network: Any = SimpleNamespace(name="lostack-1")
    image: Any = SimpleNamespace(id="sha256:1", reference="kafka:4")
    spec = NodeSpec("b", "broker", ("run", "it"), {"A": "1"}, container=wants)
    create(
        spec,
        image,
        name="lostack-1-b-1",
        labels={"run": "1"},
        network=network,
        disk="lostack-1-b",
        accounts=tmp_path / "passwd",
    )
    one: Any
    [one] = made
    assert (one.image, one._name, one._command, one.env) == (
        "sha256:1",
        "lostack-1-b-1",
        ["run", "it"],
        {"A": "1"},
    )
    assert (one._network, one._network_aliases, one.ports) == (
        network,
        ["b"],
        {"9092/tcp": ("127.0.0.1", 9092)},
    )
    assert {path: where["bind"] for path, where in one.volumes.items()} == {
        str(tmp_path / "data"): str(tmp_path / "data"),
        "v": str(tmp_path / "v"),
        "lostack-1-b": str(tmp_path / "small"),
        str(tmp_path / "passwd"): "/etc/passwd",
    }
    assert (tmp_path / "data").is_dir()
    assert f"12345:{os.getgid()}" in (tmp_path / "passwd").read_text()
    kwargs = one._kwargs
    assert (kwargs["labels"], kwargs["user"]) == (
        {"run": "1", "lostack.node": "b"},
        f"12345:{os.getgid()}",
    )
    assert (kwargs["mem_limit"], kwargs["hostname"]) == ("256m", "b")
