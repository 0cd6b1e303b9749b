"""Storm's own time-outs, on a machine that is starved."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.systems.storm.install import StormInstall
from harness.systems.storm.topology import READY_S
from tests.systems.storm.machine import started


@pytest.mark.parametrize(
    "waits",
    [
        "nimbus.task.launch.secs",
        "nimbus.task.timeout.secs",
        "nimbus.supervisor.timeout.secs",
        "supervisor.worker.timeout.secs",
        "supervisor.worker.start.timeout.secs",
    ],
)
def test_a_worker_that_starts_slowly_is_not_started_elsewhere(tmp_path: Path, waits: str) -> None:
    """A cell gives its worker up before Storm does.

    On two cores with a load of 40 a worker took over 30 s to start. Nimbus moved it to another
    slot, where it began anew.
    """
    _, conf = started(StormInstall(Path("/j/bin/java"), (), Path("topology.jar"), {}), tmp_path)
    assert conf[waits] > READY_S


def test_the_only_supervisor_is_never_put_aside(tmp_path: Path) -> None:
    """Nimbus does so with one whose workers were late three times in five minutes, and then assigns
    nothing any more.
    """
    _, conf = started(StormInstall(Path("/j/bin/java"), (), Path("topology.jar"), {}), tmp_path)
    assert conf["blacklist.scheduler.tolerance.count"] > 1000
