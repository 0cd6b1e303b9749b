"""The servers of a queue, as a fault and the drain ask for them: against a broker that says what it
is told to say.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.controls import NotFiredError
from harness.model import events as kinds
from harness.model.failures import CellFailure
from harness.model.scenario import Role
from harness.model.takeovers import Led
from harness.proofs.takeover import readers_of
from harness.run.queue_cluster import QueueCluster, QueueTakenOver
from harness.run.queue_replicas import replicating

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMES = ("broker-1", "broker-2", "broker-3")


class Three:
    """Three servers. Implements :class:`harness.run.queue_replicas.Replicates`."""

    def __init__(self) -> None:
        self.dead: set[str] = set()
        self.said = [Led("q", "broker-3", NAMES), Led(readers_of("q"), "broker-2", NAMES)]
        self.moved: list[tuple[str, str | None]] = []
        self.servers: Any = [SimpleNamespace(name=name) for name in NAMES]
        self.nodes: Any = [
            SimpleNamespace(
                name=name,
                kill=None,
                restart=None,
                end=None,
                process=lambda name=name: SimpleNamespace(exit=name in self.dead or None),
            )
            for name in NAMES
        ]

    def home(self, role: Role) -> Any:
        """Return the first for producers, the second for consumers."""
        return self.servers[role is Role.CONSUMER]

    def led(self, queue: str) -> Sequence[Led]:
        """Return what it was told to say."""
        assert queue == "q"
        return self.said

    def hand_over(self, led: Led, to: str | None = None) -> None:
        """Do it, at once."""
        self.moved.append((led.log, to))
        self.said = [
            Led(each.log, to or "broker-1", each.replicas) if each.log == led.log else each
            for each in self.said
        ]

    def copies(self, queue: str, server: Any) -> dict[int, bytes]:  # noqa: ARG002 - as asked
        """Return nothing."""
        return {}


def cluster_of(broker: Three, hit: Any = None) -> tuple[QueueCluster, list[Any]]:
    """Return the cluster, and what it writes down."""
    lines: list[Any] = []
    history = SimpleNamespace(write=lines.append)
    scene: Any = SimpleNamespace(history=history)
    last: Any = SimpleNamespace(event=hit)
    return QueueCluster(scene, "q", replicating(broker), last), lines


def test_each_log_is_led_by_the_server_of_its_programs() -> None:
    """Those that are led elsewhere are handed over; who leads is written down."""
    broker = Three()
    cluster, lines = cluster_of(broker)
    cluster.place()
    assert broker.moved == [("q", "broker-1")]
    assert all(isinstance(line, kinds.Leadership) for line in lines)
    assert [(line.topic, line.leader, line.number) for line in lines] == [
        ("q", "broker-1", 1),
        ("q/readers", "broker-2", 2),
    ]


def test_who_asks_for_another_follower_gets_another_one() -> None:
    """The one to which the consumers connect comes last; the leader is no follower."""
    cluster, _ = cluster_of(Three())
    victims = [cluster.servers()[role]() for role in (Role.LEADER, Role.FOLLOWER, Role.FOLLOWER)]
    assert [each.name for each in victims] == ["broker-3", "broker-1", "broker-2"]


def test_who_is_dead_leads_nothing_and_is_not_in_sync() -> None:
    """Whatever the others still believe."""
    broker = Three()
    cluster, lines = cluster_of(broker)
    assert cluster.trouble() is None
    broker.dead = {"broker-1"}
    assert cluster.trouble() == "q: broker-1 not in sync"
    broker.dead = {"broker-3"}
    assert cluster.trouble() == "q has no leader"
    cluster.say()
    assert (lines[0].leader, lines[0].number) == ("", -1)
    assert lines[0].isr == ("broker-1", "broker-2")


@pytest.mark.parametrize(
    ("role", "node", "leads"),
    [
        (Role.PRODUCER, "broker-3", True),
        (Role.PRODUCER, "broker-2", False),
        (Role.CONSUMER, "broker-2", True),
        (Role.CONSUMER, "broker-3", False),
    ],
)
def test_a_frame_for_another_than_the_leader_is_not_tried(
    role: Role, node: str, *, leads: bool
) -> None:
    """A consumer's frame is about what its readers' log is led by."""
    cluster, _ = cluster_of(Three(), SimpleNamespace(node=node, role=role))
    controls: Any = None
    taking = QueueTakenOver(cluster, controls)
    if leads:
        taking.begin()
        assert taking.struck().name == node
        return
    with pytest.raises(NotFiredError, match="which does not lead"):
        taking.begin()


def test_a_broker_that_is_one_server_has_no_cluster() -> None:
    with pytest.raises(CellFailure, match="is no broker of several servers"):
        replicating(SimpleNamespace())
