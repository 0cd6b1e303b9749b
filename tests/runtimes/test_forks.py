"""Programs forked from a process that has imported what they import: the same nodes, sooner."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from harness.model.waiting import wait_until
from harness.runtimes.interface import NodeSpec
from harness.runtimes.process.link import GuardianDiedError
from harness.runtimes.process.runtime import ProcessRuntime
from tests.runtimes.test_nodes import GONE_S, gone

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.runtimes.process.node import ProcessNode

WITHIN_S = 10.0
PRELOAD = ("stage",)
RUN = (sys.executable, "-m", "stage")
PROGRAM = """
    import heavy, json, os, random, signal, subprocess, sys
    if __name__ == "__main__":
        how = sys.argv[1]
        print(json.dumps({
            "heavy": heavy.MARK, "main": "stage" not in sys.modules, "seen": heavy.SEEN, "words": sys.argv[1:],
            "folder": os.getcwd(), "group": os.getpgrp(), "session": os.getsid(0), "parent": os.getppid(),
            "dice": random.random(), "hits": os.environ["HITS"], "left": os.environ.get("LEFT"), "input": sys.stdin.read(),
            "files": sorted(map(int, os.listdir("/proc/self/fd")))[:-1],
        }), flush=True)
        heavy.SEEN.append(how)
        if how == "sleep":
            child = subprocess.Popen([sys.executable, "-c", "import signal; print('up', flush=True); signal.pause()"])
            print("child", child.pid, flush=True)
            signal.pause()
        if how == "die":
            os.kill(os.getpid(), signal.SIGTERM)
        if how == "raise":
            raise ValueError("told in its log")
        if how == "return":
            import atexit, threading, time
            atexit.register(print, "told in its log", end="")
            if sys.argv[2:]:
                threading.Timer(1, print, ("by its thread",)).start()
        else:
            sys.exit(int(how))
"""  # noqa: E501


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProcessRuntime]:
    """Return a runtime in a folder with a program, and a module that is imported once for all."""
    (tmp_path / "heavy.py").write_text("import os\nMARK = os.getpid()\nSEEN = []\n")
    (tmp_path / "stage.py").write_text(textwrap.dedent(PROGRAM))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEFT", "of the harness")
    with ProcessRuntime(directory=tmp_path / "logs") as made:
        yield made


def spec(folder: Path, name: str, how: str, preload: tuple[str, ...] = PRELOAD) -> NodeSpec:
    """Return the program as a node."""
    return NodeSpec(
        name,
        "tool",
        (*RUN, how),
        {"HITS": name},
        cwd=folder,
        preload=preload,
    )


def told(node: ProcessNode) -> dict[str, Any]:
    """Return what the program says of itself."""
    wait_until(
        lambda: node.log_path.exists() and "\n" in node.log_path.read_text(),
        within_s=WITHIN_S,
        because="its word",
    )
    said: dict[str, Any] = json.loads(node.log_path.read_text().splitlines()[0])
    return said


def server_of(runtime: ProcessRuntime) -> psutil.Process:
    """Return the fork server's process."""
    return next(
        p
        for p in psutil.Process(runtime.guardian_pid).children()
        if "fork_server" in " ".join(p.cmdline())
    )


def test_whoever_imports_a_part_of_it_is_forked_too_and_numpy_starts_no_thread(
    runtime: ProcessRuntime, tmp_path: Path
) -> None:
    """As the programs of a Spark cell are: a producer, and a front, of one fork server with NumPy
    in it.
    """
    runtime.expect(("numpy", *PRELOAD))
    assert told(runtime.start(spec(tmp_path, "part", "0")))["heavy"] == server_of(runtime).pid
    other = runtime.start(spec(tmp_path, "more", "0", (*PRELOAD, "argparse")))
    assert told(other)["heavy"] == other.pid


def test_a_forked_program_has_its_own_of_everything(
    runtime: ProcessRuntime, tmp_path: Path
) -> None:
    """Group, session, folder, words, environment, descriptors, dice, ``__main__``: as if started
    afresh; imports apart.
    """
    first, second = (runtime.start(spec(tmp_path, name, "0")) for name in "ab")
    one, other = told(first), told(second)
    assert one["heavy"] == other["heavy"] == server_of(runtime).pid
    for node, said in ((first, one), (second, other)):
        assert said["group"] == said["session"] == node.pid
        assert said["parent"] == runtime.guardian_pid
        assert (said["folder"], said["words"], said["hits"]) == (str(tmp_path), ["0"], node.name)
        assert (said["main"], said["seen"], said["input"]) == (True, [], "")
        assert said["left"] == "of the harness"
        assert said["files"] == [0, 1, 2]
    assert one["dice"] != other["dice"]


@pytest.mark.parametrize(
    ("how", "status", "killed"),
    [("0", 0, None), ("7", 7, None), ("raise", 1, None), ("die", None, 15)],
)
def test_its_end_is_told_as_it_was(
    runtime: ProcessRuntime, tmp_path: Path, how: str, status: int | None, killed: int | None
) -> None:
    """Exit status and signal are the kernel's word about the program, and its last words are in its
    log.
    """
    node = runtime.start(spec(tmp_path, "a", how))
    end = node.wait(WITHIN_S)
    assert end is not None
    assert (end.pid, end.status, end.signal) == (node.pid, status, killed)
    assert told(node)["heavy"] == server_of(runtime).pid
    assert ("told in its log" in node.log_tail()) == (how == "raise")


def test_a_program_that_returns_says_all_it_has_to_say(
    runtime: ProcessRuntime, tmp_path: Path
) -> None:
    """What it leaves to its end is done, also if a thread of it outlives its last line."""
    for name, words in (("a", ("return",)), ("b", ("return", "later"))):
        node = runtime.start(replace(spec(tmp_path, name, ""), argv=(*RUN, *words)))
        end = node.wait(WITHIN_S)
        assert end is not None
        assert (end.status, end.signal) == (0, None)
        assert "told in its log" in node.log_tail()
        assert ("by its thread" in node.log_tail()) == (name == "b")


def test_the_end_of_the_server_ends_nobody_else(runtime: ProcessRuntime, tmp_path: Path) -> None:
    """SIGKILL of the fork server: its programs go on, their ends are told, and the next are forked
    from another.
    """
    node = runtime.start(spec(tmp_path, "a", "sleep"))
    was = told(node)["heavy"]
    psutil.Process(was).kill()
    again = runtime.start(spec(tmp_path, "b", "0"))
    end = again.wait(WITHIN_S)
    assert end is not None
    assert end.status == 0
    assert node.alive
    assert node.kill().signal == signal.SIGKILL
    last = runtime.start(spec(tmp_path, "c", "0"))
    assert last.wait(WITHIN_S) is not None
    assert told(last)["heavy"] == server_of(runtime).pid != was


@pytest.mark.parametrize(
    "how",
    [
        "raise ImportError('no such thing')",
        "import threading; threading.Thread(target=input).start()",
    ],
)
def test_what_cannot_be_preloaded_is_started_afresh(
    runtime: ProcessRuntime, tmp_path: Path, how: str
) -> None:
    """Where an import fails, or starts a thread, there is no server; the log says why, and the
    program runs all the same.
    """
    (tmp_path / "odd.py").write_text(f"{how}\n")
    node = runtime.start(spec(tmp_path, "a", "3", ("stage", "odd")))
    end = node.wait(WITHIN_S)
    assert end is not None
    assert end.status == 3
    assert told(node)["heavy"] == node.pid
    log = (tmp_path / "logs" / "guardian.log").read_text()
    assert "no such thing" in log or "starts a thread when it is imported" in log


def test_another_folder_or_python_is_started_afresh(
    runtime: ProcessRuntime, tmp_path: Path
) -> None:
    """What was imported in one folder is not what a program in another would import."""
    (tmp_path / "else").mkdir()
    for name in ("heavy.py", "stage.py"):
        (tmp_path / "else" / name).write_text((tmp_path / name).read_text())
    runtime.expect(PRELOAD)
    node = runtime.start(spec(tmp_path / "else", "a", "0"))
    assert node.wait(WITHIN_S) is not None
    assert told(node)["heavy"] == node.pid


def test_a_log_that_cannot_be_written_is_one_line(runtime: ProcessRuntime, tmp_path: Path) -> None:
    """What goes wrong after the fork is told by the one who asked for it, as when
    started afresh.
    """
    runtime.start(spec(tmp_path, "a", "0"))
    wrong = NodeSpec(
        "b",
        "tool",
        (sys.executable, "-m", "stage", "0"),
        {},
        cwd=tmp_path,
        log=tmp_path,
        preload=PRELOAD,
    )
    with pytest.raises(Exception, match="cannot open its log"):
        runtime.start(wrong)


HARNESS = """
    import signal, sys
    from pathlib import Path
    from harness.model.waiting import wait_until
    from harness.runtimes.interface import NodeSpec
    from harness.runtimes.process.runtime import ProcessRuntime
    runtime = ProcessRuntime(directory=Path("logs"))
    def start(name):
        command = (sys.executable, "-m", "stage", "sleep")
        return runtime.start(NodeSpec(name, "tool", command, {"HITS": name}, cwd=Path.cwd(), preload=("stage",)))
    nodes = [start(name) for name in "ab"]
    for node in nodes:  # what is stopped in the middle of a vfork waits for its child, and does not stand still
        wait_until(lambda: node.log_path.read_text().endswith("up\\n"), within_s=10, because="its child")
    nodes[1].pause()
    print(*[node.pid for node in nodes], runtime.guardian_pid, flush=True)
    signal.pause()
"""  # noqa: E501


@pytest.mark.parametrize("victim", ["harness", "both", "guardian"])
@pytest.mark.usefixtures("runtime")
def test_nothing_outlives_the_harness_or_the_guardian(tmp_path: Path, victim: str) -> None:
    """SIGKILL of either, or of both: forked programs end, stopped or not, with what they have
    started, and the server too.
    """
    harness = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HARNESS)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    assert harness.stdout is not None
    *pids, guardian = [int(word) for word in harness.stdout.readline().split()]
    log = tmp_path / "logs" / "a.log"
    child = [
        int(line.split()[1]) for line in log.read_text().splitlines() if line.startswith("child")
    ]
    everyone = [
        *pids,
        *child,
        guardian,
        *(process.pid for process in psutil.Process(guardian).children(recursive=True)),
    ]
    if victim != "harness":
        psutil.Process(guardian).kill()
    if victim != "guardian":
        harness.kill()
    wait_until(
        lambda: all(gone(pid) for pid in everyone), within_s=GONE_S, because="everything to be gone"
    )
    harness.kill()
    harness.wait(WITHIN_S)


def test_the_death_of_the_guardian_is_told_of_forked_programs(
    runtime: ProcessRuntime, tmp_path: Path
) -> None:
    node = runtime.start(spec(tmp_path, "a", "sleep"))
    psutil.Process(runtime.guardian_pid).kill()
    wait_until(lambda: gone(node.pid), within_s=GONE_S, because="the program to be gone")
    with pytest.raises(GuardianDiedError):
        wait_until(runtime.check, within_s=GONE_S, because="the runtime to notice")
    with contextlib.suppress(GuardianDiedError):
        runtime.close()
