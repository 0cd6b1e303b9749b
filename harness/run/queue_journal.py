"""What any broker's journal says of transactions: by its entries commit, rollback and prepare, and a ``tx`` in others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.model.places import Waiting

if TYPE_CHECKING:
    from collections.abc import Iterable

    Entry = dict[str, Any]


class StrangeJournalError(OSError):
    """A journal that contradicts itself."""


@dataclass
class Transactions:
    """What became of each transaction."""

    committed: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    prepared: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Transactions:
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
        """Say whether an entry is in effect: its transaction, if any, is committed."""
        return entry["tx"] is None or entry["tx"] in self.committed

    def waits(self, entry: Entry) -> Waiting | None:
        """Return what an entry waits for whose transaction is not committed."""
        if entry["tx"] in self.ended:
            return None
        return Waiting.PREPARED if entry["tx"] in self.prepared else Waiting.OPEN
