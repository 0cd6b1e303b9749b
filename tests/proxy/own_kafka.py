"""A Kafka of the user's own, which nobody prepared for the proxy: any settings, any number of
brokers.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from kafka.admin import KafkaAdminClient

from harness.model.waiting import wait_until
from harness.provision.kafka import ensure_kafka
from harness.systems.kafka.launcher import HEAP, JVM, new_cluster_id

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

UP_S = 90.0


class OwnKafka:
    """Brokers as processes. Each has its folder below ``folder``."""

    def __init__(self, folder: Path, more_of_format: tuple[str, ...] = ()) -> None:
        self._folder = folder
        self._more = more_of_format
        self._cluster = new_cluster_id()
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        install = ensure_kafka(lambda _: None)
        java = (str(install.java), *install.jvm_flags, HEAP, *JVM)
        self._java = (*java, "-cp", install.classpath)

    def start(self, number: int, settings: Mapping[str, str]) -> None:
        """Start a broker, which is formatted when it is started first."""
        own = self._folder / f"broker-{number}"
        config, new = own / "server.properties", not own.exists()
        own.mkdir(exist_ok=True)
        told = {"node.id": str(number), "log.dirs": str(own / "data"), **settings}
        config.write_text("".join(f"{name}={value}\n" for name, value in told.items()), "utf-8")
        if new:
            format_it = ("format", f"--cluster-id={self._cluster}", "-c", str(config), *self._more)
            made = (*self._java, "kafka.tools.StorageTool", *format_it)
            subprocess.run(made, check=True, capture_output=True, timeout=UP_S)
        with (own / "log").open("ab") as log:
            self._processes[number] = subprocess.Popen(
                (*self._java, "kafka.Kafka", str(config)), stdout=log, stderr=log
            )

    def process(self, number: int) -> subprocess.Popen[bytes]:
        """Return a broker's process."""
        return self._processes[number]

    def kill(self, number: int) -> None:
        """End a broker at once."""
        process = self._processes.pop(number)
        process.kill()
        process.wait()

    def close(self) -> None:
        """End all."""
        for number in tuple(self._processes):
            self.kill(number)


def wait_for_brokers(at: str, count: int) -> None:
    """Wait until a cluster has so many brokers, as one of them says."""
    wait_until(
        lambda: brokers_of(at) == count,
        within_s=UP_S,
        because=f"{count} brokers to be up",
        poll_s=0.2,
    )


def brokers_of(at: str) -> int:
    """Return how many brokers there are; none while the one that is asked does not answer."""
    try:
        admin = KafkaAdminClient(bootstrap_servers=at, bootstrap_timeout_ms=2000)
    except Exception:  # noqa: BLE001 - whatever it says of a broker that is not up yet
        return 0
    try:
        return len(admin.describe_cluster()["brokers"])
    finally:
        admin.close()
