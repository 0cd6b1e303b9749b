"""How many TaskManagers a cluster has, and what each process is told: on processes
that do nothing.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from harness import registry
from harness.matrix.selection import choose
from harness.model.failures import EnvironmentFailure
from harness.runtimes.process import ProcessRuntime
from harness.systems.flink.cluster import Cluster
from harness.systems.flink.install import SERVICES, FlinkInstall, connectors, ensure_flink

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.runtimes.interface import NodeSpec
    from harness.runtimes.process.node import ProcessNode


class Idle(ProcessRuntime):
    """Starts a program that waits, whatever is to be started; remembers what that was."""

    def start(self, spec: NodeSpec) -> ProcessNode:
        """Start it."""
        self.asked = [*getattr(self, "asked", []), spec]
        return super().start(
            replace(
                spec,
                argv=(sys.executable, "-S", "-c", "import sys; sys.stdin.read()"),
                stdin_pipe=True,
            )
        )


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Return a cluster that was started."""
    with ExitStack() as ends:
        runtime = ends.enter_context(Idle(directory=tmp_path))
        install = FlinkInstall(
            Path("java"),
            "flink.jar",
            Path("job.jar"),
            Path("services.jar"),
            "2",
            "5",
            ("-Xjm",),
            ("-Xtm",),
        )
        made = Cluster(runtime, install, tmp_path / "flink", tmp_path)
        ends.callback(made.close)
        made.start()
        yield made


def roles(cluster: Cluster) -> list[str]:
    """Return what was started, in order."""
    return [spec.role for spec in cluster.runtime.asked]  # type: ignore[attr-defined]  # Idle's


def test_only_what_is_missing_is_started(cluster: Cluster) -> None:
    """The first one serves the first cell; a cell that wants a spare gets one more; those stay for
    others.
    """
    assert roles(cluster) == ["job-manager", "task-manager"]
    cluster.want(1)
    assert roles(cluster).count("task-manager") == 1
    cluster.want(2)
    assert roles(cluster).count("task-manager") == 3
    cluster.unwant(3)
    cluster.want(3)
    assert roles(cluster).count("task-manager") == 3


def test_it_is_known_whether_all_have_registered(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A JobManager may know more: those that died a moment ago."""
    known = 0
    told = SimpleNamespace(overview=lambda: {"taskmanagers": known})
    monkeypatch.setattr(Cluster, "rest", told)
    assert not cluster.all_registered()
    known = 1
    assert cluster.all_registered()
    cluster.want(2)
    assert not cluster.all_registered()
    known = 3
    assert cluster.all_registered()


def test_nobody_comes_in_the_place_of_a_dead_one_unasked(cluster: Cluster) -> None:
    cluster.want(1)
    assert cluster.kill("task-manager-1").signal == 9
    assert roles(cluster).count("task-manager") == 1
    assert cluster.task_manager("task-manager-1").exit is not None
    cluster.refill()
    assert roles(cluster).count("task-manager") == 2


def test_each_is_known_by_its_own_name_and_only_the_job_manager_has_failpoints(
    cluster: Cluster,
) -> None:
    first, second = cluster.runtime.asked  # type: ignore[attr-defined]  # Idle's
    assert f"high-availability.type={SERVICES}" in first.argv
    assert "flink.jar:services.jar" in first.argv
    assert "taskmanager.resource-id=task-manager-1" in second.argv
    assert "flink.jar" in second.argv
    assert [("-Xjm" in each.argv, "-Xtm" in each.argv) for each in (first, second)] == [
        (True, False),
        (False, True),
    ]


def test_all_listens_on_loopback(cluster: Cluster) -> None:
    conf = (cluster.directory / "conf" / "config.yaml").read_text()
    told = dict(line.split(": ", 1) for line in conf.splitlines())
    hosts = (
        "jobmanager.bind-host",
        "rest.bind-address",
        "taskmanager.bind-host",
        "jobmanager.rpc.address",
        "rest.address",
    )
    assert {told[name] for name in hosts} == {"'127.0.0.1'"}


def test_what_there_is_no_slot_for_waits_for_one(cluster: Cluster) -> None:
    """However long the JobManager has been up: else a job goes through attempts that nobody asked
    for.
    """
    conf = (cluster.directory / "conf" / "config.yaml").read_text()
    told = dict(line.split(": ", 1) for line in conf.splitlines())
    assert int(told["resourcemanager.standalone.start-up-time"].strip("'")) >= 24 * 3600 * 1000


def test_a_job_manager_that_ended_breaks_the_ground(cluster: Cluster) -> None:
    """Whoever asks is told, with the end of its log; unless a fault has killed it, which starts it
    again.
    """
    cluster.kill_job_manager()
    cluster.check()
    cluster.start_job_manager()
    cluster.job_manager.kill()
    with pytest.raises(EnvironmentFailure, match=r"the JobManager ended \(signal 9\)"):
        cluster.check()


def test_of_containers_only_the_job_manager_is_reached_from_outside(cluster: Cluster) -> None:
    """By its REST port; all see where the cells keep their files, and where the jars lie."""
    first, second = (spec.container for spec in cluster.runtime.asked)  # type: ignore[attr-defined]  # Idle's
    assert len(first.ports) == 1
    assert second.ports == ()
    assert first.folders == second.folders
    assert first.folders[0] == cluster.run


def test_a_connector_is_named_by_its_version() -> None:
    """One whose sums are not known is refused, and so is one of another Flink."""
    assert {"4.0.1", "5.0.0", "5.0.0+4.3.0"} <= connectors().keys()
    assert {"3.2.0", "3.3.0"} <= connectors("1.19.3").keys()
    for version, flink in (("3.1.4", "2.3.0"), ("3.3.0", "2.3.0"), ("5.0.0", "1.19.3")):
        with pytest.raises(
            EnvironmentFailure, match=rf"flink-connector-kafka=={version}: lostack has no checksums"
        ):
            ensure_flink(lambda _: None, version, flink)


def test_of_flink_1_only_what_its_connectors_do_is_tried() -> None:
    cells = choose(registry.scenarios(), system="flink==1.19.3", suite="night")
    tried = {cell.scenario.id for cell in cells if registry.inapplicable(cell) is None}
    assert tried == {"none", "none+paced", "flink-send-refused"}
