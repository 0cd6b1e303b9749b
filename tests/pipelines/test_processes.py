"""A stage of several processes: which of them owns a connection, and the death and the pause of one
of them alone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.model import events as kinds
from harness.model.history import HistoryWriter, read_history
from harness.model.scenario import Role
from harness.model.waiting import wait_until
from harness.pipelines.stages import Stage
from harness.run.nodes import LIVES
from harness.runtimes.interface import NodeSpec
from harness.runtimes.process import ProcessNode, ProcessRuntime
from harness.runtimes.process.processes import group_members, stopped
from harness.systems.declared.programs.command import StageCommand
from harness.systems.declared.programs.errors import StageError
from harness.systems.declared.programs.nodes import CommandNode
from harness.systems.declared.programs.one_process import OneProcess
from harness.systems.declared.programs.owners import Owners
from harness.systems.declared.programs.workers import REPLACED_S, Victim, Worker, Workers
from harness.systems.declared.scene import Fetched
from tests.judge.growing import tell
from tests.pipelines.scenes import KILLS, conditions_of
from tests.runtimes.test_nodes import gone

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    from tests.pipelines.scenes import Scenes

WORKER = (
    'import socket, sys; s = socket.create_connection(("127.0.0.1", int(sys.argv[1]))); s.recv(1)'
)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A place to connect to."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        found.settimeout(20)
        yield found


@contextlib.contextmanager
def stage_of(
    command: str, folder: Path, port: int, shell: str = "sh", **declared: Any
) -> Iterator[CommandNode]:
    """Start a stage by a shell; ``{worker}`` has a connection to its route's port."""
    file = folder / "worker.py"
    file.write_text(WORKER, encoding="utf-8")
    worker = f"{sys.executable} {file} {port}"
    with (
        ProcessRuntime(directory=folder / "nodes") as runtime,
        HistoryWriter(folder / "r.jsonl", cell="c", by="runner") as out,
    ):
        node = CommandNode(
            StageCommand(
                Stage(
                    role=Role.CONSUMER,
                    command=(shell, "-c", command.replace("{worker}", worker)),
                    crash="process",
                    **declared,
                ),
                {"bootstrap": f"127.0.0.1:{port}", "work": folder},
                folder,
                folder / "log",
                folder,
            ),
            runtime,
            out,
            "c",
            fetches=lambda _: True,
        )
        node.start()
        yield node


@pytest.fixture
def stage(tmp_path: Path, listener: socket.socket) -> Iterator[CommandNode]:
    """A shell, and two workers that each have a connection."""
    with stage_of("{worker} & {worker} & wait", tmp_path, listener.getsockname()[1]) as node:
        yield node


def test_one_of_them_dies_alone(
    stage: CommandNode, listener: socket.socket, tmp_path: Path
) -> None:
    """The one at the other end of a connection; its sibling and their parent live on, and only it
    is written down as dead.
    """
    with contextlib.ExitStack() as ends:
        ports = []
        for _ in range(2):
            end, peer = listener.accept()
            ends.enter_context(end)
            ports.append(peer[1])
        owners = [stage.processes.owner(port) for port in ports]
        assert None not in owners
        assert len(set(owners)) == 2
        shell = stage.processes.node
        assert shell is not None
        assert shell.pid not in owners, "the shell has no connection"
        victim, other = (pid or 0 for pid in owners)
        assert stage.processes.owner(1) is None
        target = stage.one(victim)
        assert isinstance(target, OneProcess)
        target.pause()
        assert stopped(victim)
        assert not stopped(other)
        target.resume()
        target.kill()
        wait_until(
            lambda: victim not in group_members(shell.pid),
            within_s=10,
            because="it to be reaped",
        )
        assert set(group_members(shell.pid)) == {shell.pid, other}
        with pytest.raises(StageError, match="before it could be killed"):
            target.kill()
    events = list(read_history(tmp_path).of(kinds.Node))
    assert [(e.phase, e.pid == victim) for e in events[1:]] == [
        ("paused", True),
        ("resumed", True),
        ("exited", True),
    ]
    assert events[-1].signal == signal.SIGKILL
    assert events[-1].of == shell.pid


def test_of_an_earlier_incarnation_nothing_ends_by_itself(
    scenes: Scenes, stage: CommandNode, listener: socket.socket, tmp_path: Path
) -> None:
    """A fetch of the one before, read when the next one is up: who made it is gone because it was
    told to end.
    """
    told: list[str] = []
    with listener.accept()[0] as end:
        opened = {
            "event": "conn",
            "phase": "open",
            "conn": 0,
            "role": "consumer",
            "peer": end.getpeername()[1],
        }
        scene = scenes(
            "orders", opened, history=stage.processes.history, fetched=Fetched(say=told.append)
        )
        owners = Owners(scene, {Role.CONSUMER: stage}, Workers({Role.CONSUMER: stage}, Victim()))
        owners.attribute()
        assert len(list(read_history(tmp_path).of(kinds.Owner))) == 1
        stage.kill()
        stage.start()
        tell(
            scene.history_folder,
            {"event": kinds.FRAME, "api": "Fetch", "dir": "request", "conn": 0, "role": "consumer"},
        )
        owners.attribute()
        owners.attribute()
        stage.kill()
    assert told == []


def test_nobody_is_looked_for_behind_a_connection_that_has_ended(scenes: Scenes) -> None:
    """A program connects anew for each request: looking for who is gone took so long that faults
    were noticed seconds late, or never. The others are looked for together: one by one, those of a
    worker of Kafka Connect, which has 36, took ten seconds of a busy machine.
    """
    asked: list[Collection[int]] = []

    def owners(ports: Collection[int]) -> dict[int, int]:
        asked.append(ports)
        return dict.fromkeys(ports, 1)

    stage: Any = SimpleNamespace(
        role=Role.CONSUMER, processes=SimpleNamespace(owners=owners, incarnation=1)
    )
    lines = [
        {"event": "conn", "phase": phase, "conn": conn, "role": "consumer", "peer": 7000 + conn}
        for conn in range(4)
        for phase in (("open",) if conn in {1, 2} else ("open", "close"))
    ]
    scene = scenes("orders", *lines, history=SimpleNamespace(write=lambda *_, **__: None))
    stages = {Role.CONSUMER: stage}
    Owners(scene, stages, Workers(stages, Victim())).attribute()
    assert asked == [{7001, 7002}]


def test_a_worker_that_ends_by_itself_is_told_at_once(
    scenes: Scenes, stage: CommandNode, listener: socket.socket, tmp_path: Path
) -> None:
    """Once, by its command; that no other takes its place is known a little later. What the fault
    has struck is no news.
    """
    told: list[str] = []
    with contextlib.ExitStack() as ends:
        peers = []
        for _ in range(2):
            end, peer = listener.accept()
            ends.enter_context(end)
            peers.append(peer[1])
        struck = Victim()
        workers = Workers({Role.CONSUMER: stage}, struck)
        opened = [
            {"event": "conn", "phase": "open", "conn": n, "role": "consumer", "peer": p}
            for n, p in enumerate(peers)
        ]
        asked = [
            {"event": kinds.FRAME, "api": "Fetch", "dir": "request", "conn": n, "role": "consumer"}
            for n in range(2)
        ]
        scene = scenes(
            "orders",
            *opened,
            *asked,
            history=stage.processes.history,
            fetched=Fetched(say=told.append),
        )
        stands = conditions_of(scene, workers, consumer=stage)
        stands.attribute()
        first, second = (stage.processes.owner(peer) or 0 for peer in peers)
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: gone(first), within_s=10, because="it to be gone")
        stands.attribute()
        stands.attribute()
        assert told == [
            (
                f"none: a process of the consumer has ended by itself: {first} "
                f"({command_line(tmp_path, listener)})"
            )
        ]
        assert stands.stage_trouble() is None, "its parent may yet start another"
        ended = workers._known[first].ended
        assert ended is not None
        workers._known[first].ended = ended - REPLACED_S
        for worker in workers._known.values():  # a while later
            worker.since -= REPLACED_S
        with pytest.raises(
            StageError,
            match=(
                rf"lost one of its processes: {first} .* ended by itself in a run without a "
                r"fault, and no"
            ),
        ):
            stands.stage_trouble()
        after = conditions_of(
            scenes("orders", fault=KILLS, history=stage.processes.history), workers, consumer=stage
        )
        assert after.stage_trouble() is None, "after a fault its siblings may do its work"
        struck.pid = second
        os.kill(second, signal.SIGKILL)
        wait_until(lambda: gone(second), within_s=10, because="it to be gone")
        stands.attribute()
        assert len(told) == 1
    [gone_by_itself] = [e for e in read_history(tmp_path).of(kinds.Node) if e.phase == "gone"]
    assert (gone_by_itself.pid, gone_by_itself.node) == (first, "consumer")


def test_a_worker_that_is_replaced_is_not_missed(stage: CommandNode) -> None:
    """A pool recycles its processes: as many have begun to fetch as have ended."""
    workers = Workers({Role.CONSUMER: stage}, Victim())
    began = time.monotonic() - 1000
    for pid in (901, 902, 903, 904):
        workers._known[pid] = Worker(Role.CONSUMER, pid, "worker", 1, since=began + pid)
    workers._known[901].ended = workers._known[902].ended = began + 902.5
    assert workers.missed() is None
    workers._known[903].ended = began + 903.5
    assert workers.missed() == workers._known[903]


DETACHED = {
    "setsid": ("sh", "setsid {worker} & wait"),
    "a shell with job control": ("bash", "set -m; {worker} & wait"),
    "a daemon": ("sh", "(setsid {worker} &); sleep 600"),
    "a daemon without environment": ("sh", "(setsid env -i {worker} &); sleep 600"),
}


@pytest.mark.parametrize("way", DETACHED)
def test_a_worker_that_has_left_the_group_is_the_stages_own(
    tmp_path: Path, listener: socket.socket, way: str
) -> None:
    """Its connection is the stage's, it is held, woken and killed with the stage, and that is
    written down.
    """
    shell, command = DETACHED[way]
    with stage_of(command, tmp_path, listener.getsockname()[1], shell) as stage:
        end, peer = listener.accept()
        with end:
            worker = stage.processes.owner(peer[1])
            assert worker is not None
            assert stage.processes.node is not None
            assert stage.processes.stranger(peer[1]) is None
            assert isinstance(stage.one(worker), OneProcess)
            stage.processes.claim(worker)
            stage.pause()
            assert stopped(worker)
            stage.resume()
            assert not stopped(worker)
            stage.kill()
            assert gone(worker)
            assert end.recv(1) == b""
    started, joined, paused, resumed, exited = list(read_history(tmp_path).of(kinds.Node))
    assert [e.phase for e in (started, joined, paused, resumed, exited)] == [
        "started",
        "joined",
        "paused",
        "resumed",
        "exited",
    ]
    assert (joined.pid, joined.of) == (worker, started.pid)
    for event in (paused, exited):
        assert [command for pid, _, command in event.members if pid == worker] == [
            command_line(tmp_path, listener)
        ]
    assert exited.signal == signal.SIGKILL
    assert not exited.left


def test_who_does_not_come_back_is_found_so_by_its_supervisor(
    tmp_path: Path, listener: socket.socket
) -> None:
    """It has left a lock behind, and refuses to start: the crash has been done all the same, and
    its last words are told.
    """
    locked = "[ -e lock ] && { echo locked by another; exit 3; }; touch lock; exec {worker}"
    with stage_of(locked, tmp_path, listener.getsockname()[1]) as stage:
        end, _ = listener.accept()
        with end:
            stage.kill()
        stage.restart()
        said: list[str] = []

        def in_vain() -> StageError | None:
            try:
                said.append(stage.supervise() or "")
            except StageError as error:
                return error
            return None

        error = wait_until(in_vain, within_s=20, because="its supervisor to give it up")
    assert error.stage == "consumer"
    assert str(error) == (
        f"the consumer ended with status 3, started {LIVES + 1} times; "
        "it last said: locked by another"
    )
    assert said.count("the consumer ended with status 3 and was started again") == LIVES - 1, (
        "the start after the kill does not count"
    )


def test_kills_are_no_crash_loop(tmp_path: Path, listener: socket.socket) -> None:
    """A fault may strike as often as a program may end by itself."""
    command = "[ -e lock ] && { rm lock; exit 3; }; exec {worker}"
    with stage_of(command, tmp_path, listener.getsockname()[1]) as stage:
        for _ in range(LIVES - 1):
            stage.kill()
            stage.restart()
        stage.kill()
        (tmp_path / "lock").touch()
        stage.restart()
        told = wait_until(stage.supervise, within_s=20, because="its supervisor to start it again")
    assert told == "the consumer ended with status 3 and was started again"


def test_who_is_down_for_a_while_comes_back_later(tmp_path: Path, listener: socket.socket) -> None:
    """Killed, or ended by itself: what it knew only for a time may have lapsed by then."""
    with stage_of(
        "[ -e lock ] && exit 3; exec {worker}", tmp_path, listener.getsockname()[1], down_s=0.5
    ) as stage:
        listener.accept()[0].close()
        stage.kill()
        stage.restart()
        (tmp_path / "lock").touch()
        stage.kill()
        stage.restart()  # it ends by itself
        said = []
        while stage.processes.incarnation == 3:
            said.append(stage.supervise())
        assert "the consumer ended with status 3, and stays down for 0.5 s" in said
        assert said[-1] == "the consumer ended with status 3 and was started again"
    lives = [e for e in read_history(tmp_path).of(kinds.Node) if e.phase in {"started", "exited"}]
    ends, starts = ([e.t for e in lives if e.phase == phase] for phase in ("exited", "started"))
    assert all(start - end >= 0.5e9 for end, start in zip(ends[:3], starts[1:], strict=True))


def test_who_comes_back_and_does_nothing_is_found_so(
    tmp_path: Path, listener: socket.socket
) -> None:
    """It waits for the lock of its former life for ever: nobody waits with it until the end of the
    drain.
    """
    with stage_of(
        "[ -e lock ] && echo waiting; touch lock; exec {worker}",
        tmp_path,
        listener.getsockname()[1],
        ready_within_s=0.5,
    ) as stage:
        listener.accept()[0].close()
        stage.kill()
        stage.readiness.fetches = lambda _: False
        stage.restart()
        with pytest.raises(
            StageError,
            match=r"was not ready within 0.5 s: it never fetched .*; it last said: waiting",
        ):
            stage.supervise()
        stage.readiness.fetches = lambda _: True  # it was slow
        assert stage.supervise() is None


def test_who_is_held_up_by_what_died_before_it_is_given_that_much_longer(
    tmp_path: Path, listener: socket.socket
) -> None:
    """The position is not told before the transaction of the dead process has ended."""
    with stage_of(
        "exec {worker}", tmp_path, listener.getsockname()[1], ready_within_s=0.2
    ) as stage:
        told = time.monotonic() + 1
        stage.readiness.fetches = lambda _: time.monotonic() > told
        with pytest.raises(StageError, match=r"was not ready within 0.2 s"):
            stage.await_ready()
        stage.held_up_s = lambda: 30.0
        stage.await_ready()


def command_line(folder: Path, listener: socket.socket) -> str:
    """Return a worker's command line."""
    return f"{sys.executable} {folder / 'worker.py'} {listener.getsockname()[1]}"


def test_a_stranger_on_the_route_is_named_and_not_touched(
    scenes: Scenes, tmp_path: Path, listener: socket.socket
) -> None:
    """A survivor of another cell, or somebody's own program; a connection of the harness's, or one
    that is gone, is nobody's.
    """
    port = listener.getsockname()[1]
    with (
        stage_of("{worker} & wait", tmp_path, port) as stage,
        ProcessRuntime(directory=tmp_path / "others") as elsewhere,
        contextlib.ExitStack() as ends,
    ):

        def connected(start: Callable[[], object]) -> tuple[object, int]:
            made = start()
            end, peer = listener.accept()
            ends.enter_context(end)
            return made, peer[1]

        _, own = connected(lambda: None)
        words = (sys.executable, str(tmp_path / "worker.py"), str(port))
        stranger, foreign = connected(lambda: elsewhere.start(NodeSpec("b", "tool", words)))
        child, ours = connected(lambda: ends.enter_context(subprocess.Popen(words)))
        _, harness = connected(
            lambda: ends.enter_context(socket.create_connection(("127.0.0.1", port)))
        )
        brief, left = connected(lambda: socket.create_connection(("127.0.0.1", port)))
        assert isinstance(stranger, ProcessNode)
        assert isinstance(child, subprocess.Popen)
        assert isinstance(brief, socket.socket)
        brief.close()
        opened = [
            {"event": "conn", "phase": "open", "conn": number, "role": "consumer", "peer": peer}
            for number, peer in enumerate((own, foreign, ours, harness, left))
        ]
        nodes = {Role.CONSUMER: stage}
        owners = Owners(
            scenes("orders", *opened, history=stage.processes.history),
            nodes,
            Workers(nodes, Victim()),
        )
        owners.attribute()
        owners.attribute()
        child.kill()
        stage.kill()
        assert stranger.alive
        worker = stranger.pid
    [owned] = read_history(tmp_path).of(kinds.Owner)
    [found] = read_history(tmp_path).of(kinds.Stranger)
    assert owned.conn == 0
    assert (found.conn, found.role, found.pid) == (1, "consumer", worker)
    assert found.command == command_line(tmp_path, listener)
