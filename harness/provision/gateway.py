"""Start a Spark driver JVM as a node. It dies with the harness, and a PySpark program connects to
it.

PySpark alone starts its JVM through a shell script and a launcher JVM, as a child that nothing
watches. Here the guardian is the JVM's parent, its class path is explicit (so that the class-data
archive fits), and the start takes a second less.
"""

from __future__ import annotations

import struct
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.model.failures import EnvironmentFailure
from harness.model.waiting import wait_until
from harness.runtimes.interface import NodeSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.provision.spark_install import SparkInstall
    from harness.runtimes.interface import Node, Runtime

UP_WITHIN_S: Final = 60.0
QUIET_LOGS: Final = Path(__file__).with_name("spark-log4j2.properties")
LOOPBACK: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@dataclass(frozen=True, slots=True)
class Gateway:
    """A driver JVM that waits for a PySpark program to connect."""

    node: Node
    port: int
    secret: str

    @property
    def env(self) -> dict[str, str]:
        """The environment variables that make PySpark use this JVM instead of its own."""
        return {"PYSPARK_GATEWAY_PORT": str(self.port), "PYSPARK_GATEWAY_SECRET": self.secret}


def start_gateway(
    runtime: Runtime,
    install: SparkInstall,
    *,
    work: Path,
    name: str = "spark-driver",
    conf: Mapping[str, str] | None = None,
    memory_mb: int = 1024,
    flags: Sequence[str] = (),
    jars: Sequence[Path] = (),
    log: Path | None = None,
) -> Gateway:
    """Start a driver JVM and return when it listens (0.7 s).

    ``work`` is the JVM's working folder, and the only place for Spark's temporary files (a killed
    JVM leaves them behind). So paths that Spark is given must be absolute. ``conf`` are Spark's
    settings; they override :data:`LOOPBACK`. ``jars`` are appended to the class path of
    ``install``. The JVM shuts down in order when its standard input is closed.

    Raises:
        EnvironmentFailure: the JVM does not start.
    """
    work = work.absolute()
    work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        info = Path(folder) / "info"
        settings = {**LOOPBACK, "spark.local.dir": str(work), **(conf or {})}
        argv = (
            str(install.java),
            *flags,
            f"-Xmx{memory_mb}m",
            "-XX:+UseSerialGC",
            *install.jvm_flags,
            f"-Dlog4j2.configurationFile={QUIET_LOGS}",
            f"-Djava.io.tmpdir={work}",
            "-cp",
            ":".join((install.classpath, *(str(jar.absolute()) for jar in jars))),
            "org.apache.spark.deploy.SparkSubmit",
            *(word for key, value in settings.items() for word in ("--conf", f"{key}={value}")),
            "pyspark-shell",
        )
        env = {**install.env, "_PYSPARK_DRIVER_CONN_INFO_PATH": str(info)}
        node = runtime.start(
            NodeSpec(name, "driver", argv, env, stdin_pipe=True, log=log, cwd=work)
        )

        def said() -> bytes | None:
            if info.exists():  # it is renamed into its place, whole
                return info.read_bytes()
            if not node.alive:
                raise EnvironmentFailure(
                    f"Spark's JVM did not start ({node.exit}): {node.log_tail(1)}"
                )
            return None

        data = wait_until(said, within_s=UP_WITHIN_S, because="Spark's JVM to listen")
    port, length = struct.unpack_from(">ii", data)
    return Gateway(node, port, data[8 : 8 + length].decode())
