"""What became of each message, by the entries of a journal."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from harness.model.places import Removal, Waiting
from harness.run.queue_broker import Message
from harness.run.queue_journal import StrangeJournalError
from harness.systems.activemq.journal import EXPIRED, POISON, committed_in, messages
from tests.protocols import amqp_frames

QUEUE, ASIDE = "k.in", "DLQ.k.in"
ORDINARY = 4


def add(
    at: str, name: str, *, queue: str = QUEUE, tx: str | None = None, attempt: str | None = None
) -> dict[str, Any]:
    """Return the entry of a message that came."""
    body = b64encode(name.encode()).decode()
    return {
        "at": at,
        "kind": "add",
        "queue": queue,
        "id": name,
        "tx": tx,
        "attempt": attempt,
        "body": body,
    }


def remove(
    name: str, ack: int | None = ORDINARY, *, queue: str = QUEUE, tx: str | None = None
) -> dict[str, Any]:
    """Return the entry of one that was removed."""
    return {"at": "1:9999", "kind": "remove", "queue": queue, "id": name, "tx": tx, "ack": ack}


def end(kind: str, tx: str = "t") -> dict[str, Any]:
    """Return the entry of a transaction's end."""
    return {"at": "1:9999", "kind": kind, "tx": tx}


def read(
    *entries: dict[str, Any],
) -> list[tuple[str, Waiting | None, bool, Removal | None, str | None]]:
    """Return what became of the messages of the queue."""
    return [
        (m.place, m.waiting, m.visible, m.removed, m.moved) for m in messages(entries, QUEUE, ASIDE)
    ]


def test_a_message_waits_until_it_is_acknowledged() -> None:
    """It is known by its place, and has the payload and the attempt that it came with."""
    found = messages(
        [add("1:100", "a", attempt="producer-1.0.1"), add("1:200", "b"), remove("a")], QUEUE, ASIDE
    )
    assert found == (
        Message("1:100", "a", b"a", "producer-1.0.1", None, removed=Removal.ACK),
        Message("1:200", "b", b"b", None, Waiting.READY),
    )


@pytest.mark.parametrize(
    ("ack", "why"),
    [
        (ORDINARY, Removal.ACK),
        (None, Removal.ACK),
        (POISON, Removal.DEAD_LETTER),
        (EXPIRED, Removal.EXPIRY),
    ],
)
def test_why_a_message_was_removed(ack: int | None, why: Removal) -> None:
    assert read(add("1:1", "a"), remove("a", ack)) == [("1:1", None, True, why, None)]


def test_what_was_moved_to_the_dead_letters_is_one_copy() -> None:
    """It keeps its name there: it is not removed, but moved; and among the dead
    letters it waits.
    """
    entries = [add("1:1", "a"), add("1:2", "a", queue=ASIDE), remove("a", POISON)]
    assert read(*entries) == [("1:1", None, True, None, "1:2")]
    assert messages(entries, QUEUE, ASIDE)[0].why is Removal.DEAD_LETTER
    expired = messages([*entries[:2], remove("a", EXPIRED)], QUEUE, ASIDE)
    assert (expired[0].why, expired[0].moved) == (Removal.EXPIRY, "1:2")
    assert [(m.place, m.waiting) for m in messages(entries, ASIDE, ASIDE)] == [
        ("1:2", Waiting.READY)
    ]


def test_a_transaction_counts_when_its_commit_is_there() -> None:
    """Before, what was sent in it is not visible, and what was removed in it is there."""
    sent, gone = add("1:1", "a", tx="t"), [add("1:2", "b"), remove("b", tx="t")]
    assert read(sent, *gone) == [
        ("1:1", Waiting.OPEN, False, None, None),
        ("1:2", Waiting.READY, True, None, None),
    ]
    assert read(sent, end("prepare")) == [("1:1", Waiting.PREPARED, False, None, None)]
    assert read(sent, *gone, end("rollback")) == [
        ("1:1", None, False, None, None),
        ("1:2", Waiting.READY, True, None, None),
    ]
    assert read(sent, *gone, end("prepare"), end("commit")) == [
        ("1:1", Waiting.READY, True, None, None),
        ("1:2", None, True, Removal.ACK, None),
    ]


def test_a_name_that_comes_again_is_taken_in_only_where_its_copy_is_gone() -> None:
    """Of one that is there still, nobody is given it twice; and only what was refused last lies
    among the dead letters.
    """
    assert read(add("1:1", "a"), add("1:2", "a"), remove("a")) == [
        ("1:1", None, True, Removal.ACK, None),
        ("1:2", None, True, Removal.DUPLICATE, None),
    ]
    again = [
        add("1:1", "a"),
        remove("a"),
        add("1:2", "a"),
        add("1:3", "a", queue=ASIDE),
        remove("a", POISON),
    ]
    assert read(*again) == [
        ("1:1", None, True, Removal.ACK, None),
        ("1:2", None, True, None, "1:3"),
    ]
    assert read(add("1:1", "a", tx="t"), add("1:2", "a")) == [
        ("1:1", Waiting.OPEN, False, None, None),
        ("1:2", Waiting.READY, True, None, None),
    ]


def test_what_came_by_amqp_is_read_in_its_sections_and_called_as_its_client_calls_it() -> None:
    kept = {
        "native": "amqp",
        "view": "ID:1",
        "body": b64encode(amqp_frames.message(b"payload")).decode(),
    }
    assert messages([add("1:1", "a") | kept, remove("a")], QUEUE, ASIDE) == (
        Message("1:1", "ID:1", b"payload", None, None, removed=Removal.ACK),
    )


@pytest.mark.parametrize(
    "entry",
    [
        {"at": "1:1", "kind": "purge", "queue": QUEUE},
        add("1:1", "a") | {"native": "amqp", "body": b64encode(b"rubbish").decode()},
    ],
)
def test_what_cannot_be_is_told(entry: dict[str, Any]) -> None:
    """A queue that was removed as a whole is nothing that a cell does; nor is a message that has no
    sections.
    """
    with pytest.raises(StrangeJournalError):
        messages([entry], QUEUE, ASIDE)


def test_what_was_acknowledged_by_a_commit_in_a_file_of_the_journal() -> None:
    """There first, for what is carried on is written again; and of messages whose file is there."""
    entries = [
        *(add(f"1:{at}", name) for at, name in enumerate("abce")),
        add("2:1", "d"),
        remove("a", tx="1"),
        end("commit", "1") | {"at": "1:9"},
        remove("b", tx="2"),
        end("commit", "2") | {"at": "2:2"},
        remove("d", tx="3"),
        end("commit", "3") | {"at": "2:3"},
        remove("c") | {"at": "2:4"},
        remove("e", tx="4") | {"at": "2:5"},
        end("rollback", "4") | {"at": "2:6"},
        remove("b", tx="2") | {"at": "4:1"},
        end("commit", "2") | {"at": "4:2"},
    ]
    assert committed_in(entries, 2, {1, 3, 4}) == (b"b",)
    assert committed_in(entries, 2, {1, 2, 3, 4}) == (b"b", b"d")
    assert committed_in(entries, 4, {1, 3}) == ()


def test_what_is_carried_on_without_its_commit_is_removed_all_the_same() -> None:
    """The journal is read with what was archived: what was acknowledged there stays so, whatever
    the broker makes of the rest.
    """
    whole = [
        add("1:1", "a"),
        remove("a", tx="t"),
        end("commit"),
        remove("a", tx="t"),
        end("rollback"),
    ]
    assert read(*whole) == [("1:1", None, True, Removal.ACK, None)]
    assert read(whole[0], *whole[3:]) == [("1:1", Waiting.READY, True, None, None)], (
        "what the broker finds in what is left"
    )
