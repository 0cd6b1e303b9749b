"""The common parts of all consuming stages: subscribe, report where reading resumes, poll, save
positions.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from harness.model import kinds
from harness.model.record import decode_id
from harness.model.waiting import wait_until
from harness.stages.clients.interface import ClientError, Meaning

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from harness.model.writing import LedgerWriter
    from harness.stages.clients.interface import Consumer, Delivered, Membership, Position
    from harness.stages.stage import Stage

POLL_S = 1.0
"""Seconds of a poll: long enough to join a group. A poll that ended during a join left kafka-python
3.0.12 hanging.
"""
REJOIN_S = 60.0
STAY_S = 0.25
"""For how many seconds a program with long work polls in between, to stay in its group."""
COMMIT_S = 10.0


def subscribe(
    stage: Stage,
    ledger: LedgerWriter,
    consumer: Consumer,
    kept: Callable[[], dict[int, int]] | None = None,
    anew: Callable[[Collection[int]], None] = lambda _: None,
) -> None:
    """Join the stage's group. Assignments are written into the ledger; reading begins at the
    positions in ``kept``, if given.

    ``anew`` is called with the partitions that were assigned.
    """

    def assigned(partitions: list[int]) -> dict[int, int]:
        begins = kept() if kept else {}
        anew(partitions)
        ledger.write(kinds.READY, role="consumer", partitions=partitions)
        return begins

    consumer.subscribe(stage.topic_in, assigned)


def batches(
    stage: Stage,
    ledger: LedgerWriter,
    consumer: Consumer,
    otherwise: Callable[[], None] = lambda: None,
) -> Iterator[list[Delivered]]:
    """Yield the records of each poll that brought any, endlessly. The first record of each
    partition is reported as ``resumed``.

    ``otherwise`` is called after each poll without records.
    """
    seen: set[int] = set()
    while True:
        batch = consumer.poll(stage.settings.consumer.unit, POLL_S)
        for message in batch:
            if message.partition not in seen:
                seen.add(message.partition)
                ledger.write(
                    kinds.RESUMED,
                    where=stage.group,
                    partition=message.partition,
                    position=message.offset,
                )
            ledger.write(
                kinds.DELIVERED,
                record=decode_id(message.value),
                partition=message.partition,
                epoch=message.leader_epoch,
                offset=message.offset,
            )
        if batch:
            yield batch
        else:
            otherwise()


def rejoined(consumer: Consumer) -> Membership:
    """Poll for :data:`STAY_S` and until the group is stable, to stay a member; return the group
    metadata.

    Programs do this during long work. A member that was removed meanwhile joins again, with new
    partitions. Records that arrive are put back by a seek. Pausing the partitions does not work: a
    partition that was paused and resumed around a rebalance stayed out of the fetch session of
    kafka-python 3.0.12 for ever.
    """
    until = time.monotonic() + STAY_S

    def stable() -> Membership | None:
        rewind(consumer, consumer.poll(1, STAY_S))
        membership = consumer.membership()
        in_group = membership.member and consumer.assignment()
        return membership if in_group and time.monotonic() >= until else None

    return wait_until(stable, within_s=REJOIN_S, because="the consumer to be in its group again")


def save(
    stage: Stage, ledger: LedgerWriter, consumer: Consumer, positions: Position
) -> ClientError | None:
    """Commit positions synchronously; return the error if it failed. The ledger gets the
    outcome.

    Raises:
        ClientError: another process has taken this one's place in the group. The client cannot go
            on.
    """
    problem = None
    try:
        consumer.commit(stage.topic_in, positions, COMMIT_S)
    except ClientError as raised:
        problem = raised
    for partition, position in positions.items():
        ledger.write(
            kinds.SAVED, partition=partition, offset=position, error=problem and str(problem)
        )
    if problem is not None and problem.meaning is Meaning.FENCED:
        raise problem
    return problem


class Unsaved:
    """Saves the position after each batch. If that failed, it tries again with the next batch or
    poll.

    It gives up if the group assigns the partition anew, or removes this consumer, because reading
    then begins at the last saved position. It does not give up if the client continues behind the
    batch all the same: it saves the place where the client is, which is behind the marks of
    transactions, too.
    """

    def __init__(self, stage: Stage, ledger: LedgerWriter, consumer: Consumer) -> None:
        self._of = stage, ledger, consumer
        self._left: Position = {}
        self._anew: set[int] = set()

    def save(self, batch: list[Delivered]) -> None:
        """Save the position after a batch, and positions that could not be saved before."""
        self._left = self._still_mine() | positions_after(batch)
        problem = save(*self._of, self._left) if self._left else None
        if problem is None:
            self._left = {}
        elif problem.meaning is Meaning.PUT_OUT:
            self.given_anew(self._left)

    def again(self) -> None:
        """Try again to save positions that could not be saved."""
        if self._left:
            self.save([])

    def given_anew(self, partitions: Collection[int]) -> None:
        """Take note that the group has assigned these partitions anew."""
        self._anew.update(partitions)

    def _still_mine(self) -> Position:
        """Return the unsaved positions in assigned partitions; in those that were assigned anew,
        the place of a client that reads none of their records again.
        """
        if not self._left:
            self._anew.clear()
            return {}
        stage, _, consumer = self._of
        mine, anew, self._anew = consumer.assignment(), self._anew, set()
        left = {each: place for each, place in self._left.items() if each in mine}
        for each in anew & left.keys():
            place = consumer.position(stage.topic_in, each)
            if place is None or place < left[each]:
                del left[each]
            else:
                left[each] = place
        return left


def save_until_confirmed(
    stage: Stage, ledger: LedgerWriter, consumer: Consumer, batch: list[Delivered]
) -> bool:
    """Commit the position until that succeeds, so that only records with a confirmed position are
    worked on.

    Returns false if the group has removed this consumer: the batch is no longer its own, and it
    must join again.
    """
    while problem := save(stage, ledger, consumer, positions_after(batch)):
        if problem.meaning is Meaning.PUT_OUT:
            rewind(consumer, batch)
            return False
    return True


def positions_after(batch: list[Delivered]) -> Position:
    """Return the position after the last record of each partition of a batch."""
    return {message.partition: message.offset + 1 for message in batch}


def rewind(consumer: Consumer, batch: list[Delivered]) -> None:
    """Seek back to the beginning of a batch after an aborted transaction, in partitions that are
    still assigned.
    """
    mine = consumer.assignment()
    for message in reversed(batch):
        if message.partition in mine:
            consumer.seek(message.topic, message.partition, message.offset)
