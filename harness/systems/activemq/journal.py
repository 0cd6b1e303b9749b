"""What a broker's journal says of one queue: every copy that was there, and what became of it. Pure.

The entries are those of ``ClassicBroker.journal``, in the order in which they were written. A message is added under a name that
the broker has made for it when it took the SEND, and removed by that name; moved to the dead letters, it keeps it. What was done
in a transaction counts when its commit is there.
"""

from __future__ import annotations

from base64 import b64decode
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from harness.model.places import Removal, Waiting
from harness.run.queues import Message

if TYPE_CHECKING:
    from collections.abc import Iterable

    Entry = dict[str, Any]

POISON, EXPIRED = 1, 6
_WHY: Final = {POISON: Removal.DEAD_LETTER, EXPIRED: Removal.EXPIRY}
"""Why a message was removed, by the type of the acknowledgement (``MessageAck``); every other one is an ordinary one."""


class StrangeJournalError(OSError):
    """A journal that says what cannot be."""


@dataclass
class _Transactions:
    """What became of each transaction."""

    committed: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    prepared: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> _Transactions:
        """Read their ends."""
        found = cls()
        for entry in entries:
            if entry["kind"] == "commit":
                found.committed.add(entry["tx"])
            if entry["kind"] in ("commit", "rollback"):
                found.ended.add(entry["tx"])
            if entry["kind"] == "prepare":
                found.prepared.add(entry["tx"])
        return found

    def done(self, entry: Entry) -> bool:
        """Whether what an entry says is so."""
        return entry["tx"] is None or entry["tx"] in self.committed

    def waits(self, entry: Entry) -> Waiting | None:
        """Return what an entry waits for whose transaction is not committed."""
        if entry["tx"] in self.ended:
            return None
        return Waiting.PREPARED if entry["tx"] in self.prepared else Waiting.OPEN


def messages(entries: Iterable[Entry], queue: str, dead_letters: str) -> tuple[Message, ...]:
    """Return every copy that a queue has had. ``entries``: those of it and of its dead letters.

    Raises :class:`StrangeJournalError`.
    """
    entries = list(entries)
    transactions = _Transactions.of(entries)
    aside = {entry["id"]: entry["at"] for entry in entries if entry["kind"] == "add" and entry["queue"] == dead_letters}
    removed = {
        entry["id"]: entry for entry in entries
        if entry["kind"] == "remove" and entry["queue"] == queue and transactions.done(entry)
    }  # fmt: skip
    if any(entry["kind"] == "purge" for entry in entries):
        raise StrangeJournalError(f"the queue {queue} was removed as a whole, and nobody has asked for that")
    found: dict[str, Message] = {}
    for entry in entries:
        if entry["kind"] != "add" or entry["queue"] != queue:
            continue
        name = entry["id"]
        if name in found:
            raise StrangeJournalError(f"{queue} has two copies that are called {name}")
        visible, gone = transactions.done(entry), removed.get(name)
        moved = aside.get(name) if queue != dead_letters and gone is not None else None
        waiting = transactions.waits(entry) if not visible else Waiting.READY if gone is None else None
        why = None if gone is None or moved is not None else _WHY.get(gone["ack"], Removal.ACK)
        found[name] = Message(
            entry["at"],
            name,
            b64decode(entry["body"], validate=True),
            entry["attempt"],
            waiting,
            visible=visible,
            removed=why,
            moved=moved,
        )
    return tuple(found.values())
