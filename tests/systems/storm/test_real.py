"""The real Storm: topologies end through Nimbus, and nothing outlives the harness, the writers of
workers' logs among it.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import psutil
import pytest

from harness.model import events as kinds
from harness.model.tail import SoFar
from harness.model.waiting import wait_until
from harness.provision.kafka import ensure_kafka
from harness.systems.kafka.launcher import ProcessGround
from harness.systems.kafka.transport import KafkaTransport
from harness.systems.storm.cluster import Cluster
from harness.systems.storm.desk import DeskError
from harness.systems.storm.install import ensure_storm
from harness.systems.storm.settings import STORM_AT_LEAST_ONCE
from harness.systems.storm.words import Place, words_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.kafka, pytest.mark.storm, pytest.mark.rest(together=True)]

UP_S = 120.0
GONE_S = 10.0
WORKER = "org.apache.storm.daemon.worker.Worker"
WRITER = "org.apache.storm.LogWriter"


def test_nothing_outlives_the_harness(tmp_path: Path) -> None:
    """Killed in the middle of a cell, it leaves no worker, and nobody who writes down what a worker
    says.
    """
    words = ("run", "--system", "storm", "--only", "none", "--reports", str(tmp_path))
    harness = subprocess.Popen(
        (sys.executable, "-m", "harness.cli", *words),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
    )
    below: dict[int, psutil.Process] = {}

    def up() -> bool:
        below.update({one.pid: one for one in psutil.Process(harness.pid).children(recursive=True)})
        said = [_words(one) for one in below.values()]
        return any(WORKER in words and WRITER not in words for words in said) and any(
            WRITER in words for words in said
        )

    try:
        wait_until(up, within_s=UP_S, because="a worker")
    finally:
        harness.kill()
        harness.wait()
    wait_until(
        lambda: not any(one.is_running() for one in below.values()),
        within_s=GONE_S,
        because="all to be gone",
    )


def test_a_topology_ends_through_nimbus_and_a_worker_outlives_its_supervisor(
    tmp_path: Path,
) -> None:
    """The next supervisor finds the worker, and ends it when Nimbus says so."""
    kafka = ensure_kafka(print)
    history = tmp_path / "history"
    history.mkdir()
    with ExitStack() as ends:
        transport = KafkaTransport(ProcessGround(kafka), tmp_path)
        ends.callback(transport.close)
        cluster = Cluster(
            transport.runtime, ensure_storm(kafka, print), tmp_path / "storm", alone=True
        )
        ends.callback(cluster.close)
        cluster.start()
        transport.start()
        transport.observer.create_topics({"in": (1, {}), "out": (1, {})})
        cluster.await_up()
        place = Place(transport.direct, "in", "out", "test", history, tmp_path, "test")
        cluster.submit("test", words_of(place, STORM_AT_LEAST_ONCE, "test"))
        so_far = SoFar(history)
        [said, *_] = wait_until(lambda: so_far.of(kinds.Ready), within_s=UP_S, because="a worker")
        worker = psutil.Process(said.pid)
        cluster.kill_supervisor()
        cluster.restart_supervisor()
        cluster.check()
        assert worker.is_running()
        cluster.end("test")
        wait_until(lambda: not worker.is_running(), within_s=UP_S, because="the worker to end")
        wait_until(
            lambda: "test" not in cluster.topologies(),
            within_s=UP_S,
            because="Nimbus to forget the topology",
        )
        assert len(so_far.of(kinds.Ready)) == 1
        with pytest.raises(DeskError, match="NotAlive"):
            cluster.end("test")


def _words(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:  # it has just ended
        return []
