"""Compaction of a journal of KahaDB, when it is asked for, and the loss of its index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness.model.record import decode
from harness.model.waiting import wait_until
from harness.systems.activemq.journal import committed_in

if TYPE_CHECKING:
    from harness.run.queue_server import QueueServer

INDEX: Final = "db.data"
BESIDES: Final = ("db.redo", "db.free")
"""What belongs to an index, and is not always there."""
WITHIN_S: Final = 60.0
"""KahaDB compacts one file after ten clean-ups in which none could go: each is some milliseconds."""


@dataclass(frozen=True, slots=True)
class Compacting:
    """Implements :class:`harness.systems.activemq.abilities.Compaction`.

    What a broker does in its time is asked for at once: files are begun before they are full, and the clean-up, which KahaDB
    does every 30 s, is done until the file is gone. That goes to the archive, where the journal is read, too.
    """

    broker: QueueServer
    queue: str

    def begin_file(self) -> None:
        """Keep a message, and go on in another file."""
        self.broker.ask("keep")
        self.broker.ask("rotate")

    def compact(self) -> tuple[str, ...]:
        """Go on in another file, clean up until the one that ends is gone; return the records that were acknowledged there."""
        [ended] = self.broker.ask("rotate")
        self.broker.ask("keep")  # no file goes behind the one that the index has last heard of
        wait_until(lambda: ended not in self.broker.ask("clean"), within_s=WITHIN_S, because=f"the journal's {ended} to be gone")
        there = {int(each["file"]) for each in self.broker.ask("clean")}
        found = map(decode, committed_in(self.broker.ask("journal", self.queue), int(ended["file"]), there))
        return tuple(payload.record for payload in found if payload is not None)

    def lose_index(self) -> None:
        """Remove its files."""
        (self.broker.data / INDEX).unlink()
        for name in BESIDES:
            (self.broker.data / name).unlink(missing_ok=True)
