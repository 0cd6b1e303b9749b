"""What a cell on a cluster waits for: before it loads, before an elected leader is believed, and before it counts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.core.scenario import Deployment
from harness.core.waiting import WaitTimeoutError
from harness.systems.kafka import cluster, system
from harness.systems.kafka.cluster import ClusterBench, ClusterCellRun
from harness.systems.kafka.observer import Leadership
from harness.systems.kafka.run import KafkaCellRun
from tests.wire.kafka_frames import batch, payload

if TYPE_CHECKING:
    from pathlib import Path


def led_by(number: int) -> dict[int, Leadership]:
    """Partition 0 of three replicas, of which the second is preferred."""
    return {0: Leadership(number, 1, (2, 3, 1), (1, 2, 3))}


def cell_run(observer: Any, *brokers: Any) -> Any:
    """Return the run of a cell, as far as these questions need one."""
    run: Any = object.__new__(ClusterCellRun)
    run.deployed = SimpleNamespace(observer=observer, brokers=brokers)
    run._used_topics = lambda: ("orders",)
    return run


@pytest.mark.parametrize(("high_watermark", "leader", "trouble"), [(2, 2, None), (1, 2, "more than"), (2, 4, "more than")])
def test_records_above_the_high_watermark_are_waited_for(
    monkeypatch: pytest.MonkeyPatch, high_watermark: int, leader: int, trouble: str | None
) -> None:
    """The leader's file says what there is; who it belongs to must be one of ours."""
    monkeypatch.setattr(KafkaCellRun, "log_trouble", lambda _: None)
    observer = SimpleNamespace(
        leaderships=lambda _: {0: Leadership(leader, 1, (2,), (2,))}, ends=lambda _: {0: SimpleNamespace(end=high_watermark)}
    )
    two_records = batch([payload("k1-1"), payload("k1-2")])
    run = cell_run(observer, SimpleNamespace(number=2, log_of=lambda _: [(0, two_records)]))
    found = run.log_trouble()
    assert found is None if trouble is None else trouble in found


def test_the_load_waits_until_the_first_broker_leads_kafkas_own_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have lost them since the ground was prepared; it is asked to take them back."""
    done: list[str] = []
    monkeypatch.setattr(KafkaCellRun, "load", lambda _: done.append("load"))
    observer = SimpleNamespace(leaderships=lambda _: led_by(1 if done else 2), prefer_leaders=lambda _: done.append("asked"))
    cell_run(observer).load()
    assert done == ["asked", "load"]


def test_nothing_is_loaded_where_another_broker_keeps_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait is bounded."""
    monkeypatch.setattr(KafkaCellRun, "load", lambda _: pytest.fail("loaded"))
    monkeypatch.setattr(cluster, "SYNC_S", 0.2)
    with pytest.raises(WaitTimeoutError, match="the first broker to lead Kafka's own topics"):
        cell_run(SimpleNamespace(leaderships=lambda _: led_by(3), prefer_leaders=lambda _: None)).load()


@pytest.mark.parametrize("stalled", [False, True])
def test_an_elected_leader_is_asked_itself(stalled: bool) -> None:
    """Over a new connection, after the election; one whose followers get nothing could not answer."""
    asked: list[str] = []
    observer = SimpleNamespace(
        prefer_leaders=lambda _: asked.append("elect"), leaderships=lambda _: led_by(2 if asked else 3),
        close=lambda: asked.append("close"), ends=lambda _: asked.append("ends"),
    )  # fmt: skip
    bench: Any = object.__new__(ClusterBench)
    bench.deployed, bench.topics, bench._stalled = SimpleNamespace(observer=observer), ("orders",), stalled
    bench._say_leaders = lambda: asked.append("said")
    bench._elect([0])
    assert asked == (["elect", "said"] if stalled else ["elect", "close", "ends", "said"])


@pytest.mark.parametrize(("need", "outlives"), [(Deployment.SHARED, True), (Deployment.OWN, False)])
def test_a_broker_that_nobody_kills_outlives_starvation(tmp_path: Path, need: Deployment, outlives: bool) -> None:
    """One that is killed has to be given up soon."""
    told: list[str] = []
    server = SimpleNamespace(outlive_starvation=lambda: told.append("outlives"))
    deployed = SimpleNamespace(servers=(server,), start=lambda: told.append("start"), close=lambda: None)
    kafka = system.KafkaSystem()
    kafka._prepared = lambda: None  # type: ignore[method-assign, assignment, return-value]
    kafka._deployment = lambda *_: deployed  # type: ignore[method-assign, assignment, return-value]
    kafka.deploy(need, tmp_path)
    assert told == (["outlives", "start"] if outlives else ["start"])
