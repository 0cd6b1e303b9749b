"""The engine dies during a run: one clear line, nothing that waits for ever, nothing that stays
once there is one again.

Where it really dies it is an engine of this test's own; where a whole cell is under way, its socket
is no more.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import docker
import pytest

from harness.model.failures import EnvironmentFailure
from harness.model.waiting import wait_until
from harness.provision.rootfs import Rootfs
from harness.runtimes.docker.engine import HARNESS, Image
from harness.runtimes.docker.runtime import DockerRuntime
from harness.runtimes.interface import ContainerSpec, NodeSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.docker, pytest.mark.timeout(180)]

UP_S, GONE_S = 40.0, 40.0
BUILT_S, ENDED_S = 120.0, 60.0
ENGINE = "/var/run/docker.sock"
ROOT = os.getuid() == 0


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """Start an engine that nobody else uses, with one small image, and let
    ``DOCKER_HOST`` name it.
    """
    if not ROOT or not shutil.which("dockerd") or not shutil.which("unshare"):
        pytest.skip("an engine of its own needs dockerd, unshare, and root")
    socket = f"unix://{tmp_path}/docker.sock"
    # namespaces of its own: it could remove the bridge of the engine that is here, and what it
    # leaves goes with them
    apart = ["unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
    words = [
        *apart,
        "dockerd",
        "--host",
        socket,
        "--pidfile",
        f"{tmp_path}/pid",
        "--data-root",
        f"{tmp_path}/data",
        "--exec-root",
        f"{tmp_path}/exec",
        "--iptables=false",
        "--ip-masq=false",
    ]
    with (tmp_path / "dockerd.log").open("wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)
    monkeypatch.setenv("DOCKER_HOST", socket)
    try:
        wait_until(
            lambda: (tmp_path / "docker.sock").exists() or process.poll() is not None,
            within_s=UP_S,
            because="an engine to come up",
        )
        assert process.poll() is None, (tmp_path / "dockerd.log").read_text()[-2000:]
        rootfs = Rootfs()
        rootfs.basics()
        data = io.BytesIO()
        rootfs.write(data)
        docker.from_env().api.import_image_from_data(data.getvalue(), repository="small", tag="1")
        yield process
    finally:
        process.kill()
        process.wait()


def test_an_engine_that_dies_is_one_clear_line(
    engine: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    """Whoever watches learns of it at once, no call waits for an answer that never comes, and the
    end is bounded.
    """
    runtime = DockerRuntime(
        directory=tmp_path / "logs", images={"small": Image("small", "small:1", "")}
    )
    node = runtime.start(
        NodeSpec(
            "a", "consumer", ("sleep", "600"), container=ContainerSpec("small", host_pids=False)
        )
    )
    runtime.check()
    engine.kill()
    engine.wait()

    def told() -> str:
        try:
            runtime.check()
        except EnvironmentFailure as error:
            return str(error)
        return ""

    because = wait_until(told, within_s=GONE_S, because="the runtime to notice")
    assert "the container engine" in because
    assert "\n" not in because
    with pytest.raises(EnvironmentFailure):
        node.kill()
    with pytest.raises(EnvironmentFailure):
        runtime.close()


class Door:
    """The way to the engine that is here: shut, it is to those behind it as if the engine had died;
    open, as if it was back.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._listener: socket.socket | None = None
        self._open: list[socket.socket] = []

    def open(self) -> None:
        """Listen."""
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen(100)
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def shut(self) -> None:
        """End every connection, and take no more."""
        assert self._listener is not None
        self._listener.close()
        self.path.unlink()
        for end in self._open:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(ENGINE)
                self._open += [near, far]
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=_pass, args=(source, sink), daemon=True).start()


def _pass(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


@pytest.fixture
def door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Door]:
    """Lead everybody who asks for the engine through a door."""
    if not Path(ENGINE).exists():
        pytest.skip(f"the engine that is here does not listen on {ENGINE}")
    made = Door(tmp_path / "door.sock")
    made.open()
    monkeypatch.setenv("DOCKER_HOST", f"unix://{made.path}")
    yield made
    with contextlib.suppress(OSError):
        made.shut()


def containers_of(label: str) -> set[str]:
    """Return the ids of containers with a label, by asking the engine itself."""
    client = docker.DockerClient(f"unix://{ENGINE}")
    return {
        str(each.id)
        for each in client.containers.list(all=True, filters={"label": label}, ignore_removed=True)
    }


def test_a_run_whose_engine_dies_ends_with_one_line_and_the_next_one_removes_what_it_left(
    door: Door, tmp_path: Path
) -> None:
    """The command itself, with a broker in a container: told at once, exit 3; what it left is
    removed later.
    """
    command = [
        sys.executable,
        "-m",
        "harness.cli",
        "run",
        "--only",
        "plain/none/at-least-once",
        "--runtime",
        "docker",
        "--reports",
        str(tmp_path / "reports"),
    ]
    here = containers_of(HARNESS)
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "LOSTACK_PULL": "never",
    }
    run = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        wait_until(
            lambda: len(containers_of(HARNESS) - here) > 1 or run.poll() is not None,
            within_s=BUILT_S,
            because="wire and broker to be started",
            poll_s=0.1,
        )
        door.shut()
        said, _ = run.communicate(timeout=ENDED_S)
    finally:
        run.kill()
        run.wait()
    assert run.returncode == 3, said
    assert "the container engine" in said.splitlines()[-1]
    assert "Traceback" not in said
    left = containers_of(HARNESS) - here
    assert left
    door.open()
    DockerRuntime(directory=tmp_path / "next", images={}).close()
    assert not containers_of(HARNESS) & left
