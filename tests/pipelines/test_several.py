"""Several members of a stage (``scale``): who starts them, who of them dies, and how they leave."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from harness.model import events as kinds
from harness.model.history import HistoryWriter, read_history
from harness.model.scenario import Role
from harness.model.waiting import wait_until
from harness.pipelines.stages import Stage
from harness.runtimes.process import ProcessRuntime
from harness.runtimes.process.processes import is_alive
from harness.systems.declared.programs.command import StageCommand
from harness.systems.declared.programs.nodes import CommandNode
from harness.systems.declared.programs.one_process import OneProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SLEEPS = (sys.executable, "-c", "import time; time.sleep(600)")
put_out: list[int] = []


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Callable[..., CommandNode]]:
    """Start a stage of several members."""
    with (
        ProcessRuntime(directory=tmp_path / "nodes") as runtime,
        HistoryWriter(tmp_path / "r.jsonl", cell="c", by="runner") as out,
    ):

        def start(*command: str, members: int = 2, **more: object) -> CommandNode:
            made = Stage(role=Role.CONSUMER, command=command or SLEEPS, scale=3, **more)  # type: ignore[arg-type]  # whatever a test says
            place = {"bootstrap": "127.0.0.1:1", "work": tmp_path}
            node = CommandNode(
                StageCommand(made, place, tmp_path, tmp_path / "log", tmp_path, members=members),
                runtime,
                out,
                "c",
                fetches=lambda _: True,
                put_out=put_out.append,
            )
            node.start()
            return node

        put_out.clear()
        yield start


def await_members(node: CommandNode, *numbers: int) -> dict[int, list[int]]:
    """Wait until exactly these members live; return their processes."""
    wait_until(
        lambda: sorted(node.processes.by_number()) == [*numbers],
        within_s=20,
        because=f"the members {numbers}, not {node.processes.by_number()}",
    )
    return node.processes.by_number()


def test_one_of_them_dies_by_its_number_and_another_takes_its_place(
    stage: Callable[..., CommandNode], tmp_path: Path
) -> None:
    """The history says which; its dead member is put out of its group; the others live on."""
    node = stage()
    before = await_members(node, 1, 2)
    [victim] = before[2]
    one = node.one(victim)
    assert isinstance(one, OneProcess)
    assert one.name == "consumer#2"
    one.kill()
    one.restart()
    assert put_out == [victim]
    after = await_members(node, 1, 2)
    assert after[1] == before[1]
    assert after[2] != before[2]
    node.kill()
    [end] = [e for e in read_history(tmp_path).of(kinds.Node) if e.pid == victim]
    assert (end.node, end.member, end.signal) == ("consumer", 2, signal.SIGKILL)


def test_one_is_added_and_leaves_again(stage: Callable[..., CommandNode]) -> None:
    """A member that was told to leave is not started again; one that was not is."""
    node = stage()
    await_members(node, 1, 2)
    node.processes.tell_member(3, "start")
    found = await_members(node, 1, 2, 3)
    node.processes.tell_member(3, "leave")
    os.kill(found[3][0], signal.SIGTERM)
    assert await_members(node, 1, 2) == {number: found[number] for number in (1, 2)}


LEAVES = """
import os, signal
from harness.systems.declared.programs.several import StageMembers

read, write = os.pipe()
os.dup2(read, 0)

class Slow(StageMembers):
    def start(self, number):
        print("started", number, flush=True)
        super().start(number)

    def reap(self):
        for pid, number in self.living.items():
            os.write(write, b"leave %d\\n" % number)
            os.kill(pid, signal.SIGTERM)
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            if back := self.back.pop(number, b""):
                os.write(write, back)
        return super().reap()

os.write(write, b"start 2\\n")
members = Slow(["sleep", "600"], down_s=0, again=True)
members.back = {2: b"start 2\\n"}
raise SystemExit(members.run(1))
"""


def test_one_that_is_told_to_leave_and_ends_at_once_is_not_started_again() -> None:
    """All of it happens between two looks: to leave is said before the end, to start behind it."""
    done = subprocess.run(
        [sys.executable, "-c", LEAVES], timeout=20, check=False, capture_output=True, text=True
    )
    started = "started 1\nstarted 2\nstarted 2\n"
    assert (done.stdout, done.returncode) == (started, 0), done.stderr


def test_all_end_when_the_stage_is_told_to(stage: Callable[..., CommandNode]) -> None:
    """As one program would: nothing is left, and its status says that nothing went wrong."""
    node = stage()
    found = await_members(node, 1, 2)
    node.tell_to_end()
    node.await_end()
    end = node.ended()
    assert end is not None
    assert end.status == 0
    assert not any(is_alive(pid) for pids in found.values() for pid in pids)


@pytest.mark.parametrize(("again", "ends"), [(True, 3), (False, 1)])
def test_one_that_ends_by_itself_again_and_again_ends_all(
    stage: Callable[..., CommandNode], tmp_path: Path, *, again: bool, ends: int
) -> None:
    """It is started again as a supervisor would do it; its status is the stage's."""
    node = stage(sys.executable, "-c", "raise SystemExit(7)", members=1, restart=again)
    wait_until(node.ended, within_s=20, because="the stage to end")
    end = node.ended()
    assert end is not None
    assert end.status == 7
    assert (tmp_path / "log").read_text().count("member #1 ended with status 7") == ends
