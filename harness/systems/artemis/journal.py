"""Read one queue in a broker's journal: every copy that it held, and what happened to each. Without
I/O.

The entries come from ``ArtemisBroker.journal``, in the order in which they were written. The broker
gives each message a number that it never uses again; a message also has a name if its client gave
it one. A queue keeps a reference to the message until the message is acknowledged. A dead letter is
a new message, which names the old one. What was done in a transaction counts if the journal has the
commit.
"""

from __future__ import annotations

from base64 import b64decode
from typing import TYPE_CHECKING

from harness.model.places import Removal, Waiting
from harness.run.queue_broker import Message
from harness.run.queue_journal import StrangeJournalError, Transactions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.run.queue_journal import Entry


def messages(entries: Iterable[Entry], queue: str, dead_letters: str) -> tuple[Message, ...]:
    """Return every copy that a queue has held. ``entries``: the entries of the queue and of its
    dead letters.

    The journal does not say why a copy was acknowledged: by a consumer, or because it expired.

    Raises:
        StrangeJournalError: an entry contradicts how a journal is written.
    """
    entries = list(entries)
    transactions = Transactions.of(entries)
    done = [entry for entry in entries if transactions.done(entry)]
    aside = {
        int(entry["origin"]): str(entry["id"])
        for entry in done
        if entry["kind"] == "add"
        and entry["queue"] == dead_letters != queue
        and entry["origin"] is not None
    }
    removed = {
        entry["id"] for entry in done if entry["kind"] == "remove" and entry["queue"] == queue
    }
    found: dict[int, Message] = {}
    for entry in entries:
        if entry["kind"] != "add" or entry["queue"] != queue:
            continue
        number = entry["id"]
        if number in found:
            raise StrangeJournalError(f"{queue} has two copies with the number {number}")
        visible, gone = transactions.done(entry), number in removed
        moved = aside.get(number) if gone else None
        found[number] = Message(
            str(number),
            entry["name"] or str(number),
            b64decode(entry["body"], validate=True),
            entry["attempt"],
            transactions.waits(entry) if not visible else None if gone else Waiting.READY,
            visible=visible,
            removed=Removal.ACK if gone and moved is None else None,
            moved=moved,
        )
    for entry in done:
        if entry["kind"] == "delete" and entry["id"] in found.keys() - removed:
            raise StrangeJournalError(
                f"the message {entry['id']} was deleted from {queue} without an acknowledgement"
            )
    return tuple(found.values())


def called(name: str) -> str:
    """Return a message's name in the journal, from the name that a client was told: STOMP puts the
    consumer's number in front.

    >>> called("57,81"), called("ID:5f0c")
    ('81', 'ID:5f0c')
    """
    return name.rpartition(",")[2]
