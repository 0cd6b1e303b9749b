"""What a cell's frames are about: which records a request or its answer carries, commits or ends.

This is pure bookkeeping over decoded frames. ``look_at_...`` returns what a frame is about. Then
the rules decide its fate. :meth:`Tracker.settle` is told whether the frame arrived, and returns its
history lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from harness.model import events as kinds
from harness.model.record import decode_id
from harness.protocols.kafka import codec
from harness.protocols.kafka.fetching import visible
from harness.protocols.kafka.insights import Insight, Place, subject_of, unresolved, worst
from harness.protocols.kafka.kept import RecordCache
from harness.protocols.kafka.shares import Shares
from harness.protocols.kafka.steps import DUPLICATE_SEQUENCE, Api
from harness.protocols.kafka.transactions import Transactions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from harness.model.identity import Identity
    from harness.protocols.kafka.batches import Item
    from harness.protocols.kafka.fetching import FetchSession


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
        self._logs = RecordCache()
        self._saved: dict[tuple[str, Place], int] = {}
        self._transactions = Transactions(self._saved)
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
                return self._transactions.end(content, request)
            case codec.Markers():
                return self._transactions.mark(content)
            case codec.Transactional():
                return self._transactions.call(content, request)
            case _:
                return Insight(content=content, request=request)

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
                return self._transactions.end_answer(content, end, asked)
            case codec.JoiningAnswer(), codec.Joining() as joining:
                everything = joining.what if content.error else ()
                self._transactions.refused(
                    joining, joining.api, everything if content.refused is None else content.refused
                )
                return Insight(asked.subject, content.error, content=content)
            case _:
                return Insight(
                    asked.subject, content=content, because="its request could not be read"
                )

    def _record(self, item: Item) -> str | None:
        if self._identity is None:
            return decode_id(item.value)
        return self._identity.find(item.key, item.value, item.headers)

    def _name(self, topic: str) -> str:
        return self._names.get(topic, topic)

    def _produce(self, produce: codec.Produce, request: str) -> Insight:
        lines: list[kinds.Event] = []
        copies: list[tuple[Place, int, str]] = []
        topics = {self._name(topic) for topic, _, _ in produce.partitions}
        for topic, partition, batches in produce.partitions:
            place = topic, partition
            for batch in batches:
                first, base = batch.base_offset, batch.base_sequence
                for item in batch.items:
                    record = self._record(item)
                    if record is None:
                        continue
                    delta = item.offset - first
                    copies.append((place, delta, record))
                    sequence = (base + delta) & 0x7FFFFFFF if base >= 0 else -1
                    lines.append(
                        kinds.Sent(
                            record=record,
                            topic=self._name(topic),
                            partition=partition,
                            request=request,
                            producer_id=batch.producer_id,
                            producer_epoch=batch.producer_epoch,
                            base=base,
                            sequence=sequence,
                            transactional=batch.transactional,
                            transactional_id=produce.transactional_id,
                            attempt=item.attempt,
                        )
                    )
        subject = subject_of({record for _, _, record in copies}, topics, produce.transactional_id)
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
        lines: list[kinds.Event] = []
        for place, delta, record in asked.copies:
            error, base = told.get(place, (None, -1))
            offset = base + delta if error == 0 and base >= 0 else -1
            lines.append(
                kinds.ProduceAnswer(
                    record=record,
                    request=asked.request,
                    error=error,
                    base_offset=base,
                    offset=offset,
                    repeated=error == DUPLICATE_SEQUENCE,
                )
            )
        error = worst(error for error, _ in told.values())
        return Insight(
            asked.subject, error, content=answer, request=asked.request, lines=tuple(lines)
        )

    def _fetch_answer(self, answer: codec.FetchAnswer, session: FetchSession, conn: int) -> Insight:
        lines: list[kinds.Event] = []
        records: set[str] = set()
        topics: set[str] = set()
        for part in answer.partitions:
            name = self._name(part.topic)
            start = session.positions.get((part.topic, part.partition), -1)
            for batch, item in visible(part, read_committed=session.read_committed):
                record = self._record(item)
                if record is None or item.offset < start:
                    continue
                topics.add(name)
                records.add(record)
                if session.follower >= 0:
                    lines.append(
                        kinds.Replicated(
                            record=record,
                            topic=name,
                            partition=part.partition,
                            offset=item.offset,
                            epoch=batch.epoch,
                            conn=conn,
                            follower=session.follower,
                        )
                    )
                    continue
                self._logs.put((name, part.partition), item.offset, record)
                lines.append(
                    kinds.Fetched(
                        record=record,
                        topic=name,
                        partition=part.partition,
                        offset=item.offset,
                        epoch=batch.epoch,
                        conn=conn,
                    )
                )
        error = answer.error or worst(part.error for part in answer.partitions)
        subject = subject_of(records, topics, None)
        return Insight(
            subject, error, unresolved(topics, lines), content=answer, lines=tuple(lines)
        )

    def _commit(self, commit: codec.Commit, request: str) -> Insight:
        lines: list[kinds.Event] = []
        records: set[str] = set()
        forgotten: str | None = None
        topics = {self._name(topic) for topic, _, _ in commit.offsets}
        if commit.transactional_id is not None:
            calls = self._transactions.of(commit.producer_id, commit.producer_epoch).calls
            calls.update(
                (Api.TXN_OFFSET_COMMIT, f"{topic}/{partition} {offset}")
                for topic, partition, offset in commit.offsets
            )
        for topic, partition, offset in commit.offsets:
            place = (self._name(topic), partition)
            low = self._saved.get((commit.group, place), -1)
            records.update(self._logs.between(place, low, offset))
            forgotten = forgotten or self._logs.why_not_all(place, low, offset)
            lines.append(
                kinds.Committed(
                    topic=place[0],
                    partition=partition,
                    offset=offset,
                    request=request,
                    group=commit.group,
                    transactional_id=commit.transactional_id,
                )
            )
        subject = subject_of(records, topics, commit.transactional_id)
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
            kinds.CommitAnswer(
                topic=self._name(topic),
                partition=partition,
                error=error,
                offset=offsets.get((topic, partition), -1),
                request=asked.request,
                group=commit.group,
            )
            for topic, partition, error in answer.errors
        ]
        refused = (
            f"{topic}/{partition} {offsets.get((topic, partition))}"
            for topic, partition, error in answer.errors
            if error
        )
        self._transactions.refused(commit, Api.TXN_OFFSET_COMMIT, refused)
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

    # -- settling ----------------------------------------------------------------------------------

    def settle(self, insight: Insight, *, reached: bool) -> Iterator[kinds.Event]:
        """Yield the history lines of a frame, now that it is known whether it arrived
        (``reached``).
        """
        if reached:
            self._passed_on(insight)
        for line in insight.lines:
            if not isinstance(line, kinds.Sent):
                yield structs.replace(line, reached=reached)
            else:
                yield line if reached else kinds.Unsent(**structs.asdict(line))

    def _passed_on(self, insight: Insight) -> None:
        match insight.content:
            case codec.Produce() as produce if produce.transactional_id is not None:
                for _, _, batches in produce.partitions:
                    for batch in batches[:1]:
                        self._transactions.of(
                            batch.producer_id, batch.producer_epoch
                        ).records |= insight.subject.records
            case codec.Commit() as commit if commit.transactional_id is not None:
                transaction = self._transactions.of(commit.producer_id, commit.producer_epoch)
                transaction.records |= insight.subject.records
                for topic, partition, offset in commit.offsets:
                    transaction.positions[commit.group, (self._name(topic), partition)] = offset
            case _:
                pass
