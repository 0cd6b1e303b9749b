"""What Pulsar's Java client does with a message that a transaction has not acknowledged before it
ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness.stages.clients import pulsar_java
from harness.stages.clients.interface import ClientError
from harness.stages.clients.pulsar_java import Program, PulsarConsumer, PulsarProducer

if TYPE_CHECKING:
    from harness.stages.clients.queues import Received

TIMED_OUT = "the transaction has timed out"


class Calls:
    """A bridge to no JVM: it keeps what is called, and may refuse acknowledgements."""

    def __init__(self) -> None:
        self.called: list[tuple[str, ...]] = []
        self.acknowledges = True

    def call(self, *words: str) -> list[str]:
        """Answer as the JVM would."""
        self.called.append(words)
        if words[0] == "ack" and not self.acknowledges:
            raise ClientError("InvalidTxnStatusException", TIMED_OUT)
        return {"begin": ["t1"], "receive": ["m1", "7:1:0", "0", "", ""]}.get(words[0], [])

    def refused(self) -> list[str]:
        """Return the messages that were refused."""
        return [words[2] for words in self.called if words[0] == "refuse"]


@pytest.fixture
def calls() -> Calls:
    """Return it."""
    return Calls()


@pytest.fixture
def parts(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> tuple[PulsarProducer, PulsarConsumer, Received]:
    """Return a producer and a consumer of one program, in a transaction, with a message in hand."""
    program: Any = Program.__new__(Program)
    program.bridge, program.client, program.transaction = calls, "c1", pulsar_java.NOTHING
    program._lasts_ms, program._in_hand = 5000, {}
    monkeypatch.setattr(pulsar_java, "program_of", lambda _stage: program)
    push = type("Push", (), {"cumulative": False})
    settings = type(
        "Settings", (), {"producer": None, "consumer": type("Consumer", (), {"push": push})}
    )
    stage: Any = type("Stage", (), {"settings": settings})
    producer, consumer = PulsarProducer(stage), PulsarConsumer(stage)
    producer.begin()
    given = consumer.receive(1.0)
    assert given is not None
    return producer, consumer, given


def test_an_abort_gives_back_what_was_not_acknowledged(
    parts: tuple[PulsarProducer, PulsarConsumer, Received], calls: Calls
) -> None:
    """Once, also where the transaction has ended before: a message that belongs to none would stay
    in flight.
    """
    producer, consumer, given = parts
    calls.acknowledges = False
    with pytest.raises(ClientError, match=TIMED_OUT):
        consumer.acknowledge(given)
    producer.abort()
    with pytest.raises(ClientError, match="InvalidTxnStatus"):
        producer.abort()
    assert calls.refused() == ["m1"]


def test_an_abort_leaves_what_was_acknowledged(
    parts: tuple[PulsarProducer, PulsarConsumer, Received], calls: Calls
) -> None:
    producer, consumer, given = parts
    consumer.acknowledge(given)
    producer.abort()
    assert calls.refused() == []
