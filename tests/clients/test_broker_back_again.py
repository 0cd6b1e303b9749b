"""Our consumer of kafka-python on a broker that is back, and not registered yet."""

from __future__ import annotations

import pytest
from kafka.errors import KafkaConnectionError, MetadataEmptyBrokerList

from harness.stages.clients.kafka_python import Consumer


class Client:
    """Answers as a client whose broker was put out for a while, and comes back."""

    def __init__(self, *answers: Exception | set[str]) -> None:
        self.answers = list(answers)

    def subscribe(self, topics: list[str], listener: object) -> None:
        """Accept it."""

    def topics(self) -> set[str]:
        """Say the next answer."""
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def subscribed(*answers: Exception | set[str]) -> Client:
    """Return the client after our consumer has subscribed by it to topic ``in``."""
    client = Client(*answers)
    Consumer(lambda: client).subscribe("in", lambda _: {})
    return client


@pytest.mark.parametrize("error", [MetadataEmptyBrokerList(), KafkaConnectionError()])
def test_who_subscribes_waits_for_a_broker(error: Exception) -> None:
    """The first to ask a broker that was started again finds one that names no broker."""
    assert subscribed(error, error, {"other"}, {"in", "other"}).answers == []


def test_other_errors_end_the_program() -> None:
    with pytest.raises(ValueError, match="wrong"):
        subscribed(ValueError("wrong"), {"in"})
