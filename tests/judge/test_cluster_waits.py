"""What a cell on a cluster waits for: before it loads, before an elected leader is believed, and
before it counts.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.model import events as kinds
from harness.model.waiting import WaitTimeoutError
from harness.protocols.kafka.steps import Api
from harness.run.who import LastHit
from harness.systems.kafka import cluster
from harness.systems.kafka.broker import BROKER_SESSION, Broker, Ports
from harness.systems.kafka.cluster import OF_A_CLUSTER, BrokerParts, ClusterBrokers, Followers
from harness.systems.kafka.log_copies import Leadership, LogEnds
from harness.wire.rules import Action, Direction
from tests.judge.growing import tell
from tests.judge.scenes import Kept, scene_of
from tests.wire.kafka_frames import batch, payload

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def led_by(number: int) -> dict[int, Leadership]:
    """Partition 0 of three replicas, of which the second is preferred."""
    return {0: Leadership(number, 1, (2, 3, 1), (1, 2, 3))}


@pytest.mark.parametrize(
    ("stable", "high_watermark", "now", "trouble"),
    [
        (2, 2, Leadership(2, 1, (2,), (2,)), None),
        (1, 1, Leadership(2, 1, (2,), (2,)), "the leader has records above the high watermark 1"),
        (2, 2, Leadership(4, 1, (4,), (4,)), "the leader has records above"),
        (2, 2, Leadership(2, 1, (2, 3), (2,)), "broker 3 not in sync, leader 2"),
        (1, 2, Leadership(2, 1, (2,), (2,)), "last stable offset 1, high watermark 2"),
    ],
    ids=[
        "at rest",
        "above the high watermark",
        "no leader of ours",
        "a follower is away",
        "an open transaction",
    ],
)
def test_what_a_cluster_has_not_settled_yet_is_waited_for(
    tmp_path: Path, stable: int, high_watermark: int, now: Leadership, trouble: str | None
) -> None:
    """The leader's file says what there is; who it belongs to must be one of ours."""
    two_records = batch([payload("k1-1"), payload("k1-2")])
    scene = scene_of(
        tmp_path,
        SimpleNamespace(number=2, log_of=lambda _: [(0, two_records)]),
        leaderships=lambda _: {0: now},
        ends=lambda _: {0: LogEnds(0, stable, high_watermark)},
    )
    found = ClusterBrokers(scene, LastHit()).log_trouble()
    assert found is None if trouble is None else trouble in (found or "")


class Producing:
    """A feed that writes down that it was started."""

    def __init__(self, done: list[str]) -> None:
        self._done = done

    def start(self) -> None:
        """Write it down."""
        self._done.append("load")

    def await_filled(self) -> None:
        """Write it down."""
        self._done.append("filled")


def test_the_load_waits_until_the_first_broker_leads_kafkas_own_topics(tmp_path: Path) -> None:
    """It may have lost them since the ground was prepared; it is asked to take them back."""
    done: list[str] = []
    scene = scene_of(
        tmp_path,
        leaderships=lambda _: led_by(1 if done else 2),
        prefer_leaders=lambda _: done.append("asked"),
    )
    feed = ClusterBrokers(scene, LastHit()).feed(Producing(done))
    feed.start()
    assert done == ["asked", "load"]
    feed.await_filled()
    assert done[2:] == ["filled"]


def test_nothing_is_loaded_where_another_broker_keeps_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    monkeypatch.setattr(cluster, "SYNC_S", 0.2)
    scene = scene_of(tmp_path, leaderships=lambda _: led_by(3), prefer_leaders=lambda _: None)
    with pytest.raises(WaitTimeoutError, match="the first broker to lead Kafka's internal topics"):
        ClusterBrokers(scene, LastHit()).feed(Producing(done)).start()
    assert not done


class Electing(Kept):
    """A history, in which it is written who leads the source."""

    def __init__(self, asked: list[str]) -> None:
        super().__init__()
        self._asked = asked

    def write(self, event: kinds.Event) -> None:
        """Note that it was said."""
        if isinstance(event, kinds.Leadership) and event.topic.endswith(".in"):
            self._asked.append("said")


@pytest.mark.parametrize("stalled", [False, True])
def test_an_elected_leader_is_asked_itself(tmp_path: Path, stalled: bool) -> None:
    """Over a new connection, after the election; one whose followers get nothing could
    not answer.
    """
    asked: list[str] = []
    armed: list[Any] = []
    scene = scene_of(
        tmp_path,
        history=Electing(asked),
        controller=lambda: 1,
        prefer_leaders=lambda _: asked.append("elect"),
        leaderships=lambda _: led_by(2 if "elect" in asked else 3),
        close=lambda: asked.append("close"),
        ends=lambda _: asked.append("ends"),
    )
    tell(scene.history_folder, {"event": "sent", "record": scene.load.target.id, "partition": 0})
    controls: Any = SimpleNamespace(put_beside=armed.append)
    parts = BrokerParts(scene, LastHit())
    if stalled:
        Followers(parts, controls).stall()
    parts.elect_preferred()
    assert asked == (
        ["said", "elect", "said"] if stalled else ["said", "elect", "close", "ends", "said"]
    )
    assert [(rule.action, rule.api, rule.direction, rule.record, rule.limit) for rule in armed] == (
        [(Action.HOLD, Api.FETCH, Direction.RESPONSE, scene.load.target.id, None)]
        if stalled
        else []
    )


def test_what_a_fault_has_left_dead_is_started_again_when_its_cell_ends(tmp_path: Path) -> None:
    """And nobody else."""
    started: list[str] = []

    def server(name: str, end: str | None) -> Any:
        return SimpleNamespace(
            process=lambda: SimpleNamespace(exit=end), start=lambda: started.append(name)
        )

    scene = scene_of(tmp_path, server("lives", None), server("dead", "signal 9"))
    ClusterBrokers(scene, LastHit()).close()
    assert started == ["dead"]


def test_who_plays_a_part_is_asked_when_it_is_needed(tmp_path: Path) -> None:
    """And not before; who asks another broker is known by its client id."""
    brokers = ClusterBrokers(scene_of(tmp_path), LastHit())
    assert set(brokers.servers()) == set(OF_A_CLUSTER)
    hit = kinds.Rule(
        t=0,
        rule="fault",
        phase=kinds.RulePhase.HIT,
        client="broker-2-fetcher-0",
        node="broker-3",
    )
    assert brokers.asker(hit) == "broker-2"


@pytest.mark.parametrize(("brokers", "first", "again"), [(1, "10000", "1000"), (3, "2000", "2000")])
def test_a_broker_alone_outlives_starvation_until_it_was_killed(
    tmp_path: Path, brokers: int, first: str, again: str
) -> None:
    held: list[str] = []

    def note(_: str, settings: Mapping[str, str], *__: object) -> object:
        held.append(settings[BROKER_SESSION])
        return object()

    runtime: Any = SimpleNamespace(
        bind="127.0.0.1", address=lambda _: "127.0.0.1", start=lambda _: object()
    )
    ground: Any = SimpleNamespace(broker=note)
    quorum = [Ports(10 * n + 1, 10 * n + 2, {"internal": 10 * n + 3}, {}) for n in range(brokers)]
    broker = Broker(runtime, ground, tmp_path, quorum)
    broker.launch()
    broker.launch()
    assert held == [first, again]
