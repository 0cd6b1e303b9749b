"""Compact the journal of KahaDB on request, and delete its index."""

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
"""Further files of an index, which do not always exist."""
WITHIN_S: Final = 60.0
"""KahaDB compacts a file after ten clean-ups that could delete none; each takes some
milliseconds.
"""


@dataclass(frozen=True, slots=True)
class Compacting:
    """Compacts a broker's journal. Implements
    :class:`harness.systems.activemq.abilities.Compaction`.

    It asks the broker to do at once what the broker does by itself over time: begin a new file
    before the old one is full, and clean up, which KahaDB does every 30 s, until the old file is
    gone. The file goes to the archive, which belongs to the journal that the observer reads.
    """

    broker: QueueServer
    queue: str

    def begin_file(self) -> None:
        """Store a message that stays, then let the journal go on in a new file."""
        self.broker.ask("keep")
        self.broker.ask("rotate")

    def compact(self) -> tuple[str, ...]:
        """Begin a new file, clean up until the old one is gone; return the records that were
        acknowledged in the old one.
        """
        [ended] = self.broker.ask("rotate")
        self.broker.ask("keep")  # KahaDB deletes no file after the last one that the index knows
        wait_until(
            lambda: ended not in self.broker.ask("clean"),
            within_s=WITHIN_S,
            because=f"the journal's {ended} to be gone",
        )
        there = {int(each["file"]) for each in self.broker.ask("clean")}
        found = map(
            decode, committed_in(self.broker.ask("journal", self.queue), int(ended["file"]), there)
        )
        return tuple(payload.record for payload in found if payload is not None)

    def lose_index(self) -> None:
        """Delete the index's files."""
        (self.broker.data / INDEX).unlink()
        for name in BESIDES:
            (self.broker.data / name).unlink(missing_ok=True)
