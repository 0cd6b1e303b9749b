"""Where a driver's JVM stands, and where it puts what it needs for a while."""

from __future__ import annotations

import struct
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from harness.provision.gateway import start_gateway
from harness.provision.spark_install import SparkInstall

if TYPE_CHECKING:
    import pytest

    from harness.runtimes.interface import NodeSpec

INSTALL = SparkInstall(
    Path("/java/bin/java"),
    Path("/spark"),
    "/spark/jars/a.jar",
    (),
    ("-Xshare:auto",),
    "4.0.0",
)


class Pretended:
    """A runtime whose JVM listens at once."""

    def start(self, spec: NodeSpec) -> Any:
        """Remember what was to be started, and write what the JVM would write."""
        self.spec = spec
        Path(spec.env["_PYSPARK_DRIVER_CONN_INFO_PATH"]).write_bytes(
            struct.pack(">ii", 4711, 3) + b"key"
        )
        return SimpleNamespace(alive=True)


def test_a_killed_jvm_leaves_nothing_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Working folder and temporary files are below the folder it is given, however that is named;
    paths are whole.
    """
    monkeypatch.chdir(tmp_path)
    runtime: Any = Pretended()
    gateway = start_gateway(runtime, INSTALL, work=Path("here/driver"), jars=(Path("mine.jar"),))
    work = str(tmp_path / "here" / "driver")
    assert (gateway.port, gateway.secret) == (4711, "key")
    assert str(runtime.spec.cwd) == work
    assert f"-Djava.io.tmpdir={work}" in runtime.spec.argv
    assert f"spark.local.dir={work}" in runtime.spec.argv
    assert f"/spark/jars/a.jar:{tmp_path / 'mine.jar'}" in runtime.spec.argv
