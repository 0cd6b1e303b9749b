"""A consumer of a queue that puts every second message off: until nothing else comes, and not
beyond its connection.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from harness.model.record import decode_id, make_records
from harness.model.writing import LedgerWriter
from harness.stages.clients.interface import ClientError
from harness.stages.clients.queues import Received
from harness.stages.consumer_settings import SavePosition
from harness.stages.pushing import PushSettings
from harness.stages.queue_consumer import Work
from harness.stages.settings import QUEUE_AT_LEAST_ONCE
from harness.stages.sinks.opening import create_sink, open_sink

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RECORDS = make_records(6, keys=2, filler_bytes=(0, 4), seed=1)


@dataclass
class Client:
    """A consumer that notes what is acknowledged, until its connection is lost."""

    acknowledged: list[str | None] = field(default_factory=list)
    lost: bool = False

    def acknowledge(self, given: Received) -> None:
        """Acknowledge, or fail."""
        if self.lost:
            raise ClientError("NotConnected", "no broker")
        self.acknowledged.append(decode_id(given.value))


def given(at: int, name: str = "") -> Received:
    """Return the record at a position, counted from 1."""
    return Received(
        name or f"7:{at}:0", RECORDS[at - 1].encode("c0ffee"), redelivered=False, token=None
    )


@pytest.fixture
def client() -> Client:
    """Return it."""
    return Client()


@pytest.fixture
def work(tmp_path: Path, client: Client) -> Iterator[Work]:
    """Return what is tested, acknowledging before the work."""
    create_sink(str(tmp_path / "sink.sqlite"))
    consumer = replace(
        QUEUE_AT_LEAST_ONCE.consumer,
        position=SavePosition.BEFORE_WORK,
        push=PushSettings(puts_off=24),
    )
    stage: Any = type(
        "Stage",
        (),
        {
            "settings": replace(QUEUE_AT_LEAST_ONCE, consumer=consumer),
            "sink": str(tmp_path / "sink.sqlite"),
            "client_id": "c.consumer.1",
        },
    )
    with LedgerWriter(tmp_path / "consumer.jsonl", cell="c", by="consumer") as ledger:
        yield Work(stage, ledger, client)  # type: ignore[arg-type]  # it has what is needed


def test_every_second_one_waits_until_nothing_else_comes(work: Work, client: Client) -> None:
    """By its place in the source, so that what is given again is put off again; given again, it is
    the same.
    """
    for at in (1, 2, 3, 3, 4):
        work.on(given(at))
    assert client.acknowledged == [RECORDS[1].id, RECORDS[3].id]
    work.rest()
    assert client.acknowledged == [RECORDS[at].id for at in (1, 3, 0, 2)]
    work.rest()
    assert len(client.acknowledged) == 4


def test_with_the_connection_all_is_forgotten_that_was_put_off(
    work: Work, client: Client, tmp_path: Path
) -> None:
    work.on(given(1))
    client.lost = True
    work.on(given(2))
    client.lost = False
    work.rest()
    work.on(given(4))
    assert client.acknowledged == [RECORDS[3].id]
    assert open_sink(str(tmp_path / "sink.sqlite")).size() == (1, 0)
