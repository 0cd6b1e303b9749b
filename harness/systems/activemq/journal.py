"""What a broker's journal says of one queue: every copy that was there, and what became of it. Pure.

The entries are those of ``ClassicBroker.journal``, in the order in which they were written. A message is added under a name that
the broker has made for it when it took the SEND, and removed by that name; moved to the dead letters, it keeps it. What was done
in a transaction counts when its commit is there.
"""

from __future__ import annotations

from base64 import b64decode
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from harness.model.places import Removal, Waiting
from harness.protocols.amqp import frames as amqp
from harness.run.queue_journal import StrangeJournalError, Transactions
from harness.run.queues import Message

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    Entry = dict[str, Any]

POISON, EXPIRED = 1, 6
_WHY: Final = {POISON: Removal.DEAD_LETTER, EXPIRED: Removal.EXPIRY}
"""Why a message was removed, by the type of the acknowledgement (``MessageAck``); every other one is an ordinary one."""


def messages(entries: Iterable[Entry], queue: str, dead_letters: str) -> tuple[Message, ...]:
    """Return every copy that a queue has had. ``entries``: those of it and of its dead letters.

    A name is a copy's own while it is there. What comes by the name of one that is there still is not taken in; by the name of
    one that is gone it is another copy: a client that sends again by itself makes both.

    Raises:
        StrangeJournalError: an entry says what cannot be.
    """
    entries = list(entries)
    if any(entry["kind"] == "purge" for entry in entries):
        raise StrangeJournalError(f"the queue {queue} was removed as a whole, and nobody has asked for that")
    transactions = Transactions.of(entries)
    aside = {entry["id"]: entry["at"] for entry in entries if entry["kind"] == "add" and entry["queue"] == dead_letters}
    found: list[Message] = []
    there: dict[str, int] = {}
    for entry in (entry for entry in entries if entry["kind"] in ("add", "remove") and entry["queue"] == queue):
        name, done = entry["id"], transactions.done(entry)
        if entry["kind"] == "add":
            came = Message(entry["at"], entry.get("view") or name, _body(entry), entry["attempt"], visible=done)
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
            found[at] = replace(found[at], waiting=None, removed=None if moved else why, moved=moved)
    return tuple(found)


def committed_in(entries: Iterable[Entry], file: int, there: Collection[int]) -> tuple[bytes, ...]:
    """Return the messages that were removed in a transaction whose commit was first written in a file of the journal.

    Only those that came in a file that is ``there``: a message whose file is gone comes back from nowhere. The entries are those
    of one queue.
    """
    entries = list(entries)
    commits = {entry["tx"]: _file(entry) for entry in reversed(entries) if entry["kind"] == "commit"}
    came = {entry["id"]: entry for entry in entries if entry["kind"] == "add" and _file(entry) in there}
    gone = {entry["id"] for entry in entries if entry["kind"] == "remove" and commits.get(entry["tx"]) == file}
    return tuple(_body(entry) for name, entry in came.items() if name in gone)


def _file(entry: Entry) -> int:
    return int(entry["at"].partition(":")[0])


def _body(entry: Entry) -> bytes:
    """Return what a message carries; one that came by AMQP is kept with all its sections. Raises StrangeJournalError."""
    kept = b64decode(entry["body"], validate=True)
    if entry.get("native") is None:
        return kept
    try:
        return amqp.message(kept).content
    except amqp.NotAFrameError as error:
        raise StrangeJournalError(f"at {entry['at']}: {error}") from error
