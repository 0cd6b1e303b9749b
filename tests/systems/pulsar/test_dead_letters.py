"""Where a client of Pulsar puts dead letters: by the name of the subscription, which the broker
knows; without a broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import pytest

from harness.systems.pulsar import broker
from harness.systems.pulsar.broker import PulsarBroker

if TYPE_CHECKING:
    from collections.abc import Mapping

QUEUE = "persistent://public/default/letters"


@pytest.mark.parametrize(
    ("said", "name"),
    [
        (None, "workers"),
        ({"subscriptions": {}}, "workers"),
        ({"subscriptions": {"archive": {}}}, "archive"),
        ({"subscriptions": {"archive": {}, "pulsar.dedup": {}}}, "archive"),
        ({"subscriptions": {"archive": {}, "audit": {}}}, "workers"),
    ],
    ids=["no topic", "nobody", "one", "the broker's own", "two"],
)
def test_they_are_named_by_the_subscription(
    monkeypatch: pytest.MonkeyPatch, said: Mapping[str, Any] | None, name: str
) -> None:
    class Answers:
        """A broker's answers over HTTP."""

        def __init__(self, port: int) -> None:
            assert port == 8080

        def __enter__(self) -> Self:
            """Return itself."""
            return self

        def __exit__(self, *_: object) -> None:
            """Do nothing."""

        def of_topic(self, topic: str, what: str) -> Mapping[str, Any] | None:
            """Return what the broker says of the topic."""
            assert (topic, what) == (QUEUE, "stats")
            return said

    monkeypatch.setattr(broker, "Admin", Answers)
    found = PulsarBroker.__new__(PulsarBroker)
    found._http = 8080  # started brokers have it
    assert found.dead_letters(QUEUE) == f"{QUEUE}-{name}-DLQ"
