"""A producer that starts again: how much it sends at once, and what it makes of a commit that is
refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from harness.model.record import Record, decode_id
from harness.model.writing import LedgerWriter
from harness.scenarios.artemis import IN_DOUBT
from harness.stages import producer
from harness.stages.clients import STOMP_PY
from harness.stages.clients.interface import ClientError
from harness.stages.outbox import Outbox
from harness.stages.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

RECORDS = tuple(Record(f"k-{position}", "k", position) for position in range(1, 6))


class Taken:
    """A message that needs no answer."""

    def wait(self, _within_s: float) -> None:
        """Do not wait."""


@dataclass
class Client:
    """A client whose first ``refuses`` commits are refused."""

    refuses: int = 0
    open: list[str | None] = field(default_factory=list)
    ended: list[tuple[str, list[str | None]]] = field(default_factory=list)

    def make_producer(self, _stage: Stage, *, transactional_id: str) -> Any:
        """Be its own producer."""
        del transactional_id
        return self

    def init_transactions(self) -> None:
        """Do nothing."""

    def begin(self) -> None:
        """Begin."""
        self.open = []

    def send(
        self, _topic: str, value: bytes, _key: bytes | None, _headers: Sequence[tuple[str, bytes]]
    ) -> Taken:
        """Take a message."""
        self.open.append(decode_id(value))
        return Taken()

    def commit(self) -> None:
        """Commit, or refuse."""
        refused, self.refuses = self.refuses > 0, self.refuses - 1
        self.ended.append(("refused" if refused else "committed", self.open))
        if refused:
            raise ClientError("Refused", "Duplicate message detected")

    def abort(self) -> None:
        """Abort."""

    def close(self, _within_s: float) -> None:
        """Close."""


def ran(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    client: Client,
    incarnation: int,
    catches_up: int | None,
    *,
    gate: str = "",
) -> int:
    """Run a producer to its end; return its cursor."""
    monkeypatch.setattr(producer, "client_of", lambda _: client)
    outbox = folder / "outbox.sqlite"
    Outbox.create(outbox, RECORDS)
    stage = Stage(
        cell="c",
        key="k",
        name="producer",
        incarnation=incarnation,
        bootstrap="127.0.0.1:1",
        topic_in="k.in",
        topic_out="",
        topic_cursor="",
        group="",
        outbox=str(outbox),
        sink="",
        history="",
        gate=gate,
        client=STOMP_PY,
        settings=replace(IN_DOUBT, producer=replace(IN_DOUBT.producer, catches_up=catches_up)),
    )
    with LedgerWriter(folder / "producer.jsonl", cell="c", by="producer") as ledger:
        producer.produce(stage, ledger)
    return Outbox(outbox).cursor()


@pytest.mark.parametrize(
    ("incarnation", "catches_up", "sizes"),
    [(1, 2, [1] * 5), (2, 2, [2, 2, 1]), (2, None, [1] * 5), (3, 4, [4, 1])],
)
def test_a_program_that_starts_again_sends_more_at_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    incarnation: int,
    catches_up: int | None,
    sizes: list[int],
) -> None:
    """Where its settings say so; the first one never does."""
    client = Client()
    assert ran(tmp_path, monkeypatch, client, incarnation, catches_up) == len(RECORDS) + 1
    assert [len(ids) for _, ids in client.ended] == sizes


def test_a_refused_commit_is_taken_for_one_that_was_done_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(refuses=1)
    assert ran(tmp_path, monkeypatch, client, 2, 2) == len(RECORDS) + 1
    assert client.ended == [
        ("refused", ["k-1", "k-2"]),
        ("committed", ["k-3", "k-4"]),
        ("committed", ["k-5"]),
    ]
