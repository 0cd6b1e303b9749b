"""Runtime ``docker``: what only containers can, and the engine's word. What any runtime must is in
``tests/contract``.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import docker
import psutil
import pytest

from harness.model.waiting import WaitTimeoutError, wait_until
from harness.provision.images import ensure_image
from harness.runtimes.docker.engine import RUN, connect
from harness.runtimes.docker.runtime import DockerRuntime
from harness.runtimes.interface import (
    ContainerSpec,
    NodeSpec,
    NodeStateError,
    SmallDisk,
    StartError,
)
from harness.runtimes.ports import PortLease

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.runtimes.docker.engine import Image

pytestmark = [pytest.mark.docker, pytest.mark.timeout(180)]

SLEEPER = ("python3", "-c", "import signal; print('up', flush=True); signal.pause()")
GONE_S = 20.0
BIG = (
    "python3",
    "-c",
    "import signal; kept = b'x' * 100_000_000; print('up', flush=True); signal.pause()",
)


@pytest.fixture(scope="session")
def images() -> dict[str, Image]:
    """Return the image of the stage programs, built where it is not there."""
    return {"lostack": ensure_image(connect(), "lostack", print)}


@pytest.fixture
def runtime(tmp_path: Path, images: dict[str, Image]) -> Iterator[DockerRuntime]:
    """Return a runtime that is closed afterwards."""
    with DockerRuntime(directory=tmp_path, images=images) as made:
        yield made


def of_run(run: str) -> list[str]:
    """Return the names of a run's containers, dead or alive."""
    found = docker.from_env().containers.list(
        all=True, filters={"label": f"{RUN}={run}"}, ignore_removed=True
    )
    return [container.name for container in found]


def test_a_container_goes_with_its_program(runtime: DockerRuntime) -> None:
    node = runtime.start(NodeSpec("a", "consumer", ("python3", "-c", "print('bye')")))
    assert node.wait(GONE_S) is not None
    assert node.log_tail() == "bye"
    assert of_run(runtime.run) == []


def test_a_shell_s_word_for_a_death_is_no_signal(runtime: DockerRuntime) -> None:
    """Status 137 of a program that nobody has killed is its own; the same number after our kill is
    the signal's.
    """
    apart = ContainerSpec(host_pids=False)
    end = runtime.start(NodeSpec("a", "broker", ("sh", "-c", "exit 137"), container=apart)).wait(
        GONE_S
    )
    assert end is not None
    assert (end.status, end.signal) == (137, None)
    node = runtime.start(NodeSpec("b", "broker", SLEEPER, container=apart))
    assert (node.kill().status, node.kill().signal) == (None, signal.SIGKILL)


def test_a_paused_node_stands_still_until_it_is_resumed(runtime: DockerRuntime) -> None:
    """The engine's word for it, and nobody else's."""
    node = runtime.start(NodeSpec("a", "consumer", SLEEPER))
    node.pause()
    assert runtime.state(node)["Paused"]
    node.resume()
    assert not runtime.state(node)["Paused"]


def test_a_kept_container_comes_back_itself_with_its_port(runtime: DockerRuntime) -> None:
    """A restart is the same container; its port is the same, on loopback and nowhere else."""
    with PortLease() as lease:
        serve = ("python3", "-m", "http.server", str(lease.port))
        spec = NodeSpec(
            "a", "broker", serve, container=ContainerSpec(ports=(lease.port,), keep=True)
        )
        node = runtime.start(spec)
        first = node.container.id
        bound = node.container.client.api.inspect_container(first)["HostConfig"]["PortBindings"]
        assert [each["HostIp"] for each in bound[f"{lease.port}/tcp"]] == ["127.0.0.1"]
        node.kill()
        again = node.restart()
        assert (again.incarnation, again.container.id) == (2, first)

        def answers() -> bool:
            with socket.create_connection(("127.0.0.1", lease.port), timeout=2) as probe:
                probe.sendall(b"GET / HTTP/1.0\r\n\r\n")
                return probe.recv(4) == b"HTTP"

        wait_until(lambda: _quietly(answers), within_s=GONE_S, because="the container to answer")


def _quietly(act: object) -> bool:
    try:
        return bool(act())  # type: ignore[operator]
    except OSError:
        return False


def test_a_memory_limit_that_is_hit_is_told(runtime: DockerRuntime) -> None:
    greedy = ("python3", "-c", "x = bytearray(400_000_000); print(sum(x))")
    node = runtime.start(NodeSpec("a", "consumer", greedy, container=ContainerSpec(memory="64m")))
    end = node.wait(GONE_S)
    assert end is not None
    assert end.signal == signal.SIGKILL
    assert node.oom_killed


def test_a_node_that_has_hit_its_limit_of_memory_comes_back(runtime: DockerRuntime) -> None:
    """It is ended by the kernel, the engine says for what, and its next life has memory enough."""
    node = runtime.start(
        NodeSpec("a", "broker", BIG, container=ContainerSpec(host_pids=False, keep=True))
    )
    wait_until(lambda: "up" in node.log_tail(), within_s=GONE_S, because="the program to be up")
    limit = node.starve()
    assert limit > 100_000_000
    assert node.exit is not None
    assert node.exit.signal == signal.SIGKILL
    assert node.oom_killed
    again = node.restart()
    wait_until(
        lambda: "up" in again.log_tail(), within_s=GONE_S, because="the program to be up again"
    )
    assert again.container_id == node.container_id
    again.kill()
    assert not again.oom_killed
    again.discard()
    assert again.restart().container_id != node.container_id


WRITER = """
import pathlib, time
log = pathlib.Path("/disk/log")
print("found", log.read_text() if log.exists() else "nothing", flush=True)
log.write_text("kept")
while True:
    pathlib.Path("/disk/new").write_bytes(bytes(5000))
    pathlib.Path("/disk/new").unlink()
    time.sleep(0.01)
"""


def test_a_program_ends_by_itself_on_a_full_disk_and_finds_what_it_had_when_there_is_room(
    runtime: DockerRuntime,
) -> None:
    """Not one byte is free, nobody kills it, and what it had written outlives it; the disk goes
    with the run.
    """
    spec = ContainerSpec(disk=SmallDisk(Path("/disk"), 1 << 20), host_pids=False, keep=True)
    node = runtime.start(NodeSpec("a", "broker", ("python3", "-c", WRITER), container=spec))
    wait_until(
        lambda: "found nothing" in node.log_tail(), within_s=GONE_S, because="the program to be up"
    )
    full = node.fill_disk()
    assert (full.size, full.free) == (1 << 20, 0)
    assert node.exit is not None
    assert (node.exit.status, node.exit.signal) == (1, None)
    assert "No space left on device" in node.log_tail()
    assert node.empty_disk().free > 900_000
    again = node.restart()
    wait_until(
        lambda: "found kept" in again.log_tail(),
        within_s=GONE_S,
        because="the program to find what it had written",
    )
    assert again.alive
    assert docker.from_env().volumes.list(filters={"label": f"{RUN}={runtime.run}"})
    runtime.close()
    assert not docker.from_env().volumes.list(filters={"label": f"{RUN}={runtime.run}"})


def test_a_disk_with_room_ends_nobody(
    runtime: DockerRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nobody learns that the disk is full there is no fault, and it says so; without such a
    disk there is none to fill.
    """
    monkeypatch.setattr("harness.runtimes.docker.disks.ENDED_WITHIN_S", 1.0)
    spec = ContainerSpec(disk=SmallDisk(Path("/disk"), 1 << 20))
    with pytest.raises(
        WaitTimeoutError, match="node a to end by itself, with 0 bytes of its disk free"
    ):
        runtime.start(NodeSpec("a", "broker", SLEEPER, container=spec)).fill_disk()
    with pytest.raises(NodeStateError, match="node b has no small disk"):
        runtime.start(NodeSpec("b", "broker", SLEEPER)).fill_disk()


def test_a_user_whom_the_image_does_not_know_has_a_name(
    runtime: DockerRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A JVM on Hadoop's classes fails without one."""
    monkeypatch.setattr("os.getuid", lambda: 12345)
    code = "import os, pwd; print(pwd.getpwuid(os.getuid()).pw_name, os.getuid())"
    node = runtime.start(NodeSpec("a", "consumer", ("python3", "-c", code)))
    assert node.wait(GONE_S) is not None
    assert node.log_tail() == "lostack 12345"


def test_a_node_without_a_network_has_no_address(runtime: DockerRuntime) -> None:
    node = runtime.start(NodeSpec("a", "consumer", SLEEPER))
    address = node.disconnect()
    assert address
    assert node.connect()
    asked = runtime.start(
        NodeSpec(
            "b", "consumer", ("python3", "-c", "import socket; print(socket.gethostbyname('a'))")
        )
    )
    assert asked.wait(GONE_S) is not None
    assert asked.log_tail().count(".") == 3


def test_a_port_that_is_taken_is_one_line(runtime: DockerRuntime) -> None:
    """Which says what to do; and the name is free again."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        spec = ContainerSpec(ports=(taken.getsockname()[1],))
        with pytest.raises(StartError, match="end the program that uses the port"):
            runtime.start(NodeSpec("a", "consumer", SLEEPER, container=spec))
    assert runtime.start(NodeSpec("a", "consumer", SLEEPER)).alive


PROGRAM = """
import sys
from pathlib import Path
from harness.runtimes.docker.runtime import DockerRuntime
from harness.runtimes.interface import NodeSpec
from harness.runtimes.docker.engine import Image
runtime = DockerRuntime(directory=Path(sys.argv[1]), images={"lostack": Image("lostack", sys.argv[2], "")})
runtime.start(NodeSpec("a", "consumer", ("sleep", "600")))
print(runtime.run, runtime.guardian_pid, flush=True)
sys.stdin.read()
"""  # noqa: E501


@pytest.mark.parametrize("guardian_too", [False, True])
def test_a_killed_harness_leaves_nothing(
    tmp_path: Path, images: dict[str, Image], *, guardian_too: bool
) -> None:
    """Its guardian removes what is its own; where that was killed as well, the next run does;
    others' containers stay.
    """
    others = docker.from_env().containers.run(
        images["lostack"].reference, ["sleep", "600"], detach=True
    )
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), images["lostack"].reference]
    harness = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert harness.stdout is not None
        run, guardian = harness.stdout.readline().split()
        assert len(of_run(run)) == 1
        if guardian_too:
            psutil.Process(int(guardian)).kill()
        harness.kill()
        harness.wait()
        if guardian_too:
            assert len(of_run(run)) == 1
            DockerRuntime(directory=tmp_path, images=images).close()
        wait_until(
            lambda: of_run(run) == [],
            within_s=GONE_S,
            because="the containers of a killed run to be gone",
        )
        others.reload()
        assert others.status == "running"
    finally:
        harness.kill()
        others.remove(force=True)
