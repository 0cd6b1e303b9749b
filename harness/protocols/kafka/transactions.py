"""The transactions of a cell: the records and positions of each, and what was asked of its
coordinator.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.model.events import Outcome
from harness.protocols.kafka import codec
from harness.protocols.kafka.insights import Insight, Place, subject_of
from harness.protocols.kafka.kept import EACH, MOST_BYTES
from harness.protocols.kafka.steps import Api
from harness.wire.rules import Subject

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_TRANSACTIONS = 4096
"""Producer epochs remembered at once; the oldest is forgotten first."""


@dataclass(slots=True)
class Transaction:
    """An open transaction: its records, and the positions it would save."""

    records: set[str] = field(default_factory=set)
    positions: dict[tuple[str, Place], int] = field(default_factory=dict)
    calls: Counter[tuple[Api, str]] = field(default_factory=Counter)
    """How often each request (API, and its subject) was sent to or by the coordinator and not
    refused.
    """
    ending: bool = False
    """Its end was asked for."""

    @property
    def size(self) -> int:
        """About how many bytes of memory its records need."""
        return sum(EACH + len(record) for record in self.records)


class _Ended(OrderedDict[tuple[int, int], Transaction]):
    """The transaction that each producer has ended last, which may be told of again: the latest
    ones.
    """

    size = 0

    def keep(self, key: tuple[int, int], transaction: Transaction) -> None:
        """Remember one."""
        before = self.pop(key, None)
        self.size += transaction.size - (before.size if before else 0)
        self[key] = transaction
        while len(self) > 1 and (len(self) > MAX_TRANSACTIONS or self.size > MOST_BYTES):
            self.size -= self.popitem(last=False)[1].size


class Transactions:
    """The transactions of all producers of a cell, each by producer id and epoch.

    ``saved``: the positions that groups have saved. Those of a transaction are added when it has
    been committed.
    """

    def __init__(self, saved: dict[tuple[str, Place], int]) -> None:
        self._saved = saved
        self._open: OrderedDict[tuple[int, int], Transaction] = OrderedDict()
        self._ended = _Ended()

    def refused(
        self, asked: codec.Joining | codec.Commit, call: Api, refused: Iterable[str]
    ) -> None:
        """Do not count refused requests: the protocol repeats them regularly, so a repetition shows
        nothing.
        """
        transaction = self._open.get((asked.producer_id, asked.producer_epoch))
        if transaction is not None:
            transaction.calls.subtract((call, what) for what in refused)

    def of(self, producer_id: int, epoch: int) -> Transaction:
        """Return the open transaction of a producer, which begins if there is none."""
        found = self._open.setdefault((producer_id, epoch), Transaction())
        while len(self._open) > MAX_TRANSACTIONS:
            self._open.popitem(last=False)
        return found

    def call(self, content: codec.Transactional, request: str) -> Insight:
        """Return what a request to the coordinator is about."""
        lines: tuple[kinds.Event, ...] = ()
        if isinstance(content, codec.Joining):
            calls = self.of(content.producer_id, content.producer_epoch).calls
            calls.update((content.api, what) for what in content.what)
        elif isinstance(content, codec.Init):
            name = next(iter(content.transactional_ids), None)
            lines = (
                kinds.InitProducer(
                    transactional_id=name, timeout_ms=content.timeout_ms, request=request
                ),
            )
        return Insight(
            Subject(transactional_ids=frozenset(content.transactional_ids)),
            content=content,
            lines=lines,
        )

    def mark(self, markers: codec.Markers) -> Insight:
        """The transaction that is ending, or has ended last: the client may have gone on to the
        next already.

        Version 2 of the protocol (KIP-890) ends it with the next epoch, and so does a coordinator
        that ends it unasked.
        """
        records: set[str] = set()
        again: list[kinds.Event] = []
        for producer_id, epoch, what in markers.markers:
            transaction = self._ending(producer_id, epoch) or self._ending(producer_id, epoch - 1)
            if transaction is not None:
                transaction.calls[Api.WRITE_TXN_MARKERS, what] += 1
                records |= transaction.records
                again += _again(kinds.MarkedAgain, transaction, Api.WRITE_TXN_MARKERS, what)
        return Insight(Subject(frozenset(records)), content=markers, lines=tuple(again))

    def _ending(self, producer_id: int, epoch: int) -> Transaction | None:
        key = (producer_id, epoch)
        begun = self._open.get(key)
        return begun if begun is not None and begun.ending else self._ended.get(key)

    def end(self, end: codec.EndTxn, request: str) -> Insight:
        """Return what the request that ends a transaction is about: all that was sent in it."""
        key = (end.producer_id, end.producer_epoch)
        # asked for again, it is the one that has just ended
        transaction = self._open.get(key) or self._ended.get(key) or Transaction()
        transaction.ending = True
        begun = kinds.EndTxn(
            transactional_id=end.transactional_id,
            producer_id=end.producer_id,
            producer_epoch=end.producer_epoch,
            commit=end.commit,
            request=request,
        )
        subject = subject_of(transaction.records, (), end.transactional_id)
        asked = [kinds.Ending(record=record, request=request) for record in sorted(subject.records)]
        asks = [call for call in transaction.calls if call[0] is not Api.WRITE_TXN_MARKERS]
        again = [line for call in asks for line in _again(kinds.AskedAgain, transaction, *call)]
        return Insight(subject, content=end, request=request, lines=(begun, *asked, *again))

    def end_answer(self, answer: codec.EndTxnAnswer, end: codec.EndTxn, asked: Insight) -> Insight:
        """Return what the answer to it is about, and close the transaction that has ended."""
        answered = kinds.EndTxnAnswer(
            error=answer.error, request=asked.request, transactional_id=end.transactional_id
        )
        if answer.error == 0:
            key = (end.producer_id, end.producer_epoch)
            transaction = self._open.pop(key, None) or Transaction()
            if transaction.records or transaction.positions:
                self._ended.keep(key, transaction)
            if end.commit:
                self._saved.update(transaction.positions)
        outcome = Outcome.REFUSED if answer.error else Outcome.TAKEN
        told = (
            kinds.Ending(record=record, request=asked.request, outcome=outcome)
            for record in sorted(asked.subject.records)
        )
        lines = (answered, *told)
        return Insight(
            asked.subject, answer.error, content=answer, request=asked.request, lines=lines
        )


def _again(
    kind: type[kinds.OfRepetition], transaction: Transaction, call: Api, what: str
) -> list[kinds.OfRepetition]:
    """Say of each record of a transaction that something was asked for more than once, refusals not
    counted.
    """
    times = transaction.calls[call, what]
    if times < 2:  # noqa: PLR2004 - again is twice
        return []
    return [
        kind(record=record, api=call.label, what=what, times=times)
        for record in sorted(transaction.records)
    ]
