"""What a cell's frames are about: which records a request or its answer carries, commits or ends.

This is pure bookkeeping over decoded frames. ``look_at_...`` returns what a frame is about. Then
the rules decide its fate. :meth:`Tracker.settle` is told whether the frame arrived, and returns its
history lines.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.model import kinds
from harness.model.record import decode_id
from harness.protocols.kafka import codec
from harness.protocols.kafka.insights import Insight, Line, Place, unresolved, worst
from harness.protocols.kafka.kept import EACH, MOST_BYTES, Kept
from harness.protocols.kafka.shares import Shares
from harness.protocols.kafka.steps import DUPLICATE_SEQUENCE, Api
from harness.wire.rules import Subject

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from harness.model.identity import Identity
    from harness.protocols.kafka.batches import Batch, Item

MAX_TRANSACTIONS = 4096
"""Producer epochs remembered at once; the oldest is forgotten first."""


@dataclass(slots=True)
class FetchSession:
    """The partitions that a connection fetches, kept over incremental Fetch requests."""

    positions: dict[Place, int] = field(default_factory=dict)
    read_committed: bool = False
    follower: int = -1

    def ask(self, fetch: codec.Fetch) -> None:
        """Apply a request to the session, when its response has come."""
        if fetch.full:
            self.positions.clear()
        self.read_committed = fetch.read_committed
        self.follower = fetch.follower
        for gone in fetch.forgotten:
            self.positions.pop(gone, None)
        self.positions.update(fetch.positions)


@dataclass(slots=True)
class _Transaction:
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


class _Ended(OrderedDict[tuple[int, int], _Transaction]):
    """The transaction that each producer has ended last, which may be told of again: the latest
    ones.
    """

    size = 0

    def keep(self, key: tuple[int, int], transaction: _Transaction) -> None:
        """Remember one."""
        before = self.pop(key, None)
        self.size += transaction.size - (before.size if before else 0)
        self[key] = transaction
        while len(self) > 1 and (len(self) > MAX_TRANSACTIONS or self.size > MOST_BYTES):
            self.size -= self.popitem(last=False)[1].size


class Tracker:
    """The bookkeeping of one cell. ``names`` are the topic names by id, shared by all cells of a
    wire.

    ``identity``: where a user's records carry their ids; ``None`` for records in lostack's own
    format.
    """

    def __init__(self, names: Mapping[str, str], identity: Identity | None = None) -> None:
        self._names = names
        self._identity = identity
        self.foreign = identity is not None
        self._logs = Kept()
        self._saved: dict[tuple[str, Place], int] = {}
        self._open: OrderedDict[tuple[int, int], _Transaction] = OrderedDict()
        self._ended = _Ended()
        self.shares = Shares(names, self._record)
        """The bookkeeping of share groups."""

    # -- looking -----------------------------------------------------------------------------------

    def look_at_request(self, content: codec.Content, request: str) -> Insight:
        """Return what a decoded request is about. ``request``: its name in the history
        (``conn:corr``).
        """
        match content:
            case codec.Produce():
                return self._produce(content, request)
            case codec.Commit():
                return self._commit(content, request)
            case codec.EndTxn():
                return self._end_txn(content, request)
            case codec.Markers():
                return self._markers(content)
            case codec.Transactional():
                return self._transactional(content, request)
            case _:
                return Insight(content=content, request=request)

    def _transactional(self, content: codec.Transactional, request: str) -> Insight:
        lines: tuple[Line, ...] = ()
        if isinstance(content, codec.Joining):
            calls = self._transaction(content.producer_id, content.producer_epoch).calls
            calls.update((content.api, what) for what in content.what)
        elif isinstance(content, codec.Init):
            name = next(iter(content.transactional_ids), None)
            begins = {
                "transactional_id": name,
                "timeout_ms": content.timeout_ms,
                "request": request,
            }
            lines = (Line(kinds.INIT_PRODUCER, begins),)
        return Insight(
            Subject(transactional_ids=frozenset(content.transactional_ids)),
            content=content,
            lines=lines,
        )

    def look_at_response(
        self, content: codec.Content, asked: Insight, session: FetchSession, conn: int
    ) -> Insight:
        """Return what a decoded response is about. ``asked``: what its request was about."""
        match content, asked.content:
            case codec.ProduceAnswer(), codec.Produce():
                return self._produce_answer(content, asked)
            case codec.FetchAnswer(), codec.Fetch() as fetch:
                session.ask(fetch)
                return self._fetch_answer(content, session, conn)
            case codec.CommitAnswer(), codec.Commit() as commit:
                return self._commit_answer(content, commit, asked)
            case codec.EndTxnAnswer(), codec.EndTxn() as end:
                return self._end_txn_answer(content, end, asked)
            case codec.JoiningAnswer(), codec.Joining() as joining:
                everything = joining.what if content.error else ()
                self._refused(
                    joining, joining.api, everything if content.refused is None else content.refused
                )
                return Insight(asked.subject, content.error, content=content)
            case _:
                return Insight(
                    asked.subject, content=content, because="its request could not be read"
                )

    def _markers(self, markers: codec.Markers) -> Insight:
        """The transaction that is ending, or has ended last: the client may have gone on to the
        next already.

        Version 2 of the protocol (KIP-890) ends it with the next epoch, and so does a coordinator
        that ends it unasked.
        """
        records: set[str] = set()
        again: list[Line] = []
        for producer_id, epoch, what in markers.markers:
            transaction = self._ending(producer_id, epoch) or self._ending(producer_id, epoch - 1)
            if transaction is not None:
                transaction.calls[Api.WRITE_TXN_MARKERS, what] += 1
                records |= transaction.records
                again += _again(kinds.MARKED_AGAIN, transaction, Api.WRITE_TXN_MARKERS, what)
        return Insight(Subject(frozenset(records)), content=markers, lines=tuple(again))

    def _ending(self, producer_id: int, epoch: int) -> _Transaction | None:
        key = (producer_id, epoch)
        begun = self._open.get(key)
        return begun if begun is not None and begun.ending else self._ended.get(key)

    def _record(self, item: Item) -> str | None:
        if self._identity is None:
            return decode_id(item.value)
        return self._identity.find(item.key, item.value, item.headers)

    def _name(self, topic: str) -> str:
        return self._names.get(topic, topic)

    def _subject(
        self, records: Iterator[str] | set[str], topics: set[str], transactional_id: str | None
    ) -> Subject:
        ids = frozenset((transactional_id,)) if transactional_id else frozenset[str]()
        return Subject(frozenset(records), frozenset(topics), ids)

    def _produce(self, produce: codec.Produce, request: str) -> Insight:
        lines: list[Line] = []
        copies: list[tuple[Place, int, str]] = []
        topics = {self._name(topic) for topic, _, _ in produce.partitions}
        for topic, partition, batches in produce.partitions:
            place = topic, partition
            for batch in batches:
                first, base = batch.base_offset, batch.base_sequence
                shared = {
                    "topic": self._name(topic),
                    "partition": partition,
                    "request": request,
                    "producer_id": batch.producer_id,
                    "producer_epoch": batch.producer_epoch,
                    "base": base,
                    "transactional": batch.transactional,
                    "transactional_id": produce.transactional_id,
                }
                for item in batch.items:
                    record = self._record(item)
                    if record is None:
                        continue
                    delta = item.offset - first
                    copies.append((place, delta, record))
                    sequence = (base + delta) & 0x7FFFFFFF if base >= 0 else -1
                    lines.append(
                        Line(
                            kinds.SENT,
                            {
                                "record": record,
                                **shared,
                                "sequence": sequence,
                                "attempt": item.attempt,
                            },
                        )
                    )
        subject = self._subject(
            {record for _, _, record in copies}, topics, produce.transactional_id
        )
        because = unresolved(topics, copies)
        return Insight(
            subject,
            None,
            because,
            content=produce,
            request=request,
            lines=tuple(lines),
            copies=tuple(copies),
        )

    def _produce_answer(self, answer: codec.ProduceAnswer, asked: Insight) -> Insight:
        told = {
            (topic, partition): (error, base) for topic, partition, error, base in answer.partitions
        }
        lines = []
        for place, delta, record in asked.copies:
            error, base = told.get(place, (None, -1))
            offset = base + delta if error == 0 and base >= 0 else -1
            fields = {
                "record": record,
                "request": asked.request,
                "error": error,
                "base_offset": base,
                "offset": offset,
            }
            if error == DUPLICATE_SEQUENCE:
                fields["repeated"] = True
            lines.append(Line(kinds.PRODUCE_ANSWER, fields))
        error = worst(error for error, _ in told.values())
        return Insight(
            asked.subject, error, content=answer, request=asked.request, lines=tuple(lines)
        )

    def _fetch_answer(self, answer: codec.FetchAnswer, session: FetchSession, conn: int) -> Insight:
        lines: list[Line] = []
        topics: set[str] = set()
        for part in answer.partitions:
            name = self._name(part.topic)
            start = session.positions.get((part.topic, part.partition), -1)
            for batch, item in _visible(part, read_committed=session.read_committed):
                record = self._record(item)
                if record is None or item.offset < start:
                    continue
                topics.add(name)
                fields = {
                    "record": record,
                    "topic": name,
                    "partition": part.partition,
                    "offset": item.offset,
                }
                fields |= {"epoch": batch.epoch, "conn": conn}
                if session.follower >= 0:
                    lines.append(Line(kinds.REPLICATED, {**fields, "follower": session.follower}))
                    continue
                self._logs.put((name, part.partition), item.offset, record)
                lines.append(Line(kinds.FETCHED, fields))
        error = answer.error or worst(part.error for part in answer.partitions)
        subject = self._subject({line.fields["record"] for line in lines}, topics, None)
        return Insight(
            subject, error, unresolved(topics, lines), content=answer, lines=tuple(lines)
        )

    def _commit(self, commit: codec.Commit, request: str) -> Insight:
        lines = []
        records: set[str] = set()
        forgotten: str | None = None
        topics = {self._name(topic) for topic, _, _ in commit.offsets}
        if commit.transactional_id is not None:
            calls = self._transaction(commit.producer_id, commit.producer_epoch).calls
            calls.update(
                (Api.TXN_OFFSET_COMMIT, f"{topic}/{partition} {offset}")
                for topic, partition, offset in commit.offsets
            )
        for topic, partition, offset in commit.offsets:
            place = (self._name(topic), partition)
            low = self._saved.get((commit.group, place), -1)
            records.update(self._logs.between(place, low, offset))
            forgotten = forgotten or self._logs.why_not_all(place, low, offset)
            fields = {
                "topic": place[0],
                "partition": partition,
                "offset": offset,
                "request": request,
            }
            lines.append(
                Line(
                    kinds.COMMITTED,
                    {**fields, "group": commit.group, "transactional_id": commit.transactional_id},
                )
            )
        subject = self._subject(records, topics, commit.transactional_id)
        return Insight(
            subject,
            None,
            unresolved(topics, lines),
            forgotten=forgotten,
            content=commit,
            request=request,
            lines=tuple(lines),
        )

    def _commit_answer(
        self, answer: codec.CommitAnswer, commit: codec.Commit, asked: Insight
    ) -> Insight:
        offsets = {(topic, partition): offset for topic, partition, offset in commit.offsets}
        lines = [
            Line(
                kinds.COMMIT_ANSWER,
                {
                    "topic": self._name(topic),
                    "partition": partition,
                    "error": error,
                    "offset": offsets.get((topic, partition), -1),
                    "request": asked.request,
                    "group": commit.group,
                },
            )
            for topic, partition, error in answer.errors
        ]
        refused = (
            f"{topic}/{partition} {offsets.get((topic, partition))}"
            for topic, partition, error in answer.errors
            if error
        )
        self._refused(commit, Api.TXN_OFFSET_COMMIT, refused)
        self._remember_saved(answer, commit, offsets)
        return Insight(
            asked.subject,
            worst(error for _, _, error in answer.errors),
            forgotten=asked.forgotten,
            content=answer,
            request=asked.request,
            lines=tuple(lines),
        )

    def _remember_saved(
        self, answer: codec.CommitAnswer, commit: codec.Commit, offsets: dict[Place, int]
    ) -> None:
        """Positions the broker has stored; those of a transaction count when it is committed."""
        for topic, partition, error in answer.errors:
            if error == 0 and (topic, partition) in offsets and commit.transactional_id is None:
                self._saved[commit.group, (self._name(topic), partition)] = offsets[
                    topic, partition
                ]

    def _end_txn(self, end: codec.EndTxn, request: str) -> Insight:
        key = (end.producer_id, end.producer_epoch)
        # asked for again, it is the one that has just ended
        transaction = self._open.get(key) or self._ended.get(key) or _Transaction()
        transaction.ending = True
        fields = {
            "transactional_id": end.transactional_id,
            "producer_id": end.producer_id,
            "producer_epoch": end.producer_epoch,
            "commit": end.commit,
            "request": request,
        }
        subject = self._subject(set(transaction.records), set(), end.transactional_id)
        asked = [
            {"record": record, "request": request, "outcome": None}
            for record in sorted(subject.records)
        ]
        asks = [call for call in transaction.calls if call[0] is not Api.WRITE_TXN_MARKERS]
        again = [line for call in asks for line in _again(kinds.ASKED_AGAIN, transaction, *call)]
        lines = (Line(kinds.END_TXN, fields), *(Line(kinds.ENDING, each) for each in asked), *again)
        return Insight(subject, content=end, request=request, lines=lines)

    def _end_txn_answer(
        self, answer: codec.EndTxnAnswer, end: codec.EndTxn, asked: Insight
    ) -> Insight:
        fields = {
            "error": answer.error,
            "request": asked.request,
            "transactional_id": end.transactional_id,
        }
        if answer.error == 0:
            key = (end.producer_id, end.producer_epoch)
            transaction = self._open.pop(key, None) or _Transaction()
            if transaction.records or transaction.positions:
                self._ended.keep(key, transaction)
            if end.commit:
                self._saved.update(transaction.positions)
        outcome = "refused" if answer.error else "taken"
        told = [
            {"record": record, "request": asked.request, "outcome": outcome}
            for record in sorted(asked.subject.records)
        ]
        lines = (Line(kinds.END_TXN_ANSWER, fields), *(Line(kinds.ENDING, each) for each in told))
        return Insight(
            asked.subject, answer.error, content=answer, request=asked.request, lines=lines
        )

    # -- settling ----------------------------------------------------------------------------------

    def settle(self, insight: Insight, *, reached: bool) -> Iterator[tuple[str, dict[str, object]]]:
        """Yield the history lines (kind and fields) of a frame, now that it is known whether it
        arrived (``reached``).
        """
        if reached:
            self._passed_on(insight)
        for line in insight.lines:
            if line.kind == kinds.SENT:
                yield (kinds.SENT if reached else kinds.UNSENT), line.fields
            else:
                yield line.kind, {**line.fields, "reached": reached}

    def _passed_on(self, insight: Insight) -> None:
        match insight.content:
            case codec.Produce() as produce if produce.transactional_id is not None:
                for _, _, batches in produce.partitions:
                    for batch in batches[:1]:
                        self._transaction(
                            batch.producer_id, batch.producer_epoch
                        ).records |= insight.subject.records
            case codec.Commit() as commit if commit.transactional_id is not None:
                transaction = self._transaction(commit.producer_id, commit.producer_epoch)
                transaction.records |= insight.subject.records
                for topic, partition, offset in commit.offsets:
                    transaction.positions[commit.group, (self._name(topic), partition)] = offset
            case _:
                pass

    def _refused(
        self, asked: codec.Joining | codec.Commit, call: Api, refused: Iterable[str]
    ) -> None:
        """Do not count refused requests: the protocol repeats them regularly, so a repetition shows
        nothing.
        """
        transaction = self._open.get((asked.producer_id, asked.producer_epoch))
        if transaction is not None:
            transaction.calls.subtract((call, what) for what in refused)

    def _transaction(self, producer_id: int, epoch: int) -> _Transaction:
        found = self._open.setdefault((producer_id, epoch), _Transaction())
        while len(self._open) > MAX_TRANSACTIONS:
            self._open.popitem(last=False)
        return found


def _again(kind: str, transaction: _Transaction, call: Api, what: str) -> list[Line]:
    """Say of each record of a transaction that something was asked for more than once, refusals not
    counted.
    """
    times = transaction.calls[call, what]
    if times < 2:  # noqa: PLR2004 - again is twice
        return []
    fields = {"api": call.label, "what": what, "times": times}
    return [Line(kind, {"record": record, **fields}) for record in sorted(transaction.records)]


def _visible(part: codec.FetchedPartition, *, read_committed: bool) -> Iterator[tuple[Batch, Item]]:
    """Yield what the consumer will see: no control records, and none of aborted transactions if it
    asked for that.
    """
    due = sorted(part.aborted, key=lambda gone: gone[1])
    aborted: set[int] = set()
    for batch in part.batches:
        while due and due[0][1] <= batch.last_offset:
            aborted.add(due.pop(0)[0])
        if batch.control:
            if batch.aborts:
                aborted.discard(batch.producer_id)
            continue
        if read_committed and batch.transactional and batch.producer_id in aborted:
            continue
        for item in batch.items:
            yield batch, item
