"""Transactions in a broker's journal: entries of the kinds commit, rollback and prepare, and the
``tx`` of other entries.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.model.places import Waiting

if TYPE_CHECKING:
    from collections.abc import Iterable

    Entry = dict[str, Any]


class StrangeJournalError(OSError):
    """A journal contradicts itself."""


@dataclass
class Transactions:
    """The ids of the transactions in a journal: those committed, those ended (also by rollback),
    those prepared.
    """

    committed: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    prepared: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Transactions:
        """Collect the transactions from a journal's entries."""
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
        """Say whether an entry is in effect: it has no transaction, or its transaction is
        committed.
        """
        return entry["tx"] is None or entry["tx"] in self.committed

    def waits(self, entry: Entry) -> Waiting | None:
        """Return what an entry waits for if its transaction is not committed; ``None``: nothing,
        the transaction has ended.
        """
        if entry["tx"] in self.ended:
            return None
        return Waiting.PREPARED if entry["tx"] in self.prepared else Waiting.OPEN
