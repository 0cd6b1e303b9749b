"""Read one queue in a broker's journal: every copy that it held, and what happened to each. Without
I/O.

The entries come from ``ClassicBroker.journal``, in the order in which they were written. The broker
gives a message a name when it accepts the SEND. It adds and removes the message under that name,
and a dead letter keeps it. What was done in a transaction counts if the journal has the commit.
"""

from __future__ import annotations

from base64 import b64decode
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from harness.model.places import Removal, Waiting
from harness.protocols.amqp import frames as amqp
from harness.run.queue_broker import Message
from harness.run.queue_journal import StrangeJournalError, Transactions

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from harness.run.queue_journal import Entry

POISON, EXPIRED = 1, 6
_WHY: Final = {POISON: Removal.DEAD_LETTER, EXPIRED: Removal.EXPIRY}
"""Type of the acknowledgement (``MessageAck``) → why the message was removed; any other type is an
ordinary acknowledgement.
"""


def messages(entries: Iterable[Entry], queue: str, dead_letters: str) -> tuple[Message, ...]:
    """Return every copy that a queue has held. ``entries``: the entries of the queue and of its
    dead letters.

    A client that sends a message again uses the same name. While the first copy is in the queue,
    the broker drops the second; when the first copy is gone, the second is a new copy.

    Raises:
        StrangeJournalError: an entry contradicts how a journal is written.
    """
    entries = list(entries)
    if any(entry["kind"] == "purge" for entry in entries):
        raise StrangeJournalError(
            f"the journal says that the whole queue {queue} was removed, which lostack never does"
        )
    transactions = Transactions.of(entries)
    aside = {
        entry["id"]: entry["at"]
        for entry in entries
        if entry["kind"] == "add" and entry["queue"] == dead_letters
    }
    found: list[Message] = []
    there: dict[str, int] = {}
    for entry in (
        entry for entry in entries if entry["kind"] in ("add", "remove") and entry["queue"] == queue
    ):
        name, done = entry["id"], transactions.done(entry)
        if entry["kind"] == "add":
            came = Message(
                entry["at"], entry.get("view") or name, _body(entry), entry["attempt"], visible=done
            )
            if not done:
                came = replace(came, waiting=transactions.waits(entry))
            elif name in there:
                came = replace(came, removed=Removal.DUPLICATE)
            else:
                there[name], came = len(found), replace(came, waiting=Waiting.READY)
            found.append(came)
        elif done and name in there:
            at, why = there.pop(name), _WHY.get(entry["ack"], Removal.ACK)
            moved = aside.get(name) if queue != dead_letters and why is not Removal.ACK else None
            found[at] = replace(
                found[at],
                waiting=None,
                removed=None if moved else why,
                moved=moved,
                why=why if moved else None,
            )
    return tuple(found)


def committed_in(entries: Iterable[Entry], file: int, there: Collection[int]) -> tuple[bytes, ...]:
    """Return the messages removed in a transaction whose commit was first written in journal file
    number ``file``.

    Only messages whose own file is in ``there`` count: a message without its file cannot come back.
    ``entries``: the entries of one queue.
    """
    entries = list(entries)
    commits = {
        entry["tx"]: _file(entry) for entry in reversed(entries) if entry["kind"] == "commit"
    }
    came = {
        entry["id"]: entry for entry in entries if entry["kind"] == "add" and _file(entry) in there
    }
    gone = {
        entry["id"]
        for entry in entries
        if entry["kind"] == "remove" and commits.get(entry["tx"]) == file
    }
    return tuple(_body(entry) for name, entry in came.items() if name in gone)


def _file(entry: Entry) -> int:
    return int(entry["at"].partition(":")[0])


def _body(entry: Entry) -> bytes:
    """Return a message's content; an AMQP message is stored with all its sections. Raises
    StrangeJournalError.
    """
    kept = b64decode(entry["body"], validate=True)
    if entry.get("native") is None:
        return kept
    try:
        return amqp.message(kept).content
    except amqp.NotAFrameError as error:
        raise StrangeJournalError(f"at {entry['at']}: {error}") from error
