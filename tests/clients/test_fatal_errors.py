"""A client that gives itself up says so where nobody asks for it."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from harness.stages.clients.interface import ClientError, Meaning
from harness.stages.clients.librdkafka import Pending


class GivenUp:
    """A producer whose sequence numbers no longer are its broker's."""

    def poll(self, within_s: float) -> int:
        """Raise, as librdkafka's binding does while a record is waited for."""
        raise KafkaException(
            KafkaError(
                KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, f"waited {within_s:g} s", fatal=True
            )
        )


def test_a_fatal_error_ends_the_waiting_and_not_the_program() -> None:
    """What became of the record is unknown; the program aborts, cannot, and takes a new client."""
    with pytest.raises(ClientError, match="OUT_OF_ORDER_SEQUENCE_NUMBER") as told:
        Pending(GivenUp()).wait(1)
    assert told.value.meaning is Meaning.UNKNOWN
