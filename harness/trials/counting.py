"""What the wire counted in one run of a user's test, by record. Pure."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from harness.model import events as kinds
from harness.model.semantics import Anomaly, Semantic, forbids
from harness.protocols.kafka.steps import Api, error_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from harness.model.history import Event

_VARIES: Final = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}|[0-9a-fA-F]{8,}|\d+")
"""What usually differs from run to run in a topic's name."""


class RecordFate(StrEnum):
    """What became of a record."""

    DELIVERED = "delivered"
    """An answer with it arrived at a reader."""
    STORED = "stored"
    """The broker has it. In a topic that the test reads it is left there."""
    LOST = "lost"
    """It was never stored, or its readers have passed it."""
    ABORTED = "aborted"
    """All its copies are in aborted transactions."""
    UNSURE = "unsure"
    """No answer tells whether it was stored."""


def kind_of(topic: str) -> str:
    """Return a topic's name without what usually differs from run to run.

    >>> kind_of("orders-6f9619ff-8b86-d011-b42d-00cf4fc964ff"), kind_of("orders-17")
    ('orders-*', 'orders-*')
    """
    return _VARIES.sub("*", topic)


def id_of(record: str, pattern: str | None) -> str | None:
    """Return a record's id: the record itself, as JSON, or what a pattern finds in its value, else
    in its key, else in a header.
    """
    if pattern is None:
        return record
    whole = json.loads(record)
    for text in (whole["value"], whole["key"], *whole["headers"].values()):
        found = re.search(pattern, text or "")
        if found is not None:
            return found.group(found.re.groups)
    return None


@dataclass(frozen=True, slots=True)
class _Place:
    topic: str
    partition: int
    offset: int


@dataclass(slots=True)
class _RecordTraffic:
    """What was seen of one record of a topic."""

    waiting: set[str] = field(default_factory=set)
    """Requests with it that no answer has told of."""
    stored: set[_Place] = field(default_factory=set)
    fetched: dict[_Place, list[int]] = field(default_factory=lambda: defaultdict(list))
    """By place: when it arrived at a reader."""
    sent: bool = False


@dataclass(frozen=True, slots=True)
class LeastCounts:
    """What each run without a fault had at least: different records, delivered ones, and how often
    each of these was read.
    """

    offered: int = 0
    delivered: int = 0
    times: int = 0


@dataclass(frozen=True, slots=True)
class Topic:
    """What was counted in the topics of one kind. ``readers``: the most often that one place was
    read; ``reads``: how often all of them were. ``copies``: of each duplicated record, how many too
    many. ``again``: records that were read more often than usual from one place, of which nothing
    shows that a program got them twice. ``seldom``: those that were read less often than usual.
    """

    offered: int
    fates: Mapping[str, RecordFate]
    copies: Mapping[str, int]
    again: tuple[str, ...]
    unnamed: int
    readers: int
    reads: int = 0
    seldom: tuple[str, ...] = ()
    least: LeastCounts = LeastCounts()

    @property
    def read(self) -> bool:
        """Whether every record was read, but for those of aborted transactions."""
        fates = set(self.fates.values())
        return RecordFate.DELIVERED in fates and fates <= {RecordFate.DELIVERED, RecordFate.ABORTED}

    def of(self, fate: RecordFate) -> list[str]:
        """Return the records with a fate."""
        return [record for record, each in self.fates.items() if each is fate]


class Count:
    """Counts the events of one run. ``usual``: what was counted without a fault, by kind of
    topic.
    """

    def __init__(
        self,
        events: Iterable[Event],
        usual: Mapping[str, Topic] | None = None,
        pattern: str | None = None,
    ) -> None:
        self._usual = usual or {}
        self._pattern = pattern
        self._seen: defaultdict[tuple[str, str], _RecordTraffic] = defaultdict(_RecordTraffic)
        self._unnamed: Counter[str] = Counter()
        self._asked: dict[tuple[str, str], kinds.Sent | kinds.Unsent] = {}
        self._commits: defaultdict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
        """By partition: when a group asked to save which position."""
        self._passed: Counter[tuple[str, int]] = Counter()
        """By partition: the highest position that was saved, or read."""
        self._lowest: dict[tuple[str, int], int] = {}
        self._transactions = _Transactions()
        ordered = sorted(events, key=lambda event: event.t)
        for event in ordered:
            self._sent(event)
        self._new = {*self._lowest, *self._in_doubt()}
        """The partitions in which a record of this run may be."""
        for event in ordered:
            self._read(event)

    def topics(self) -> dict[str, Topic]:
        """Return what was counted, by kind of topic: those that records were sent to."""
        of: defaultdict[str, dict[tuple[str, str], _RecordTraffic]] = defaultdict(dict)
        of.update({kind: {} for kind, count in self._unnamed.items() if count})
        for (topic, record), seen in self._seen.items():
            if seen.sent:
                of[kind_of(topic)][topic, record] = seen
        return {kind: self._topic(kind, of[kind]) for kind in of}

    def _topic(self, kind: str, seen: Mapping[tuple[str, str], _RecordTraffic]) -> Topic:
        usual = self._usual.get(kind)
        readers = max((len(t) for each in seen.values() for t in each.fetched.values()), default=0)
        most = usual.readers if usual else readers
        fates: dict[str, RecordFate] = {}
        copies: dict[str, int] = {}
        again, seldom, times = [], [], []
        same = Counter(record for _, record in seen)
        for (topic, record), each in seen.items():
            name = record if same[record] == 1 else f"{_short(record)} in {topic}"
            fates[name] = self._fate(each)
            visible = self._visible(each)
            twice = [place for place, read in each.fetched.items() if len(read) > most]
            proved = [place for place in twice if most == 1 and self._worked_twice(place, each)]
            more = max(len(visible) - 1, 0) + len(proved)
            if more:
                copies[name] = more
            if len(proved) < len(twice):
                again.append(name)
            if fates[name] is RecordFate.DELIVERED:
                times.append(sum(len(each.fetched.get(place, ())) for place in visible))
                seldom += [name] if usual and times[-1] < usual.least.times else []
        least = LeastCounts(len(seen), len(times), min(times, default=0))
        return Topic(
            len(seen),
            fates,
            copies,
            tuple(again),
            self._unnamed[kind],
            readers,
            sum(times),
            tuple(seldom),
            least,
        )

    # -- reading -----------------------------------------------------------------------------------

    def _of(self, topic: str | None, record: str) -> _RecordTraffic | None:
        found = id_of(record, self._pattern)
        return None if found is None else self._seen[topic or "", found]

    def _sent(self, event: Event) -> None:
        """Take an event about what was sent."""
        self._transactions.take(event)
        if isinstance(event, kinds.Sent | kinds.Unsent):
            self._asked[event.request, event.record] = event
            seen = self._of(event.topic, event.record)
            self._unnamed[kind_of(event.topic or "")] += seen is None
            if seen is not None:
                seen.sent = True
                if isinstance(event, kinds.Sent):
                    seen.waiting.add(event.request)
        elif isinstance(event, kinds.ProduceAnswer):
            asked = self._asked.get((event.request, event.record))
            seen = self._of(asked.topic, event.record) if asked is not None else None
            if asked is None or seen is None:
                return
            if event.error == 0 and event.offset is not None and event.offset >= 0:
                place = _Place(asked.topic or "", asked.partition or 0, event.offset)
                seen.stored.add(place)
                seen.waiting.discard(event.request)
                at = place.topic, place.partition
                self._lowest[at] = min(place.offset, self._lowest.get(at, place.offset))
                self._transactions.put(place, asked)
            elif _undone(event.error):
                seen.waiting.discard(event.request)

    def _in_doubt(self) -> Iterator[tuple[str, int]]:
        """Yield the partitions that a request went to of which no answer tells."""
        for (request, record), asked in self._asked.items():
            seen = self._of(asked.topic, record)
            if seen is None or request in seen.waiting:
                yield asked.topic or "", asked.partition or 0

    def _read(self, event: Event) -> None:
        """Take an event about what was read. What lay there before the run is none of it."""
        if isinstance(event, kinds.Fetched) and event.reached:
            partition, offset = event.at or (-1, -1)
            place = _Place(event.topic or "", partition, offset)
            at = place.topic, partition
            if at not in self._new or offset < self._lowest.get(at, offset):
                return
            seen = self._of(event.topic, event.record)
            if seen is not None:
                seen.fetched[place].append(event.t)
            self._passed[at] = max(self._passed[at], offset)
        elif isinstance(event, kinds.Committed):
            self._commits[event.topic or "", event.partition].append((event.t, event.offset))
        elif isinstance(event, kinds.CommitAnswer) and event.error == 0:
            at = event.topic or "", event.partition
            self._passed[at] = max(self._passed[at], event.offset or 0)

    # -- concluding --------------------------------------------------------------------------------

    def _visible(self, seen: _RecordTraffic) -> set[_Place]:
        return (seen.stored | set(seen.fetched)) - self._transactions.hidden

    def _fate(self, seen: _RecordTraffic) -> RecordFate:
        visible = self._visible(seen)
        if any(place in seen.fetched for place in visible):
            return RecordFate.DELIVERED
        if any(
            self._passed[place.topic, place.partition] > place.offset
            for place in visible
            if self._usual_of(place.topic)
        ):
            return RecordFate.LOST
        if visible:
            return RecordFate.STORED
        if seen.waiting or any(place in self._transactions.open for place in seen.stored):
            return RecordFate.UNSURE
        return RecordFate.ABORTED if seen.stored else RecordFate.LOST

    def _usual_of(self, topic: str) -> bool:
        usual = self._usual.get(kind_of(topic))
        return usual is not None and usual.read

    def _worked_twice(self, place: _Place, seen: _RecordTraffic) -> bool:
        """Whether a group went behind this place, read it again, and went behind it again."""
        times = seen.fetched[place]
        behind = [
            t for t, offset in self._commits[place.topic, place.partition] if offset > place.offset
        ]
        return any(times[0] < t < times[-1] for t in behind) and any(t > times[-1] for t in behind)


class _Transactions:
    """Which places no reader of committed records sees."""

    def __init__(self) -> None:
        self._places: defaultdict[int, set[_Place]] = defaultdict(set)
        self._ends: dict[str, kinds.EndTxn] = {}
        self._producers: dict[str, int] = {}
        """By transactional id."""
        self._ending: set[int] = set()
        """Producers whose commit went to the broker, and no answer tells of it."""
        self.hidden: set[_Place] = set()
        self.open: set[_Place] = set()
        """Those whose transaction has not ended yet; they are hidden as well."""

    def put(self, place: _Place, asked: kinds.Sent | kinds.Unsent) -> None:
        """Take a stored record."""
        if asked.transactional and asked.producer_id is not None:
            self._places[asked.producer_id].add(place)
            self._producers[asked.transactional_id or ""] = asked.producer_id
            self.hidden.add(place)
            self.open.add(place)

    def take(self, event: Event) -> None:
        """Take an event about the end of a transaction."""
        if isinstance(event, kinds.EndTxn) and event.request is not None:
            self._ends[event.request] = event
            if event.commit and event.reached is not False and event.producer_id is not None:
                self._ending.add(event.producer_id)
        elif isinstance(event, kinds.InitProducer):
            self._replace(event)
        elif isinstance(event, kinds.EndTxnAnswer):
            end = self._ends.get(event.request or "")
            if end is None or end.producer_id is None:
                return
            self._ending.discard(end.producer_id)
            if event.error == 0:
                places = self._places.pop(end.producer_id, set())
                self.open -= places
                if end.commit:
                    self.hidden -= places

    def _replace(self, event: kinds.InitProducer) -> None:
        """Take a successor: the broker aborts what its predecessor has left open."""
        producer = self._producers.get(event.transactional_id or "")
        if event.reached is not False and producer is not None and producer not in self._ending:
            self.open -= self._places.pop(producer, set())


def _undone(error: int | str | None) -> bool:
    """Whether an error says that the request was not carried out."""
    if not isinstance(error, int) or error == 0:
        return False
    return Api.PRODUCE.errors.get(error_name(error)) is False


def merged(first: Mapping[str, Topic], second: Mapping[str, Topic]) -> dict[str, Topic]:
    """Return what both runs without a fault have shown of each kind of topic."""
    return {
        kind: Topic(
            max(one.offered, other.offered),
            (other if one.read else one).fates,
            max(one.copies, other.copies, key=len),
            (),
            max(one.unnamed, other.unnamed),
            max(one.readers, other.readers),
            max(one.reads, other.reads),
            least=LeastCounts(
                min(one.least.offered, other.least.offered),
                min(one.least.delivered, other.least.delivered),
                min(one.least.times, other.least.times),
            ),
        )
        for kind, one in first.items()
        if (other := second.get(kind)) is not None
    }


class ClaimResult(StrEnum):
    """What a run says of a claim."""

    KEPT = "kept"
    BROKEN = "broken"
    NOT_JUDGED = "not judged"
    VOID = "void"


def judged(
    claims: Semantic, topics: Mapping[str, Topic], usual: Mapping[str, Topic]
) -> tuple[ClaimResult, str]:
    """Return what a run says of a claim, and why."""
    found: list[tuple[ClaimResult, str]] = []
    if not topics:
        return ClaimResult.NOT_JUDGED, "no record was sent through the wire"
    for kind, topic in topics.items():
        why = _untold(kind, topic, usual.get(kind))
        if why is not None:
            found.append((ClaimResult.NOT_JUDGED, why))
            continue
        lost, copies = topic.of(RecordFate.LOST), topic.copies
        if lost and forbids(claims, Anomaly.LOST):
            found.append((ClaimResult.BROKEN, f"{len(lost)} of {kind} lost: {_first(lost)}"))
        if copies and forbids(claims, Anomaly.DUPLICATED):
            said = f"{len(copies)} of {kind} duplicated: {_first(tuple(copies))}"
            found.append((ClaimResult.BROKEN, said))
        found += [
            (ClaimResult.NOT_JUDGED, each) for each in _open(claims, kind, topic, usual[kind])
        ]
    if forbids(claims, Anomaly.LOST):
        found += [
            (ClaimResult.NOT_JUDGED, _fewer(kind, 0, each.least.offered))
            for kind, each in usual.items()
            if kind not in topics
        ]
    worst = [each for each in found if each[0] is ClaimResult.BROKEN] or found
    if worst:
        return worst[0][0], "; ".join(why for word, why in worst if word is worst[0][0])
    return ClaimResult.KEPT, "; ".join(_counts(kind, topic) for kind, topic in topics.items())


def _untold(kind: str, topic: Topic, usual: Topic | None) -> str | None:
    """Say why the records of a topic cannot be told from each other."""
    if usual is None:
        return f"{kind}: no such topic without a fault"
    if topic.unnamed:
        return f"{kind}: --id finds no id in {topic.unnamed} of the records"
    if usual.copies:
        return (
            f"{kind}: {len(usual.copies)} records are there more than once without a fault, so "
            "they cannot be told: --id PATTERN says what differs in each"
        )
    if topic.offered > usual.offered:
        return (
            f"{kind}: {topic.offered} different records, {usual.offered} without a fault: which "
            "are the same cannot be told; --id PATTERN says what stays in each"
        )
    return None


def _open(claims: Semantic, kind: str, topic: Topic, usual: Topic) -> Iterable[str]:
    """Yield why a claim stays open."""
    if forbids(claims, Anomaly.LOST):
        left, there = len(topic.of(RecordFate.STORED)), len(topic.of(RecordFate.DELIVERED))
        if topic.offered < usual.least.offered:
            yield _fewer(kind, topic.offered, usual.least.offered)
        if left and usual.read:
            yield f"{kind}: {left} are left in the topic: the test ended before they were read"
        elif left and there < usual.least.delivered:
            yield f"{kind}: {there} delivered, {usual.least.delivered} without a fault"
        if topic.seldom:
            yield (
                f"{kind}: {len(topic.seldom)} were read less often than without a fault, each at "
                f"least {usual.least.times} times there: {_first(topic.seldom)}"
            )
        for fate in (RecordFate.UNSURE, RecordFate.ABORTED):
            some = topic.of(fate)
            if some and len(some) > len(usual.of(fate)):
                yield f"{kind}: of {len(some)} it is {fate} whether they arrive: {_first(some)}"
    if forbids(claims, Anomaly.DUPLICATED) and topic.again:
        yield (
            f"{kind}: {len(topic.again)} were read again from the same place; the wire cannot tell "
            f"whether a program got them twice: {_first(topic.again)}"
        )
    elif forbids(claims, Anomaly.DUPLICATED) and topic.reads > usual.reads and not topic.copies:
        yield (
            f"{kind}: records were read {topic.reads} times, {usual.reads} without a fault; the "
            "wire cannot tell whether a program got one twice"
        )


def _fewer(kind: str, there: int, usual: int) -> str:
    return (
        f"{kind}: {there or 'no'} different records, {usual} without a fault: the others were "
        "never sent"
    )


def _counts(kind: str, topic: Topic) -> str:
    """Say what was counted.

    >>> fates = {"a": RecordFate.LOST, "b": RecordFate.DELIVERED}
    >>> _counts("orders", Topic(2, fates, {"b": 1}, (), 0, 1))
    'orders: 1 of 2 delivered, 1 lost, 1 duplicated'
    """
    by = Counter(topic.fates.values())
    delivered, rest = (
        by.pop(RecordFate.DELIVERED, 0),
        [f"{by[fate]} {fate}" for fate in RecordFate if by[fate]],
    )
    said = [f"{delivered} of {topic.offered} delivered", *rest]
    said += [f"{len(topic.copies)} duplicated"] if topic.copies else []
    said += [f"{len(topic.again)} read again"] if topic.again else []
    return f"{kind}: {', '.join(said)}"


def _first(records: Sequence[str]) -> str:
    """Name some records: by key and value, where they are known whole."""
    return ", ".join(map(_short, records[:3])) + (" …" if len(records) > 3 else "")  # noqa: PLR2004


def _short(record: str) -> str:
    try:
        whole = json.loads(record)
        text = f"{whole['key']}: {whole['value']}" if whole["key"] else str(whole["value"])
    except (ValueError, KeyError, TypeError):
        text = record
    return text if len(text) <= 60 else f"{text[:59]}…"  # noqa: PLR2004
