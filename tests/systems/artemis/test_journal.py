"""What became of each message, by the entries of a journal of Artemis."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from harness.model.places import Removal, Waiting
from harness.run.queue_broker import Message
from harness.run.queue_journal import StrangeJournalError
from harness.systems.artemis.journal import called, messages

QUEUE, ASIDE = "k.in", "DLQ.k.in"


def add(
    number: int, *, queue: str = QUEUE, tx: str | None = None, origin: int | None = None
) -> dict[str, Any]:
    """Return the entry of a message that came."""
    body = b64encode(f"body of {number}".encode()).decode()
    return {
        "id": number,
        "kind": "add",
        "queue": queue,
        "tx": tx,
        "origin": origin and str(origin),
        "attempt": "p-1",
        "name": None,
        "body": body,
    }


def about(
    kind: str, number: int = -1, *, queue: str = QUEUE, tx: str | None = None
) -> dict[str, Any]:
    """Return another entry."""
    return {"id": number, "kind": kind, "tx": tx} | ({"queue": queue} if kind == "remove" else {})


def read(
    *entries: dict[str, Any], queue: str = QUEUE
) -> list[tuple[str, Waiting | None, bool, Removal | None, str | None]]:
    """Return what became of the messages of the queue."""
    return [
        (m.place, m.waiting, m.visible, m.removed, m.moved) for m in messages(entries, queue, ASIDE)
    ]


def test_a_message_waits_until_it_is_acknowledged() -> None:
    found = messages([add(7), add(9), about("remove", 7), about("delete", 7)], QUEUE, ASIDE)
    assert found == (
        Message("7", "7", b"body of 7", "p-1", None, removed=Removal.ACK),
        Message("9", "9", b"body of 9", "p-1", Waiting.READY),
    )
    assert [called(name) for name in ("12,7", "7")] == ["7", "7"]


def test_a_message_may_have_a_name_of_its_clients() -> None:
    """By which its consumers know it; its place is its number all the same."""
    [found] = messages([add(7) | {"name": "ID:5f0c"}], QUEUE, ASIDE)
    assert (found.place, found.name) == ("7", "ID:5f0c")


def test_what_was_moved_to_the_dead_letters_is_one_copy() -> None:
    """It is a new message there, that names the old one: that is not removed, but moved."""
    entries = [
        add(7),
        add(8, queue=ASIDE, origin=7, tx="3"),
        about("remove", 7, tx="3"),
        about("commit", tx="3"),
        about("delete", 7),
    ]
    assert read(*entries) == [("7", None, True, None, "8")]
    assert read(*entries, queue=ASIDE) == [("8", Waiting.READY, True, None, None)]


def test_a_move_that_was_not_committed_is_none() -> None:
    """The broker died in between: the old copy is where it was."""
    entries = [add(7), add(8, queue=ASIDE, origin=7, tx="3"), about("remove", 7, tx="3")]
    assert read(*entries) == [("7", Waiting.READY, True, None, None)]
    assert read(*entries, queue=ASIDE) == [("8", Waiting.OPEN, False, None, None)]


def test_a_transaction_counts_when_its_commit_is_there() -> None:
    """Before, what was sent in it is not visible, and what was removed in it is there."""
    sent, gone = add(7, tx="3"), [add(8), about("remove", 8, tx="3")]
    before, there = ("8", Waiting.READY, True, None, None), ("8", None, True, Removal.ACK, None)
    assert read(sent, *gone) == [("7", Waiting.OPEN, False, None, None), before]
    assert read(sent, *gone, about("prepare", tx="3")) == [
        ("7", Waiting.PREPARED, False, None, None),
        before,
    ]
    assert read(sent, *gone, about("rollback", tx="3")) == [("7", None, False, None, None), before]
    assert read(sent, *gone, about("commit", tx="3")) == [
        ("7", Waiting.READY, True, None, None),
        there,
    ]


@pytest.mark.parametrize(
    "entries",
    [[add(7), add(7)], [add(7), about("delete", 7)]],
    ids=["twice", "gone without an acknowledgement"],
)
def test_what_cannot_be_is_told(entries: list[dict[str, Any]]) -> None:
    """Two copies of one number, or a message that nobody has acknowledged and is gone."""
    with pytest.raises(StrangeJournalError):
        messages(entries, QUEUE, ASIDE)


def test_another_queues_messages_are_not_looked_at() -> None:
    assert read(add(7, queue=ASIDE), about("remove", 7, queue=ASIDE), about("delete", 7)) == []
