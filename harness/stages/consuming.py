"""What every consuming stage does alike: subscribe, report where it resumes, poll, save positions."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.model.record import decode_id
from harness.model.waiting import wait_until
from harness.stages.clients.interface import ClientError, Meaning

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from harness.model.history import HistoryWriter
    from harness.stages.clients.interface import Consumer, Delivered, Membership, Position
    from harness.stages.stage import Stage

POLL_S = 1.0
"""Long enough for a join: a poll that ends within one was seen to leave kafka-python 3.0.12 silent for ever."""
REJOIN_S = 60.0
STAY_S = 0.25
"""How long who does long work polls in between, to stay in its group."""
COMMIT_S = 10.0


def subscribe(stage: Stage, ledger: HistoryWriter, consumer: Consumer,
              kept: Callable[[], dict[int, int]] | None = None,
              anew: Callable[[Collection[int]], None] = lambda _: None) -> None:  # fmt: skip
    """Join the stage's group; assignments are written down, and begin at the positions ``kept`` elsewhere.

    ``anew`` is told of each partition that was assigned.
    """

    def assigned(partitions: list[int]) -> dict[int, int]:
        begins = kept() if kept else {}
        anew(partitions)
        ledger.write(kinds.READY, role="consumer", partitions=partitions)
        return begins

    consumer.subscribe(stage.topic_in, assigned)


def batches(
    stage: Stage, ledger: HistoryWriter, consumer: Consumer, otherwise: Callable[[], None] = lambda: None
) -> Iterator[list[Delivered]]:
    """Yield the records of each poll that brought any, for ever; the first of each partition is reported as resumed.

    ``otherwise``: done after each poll that brought none.
    """
    seen: set[int] = set()
    while True:
        batch = consumer.poll(stage.settings.consumer.unit, POLL_S)
        for message in batch:
            if message.partition not in seen:
                seen.add(message.partition)
                ledger.write(kinds.RESUMED, where=stage.group, partition=message.partition, position=message.offset)
            ledger.write(kinds.DELIVERED, record=decode_id(message.value), partition=message.partition,
                         epoch=message.leader_epoch, offset=message.offset)  # fmt: skip
        if batch:
            yield batch
        else:
            otherwise()


def rejoined(consumer: Consumer) -> Membership:
    """Stay in the group by polling, for :data:`STAY_S` and until stable; return the group metadata.

    What people do during long work. A member that was put out meanwhile is in again afterwards, with new partitions.
    What arrives is put back, not paused: a partition paused and resumed around a rebalance was seen to stay out of the
    fetch session of kafka-python 3.0.12 for ever.
    """
    until = time.monotonic() + STAY_S

    def stable() -> Membership | None:
        rewind(consumer, consumer.poll(1, STAY_S))
        membership = consumer.membership()
        in_group = membership.member and consumer.assignment()
        return membership if in_group and time.monotonic() >= until else None

    return wait_until(stable, within_s=REJOIN_S, because="the consumer to be in its group again")


def save(stage: Stage, ledger: HistoryWriter, consumer: Consumer, batch: list[Delivered]) -> ClientError | None:
    """Commit the position after ``batch`` synchronously; return why it is not known to be saved (as the ledger says)."""
    problem = None
    positions = positions_after(batch)
    try:
        consumer.commit(stage.topic_in, positions, COMMIT_S)
    except ClientError as raised:
        problem = raised
    for partition, position in positions.items():
        ledger.write(kinds.SAVED, partition=partition, offset=position, error=problem and str(problem))
    return problem


class Unsaved:
    """Saves the position behind each batch. One that is not known to be saved is tried again with the next batch, or poll.

    Where the group gives its partition out anew, or puts this consumer out, that is left, unless the client goes on behind it all
    the same: reading begins where it was saved last.
    """

    def __init__(self, stage: Stage, ledger: HistoryWriter, consumer: Consumer) -> None:
        self._of = stage, ledger, consumer
        self._left: list[Delivered] = []
        self._anew: set[int] = set()

    def save(self, batch: list[Delivered]) -> None:
        """Save what is behind a batch, and what was not saved before."""
        self._left = [*self._still_mine(), *batch]
        problem = save(*self._of, self._left) if self._left else None
        if problem is None:
            self._left = []
        elif problem.meaning is Meaning.PUT_OUT:
            self.given_anew(positions_after(self._left))

    def again(self) -> None:
        """Try again what is left."""
        if self._left:
            self.save([])

    def given_anew(self, partitions: Collection[int]) -> None:
        """Take in that these partitions are given out anew."""
        self._anew.update(partitions)

    def _still_mine(self) -> list[Delivered]:
        """Return what is left of partitions that are this consumer's own, and that it goes on in right behind it."""
        if not self._left:
            self._anew.clear()
            return []
        stage, _, consumer = self._of
        mine, anew, self._anew = consumer.assignment(), self._anew, set()
        behind = positions_after(self._left)
        gone = {each for each in behind if each in anew & mine and consumer.position(stage.topic_in, each) != behind[each]}
        return [message for message in self._left if message.partition in mine - gone]


def save_until_confirmed(stage: Stage, ledger: HistoryWriter, consumer: Consumer, batch: list[Delivered]) -> bool:
    """Commit the position until that has succeeded: what is not confirmed is not worked on.

    False where the group has put this consumer out: the batch is not its own any more, and it must join again.
    """
    while problem := save(stage, ledger, consumer, batch):
        if problem.meaning is Meaning.PUT_OUT:
            rewind(consumer, batch)
            return False
    return True


def positions_after(batch: list[Delivered]) -> Position:
    """Return the position behind the last record of each partition of a batch."""
    return {message.partition: message.offset + 1 for message in batch}


def rewind(consumer: Consumer, batch: list[Delivered]) -> None:
    """After an aborted transaction: read the batch again, as far as its partitions are still ours."""
    mine = consumer.assignment()
    for message in reversed(batch):
        if message.partition in mine:
            consumer.seek(message.topic, message.partition, message.offset)
