"""Cells in containers: the same scenarios, the same predictions, another runtime."""

from __future__ import annotations

import shlex
import signal
from typing import TYPE_CHECKING, Any

import pytest

from harness import registry
from harness.matrix.runner import RunPlan, run
from harness.matrix.selection import choose, select
from harness.model import events as kinds
from harness.model.history import HISTORY, read_history
from tests.planted.lies import Silent

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from harness.saved import SavedRun

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

SMOKE = (
    "plain/ack-lost/at-most-once/docker/s1",
    "plain/ack-lost/at-least-once/docker/s1",
    "plain/ack-lost/exactly-once/docker/s1",
    "plain/producer-crash-before-ack/at-least-once/docker/s1",
    "plain/consumer-crash-before-commit/exactly-once/docker/s1",
    "plain/broker-crash-before-ack/at-least-once/docker/s1",
    "plain/consumer-crash-before-recording/at-most-once/docker/s1",
    "stream-to-topic/driver-crash-before-commit-log/at-least-once/docker/s1",
    "stream-to-database/driver-crash-mid-batch/exactly-once/docker/s1",
    "to-postgres/database-crash-after-commit/exactly-once/docker/s1",
    "plain/broker-out-of-memory/at-least-once/docker/s1",
    "plain/broker-volume-lost/exactly-once/docker/s1",
    "plain/disk-full-before-ack/at-least-once/docker/s1",
)
"""One for each way of dying, over the three semantics; ``lostack run --runtime docker`` runs them
all.
"""


@pytest.fixture(scope="session")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> SavedRun:
    """Run them all, overlapping."""
    chosen = select(registry.scenarios(), only=SMOKE, runtime="docker")
    plan = RunPlan(
        systems=chosen.systems(),
        cells=chosen.cells,
        not_applicable=(),
        reports=tmp_path_factory.mktemp("docker"),
        jobs=2,
        command=shlex.join(["pytest", "tests/containers"]),
        seeds=(1,),
        records=chosen.records,
    )
    return run(plan, Silent())


@pytest.mark.parametrize("name", SMOKE)
def test_a_cell_comes_out_as_predicted(smoke: SavedRun, name: str) -> None:
    result = next(each for each in smoke.results if each.plan.id.endswith(name))
    assert result.verdict.green, result.verdict.reason


ENGINES = {
    "streams": "streams-count/streams-crash-before-commit/exactly-once",
    "flink": "flink-job/flink-crash-between-checkpoints/exactly-once",
}
"""One cell of each engine whose records come through Kafka: its JVM is killed, by the engine's
word.
"""
BROKERS = {
    "activemq": ("queue", "stomp.py"),
    "artemis": ("queue-by-id", "core"),
    "pulsar": ("subscription", "pulsar-client"),
}
"""The brokers that are made of jars, each by a client that comes into a stage's container in
another way: it is in the image, a JVM beside the stage, or an environment of this machine.
"""
FAULTS = ("broker-crash-before-ack/at-least-once", "consumer-crash-before-commit/exactly-once")


def alone(reports: Path, system: str, *only: str, clients: Sequence[str] = ()) -> SavedRun:
    """Run cells of one system in containers."""
    chosen = select(
        registry.scenarios(), only=only, system=system, clients=clients, runtime="docker"
    )
    return run(
        RunPlan(
            systems=chosen.systems(),
            cells=chosen.cells,
            not_applicable=(),
            reports=reports,
            jobs=2,
            command=shlex.join(["pytest", "tests/containers"]),
            seeds=(1,),
            records=chosen.records,
        ),
        Silent(),
    )


@pytest.mark.parametrize(
    "system", [pytest.param(name, marks=getattr(pytest.mark, name)) for name in ENGINES]
)
def test_a_cell_of_an_engine_comes_out_as_predicted(tmp_path: Path, system: str) -> None:
    """It is a container as its broker is, and the version of what it runs is told."""
    saved = alone(tmp_path, system, ENGINES[system])
    [result] = saved.results
    assert result.verdict.green, result.verdict.reason
    assert result.verdict.fired == 1
    assert {"image kafka", "image lostack", "image java"} <= set(saved.info.versions)


@pytest.mark.parametrize(
    "system", [pytest.param(name, marks=getattr(pytest.mark, name)) for name in BROKERS]
)
def test_cells_of_a_broker_that_is_made_of_jars_come_out_as_predicted(
    tmp_path: Path, system: str
) -> None:
    """Broker and consumer are killed by the engine, and what is started again is the same broker,
    and another consumer.
    """
    pipeline, client = BROKERS[system]
    saved = alone(tmp_path, system, *(f"{pipeline}/{fault}" for fault in FAULTS), clients=(client,))
    assert {
        (result.plan.scenario, result.verdict.green, result.verdict.fired)
        for result in saved.results
    } == {(fault.partition("/")[0], True, 1) for fault in FAULTS}
    for result, who in zip(
        sorted(saved.results, key=lambda each: each.plan.id), ("broker-1", "consumer"), strict=True
    ):
        lives = [
            e
            for e in read_history(result.directory / HISTORY, result.plan.id).of(kinds.Node)
            if e.node == who
        ]
        assert [e.signal for e in lives if e.phase == "exited"][:1] == [signal.SIGKILL], who
        assert "started" in [e.phase for e in lives[1:]], who
    assert {"image lostack", "image java", "java", system} <= set(saved.info.versions)


def test_the_report_says_what_stood_in_for_what(smoke: SavedRun) -> None:
    """Every image is in the versions; a stand-in is called one."""
    images = {key: value for key, value in smoke.info.versions.items() if key.startswith("image ")}
    assert set(images) == {
        "image kafka",
        "image lostack",
        "image spark",
        "image driver",
        "image postgres",
    }
    if "lostack/stand-in" in images["image kafka"]:
        assert "a STAND-IN for apache/kafka:" in images["image kafka"]


def test_both_runtimes_draw_the_same_load() -> None:
    """Target and records depend on scenario and seed alone, so that runs in both can be compared
    cell by cell.
    """
    asked: dict[str, Any] = {"system": "kafka", "only": ("plain/ack-lost/at-least-once",)}
    here, there = (
        choose(registry.scenarios(), runtime=runtime, **asked)[0] for runtime in registry.RUNTIMES
    )
    assert here.load() == there.load()
    assert here.key != there.key
