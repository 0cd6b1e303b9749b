"""librdkafka's reader of share groups, by what its binding says: deliveries are counted, and
refusals raised.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import AcknowledgeType, KafkaError, KafkaException, TopicPartition

from harness.stages.clients.interface import Answer, ClientError, Delivered
from harness.stages.clients.librdkafka import Sharer


def message(offset: int, error: KafkaError | None = None, times: int = 1) -> Any:
    """Return what a poll returns."""
    said = {
        "topic": "in",
        "partition": 1,
        "offset": offset,
        "leader_epoch": 3,
        "key": b"k",
        "value": b"v",
        "error": error,
        "delivery_count": times,
    }
    return SimpleNamespace(**{name: (lambda word=word: word) for name, word in said.items()})


class Binding:
    """A share consumer that has these messages, and is told this of what it acknowledges."""

    def __init__(self, *messages: Any, told: KafkaException | None = None) -> None:
        self.acknowledged: list[tuple[str, int, int, int]] = []
        self._messages = messages
        self._told = told

    def poll(self, within_s: float) -> tuple[Any, ...]:
        """Return them."""
        assert within_s
        return self._messages

    def acknowledge_offset(self, *said: Any) -> None:
        """Take note of what is said of a record."""
        self.acknowledged.append(said)

    def commit_sync(self, within_s: float) -> dict[TopicPartition, KafkaException | None]:
        """Say what became of it."""
        assert within_s
        return {TopicPartition("in", 0): None, TopicPartition("in", 1): self._told}


def test_a_delivery_says_how_often_it_was_made() -> None:
    """An error that is for the time being is no record, and nothing else either."""
    late = message(-1, KafkaError(KafkaError._TIMED_OUT))
    told = Sharer(Binding(message(5, times=2), late)).poll(0.1)
    assert told == [Delivered("in", 1, 3, 5, b"k", b"v", deliveries=2)]


def test_a_fatal_error_is_raised() -> None:
    with pytest.raises(ClientError, match="gone"):
        Sharer(Binding(message(-1, KafkaError(KafkaError._FATAL, "gone", fatal=True)))).poll(0.1)


def test_what_is_said_of_a_record_is_what_the_broker_is_told() -> None:
    binding = Binding()
    for offset, answer in enumerate((Answer.ACCEPT, Answer.RELEASE, Answer.REJECT)):
        Sharer(binding).answer(Delivered("in", 1, 3, offset, b"k", b"v"), answer)
    kinds = (AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT)
    assert binding.acknowledged == [
        ("in", 1, offset, int(kind)) for offset, kind in enumerate(kinds)
    ]


def test_a_refusal_of_one_partition_is_a_refusal() -> None:
    Sharer(Binding()).commit(1)
    with pytest.raises(ClientError):
        Sharer(Binding(told=KafkaException(KafkaError(121)))).commit(1)
