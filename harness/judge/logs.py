"""What no sound log does: the history shows that the broker, and nothing else, is wrong.

Each check speaks only of what the lines prove. The judge asks when the instrument is sound: the
authorities agree with each other, and the wire could read all that it had to.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, TypeAlias

from harness.judge.producers import passed_open, producers, unsettled
from harness.model import events as kinds
from harness.model.prediction import examples
from harness.model.states import Hop, LastHop

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from harness.judge.producers import Appended, Producer
    from harness.judge.readers import Readers
    from harness.judge.record_row import RecordRow
    from harness.model.history import History
    from harness.model.plan import Plan

Log: TypeAlias = tuple[str, int]
"""Topic and partition."""
_Spot: TypeAlias = tuple[str | None, tuple[int, int] | None]
"""Topic, and partition and offset."""
Held: TypeAlias = tuple[str | None, int]
"""A record and its leader epoch."""
_NOT_STORED: Final = (LastHop.SENT, LastHop.ACKED)
MOST: Final = 3
"""How many findings of a kind a reason names."""


def broken_log(plan: Plan, history: History, readers: Readers) -> str | None:
    """Say what the log did that no sound log does, or return ``None``."""
    found = [list(check(plan, history, readers)) for check in _CHECKS]
    said = [
        "; ".join((*each[:MOST], *((f"and {len(each) - MOST} more",) if len(each) > MOST else ())))
        for each in found
        if each
    ]
    return f"the log is wrong: {'; '.join(said)}" if said else None


def _logs(history: History) -> dict[Log, kinds.Log]:
    return {(e.topic, e.partition): e for e in history.of(kinds.Log) if e.hop != Hop.CURSOR}


def _replicas_differ(_: Plan, history: History, __: Readers) -> Iterator[str]:
    """Replicas that are in sync, and that differ below the high watermark."""
    files: dict[Log, dict[str, dict[int, Held]]] = defaultdict(lambda: defaultdict(dict))
    for e in history.of(kinds.Replica):
        files[e.topic, e.partition][e.node][e.offset] = (e.record, e.epoch)
    in_sync = {(e.topic, e.partition): e.isr for e in history.of(kinds.Leadership)}
    cleaned = {e.topic for e in history.of(kinds.Removed)}
    for (topic, partition), log in _logs(history).items():
        of_log = files.get((topic, partition), {})
        nodes = {
            node: held
            for node, held in sorted(of_log.items())
            if node in in_sync.get((topic, partition), of_log)
        }
        for offset in sorted({offset for held in nodes.values() for offset in held}):
            if not log.start <= offset < log.end:
                continue
            has = {node: held[offset] for node, held in nodes.items() if offset in held}
            # each replica removes old records at a time of its own
            lacks = () if topic in cleaned or log.start else sorted(nodes.keys() - has.keys())
            if len(set(has.values())) > 1 or lacks:
                yield (
                    f"the replicas of {topic}/{partition} differ at {offset}, below the high "
                    f"watermark {log.end}: {_by_node(has, lacks)}"
                )


def _by_node(has: Mapping[str, Held], lacks: Collection[str]) -> str:
    told = [
        f"{node} has {record or 'no record of the source'} (epoch {epoch})"
        for node, (record, epoch) in has.items()
    ]
    return ", ".join((*told, *(f"{node} has nothing" for node in lacks)))


def _given_otherwise(plan: Plan, history: History, readers: Readers) -> Iterator[str]:
    """Readers that were given different records at one offset of a partition, or a reader that was
    given another one than the log has.

    A log that was cut short may use an offset again, in a later epoch. So of a plan whose fault
    removes copies only one epoch counts.
    """
    at_rest: dict[_Spot, kinds.Stored] = {
        (e.topic, e.at): e for e in history.of(kinds.Stored) if e.at and e.record
    }
    first: dict[_Spot, kinds.Fetched] = {}
    told: set[_Spot] = set()
    for given in readers.fetched:
        at = (given.topic, given.at)
        before = first.setdefault(at, given)
        if before.record == given.record or at in told or not _must_agree(plan, before, given):
            continue
        told.add(at)
        yield (
            f"readers were given different records at {given.offset} of "
            f"{given.topic}/{given.partition}: {_reading(readers, before)}, and "
            f"{_reading(readers, given)}"
        )
    for at, given in first.items():
        copy = at_rest.get(at)
        if copy is None or copy.record == given.record or at in told:
            continue
        if _must_agree(plan, given, copy):
            yield (
                f"a reader was given {_reading(readers, given)} at {given.offset} of "
                f"{given.topic}/{given.partition}, and the log has {copy.record} there"
            )


def _must_agree(plan: Plan, one: kinds.OfCopy, other: kinds.OfCopy) -> bool:
    known = one.epoch is not None and one.epoch >= 0
    return not plan.forgets or (known and one.epoch == other.epoch)


def _reading(readers: Readers, given: kinds.Fetched) -> str:
    return f"{given.record} on connection {given.conn} {readers.seconds(given)}"


def _seen_early(plan: Plan, history: History, readers: Readers) -> Iterator[str]:
    """Records that readers of committed records were given before the wire had passed on the
    request to commit their transaction.
    """
    if plan.forgets or unsettled(history):
        return
    given: dict[tuple[str | None, int | None, int | None, str], kinds.Fetched] = {}
    for each in readers.fetched:
        if readers.committed_only(each):
            given.setdefault((each.topic, each.partition, each.offset, each.record), each)
    answered = {(e.by, e.request): e.t for e in history.of(kinds.EndTxnAnswer)}
    told = set()
    for name, producer in producers(history).items():
        for copy in producer.stored:
            spot = (copy.topic, copy.partition, copy.offset, copy.sent.record)
            reading = given.get(spot)
            if reading is None or spot in told:
                continue
            commit = _commit_of(copy, producer, answered, reading.by)
            if commit is not None and reading.t < commit.t:
                told.add(spot)
                yield (
                    f"{reading.record} was seen early: a reader of committed records was given it "
                    f"from {reading.topic}/{reading.partition} at {reading.offset} "
                    f"{readers.seconds(reading)}, before the wire passed on the request to commit "
                    f"its transaction of {name} {readers.seconds(commit)}"
                )


def _commit_of(
    copy: Appended, producer: Producer, answered: Mapping[tuple[str, str | None], int], by: str
) -> kinds.EndTxn | None:
    """Return the first request that can have committed a copy; ``None`` if the lines do not show
    which one it was.

    One that was on its way when the record was sent may have come later, and ended this
    transaction. Requests that two wires saw have no order.
    """
    commits = [end for end in producer.ends if isinstance(end, kinds.EndTxn) and end.commit]
    if {copy.sent.by, *(commit.by for commit in commits)} != {by}:
        return None
    sent = min(
        each.sent.t for each in producer.stored if _identity(each.sent) == _identity(copy.sent)
    )
    for commit in commits:
        if commit.t > sent:
            return commit
        if answered.get((commit.by, commit.request), sent) >= sent:
            return None
    return None


def _identity(sent: kinds.Sent) -> tuple[object, ...]:
    """Return what a repeated request shares with the first one."""
    return sent.record, sent.producer_id, sent.producer_epoch, sent.sequence


def _passes_open(plan: Plan, history: History, readers: Readers) -> Iterator[str]:
    """A last stable offset past a transaction that cannot have ended."""
    for passed in passed_open(plan, history):
        copy = passed.copy
        if passed.there:
            yield (
                f"no request has ended the transaction of {passed.name} with {copy.sent.record} at "
                f"{copy.offset} of {copy.topic}/{copy.partition} (sent "
                f"{readers.seconds(copy.sent)}), but the last stable offset is {passed.log.stable}"
            )


def _strayed(_: Plan, history: History, __: Readers) -> Iterator[str]:
    """Copies in another topic than the one to which their producer sent them.

    A copy names its attempt or its producer. The wire saw to which topic these sent the record.
    """
    asked: dict[tuple[str, object], set[str | None]] = defaultdict(set)
    for e in history.of(kinds.Sent, kinds.Unsent):
        for by in _senders(e.attempt, e.producer_id):
            asked[e.record, by].add(e.topic)
    for copy in history.of(kinds.Stored):
        if copy.at is None or copy.hop == Hop.ASIDE or copy.record is None or not copy.intact:
            continue
        for by in _senders(copy.attempt, copy.producer_id)[:1]:
            topics = asked.get((copy.record, by), set())
            if topics and not topics & {copy.topic, None}:
                to = examples({str(topic) for topic in topics})
                yield (
                    f"{copy.record} strayed: it was sent to {to}, and is in "
                    f"{copy.topic}/{copy.partition} at {copy.offset}"
                )


def went_elsewhere(history: History, rows: Iterable[RecordRow]) -> Iterator[str]:
    """Say to which topic lost records were sent, if they are in no log because every request with
    them named a topic that is none of the pipeline's.
    """
    mine = {e.topic for e in history.of(kinds.Log)} | {e.queue for e in history.of(kinds.Counted)}
    asked: dict[str, set[str | None]] = defaultdict(set)
    for sent in history.of(kinds.Sent, kinds.Unsent):
        asked[sent.record].add(sent.topic)
    strayed: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        topics = asked.get(row["record"], set())
        if mine and row["last_hop"] in _NOT_STORED and topics and not topics & {*mine, None}:
            strayed[", ".join(sorted(map(str, topics)))].add(row["record"])
    for there, records in sorted(strayed.items()):
        yield f"{examples(records)} strayed: sent to {there}, and not to {', '.join(sorted(mine))}"


def _senders(attempt: str | None, producer_id: int | None) -> list[tuple[str, object]]:
    """Return the names of who has sent a record, the most exact one first."""
    names: list[tuple[str, object]] = [] if attempt is None else [("attempt", attempt)]
    if producer_id is not None and producer_id >= 0:
        names.append(("producer", producer_id))
    return names


_CHECKS: tuple[Callable[[Plan, History, Readers], Iterator[str]], ...] = (
    _replicas_differ,
    _given_otherwise,
    _seen_early,
    _passes_open,
    _strayed,
)
