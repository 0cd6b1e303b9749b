"""Cross-checks between authorities: if one contradicts another, the instrument has not seen
everything.

Each authority is asked for what it alone knows. But every record that is downstream was upstream
before. A result that names its place in the log has a copy there. An observer that has read a log
has read every offset of it. A position lies inside its log. These checks judge the instrument,
never the system: an observer that misses half a partition can make a system look better or worse.

A check applies to every history whose plan is of its version or later
(:data:`~harness.model.plan.SEALED`). Every check looks at each line once.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from harness.judge import queuechecks
from harness.judge.producers import passed_open, unsettled
from harness.judge.statements import Statements, offset_in
from harness.model import events as kinds
from harness.model.events import CellPhase, Direction, RulePhase
from harness.model.places import Removal, Waiting, in_log, of_log, waits_in_log
from harness.model.requests import Request
from harness.model.scenario import Role
from harness.model.states import Hop

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from harness.model.history import History
    from harness.model.plan import Plan

KEPT_BACK = frozenset({RulePhase.DROPPED, RulePhase.DISCARDED})
"""Phases of a rule that mean that the frame was not forwarded."""


def contradiction(plan: Plan, history: History) -> str | None:
    """Say which two statements of the history contradict each other, or return ``None``."""
    told = Statements(plan, history)
    checks = (*_CHECKS, *(_SINCE_SEALED if plan.sealed else ()))
    return next(
        (why for check in checks if (why := check(told))), None
    ) or queuechecks.contradiction(plan, history)


def _stranger(told: Statements) -> str | None:
    """An event of an unknown kind: no count includes it."""
    unknown = Counter(e.kind for e in told.history.of(kinds.OfUnknownKind))
    if not unknown:
        return None
    return (
        "the history has events of kinds that lostack does not know: "
        f"{', '.join(sorted(unknown)[:3])}"
    )


def _other_plan(told: Statements) -> str | None:
    """A plan whose seal is not the one that the cell was begun with."""
    begun = next((e for e in told.history.of(kinds.Cell) if e.phase == CellPhase.BEGUN), None)
    seal = begun.seal if begun else None
    return (
        None
        if seal is None or seal == told.plan.seal
        else "the plan is not the one with which the cell began"
    )


def _no_source(told: Statements) -> str | None:
    """The source's cursor is unknown, or past its end."""
    position = max((e.position for e in told.history.of(kinds.Cursor)), default=None)
    if position is None:
        return "the history does not say where the source's cursor is"
    last = max(told.offered.values(), default=0)
    return (
        f"the history has the source's cursor at {position}, but the last record at {last}"
        if position > last + 1
        else None
    )


def _copied_twice(told: Statements) -> str | None:
    """Two copies at one offset, which no log can have."""
    for (_, topic, partition), copies in told.stored.items():
        at, count = Counter(map(offset_in, copies)).most_common(1)[0]
        if count > 1:
            return (
                f"the history has {count} copies in {topic}/{partition} at offset {at}: a log "
                "holds one copy at an offset"
            )
    return None


def _misplaced(told: Statements) -> str | None:
    """A line whose place and offset disagree."""
    for event in told.history.of(kinds.Stored, kinds.Recorded, kinds.Absorbed, kinds.Removed):
        offset = event.offset
        if offset is not None and event.place != (
            at := in_log(event.partition, event.epoch, offset, told.log(event)[0])
        ):
            return (
                f"an event about {event.record} ({event.event}) names two places: "
                f"{event.place} and {at}"
            )
    return None


def _waits_otherwise(told: Statements) -> str | None:
    """A copy in a log whose ``waiting`` contradicts the log and the saved position."""
    saved = told.saved()
    for (hop, topic, partition), copies in told.stored.items():
        log = told.logs.get((hop, topic, partition))
        position = saved.get(told.log(copies[0]), -1)
        read = {Hop.TOPIC: position, Hop.ASIDE: -1}.get(Hop(hop))
        for copy in copies:
            waits = waits_in_log(
                visible=copy.visible,
                offset=offset_in(copy),
                stable=log.stable if log else None,
                saved=read,
            )
            # only the observer knows whether a reader of the dead letters has taken this one
            taken = hop == Hop.ASIDE and waits is Waiting.READY and copy.waiting is None
            if copy.waiting != waits and not taken:
                at = f"{topic}/{partition} at {copy.offset}"
                said = (
                    f"the history says that the copy of {copy.record} in {at} waits for "
                    f"{copy.waiting or 'nothing'}"
                )
                return f"{said}, but by its log it waits for {waits or 'nothing'}"
    return None


def _homeless(told: Statements) -> str | None:
    """A result, or an absorbed copy, of a place where the log has no copy, or one of another
    record.

    It is no contradiction if the fault removed the copy from the log and a reader was seen to get
    it before. Nor is it one if the log gave a reader another record than it has: then the log is
    wrong (:mod:`harness.judge.logs`).
    """
    for event in told.history.of(kinds.Recorded, kinds.Absorbed):
        partition, offset = event.partition, event.offset
        if partition is None or offset is None or min(partition, offset) < 0:
            continue  # the result names no place
        log = told.log(event)
        if told.plan.forgets and (log, offset, event.record) in told.read:
            continue
        copy = told.held.get((log, offset))
        what = (
            f"{event.record or 'a result'} is {event.event} from partition {partition} "
            f"offset {offset}"
        )
        if copy is None:
            return f"{what}, where the log has no copy"
        if (log, offset, event.record) in told.given:
            continue
        if _differ(event, copy, told.offered):
            return f"{what}, where the log has {copy.record}"
    return None


def _differ(
    one: kinds.Recorded | kinds.Absorbed,
    other: kinds.Stored | kinds.Removed,
    offered: Mapping[str, int],
) -> bool:
    """Whether two lines are about two records of the source. A damaged or never offered one is a
    phantom.
    """
    names = {one.record, other.record}
    return (
        len(names) > 1
        and names <= offered.keys()
        and (isinstance(one, kinds.Absorbed) or one.intact)
        and (isinstance(other, kinds.Removed) or other.intact)
    )


def _kept_back(told: Statements) -> str | None:
    """A record that the wire kept from the broker, that was not sent again, and that the log has
    nevertheless.

    Either the wire did not do what it says, or the program has another way to the broker.
    """
    kept = {(e.topic, e.record) for e in told.history.of(kinds.Unsent) if e.topic is not None}
    if not kept:
        return None
    kept -= {(e.topic, e.record) for e in told.history.of(kinds.Sent)}
    copies = (*told.queued, *(copy for found in told.stored.values() for copy in found))
    arrived = next(
        (copy for copy in copies if (copy.topic or copy.queue, copy.record) in kept),
        None,
    )
    if arrived is None:
        return None
    queued = not of_log(arrived)
    where = arrived.place if queued else f"{arrived.topic}/{arrived.partition} at {arrived.offset}"
    has = "queue" if queued else "log"
    return (
        f"{arrived.record} was kept from the broker and not sent again, but the {has} has it: "
        f"{where}"
    )


def _both_ways(told: Statements) -> str | None:
    """A request that was both withheld by a rule and forwarded."""
    kept = {
        f"{e.conn}:{e.corr}"
        for e in told.history.of(kinds.Rule)
        if e.phase in KEPT_BACK and e.dir == Direction.REQUEST
    }
    sent = next((e for e in told.history.of(kinds.Sent) if e.request in kept), None)
    return (
        None
        if sent is None
        else (
            f"the wire reports that it dropped the request with {sent.record}, but also that "
            "it forwarded the request"
        )
    )


def _speechless(told: Statements) -> str | None:
    """A producer's requests and copies in the log, but no line about what any request carried."""
    if not told.known & told.offered.keys() or any(
        True for _ in told.history.of(kinds.Sent, kinds.Unsent)
    ):
        return None
    asked = (
        e
        for e in told.history.of(kinds.Frame)
        if e.dir == Direction.REQUEST and e.role == Role.PRODUCER
    )
    count = Counter(str(e.api) for e in asked)
    if not count:
        return None
    apis = Request.PRODUCE if count[Request.PRODUCE] else ", ".join(sorted(count)[:4])
    number = count[Request.PRODUCE] or count.total()
    return (
        f"the wire saw {number} {apis} requests of the producer, but reports of none which "
        "records it carried"
    )


def _not_given(told: Statements) -> str | None:
    """A record that the wire kept from every reader, and that has a result nevertheless."""
    fetched = [e for e in told.history.of(kinds.Fetched) if e.topic in told.mine]
    kept = {e.record for e in fetched if e.reached is False} - {
        e.record for e in fetched if e.reached is not False
    }
    found = next(
        (e.record for e in told.history.of(kinds.Recorded) if e.record in kept and e.intact),
        None,
    )
    return (
        None
        if found is None
        else f"{found} is recorded, but the wire reports that no answer with it reached a reader"
    )


def _saved_unasked(told: Statements) -> str | None:
    """A saved position that was committed only by requests that the wire kept from the broker."""
    asked = [e for e in told.history.of(kinds.Committed) if e.topic in told.mine]
    kept = {(told.log(e), e.offset) for e in asked if e.reached is False}
    kept -= {(told.log(e), e.offset) for e in asked if e.reached is not False}
    for saved in told.history.of(kinds.Position):
        if saved.where == "group" and (told.log(saved), saved.offset) in kept:
            at = f"{saved.offset} of {_named(saved)}"
            return (
                f"the position {at} is saved, but the wire reports that no request to save it "
                "reached the broker"
            )
    return None


def _nowhere(told: Statements) -> str | None:
    """A record that was acknowledged and is in the sink, but that no log has and no
    queue ever had.
    """
    if told.plan.forgets:
        return None
    recorded = {e.record for e in told.history.of(kinds.Recorded) if e.intact} & told.offered.keys()
    acked = (e.record for e in told.history.of(kinds.Acked) if e.hop != Hop.SINK)
    lost = next(
        (record for record in acked if record in recorded and record not in told.known), None
    )
    between = "log" if told.logs else "queue"
    return (
        None
        if lost is None
        else f"{lost} was acknowledged and is recorded, but the {between} has no copy of it"
    )


def _ahead(told: Statements) -> str | None:
    """A saved position past the end of its log; if the log was cut short, also past everything that
    was ever read of it.
    """
    ends = {
        (topic if told.plan.topics else "", partition): log.end
        for (topic, partition), log in told.of(Hop.TOPIC).items()
    }
    for place, offset, _ in told.read if told.plan.forgets else ():
        ends[place] = max(offset + 1, ends.get(place, 0))
    for saved in told.history.of(kinds.Position):
        end = ends.get(told.log(saved))
        if end is not None and saved.offset > end:
            ends_at = "was never read past" if told.plan.forgets else "ends at"
            return (
                f"the saved position of {_named(saved)} is {saved.offset}, but "
                f"its log {ends_at} {end}"
            )
    return None


def _unread(told: Statements) -> str | None:
    """A log or partition whose end, or saved position, was never asked for."""
    for hop in told.plan.logs:
        topics = {topic for at, topic, _ in told.logs if at == hop}
        several = told.plan.topics if hop == Hop.TOPIC else ()
        if missing := sorted({*several} - topics):
            return f"{missing[0]} was not read"
        if len(topics) != (len(several) or 1):
            return (
                f"the {hop} was not read"
                if not topics
                else f"{'other' if several else 'two'} topics were read as the {hop}: "
                f"{', '.join(sorted(topics))}"
            )
        for topic in sorted(topics):
            if why := _unread_of(told, hop, topic):
                return why
    return None


def _unread_of(told: Statements, hop: str, topic: str) -> str | None:
    """A partition of a topic whose end, or saved position, was never asked for."""
    size = told.partitions(hop, topic)
    read = {partition for at, of, partition in told.logs if (at, of) == (hop, topic)}
    if wrong := sorted(read ^ set(range(size))):
        return (
            f"{topic} has {size} partitions, but {topic}/{wrong[0]} was "
            f"{'' if wrong[0] in read else 'not '}read"
        )
    if hop != Hop.TOPIC:
        return None
    of = topic if told.plan.topics else ""
    saved = {partition for at, partition in told.saved() if at == of}
    if wrong := sorted(saved ^ set(range(size))):
        which = "a" if wrong[0] in saved else "no"
        return (
            f"{topic} has {size} partitions, but the history has {which} saved position "
            f"of {topic}/{wrong[0]}"
        )
    return None


def _named(saved: kinds.Position) -> str:
    """Name the log of a position."""
    return f"{saved.topic}/{saved.partition}" if saved.topic else f"partition {saved.partition}"


def _outside(told: Statements) -> str | None:
    """A copy outside the ends of its log, or a log whose last copy is not the last one that was
    read.
    """
    for place, copies in told.stored.items():
        if place not in told.logs:
            return (
                f"{place[1]}/{place[2]} holds copies, but the history does not say where this "
                "log begins and ends"
            )
        log = told.logs[place]
        for copy in copies:
            if not log.start <= offset_in(copy) < log.end:
                return (
                    f"{place[1]}/{place[2]} has a copy at {copy.offset}, but goes from "
                    f"{log.start} to {log.end}"
                )
    for (hop, topic, partition), log in told.logs.items():
        if not log.stable <= log.end:
            return (
                f"the last stable offset of {topic}/{partition} is {log.stable}, past its end "
                f"{log.end}"
            )
        last = max(
            (offset_in(e) for e in told.stored.get((hop, topic, partition), ()) if e.visible),
            default=-1,
        )
        if hop != Hop.CURSOR and last != log.last_data:
            said = (
                f"the history has the last visible copy of {topic}/{partition} at {log.last_data}"
            )
            return f"{said}, but the last one that was read is at {last}"
    return None


def _gaps(told: Statements) -> str | None:
    """Offsets without a copy that compaction did not take, in a log without transaction markers."""
    if _transactional(told.history):
        return None
    taken = {
        (e.topic, e.partition, offset_in(e))
        for e in told.history.of(kinds.Removed)
        if e.why == Removal.COMPACTION and of_log(e)
    }
    for (hop, topic, partition), log in told.logs.items():
        copies, size = told.stored.get((hop, topic, partition), ()), log.end - log.start
        count, there = len(copies), {offset_in(copy) for copy in copies}
        gone = {at for *log_of, at in taken if log_of == [topic, partition]} - there
        if hop != Hop.CURSOR and count + sum(log.start <= at < log.end for at in gone) != size:
            return (
                f"{topic}/{partition} goes from {log.start} to {log.end}, but {count} "
                "copies were read from it"
            )
    return None


def _transactional(history: History) -> bool:
    """Whether there may have been a transaction, by the wire and the programs."""
    sent = (e.transactional for e in history.of(kinds.Sent, kinds.Unsent))
    begun = (e.transactional_id is not None for e in history.of(kinds.InitProducer))
    said = any(True for _ in history.of(kinds.Transaction, kinds.EndTxn))
    return said or any(sent) or any(begun) or bool(unsettled(history))


def _other_results(told: Statements) -> str | None:
    """If the sink is a log: results that differ from its visible copies."""
    if Hop.SINK not in told.plan.logs:
        return None
    copies = (
        copy for (hop, _, _), found in told.stored.items() if hop == Hop.SINK for copy in found
    )
    logged = Counter(
        (copy.record, offset_in(copy)) for copy in copies if copy.visible and not copy.foreign
    )
    counted = Counter((e.record, e.order) for e in told.history.of(kinds.Recorded))
    differ = sorted(((logged - counted) + (counted - logged)).items(), key=str)
    if not differ:
        return None
    (record, at), _ = differ[0]
    return f"the sink's log and its results differ: {record} at {at}"


def _open(told: Statements) -> str | None:
    """A last stable offset past a transaction that cannot have ended, with a record that the log
    does not have where it was stored. If it is there, the log is wrong
    (:mod:`harness.judge.logs`).
    """
    for passed in passed_open(told.plan, told.history):
        copy = passed.copy
        if not passed.there:
            return (
                f"no request has ended the transaction of {passed.name}, and the log does not have "
                f"{copy.sent.record} at {copy.offset} of {copy.topic}/{copy.partition}, but the "
                f"history has {passed.log.stable} as the last stable offset"
            )
    return None


_CHECKS: tuple[Callable[[Statements], str | None], ...] = (
    _stranger,
    _other_plan,
    _no_source,
    _copied_twice,
    _misplaced,
    _waits_otherwise,
    _homeless,
    _nowhere,
    _ahead,
)
_SINCE_SEALED: tuple[Callable[[Statements], str | None], ...] = (
    _kept_back,
    _both_ways,
    _speechless,
    _not_given,
    _saved_unasked,
    _unread,
    _outside,
    _gaps,
    _other_results,
    _open,
)
