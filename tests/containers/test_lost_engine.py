"""The engine dies during a run: one clear line, nothing that waits for ever. It is an engine of this test's own."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import docker
import pytest

from harness.core.waiting import wait_until
from harness.interfaces import EnvironmentFailure
from harness.runtimes.docker.runtime import DockerRuntime
from harness.runtimes.interface import ContainerSpec, NodeSpec
from harness.setup.images import Image
from harness.setup.rootfs import Rootfs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.docker, pytest.mark.timeout(180)]

UP_S, GONE_S = 40.0, 40.0
ROOT = os.getuid() == 0


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """Start an engine that nobody else uses, with one small image, and let ``DOCKER_HOST`` name it."""
    if not ROOT or not shutil.which("dockerd") or not shutil.which("unshare"):
        pytest.skip("an engine of its own needs dockerd, unshare, and root")
    socket = f"unix://{tmp_path}/docker.sock"
    # namespaces of its own: it could remove the bridge of the engine that is here, and what it leaves goes with them
    apart = ["unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
    words = [*apart, "dockerd", "--host", socket, "--pidfile", f"{tmp_path}/pid", "--data-root", f"{tmp_path}/data",
             "--exec-root", f"{tmp_path}/exec", "--iptables=false", "--ip-masq=false"]  # fmt: skip
    with (tmp_path / "dockerd.log").open("wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)
    monkeypatch.setenv("DOCKER_HOST", socket)
    try:
        wait_until(lambda: (tmp_path / "docker.sock").exists() or process.poll() is not None, within_s=UP_S,
                   because="an engine to come up")  # fmt: skip
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


def test_an_engine_that_dies_is_one_clear_line(engine: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """Whoever watches learns of it at once, no call waits for an answer that never comes, and the end is bounded."""
    runtime = DockerRuntime(directory=tmp_path / "logs", images={"small": Image("small", "small:1", "")})
    node = runtime.start(NodeSpec("a", "consumer", ("sleep", "600"), container=ContainerSpec("small", host_pids=False)))
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
