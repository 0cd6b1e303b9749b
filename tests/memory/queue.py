"""Simulate a cell with a queue between producer and consumer: each message is acknowledged on its
own, and then removed.

The broker's journal, which the observer reads, keeps everything, and the broker counts what waits.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, ClassVar

from harness.model import events as kinds
from harness.model.places import Removal, Waiting
from harness.model.states import Hop, LastHop
from tests.memory.plants import Lie
from tests.memory.play import Copy, MemoryCellRun

if TYPE_CHECKING:
    from collections.abc import Collection

    from harness.model.record import Record
    from tests.memory.play import Where

QUEUE = "queue"
DEAD_LETTERS = "dead letters"
_HOPS = {QUEUE: Hop.TOPIC, DEAD_LETTERS: Hop.ASIDE}
LIMIT = 3
"""How many times a message is delivered before the broker gives it up."""
_LOST_BY = {
    LastHop.GIVEN_UP: Removal.ACK,
    LastHop.EXPIRED: Removal.EXPIRY,
    LastHop.LIMIT: Removal.LIMIT,
    LastHop.REJECTED: Removal.REJECT,
    LastHop.DEAD_LETTER: Removal.DEAD_LETTER,
    LastHop.DELETED: Removal.RETENTION,
    LastHop.COMPACTED: Removal.COMPACTION,
    LastHop.PURGED: Removal.PURGE,
    LastHop.DUPLICATE: Removal.DUPLICATE,
}
"""Last hop of a lost record → why the broker says that it removed the record."""
_DELIVERED = {LastHop.REJECTED: 1, LastHop.LIMIT: LIMIT, LastHop.DEAD_LETTER: LIMIT}
"""Last hop of a lost record → how many times it had been delivered."""


class QueueRun(MemoryCellRun):
    """The simulated run of one cell with a queue."""

    between: ClassVar[str] = QUEUE
    nowhere: ClassVar[Where] = {"place": None}
    stalled: ClassVar[tuple[str, str]] = (QUEUE, "a prepared transaction was never ended")
    unread: ClassVar[tuple[str, str]] = (QUEUE, "messages are ready, and no consumer takes them")
    loses_at: ClassVar[Collection[LastHop]] = (*_LOST_BY, LastHop.MOVED)

    def aim(self, record: Record) -> Where:
        """Return nothing: the queue's name is enough."""
        del record
        return {}

    def _put(
        self,
        record: str,
        attempt: str | None,
        queue: str,
        waiting: Waiting | None,
        *,
        visible: bool,
        spare: bool,
    ) -> Copy:
        """Put a message into a queue, at a new place."""
        where = {"place": f"{queue}:{len(self.copies) + 1}"}
        self.copies.append(Copy(record, attempt, where, visible, spare, queue, waiting))
        return self.copies[-1]

    def store(
        self, record: Record, attempt: str | None, *, visible: bool, spare: bool = False
    ) -> None:
        """Store one more message: ready if it is committed, without a state if it is
        to be skipped.
        """
        skipped = self.cast.lost.get(record.id) is LastHop.SKIPPED
        waiting = None if skipped or not visible else Waiting.READY
        if record.id in self.cast.stalled:
            waiting = Waiting.PREPARED
        self._put(record.id, attempt, QUEUE, waiting, visible=visible, spare=spare)

    def lose(self, record: Record, attempt: str, hop: LastHop) -> None:
        """Store a message, and remove or move it as the hop says."""
        message = self._put(record.id, attempt, QUEUE, None, visible=True, spare=False)
        for time in range(_DELIVERED.get(hop, 0)):
            self.delivered(message, again=time > 0)
        if hop is LastHop.MOVED:
            self.observed(
                kinds.MOVED,
                record=record.id,
                to=f"elsewhere, as {message.where['place']}",
                **message.where,
            )
        else:
            self._remove(message, _LOST_BY[hop])

    def forget(self) -> None:
        """Do nothing: a journal has no offsets."""

    def delivered(self, copy: Copy, *, again: bool = False) -> None:
        """Write that the consumer was given a message, with the broker's redelivery flag."""
        self.tell_reader(kinds.DELIVERED, record=copy.record, redelivered=again)

    def acknowledge(self, copy: Copy) -> None:
        """Remove the message."""
        self._remove(copy, Removal.ACK)

    def consume(self, record: Record) -> None:
        """Deliver and record a record, or do with it what is planted."""
        message = next((copy for copy in self.copies if copy.record == record.id), None)
        if message is None or record.id not in self.cast.hidden | self.cast.aside:
            super().consume(record)
        elif record.id in self.cast.aside:
            self._set_aside(message)
        elif self.plant.hide_another:
            super().consume(record)
            self._sent(record, str(message.attempt))
            self._hide(
                self._put(record.id, message.attempt, QUEUE, None, visible=True, spare=False)
            )
        else:
            self._hide(message)

    def _hide(self, message: Copy) -> None:
        """Let a message wait for ever; a message in flight is delivered first."""
        message.waiting = self.plant.hide_as
        if message.waiting is Waiting.IN_FLIGHT:
            self.delivered(message)

    def _set_aside(self, message: Copy) -> None:
        """Deliver a message as often as allowed, then move it to the dead letters."""
        for time in range(LIMIT):
            self.delivered(message, again=time > 0)
        there = self._put(
            message.record, message.attempt, DEAD_LETTERS, Waiting.READY, visible=True, spare=False
        )
        message.waiting = None
        self.observed(kinds.MOVED, record=message.record, to=there.where["place"], **message.where)

    def _remove(self, copy: Copy, why: Removal) -> None:
        copy.waiting = None
        if self.plant.lie is Lie.NEITHER and copy is self.copies[0]:
            return
        self.observed(kinds.REMOVED, why=why, record=copy.record, **copy.where)

    def _lie(self) -> None:
        """Say what is planted that is not so."""
        first = self.copies[0]
        if self.plant.lie is Lie.TWICE:
            self._remove(
                self._put(first.record, first.attempt, QUEUE, None, visible=True, spare=True),
                Removal.ACK,
            )
        elif self.plant.lie is Lie.UNSTORED:
            where = {"place": f"{QUEUE}:{len(self.copies) + 1}"}
            self.observed(kinds.REMOVED, why=Removal.ACK, record=first.record, **where)

    def observe_broker(self) -> None:
        """Write the journal's copies with their states, and the broker's counts."""
        self._lie()
        waiting = Counter((copy.queue, copy.waiting) for copy in self.copies)
        for copy in self.copies:
            self.observed(
                "stored",
                hop=_HOPS[str(copy.queue)],
                queue=copy.queue,
                record=copy.record,
                key=None,
                intact=True,
                visible=copy.visible,
                waiting=copy.waiting,
                attempt=copy.attempt,
                **copy.where,
            )
        for queue, hop in _HOPS.items():
            ready = waiting[queue, Waiting.READY] + (self.plant.miscount if queue == QUEUE else 0)
            self.observed(
                "counted",
                hop=hop,
                queue=queue,
                ready=ready,
                in_flight=waiting[queue, Waiting.IN_FLIGHT],
                scheduled=waiting[queue, Waiting.SCHEDULED],
            )
