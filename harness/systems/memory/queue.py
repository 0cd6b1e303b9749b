"""The play of a cell with a queue between producer and consumer: each message is acknowledged for itself, and then forgotten.

The broker's journal, which the observer reads, forgets nothing; and the broker counts what waits.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar

from harness.model import events as kinds
from harness.model.places import Removal, Waiting
from harness.model.states import Hop, LastHop
from harness.systems.memory.play import Copy, MemoryCellRun

if TYPE_CHECKING:
    from collections.abc import Collection

    from harness.model.record import Record

QUEUE = "queue"
DEAD_LETTERS = "dead letters"
_HOPS = {QUEUE: Hop.TOPIC, DEAD_LETTERS: Hop.ASIDE}
LIMIT = 3
"""How often a message is delivered before it is given up."""
_LOST_BY = {
    LastHop.GIVEN_UP: Removal.ACK, LastHop.EXPIRED: Removal.EXPIRY, LastHop.LIMIT: Removal.LIMIT,
    LastHop.REJECTED: Removal.REJECT, LastHop.DEAD_LETTER: Removal.DEAD_LETTER, LastHop.DELETED: Removal.RETENTION,
    LastHop.COMPACTED: Removal.COMPACTION, LastHop.PURGED: Removal.PURGE, LastHop.DUPLICATE: Removal.DUPLICATE,
}  # fmt: skip
"""Why the broker says that it has removed what was last seen there."""
_DELIVERED = {LastHop.REJECTED: 1, LastHop.LIMIT: LIMIT, LastHop.DEAD_LETTER: LIMIT}
"""How often it had been delivered before."""


class QueueRun(MemoryCellRun):
    """The play of one cell with a queue."""

    between: ClassVar[str] = QUEUE
    nowhere: ClassVar[dict[str, Any]] = {"place": None}
    stalled: ClassVar[tuple[str, str]] = (QUEUE, "a transaction is prepared, and nobody ends it")
    unread: ClassVar[tuple[str, str]] = (QUEUE, "messages are ready, and nobody takes them")
    loses_at: ClassVar[Collection[LastHop]] = (*_LOST_BY, LastHop.MOVED)

    def aim(self, record: Record) -> dict[str, Any]:
        """Name nothing but the queue."""
        del record
        return {}

    def _put(self, record: str, attempt: str | None, queue: str, waiting: Waiting | None, *, visible: bool, spare: bool) -> Copy:
        """Put a message into a queue, at a place that no other has had."""
        where = {"place": f"{queue}:{len(self.copies) + 1}"}
        self.copies.append(Copy(record, attempt, where, visible, spare, queue, waiting))
        return self.copies[-1]

    def store(self, record: Record, attempt: str | None, *, visible: bool, spare: bool = False) -> None:
        """Keep one more message. It is ready where it is committed, and waits for nothing where it is to be skipped."""
        skipped = self.cast.lost.get(record.id) is LastHop.SKIPPED
        waiting = None if skipped or not visible else Waiting.READY
        if record.id in self.cast.stalled:
            waiting = Waiting.PREPARED
        self._put(record.id, attempt, QUEUE, waiting, visible=visible, spare=spare)

    def lose(self, record: Record, attempt: str, hop: LastHop) -> None:
        """Have it, and take it away."""
        message = self._put(record.id, attempt, QUEUE, None, visible=True, spare=False)
        for time in range(_DELIVERED.get(hop, 0)):
            self.delivered(message, again=time > 0)
        if hop is LastHop.MOVED:
            self.observed(kinds.MOVED, record=record.id, to=f"elsewhere, as {message.where['place']}", **message.where)
        else:
            self._remove(message, _LOST_BY[hop])

    def forget(self) -> None:
        """Say nothing: a journal has no offsets."""

    def delivered(self, copy: Copy, *, again: bool = False) -> None:
        """Write that the consumer was given a message, and what the broker says of that."""
        self.tell_reader(kinds.DELIVERED, record=copy.record, redelivered=again)

    def acknowledge(self, copy: Copy) -> None:
        """Forget it."""
        self._remove(copy, Removal.ACK)

    def consume(self, record: Record) -> None:
        """Deliver and record it, or do with it what is planted."""
        message = next((copy for copy in self.copies if copy.record == record.id), None)
        if message is None or record.id not in self.cast.hidden | self.cast.aside:
            super().consume(record)
        elif record.id in self.cast.aside:
            self._set_aside(message)
        elif self.plant.hide_another:
            super().consume(record)
            self._hide(self._put(record.id, message.attempt, QUEUE, None, visible=True, spare=False))
        else:
            self._hide(message)

    def _hide(self, message: Copy) -> None:
        """Let a message wait for ever; in flight, with a consumer that has it."""
        message.waiting = self.plant.hide_as
        if message.waiting is Waiting.IN_FLIGHT:
            self.delivered(message)

    def _set_aside(self, message: Copy) -> None:
        """Deliver it as often as it may be, and put it among the dead letters."""
        for time in range(LIMIT):
            self.delivered(message, again=time > 0)
        there = self._put(message.record, message.attempt, DEAD_LETTERS, Waiting.READY, visible=True, spare=False)
        message.waiting = None
        self.observed(kinds.MOVED, record=message.record, to=there.where["place"], **message.where)

    def _remove(self, copy: Copy, why: Removal) -> None:
        copy.waiting = None
        self.observed(kinds.REMOVED, why=why, record=copy.record, **copy.where)

    def observe_broker(self) -> None:
        """Write what the journal says was there, what waits, and how much of that the broker counts."""
        waiting = Counter((copy.queue, copy.waiting) for copy in self.copies)
        for copy in self.copies:
            self.observed(
                kinds.STORED, hop=_HOPS[str(copy.queue)], queue=copy.queue, record=copy.record, key=None, intact=True,
                visible=copy.visible, waiting=copy.waiting, attempt=copy.attempt, **copy.where,
            )  # fmt: skip
        for queue, hop in _HOPS.items():
            ready = waiting[queue, Waiting.READY] + (self.plant.miscount if queue == QUEUE else 0)
            self.observed(kinds.COUNTED, hop=hop, queue=queue, ready=ready, in_flight=waiting[queue, Waiting.IN_FLIGHT],
                          scheduled=waiting[queue, Waiting.SCHEDULED])  # fmt: skip
