"""A standalone Spark cluster as processes of this machine: a master and some workers,
on loopback.
"""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING

from harness.model.waiting import wait_until
from harness.provision.spark import ensure_spark
from harness.runtimes.interface import NodeSpec
from harness.runtimes.ports import PortLease
from harness.runtimes.process import ProcessRuntime

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextlib.contextmanager
def standalone(folder: Path, workers: int) -> Iterator[str]:
    """Give the address of a master with so many workers of one core each."""
    install = ensure_spark(lambda _: None)
    with PortLease(2 + 2 * workers) as lease, ProcessRuntime(directory=folder) as runtime:
        port, *others = lease.ports
        java = (str(install.java), "-Xmx256m", *install.jvm_flags, "-cp", install.classpath)
        at = f"spark://127.0.0.1:{port}"
        names = (
            "org.apache.spark.deploy.master.Master",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--webui-port",
            str(others[0]),
        )
        runtime.start(NodeSpec("master", "master", (*java, *names), install.env, temporary="spark"))

        def up() -> bool:
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        wait_until(up, within_s=60, because="Spark's master to listen")
        for number in range(workers):
            ports = (
                "--port",
                str(others[1 + 2 * number]),
                "--webui-port",
                str(others[2 + 2 * number]),
            )
            what = (
                "org.apache.spark.deploy.worker.Worker",
                "--host",
                "127.0.0.1",
                *ports,
                "--cores",
                "1",
                "--memory",
                "1g",
            )
            where = ("--work-dir", str(folder / f"work-{number}"), at)
            # executors inherit where to put temporary files
            runtime.start(
                NodeSpec(
                    f"worker-{number}",
                    "worker",
                    (*java, *what, *where),
                    install.env,
                    temporary="spark",
                )
            )
        yield at
