"""What lostack's client tells a node of queues and messages, without a node."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from lostack_rabbitmq import client, queues
from lostack_rabbitmq.client import PikaConsumer, PikaProducer
from lostack_rabbitmq.knowledge import SET_ASIDE, set_aside
from lostack_rabbitmq.scenarios import SCENARIOS

from harness.model.scenario import Predicted
from harness.stages.settings import QUEUE_AT_LEAST_ONCE, QUEUE_AT_MOST_ONCE, Settings
from tests.events import a_history


class Channel:
    """Notes what it is told."""

    is_open = True

    def __init__(self) -> None:
        self.said: list[tuple[str, Any]] = []

    def queue_declare(self, queue: str, *, durable: bool, arguments: dict[str, Any]) -> None:
        """Note it."""
        assert durable
        self.said.append((f"declare {queue}", arguments))

    def confirm_delivery(self) -> None:
        """Note it."""
        self.said.append(("confirms", None))

    def basic_publish(self, _exchange: str, queue: str, *_said: Any, mandatory: bool) -> None:
        """Note whether it is mandatory."""
        self.said.append((f"publish {queue}", mandatory))

    def basic_qos(self, prefetch_count: int) -> None:
        """Note it."""
        self.said.append(("prefetch", prefetch_count))

    def basic_consume(self, queue: str, _take: Any, *, auto_ack: bool) -> None:
        """Note it."""
        self.said.append((f"consume {queue}", auto_ack))


@pytest.fixture
def channel(monkeypatch: pytest.MonkeyPatch) -> Channel:
    """The channel that every connection gets."""
    found = Channel()

    def there(self: Any) -> Channel:
        self._channel = found
        self._opened(found)
        return found

    monkeypatch.setattr(client.Connected, "there", there)
    return found


class Stage:
    """As much of a stage as the client asks."""

    bootstrap, client_id = "127.0.0.1:1", "c"

    def __init__(self, settings: Any, pipeline: str) -> None:
        self.settings, self.pipeline = settings, pipeline


def sends(channel: Channel, settings: Any, pipeline: str) -> list[tuple[str, Any]]:
    """Return what a producer tells its channel."""
    stage: Any = Stage(settings, pipeline)
    PikaProducer(stage).send("q", b"x", None, ())
    return channel.said


@pytest.mark.parametrize(
    ("acks", "confirms", "mandatory"), [(0, False, False), (1, True, False), ("all", True, True)]
)
def test_what_a_producer_asks_for(
    channel: Channel, acks: Any, confirms: bool, mandatory: bool
) -> None:
    """Nothing; a confirm; a confirm, and the message back if no queue takes it."""
    producer = replace(QUEUE_AT_MOST_ONCE.producer, acks=acks)
    said = sends(channel, replace(QUEUE_AT_LEAST_ONCE, producer=producer), queues.QUORUM)
    assert said[-1] == ("publish q", mandatory)
    assert ("confirms" in dict(said)) is confirms


def test_a_late_queue_is_declared_by_its_reader_alone(channel: Channel) -> None:
    """Any other by its producer."""
    assert "declare q" not in dict(sends(channel, QUEUE_AT_MOST_ONCE, queues.LATE))
    for pipeline in (queues.LATE, queues.QUORUM):
        channel.said.clear()
        stage: Any = Stage(QUEUE_AT_LEAST_ONCE, pipeline)
        PikaConsumer(stage).subscribe("q")
        assert ("declare q" in dict(channel.said)) is (pipeline == queues.LATE)
    assert dict(channel.said)["prefetch"] == 1


def test_how_queues_are_declared() -> None:
    """Every one is a quorum queue; who drops messages says so, and where to."""
    limit = {"x-queue-type": "quorum", "x-delivery-limit": queues.LIMIT}
    assert queues.arguments("q", queues.QUORUM) == {"x-queue-type": "quorum"}
    assert queues.arguments("q", queues.LIMITED) == limit
    assert queues.arguments("q", queues.ASIDE) == limit | {
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "q.dead-letters",
    }


def test_a_record_is_set_aside_where_the_broker_says_why() -> None:
    """A move without a reason shows nothing."""
    moved = {"event": "moved", "place": "Q:1", "to": "D:1", "record": "k0-1"}
    assert set_aside(a_history((moved | {"why": "limit"},))) == {SET_ASIDE: {"k0-1"}}
    assert set_aside(a_history((moved,))) == {SET_ASIDE: set()}


def test_dead_letters_are_none_of_the_lost_where_a_queue_has_them_alone() -> None:
    """A queue without them has a control for each scenario of one with them."""
    refused = {
        (each.pipeline.name, each.id): each for each in SCENARIOS if "work-fails+" in each.id
    }
    for (pipeline, name), scenario in refused.items():
        assert scenario.dead_letters is (pipeline == queues.ASIDE)
        assert (queues.LIMITED, name) in refused
        for semantic, theory in scenario.expect.items():
            assert isinstance(theory, Predicted)
            assert theory.control is (pipeline == queues.LIMITED)
            share = Settings.of(scenario.settings(semantic)).consumer.share
            assert share.poisoned != share.rejects
