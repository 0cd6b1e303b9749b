"""The session guarantees that a declaration claims: whether each reader and writer kept them.

Nothing is assumed. What the lines of the wire do not show is not judged, and the verdict says so.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from harness.judge.sessions import NOBODY, Sessions, by_log
from harness.model import events as kinds
from harness.model.prediction import examples
from harness.model.semantics import Guarantee

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from harness.judge.sessions import Acknowledged, GivenRange, Log, Position, Saved
    from harness.model.history import History
    from harness.model.plan import Plan

MOST: Final = 3
"""How many findings of a kind a reason names."""


@dataclass
class GuaranteeResult:
    """What was found of one guarantee. ``judged``: how many of each kind (readers, writers, saved
    positions) showed enough to be judged; ``unseen``: why others were not.
    """

    wrong: list[str] = field(default_factory=list)
    judged: Counter[str] = field(default_factory=Counter)
    unseen: list[str] = field(default_factory=list)


class Guarantees:
    """The guarantees of one cell's plan, held against its history."""

    def __init__(self, plan: Plan, history: History) -> None:
        self._found: dict[Guarantee, GuaranteeResult] = {}
        if not plan.guarantees:
            return
        sessions = Sessions(history)
        for claimed in plan.guarantees:
            self._found[claimed] = _CHECKS[claimed](plan, history, sessions)

    def broken(self) -> str | None:
        """Say which guarantee was not kept, by whom and when, or return ``None``."""
        said = [
            f"{claimed} is claimed: {'; '.join(_first(found.wrong))}"
            for claimed, found in self._found.items()
            if found.wrong
        ]
        return "; ".join(said) or None

    def told(self) -> Iterator[str]:
        """Yield what was judged of each guarantee, and what was not."""
        for claimed, found in self._found.items():
            kept = ", ".join(_counted(what, count) for what, count in found.judged.items() if count)
            if kept:
                yield f"{claimed} kept by {kept}"
            for why in found.unseen or (
                [] if kept else ["anybody: no line shows a reader or writer"]
            ):
                yield f"{claimed} not judged of {why}"


def _first(said: list[str]) -> list[str]:
    more = len(said) - MOST
    return [*said[:MOST], *((f"and {more} more",) if more > 0 else ())]


def _counted(what: str, count: int) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


# --- monotonic ------------------------------------------------------------------------------------


def _monotonic(plan: Plan, history: History, sessions: Sessions) -> GuaranteeResult:
    """Readers that skip, readers that go back, positions that go back, writes that are acknowledged
    at lower offsets than earlier ones.
    """
    found = GuaranteeResult()
    read = [each for each in sessions.stretches.values() if each.role in sessions.placed]
    connections = {(each[0], each[1]) for each in _connections(sessions, read)}
    found.judged["reading connection"] = len(connections)
    if plan.forgets:
        found.unseen.append("skips: the fault removes records from the log")
    else:
        found.wrong += _skips(history, read)
    found.wrong += _backward(sessions, read)
    saved = {log: each for log, each in sessions.positions.items() if len(each) > 1}
    found.judged["saved position"] = len(saved)
    found.wrong += _positions_back(sessions, saved)
    found.judged["written partition"] = sum(
        len(each) > 1 for each in by_log(sessions.writes).values()
    )
    found.wrong += _writes_back(sessions)
    found.unseen += _unplaced(sessions)
    return found


def _connections(sessions: Sessions, read: list[GivenRange]) -> Iterator[tuple[str, int | None]]:
    wanted = {id(each) for each in read if len(each.given) > 1}
    return (conn for (conn, _, _), each in sessions.stretches.items() if id(each) in wanted)


def _unplaced(sessions: Sessions) -> Iterator[str]:
    """Say which readers cannot be judged."""
    roles = {each.role for each in sessions.stretches.values()}
    for role in sorted(roles - sessions.placed):
        yield f"the readers of {_stage(role)}: they ask for no saved position"
    for role in sorted(role for role in roles & sessions.placed if len(sessions.groups[role]) > 1):
        yield (
            f"backward polls of {_stage(role)}: it has {len(sessions.groups[role])} groups, and no "
            "line says which connection reads for which"
        )


def _stage(role: str) -> str:
    return "a stage that no line names" if role == NOBODY else f"the {role}"


def _skips(history: History, read: list[GivenRange]) -> Iterator[str]:
    """Visible records of a log that a reader was not given, though it was given one before and one
    behind it, in one session on one connection.

    A record counts only if the wire has read its id somewhere in that topic: else the reader may
    have been given it unseen.
    """
    readable = {(e.topic, e.record) for e in history.of(kinds.Sent, kinds.Fetched)}
    visible: dict[Log, dict[int, str]] = defaultdict(dict)
    for copy in history.of(kinds.Stored):
        if copy.topic is None or copy.at is None or copy.record is None or not copy.visible:
            continue
        if copy.intact and (copy.topic, copy.record) in readable:
            visible[copy.topic, copy.at[0]][copy.at[1]] = copy.record
    for stretch in read:
        given = stretch.offsets
        lowest, highest = min(given), max(given)
        for offset, record in sorted(visible[stretch.log].items()):
            if lowest < offset < highest and offset not in given:
                before = max(each for each in given if each < offset)
                behind = min(each for each in given if each > offset)
                yield (
                    f"{_stage(stretch.role)} skipped {record} at {offset} of {_log(stretch.log)}: "
                    f"it was given {before} and {behind} on connection "
                    f"{stretch.given[0].line.conn}, and not this one"
                )


def _backward(sessions: Sessions, read: list[GivenRange]) -> Iterator[str]:
    """Records that a reader was given although its group had saved a position behind them.

    In one session it must have been given a later one before: else it may be a member that has lost
    the partition and does not know it. After a start of the whole stage there is no such member.
    A library may fetch again what it has thrown away; that is never behind a saved position.
    """
    for stretch in read:
        highest = -1
        for given in stretch.given:
            offset, asked = int(given.line.offset or 0), given.asked
            back, highest = offset < highest, max(highest, offset)
            if asked is None:
                continue
            group = sessions.only_group(stretch.role)
            if group is None:
                continue
            saved = sessions.saved_before(stretch.role, stretch.log, asked) if back else None
            if saved is None:
                saved = sessions.begins.get((stretch.role, (group, *stretch.log)))
            if saved is not None and saved.t < asked and offset < saved.offset:
                yield (
                    f"{_stage(stretch.role)} went back: it was given {given.line.record} at "
                    f"{offset} of {_log(stretch.log)} {sessions.seconds(given.line.t)}, and the "
                    f"group {group} had saved position {saved.offset} {sessions.seconds(saved.t)}"
                )


def _positions_back(sessions: Sessions, logs: Mapping[Saved, Sequence[Position]]) -> Iterator[str]:
    """Positions that a group saved behind one that was saved before they were asked for."""
    for (group, topic, partition), saved in logs.items():
        for number, later in enumerate(saved):
            before = [each for each in saved[:number] if each.t < later.asked]
            if before and (last := max(before, key=lambda each: each.t)).offset > later.offset:
                yield (
                    f"the group {group} saved position {later.offset} of {topic}/{partition} "
                    f"{sessions.seconds(later.t)}, after {last.offset} {sessions.seconds(last.t)}"
                )


def _writes_back(sessions: Sessions) -> Iterator[str]:
    """Writes that were acknowledged at a lower offset than one that was acknowledged before they
    were sent, or that was sent before on the same connection.

    A repeated request of an idempotent producer gets the offset of the first one, so the first one
    counts.
    """
    for log, writes in by_log(_first_sent(sessions.writes)).items():
        for number, later in enumerate(writes):
            before = next(
                (
                    each
                    for each in writes[:number]
                    if each.offset >= later.offset
                    and (each.t < later.sent.t or each.conn == later.conn)
                    and each.sent.request != later.sent.request
                ),
                None,
            )
            if before is not None:
                yield (
                    f"{_stage(later.role)} wrote backwards: {later.sent.record} was acknowledged "
                    f"at {later.offset} of {_log(log)} {sessions.seconds(later.t)}, and "
                    f"{before.sent.record}, sent before it, at {before.offset}"
                )


def _first_sent(writes: list[Acknowledged]) -> list[Acknowledged]:
    """Return the first one of each write that an idempotent producer has repeated."""
    known, first = set(), []
    for write in writes:
        sent = write.sent
        if sent.producer_id is not None and sent.producer_id >= 0:
            identity = (sent.producer_id, sent.producer_epoch, write.log, sent.sequence)
            if identity in known:
                continue
            known.add(identity)
        first.append(write)
    return first


def _log(log: Log) -> str:
    return f"{log[0]}/{log[1]}"


# --- read your writes -----------------------------------------------------------------------------


def _read_your_writes(plan: Plan, _: History, sessions: Sessions) -> GuaranteeResult:
    """Acknowledged writes of a stage into a topic that it reads itself, and that its readers have
    passed without being given them.

    A reader passes a write if it is given an earlier and a later record in one session on one
    connection, or if its group saves a position at or before the write and then one behind it.
    """
    found = GuaranteeResult()
    if plan.forgets:
        found.unseen.append("any stage: the fault removes records from the log")
        return found
    topics = {(each.role, each.log[0]) for each in sessions.stretches.values()}
    both: set[tuple[str, str]] = set()
    for write in sessions.writes:
        role, log, offset = write.role, write.log, write.offset
        if role == NOBODY or (role, log[0]) not in topics:
            continue
        both.add((role, log[0]))
        read = list(sessions.read_by(role, log))
        if any(offset in each.offsets for each in read):
            found.judged["own write"] += 1
            continue
        passed = _passed_in_session(sessions, read, offset) or _passed_by_position(
            sessions, role, log, offset
        )
        if passed:
            found.wrong.append(
                f"{_stage(role)} did not read its own write: {write.sent.record} at {offset} of "
                f"{_log(log)}, acknowledged {sessions.seconds(write.t)}; {passed}"
            )
        else:
            found.judged["own write that no reader has passed"] += 1
    if not both:
        found.unseen.append("any stage: none was given records of a topic that it wrote")
    return found


def _passed_in_session(sessions: Sessions, read: list[GivenRange], offset: int) -> str | None:
    for stretch in read:
        given = stretch.offsets
        if stretch.role in sessions.placed and min(given) < offset < max(given):
            return (
                f"it was given {examples([str(each) for each in sorted(given)])} on connection "
                f"{stretch.given[0].line.conn}"
            )
    return None


def _passed_by_position(sessions: Sessions, role: str, log: Log, offset: int) -> str | None:
    for group in sorted(sessions.groups[role]):
        saved = sessions.positions.get((group, *log), [])
        for number, later in enumerate(saved):
            if later.offset > offset and any(each.offset <= offset for each in saved[:number]):
                return (
                    f"its group {group} saved position {later.offset} {sessions.seconds(later.t)}"
                )
    return None


_CHECKS: Final[Mapping[Guarantee, Callable[[Plan, History, Sessions], GuaranteeResult]]] = {
    Guarantee.MONOTONIC: _monotonic,
    Guarantee.READ_YOUR_WRITES: _read_your_writes,
}
