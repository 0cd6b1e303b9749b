"""What the frames of share groups are about: which records are acquired, acknowledged, and stored
with their state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import structs

from harness.model import events as kinds
from harness.model.events import Outcome
from harness.protocols.kafka import sharing
from harness.protocols.kafka.insights import Insight, unresolved, worst
from harness.protocols.kafka.kept import RecordCache
from harness.wire.rules import Subject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from harness.protocols.kafka.batches import Batch, Item

_STATES: Final = {
    sharing.AVAILABLE: "available",
    sharing.ACKNOWLEDGED: "acknowledged",
    sharing.ARCHIVED: "archived",
}


class Shares:
    """The bookkeeping of share groups. ``names``: topics by id; ``record_of`` finds a record's id.

    A reader may acknowledge only what it was given, so whatever is acknowledged was seen in a
    response before.
    """

    def __init__(self, names: Mapping[str, str], record_of: Callable[[Item], str | None]) -> None:
        self._names = names
        self._record_of = record_of
        self._kept = RecordCache()

    def asked(self, content: sharing.Content, request: str) -> Insight:
        """Return which records a request acknowledges, or stores with their state."""
        if not isinstance(content, sharing.Acknowledging | sharing.ShareState):
            return Insight(content=content, request=request)
        state = isinstance(content, sharing.ShareState)
        words = _STATES if state else sharing.HOW
        told: dict[str, str] = {}
        topics = set()
        forgotten: str | None = None
        for one in content.ranges:
            place = self._name(one.topic), one.partition
            for offset, said in one.each():
                record = self._kept.at(place, offset)
                if record is None:
                    forgotten = forgotten or self._kept.why_not_all(place, offset, offset + 1)
                else:
                    told[record] = words.get(said, str(said))
                    topics.add(self._name(one.topic))
        lines = tuple(
            kinds.ShareState(record=record, request=request, state=said)
            if state
            else kinds.Acknowledged(record=record, request=request, how=said)
            for record, said in told.items()
        )
        subject = Subject(frozenset(told), frozenset(topics))
        return Insight(
            subject,
            None,
            unresolved(topics, lines),
            forgotten=forgotten,
            content=content,
            request=request,
            lines=lines,
        )

    def answered(self, content: sharing.Content, asked: Insight, conn: int) -> Insight:
        """Return which records an answer delivers, and which acknowledgements it accepts."""
        if isinstance(content, sharing.ShareFetchAnswer):
            return self._given(content, asked, conn)
        if not isinstance(
            content, sharing.AcknowledgingAnswer | sharing.StateAnswer | sharing.MemberAnswer
        ):
            return Insight(asked.subject, content=content, because="its request could not be read")
        every, refused = content.error != 0, frozenset[str]()
        if isinstance(content, sharing.AcknowledgingAnswer):
            every, refused = content.whole != 0, self._refused(content, asked)
        return Insight(
            asked.subject,
            content.error,
            forgotten=asked.forgotten,
            content=content,
            request=asked.request,
            lines=_outcomes(asked, lambda record: every or record in refused),
        )

    def _given(self, answer: sharing.ShareFetchAnswer, asked: Insight, conn: int) -> Insight:
        lines: list[kinds.Fetched] = []
        topics: set[str] = set()
        for part in answer.partitions:
            name = self._name(part.topic)
            count = {offset: said for one in part.acquired for offset, said in one.each()}
            for batch, item, record in self._records(part.batches):
                self._kept.put((name, part.partition), item.offset, record)
                if item.offset in count:
                    topics.add(name)
                    lines.append(
                        kinds.Fetched(
                            record=record,
                            topic=name,
                            partition=part.partition,
                            offset=item.offset,
                            epoch=batch.epoch,
                            conn=conn,
                            deliveries=count[item.offset],
                        )
                    )
        refused = self._refused(answer.acknowledged, asked)
        every = answer.acknowledged.whole != 0
        outcomes = _outcomes(asked, lambda record: every or record in refused)
        subject = Subject(frozenset(line.record for line in lines), frozenset(topics))
        error = answer.error or worst(part.error for part in answer.partitions)
        return Insight(
            subject, error, unresolved(topics, lines), content=answer, lines=(*lines, *outcomes)
        )

    def _records(self, batches: tuple[Batch, ...]) -> Iterator[tuple[Batch, Item, str]]:
        for batch in batches:
            for item in batch.items:
                if (record := self._record_of(item)) is not None:
                    yield batch, item, record

    def _refused(self, answer: sharing.AcknowledgingAnswer, asked: Insight) -> frozenset[str]:
        """Return the records whose partition was answered by an error."""
        bad = {(topic, partition) for topic, partition, error in answer.errors if error}
        if not bad or not isinstance(asked.content, sharing.Acknowledging):
            return frozenset()
        records = (
            self._kept.at((self._name(one.topic), one.partition), offset)
            for one in asked.content.ranges
            if (one.topic, one.partition) in bad
            for offset, _ in one.each()
        )
        return frozenset(record for record in records if record is not None)

    def _name(self, topic: str) -> str:
        return self._names.get(topic, topic)


def _outcomes(asked: Insight, refused: Callable[[str], bool]) -> tuple[kinds.Event, ...]:
    """Return what became of each record that a request was about."""
    return tuple(
        structs.replace(line, outcome=Outcome.REFUSED if refused(line.record) else Outcome.TAKEN)
        for line in asked.lines
        if isinstance(line, kinds.Acknowledged | kinds.ShareState)
    )
