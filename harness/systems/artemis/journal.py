"""What a broker's journal says of one queue: every copy that was there, and what became of it. Pure.

The entries are those of ``ArtemisBroker.journal``, in the order in which they were written. A message has a number, which the
broker gives to it when it comes and never again, and the name that its client has given it, if any; a queue has a reference to it
until that is acknowledged. What is moved to the dead letters is a new message there, which names the old one. What was done in a
transaction counts when its commit is there.
"""

from __future__ import annotations

from base64 import b64decode
from typing import TYPE_CHECKING, Any

from harness.model.places import Removal, Waiting
from harness.run.queue_journal import StrangeJournalError, Transactions
from harness.run.queues import Message

if TYPE_CHECKING:
    from collections.abc import Iterable

    Entry = dict[str, Any]


def messages(entries: Iterable[Entry], queue: str, dead_letters: str) -> tuple[Message, ...]:
    """Return every copy that a queue has had. ``entries``: those of it and of its dead letters.

    Why a copy was acknowledged (by a consumer, or because its time was over) is not written.

    Raises:
        StrangeJournalError: an entry says what cannot be.
    """
    entries = list(entries)
    transactions = Transactions.of(entries)
    done = [entry for entry in entries if transactions.done(entry)]
    aside = {
        int(entry["origin"]): str(entry["id"]) for entry in done
        if entry["kind"] == "add" and entry["queue"] == dead_letters != queue and entry["origin"] is not None
    }  # fmt: skip
    removed = {entry["id"] for entry in done if entry["kind"] == "remove" and entry["queue"] == queue}
    found: dict[int, Message] = {}
    for entry in entries:
        if entry["kind"] != "add" or entry["queue"] != queue:
            continue
        number = entry["id"]
        if number in found:
            raise StrangeJournalError(f"{queue} has two copies that are called {number}")
        visible, gone = transactions.done(entry), number in removed
        moved = aside.get(number) if gone else None
        found[number] = Message(
            str(number), entry["name"] or str(number), b64decode(entry["body"], validate=True), entry["attempt"],
            transactions.waits(entry) if not visible else None if gone else Waiting.READY,
            visible=visible, removed=Removal.ACK if gone and moved is None else None, moved=moved,
        )  # fmt: skip
    for entry in done:
        if entry["kind"] == "delete" and entry["id"] in found.keys() - removed:
            raise StrangeJournalError(f"{queue} has lost the message {entry['id']}, and nobody has acknowledged it")
    return tuple(found.values())


def called(name: str) -> str:
    """Return what the journal calls a message, by what a client was told: in STOMP its consumer's number comes before its own.

    >>> called("57,81"), called("ID:5f0c")
    ('81', 'ID:5f0c')
    """
    return name.rpartition(",")[2]
