"""Runtime ``process``: the ends of its guardian, and of the harness. What any runtime must is in
``tests/contract``.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import textwrap
import threading
from typing import TYPE_CHECKING

import psutil
import pytest

from harness.model.waiting import wait_until
from harness.runtimes.interface import NodeSpec, NodeStateError
from harness.runtimes.process.link import GuardianDiedError
from harness.runtimes.process.runtime import ProcessRuntime

if TYPE_CHECKING:
    from pathlib import Path

SLEEPER = (sys.executable, "-c", "import signal; print('up', flush=True); signal.pause()")
GONE_S = 3.0


def gone(pid: int) -> bool:
    """Whether a process is no more (a zombie is no more)."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def test_a_node_may_end_as_soon_as_it_goes_on(tmp_path: Path) -> None:
    """That it does is no failure of the one who let it go on; that it had ended before is."""
    with ProcessRuntime(directory=tmp_path) as runtime:
        node = runtime.start(
            NodeSpec(
                "a",
                "consumer",
                (sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"),
                stdin_pipe=True,
            )
        )
        wait_until(node.log_path.read_text, within_s=GONE_S, because="it to run")
        node.pause()
        node.close_stdin()
        node.resume()
        assert node.wait(GONE_S) is not None
        with pytest.raises(NodeStateError, match="it has ended by status 0"):
            node.resume()


def test_who_is_told_of_an_end_may_start_the_node_again(tmp_path: Path) -> None:
    """A node is alive until its end is told, and not a moment longer: between the two a restart
    was refused, because "a node of that name is alive".
    """
    with ProcessRuntime(directory=tmp_path) as runtime:
        node = runtime.start(NodeSpec("a", "consumer", SLEEPER))
        between: list[tuple[object, bool]] = []

        class Seen(threading.Event):
            def set(self) -> None:
                between.append((node.exit, node.alive))
                super().set()

        node._ended = Seen()
        end = node.kill()
        assert between == [(None, True)]
        assert (node.exit, node.alive) == (end, False)
        assert node.restart().incarnation == 2


def test_the_death_of_the_guardian_is_told_and_takes_the_nodes_along(tmp_path: Path) -> None:
    """SIGKILL of the guardian: the kernel ends the nodes, and every later call says
    what happened.
    """
    runtime = ProcessRuntime(directory=tmp_path)
    try:
        nodes = [runtime.start(NodeSpec(name, "consumer", SLEEPER)) for name in "ab"]
        nodes[1].pause()
        psutil.Process(runtime.guardian_pid).kill()
        wait_until(
            lambda: all(gone(node.pid) for node in nodes),
            within_s=GONE_S,
            because="the nodes to be gone",
        )
        with pytest.raises(GuardianDiedError):
            wait_until(runtime.check, within_s=GONE_S, because="the runtime to notice")
    finally:
        with contextlib.suppress(GuardianDiedError):  # it says so to everyone who asks
            runtime.close()


HARNESS = """
    import signal, sys
    from pathlib import Path
    from harness.runtimes.interface import NodeSpec
    from harness.runtimes.process.runtime import ProcessRuntime
    runtime = ProcessRuntime(directory=Path(sys.argv[1]))
    nodes = [runtime.start(NodeSpec(name, "consumer", (sys.executable, "-c", "import signal; signal.pause()"))) for name in "abc"]
    nodes[1].pause()
    print(*[node.pid for node in nodes], runtime.guardian_pid, flush=True)
    signal.pause()
"""  # noqa: E501


@pytest.mark.parametrize("with_guardian", [False, True])
def test_sigkill_of_the_harness_leaves_nothing(tmp_path: Path, with_guardian: bool) -> None:
    """SIGKILL of the harness, with or without its guardian at the same instant: nothing lives on,
    stopped or not.
    """
    harness = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HARNESS), str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert harness.stdout is not None
    *pids, guardian = [int(word) for word in harness.stdout.readline().split()]
    if with_guardian:
        psutil.Process(guardian).kill()
    harness.kill()
    harness.wait(10)
    wait_until(
        lambda: all(gone(pid) for pid in [*pids, guardian]),
        within_s=GONE_S,
        because="everything to be gone",
    )
