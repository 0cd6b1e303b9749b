"""What a history shows of a lost or duplicated record, in one sentence.

Most parts of the sentence tell lines of one kind: who did what, and when. The others count what a
program did with other records behind its last line about this one, say that there is no line of a
kind, or tell what was found at rest. No part says why: that stands apart, in
:mod:`harness.report.page.usual`.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from harness.model import events as kinds
from harness.model.events import (
    Direction,
    FaultPhase,
    Outcome,
    RulePhase,
    TransactionOutcome,
)
from harness.model.scenario import Role
from harness.model.states import Hop, LastHop, State
from harness.report.page.lines import attempt_of, in_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from harness.judge.record_row import RecordRow
    from harness.model.history import Event
    from harness.report.page.lines import Lines, Move, Saved

MOST: Final = 3
"""Maximum number of times, or places, that a sentence lists."""
Said: TypeAlias = "tuple[str, str]"
"""A subject and its predicate."""
BEFORE_THE_LOG: Final = frozenset(
    {LastHop.NEVER_SENT, LastHop.SENT, LastHop.ACKED, LastHop.ABORTED, LastHop.DUPLICATE}
)
"""Last hops for which a sentence tells of sends; for other hops it tells of deliveries."""
Moves: TypeAlias = "tuple[type[Move], ...]"
SENDS: Final[Moves] = (kinds.Sent, kinds.Unsent)
DELIVERIES: Final[Moves] = (kinds.Fetched, kinds.Delivered)
FAULT: Final = "lostack's fault"


def seen_of(row: RecordRow, lines: Lines) -> str:
    """Say in one sentence what the history shows of a record; empty if nothing went wrong."""
    told = lines.about(str(row["record"]))
    if row["state"] in (State.LOST, State.SET_ASIDE):
        lost = _lost_before if row["last_hop"] in BEFORE_THE_LOG else _lost_behind
        parts = list(lost(told, lines))
    elif row["recordings"] > 1:
        ways = ((_sends, row["stored_twice"]), (_deliveries, row["delivered_twice"]))
        parts = [said for way, times in ways if times for said in _timed(way(told, lines), lines)]
    else:
        return ""
    parts += [("", found) for found in _at_rest(row, told)]
    stretches = (
        (who, [did for _, did in said]) for who, said in groupby(parts, key=lambda part: part[0])
    )
    return "; ".join(f"{who} {'; '.join(dids)}".lstrip() for who, dids in stretches)


def _lost_before(told: Sequence[Event], lines: Lines) -> Iterator[Said]:
    """Yield what the history shows of a record that was lost before the log stored it."""
    yield from _timed(_sends(told, lines), lines, lines.rest)
    seen = {type(event) for event in told}
    if not seen & {*SENDS} and not any(map(_is_request, told)):
        yield "", "no request with it was seen on the wire"
    elif kinds.Sent in seen and kinds.ProduceAnswer not in seen:
        yield "", "no answer to it was seen"
    if last := _last(told, SENDS, lines):
        yield from _others("sent", last, "this one never again", lines.sends, lines)
    else:
        taken: list[int | None] = [event.t for event in told if isinstance(event, kinds.Taken)]
        since = {str(Role.PRODUCER): t for t in (taken[-1:] or [lines.fired]) if t is not None}
        yield from _others("sent", since, "not this one", lines.sends, lines)


def _lost_behind(told: Sequence[Event], lines: Lines) -> Iterator[Said]:
    """Yield what the history shows of a record that was lost after the log stored it."""
    passed = _passed(told, lines)
    parts = (
        (saved.t, (lines.one_of(saved.role), f"saved {saved.words}, past {past},"))
        for saved, past in passed.items()
    )
    yield from _timed((*_deliveries(told, lines), *parts), lines, lines.rest)
    if last := _last(told, DELIVERIES, lines):
        yield from _others("was given", last, "this one never again", lines.given, lines)
    else:
        yield "", "no reader was seen to be given it"
        since = {saved.role: saved.t for saved in passed}
        yield from _others("was given", since, "not this one", lines.given, lines)


_PLURAL: Final = {"sent": "sent", "was given": "were given"}


def _timed(
    parts: Iterable[tuple[int, Said]], lines: Lines, until: int | None = None
) -> Iterator[Said]:
    """Say each thing once, with its times, in the order in which each happened first. Processes
    that ended or came back in between are named, too. ``parts``: each with its monotonic time in
    ns. ``until``: the end of that period; ``None``: the last part.
    """
    parts = list(parts)
    times = [t for t, _ in parts] or [t for t in (lines.fired,) if t is not None] or [lines.rest]
    last = max(times) if until is None else until
    turns = ((turn.t, (turn.who, turn.how)) for turn in lines.turns if min(times) <= turn.t <= last)
    found: dict[Said, list[str]] = {}
    for t, said in sorted((*parts, *turns)):
        found.setdefault(said, []).append(lines.at(t))
    for (who, did), at in found.items():
        if len(at) > MOST:
            yield who, f"{did} {len(at)} times, first at {at[0]} and last at {at[-1]}"
        else:
            yield who, f"{did} at {' and '.join(filter(None, (', '.join(at[:-1]), at[-1])))}"


def _others(
    did: str,
    last: Mapping[str, int],
    this_one: str,
    moved: Mapping[str, Sequence[Move]],
    lines: Lines,
) -> Iterator[Said]:
    """Count the other records that each role moved since it last moved this one; if it was started
    again since then, those after that. ``last``: when that was, by role.
    """
    for role, t in last.items():
        own = max(t, last.get("", t))  # a line of an unknown role may be of this one
        again = [start for start in lines.restarts(role) if start > own]
        for since in (*again[:1], own):
            count = len({e.record for e in moved.get(role, ()) if e.t > since} - {None})
            if count:
                several = lines.are_several(role)
                who = f"the {role}s" if several else lines.one_of(role)
                others = f"{count} other{'' if count == 1 else 's'} after {lines.at(since)}"
                yield who, f"{_PLURAL[did] if several else did} {others}, and {this_one}"
                break


def _last(told: Iterable[Event], moves: Moves, lines: Lines) -> dict[str, int]:
    """Return by role when it last moved a record. An unknown role is empty."""
    found = (event for event in told if isinstance(event, moves) and not _is_lost(event))
    return {lines.role(event): event.t for event in found}


def _is_lost(event: Move) -> bool:
    """Say whether an answer never reached the reader."""
    return isinstance(event, kinds.Fetched) and event.reached is False


def _is_request(event: Event) -> bool:
    return isinstance(event, kinds.OfFrame) and event.dir == Direction.REQUEST


def _sends(told: Sequence[Event], lines: Lines) -> Iterator[tuple[int, Said]]:
    """Yield the sends of a record, the responses to them, and its copies that the log lost."""
    yield from _said(told, SENDS, DELIVERIES, lines)
    attempts = {attempt.rpartition(".")[0] for attempt in map(attempt_of, told) if attempt}
    for ended in lines.of(kinds.Transaction):
        if ended.outcome != TransactionOutcome.BEGUN and ended.transaction in attempts:
            by = " by its library" if ended.told_by == "library" else ""
            outcome = f"{ended.outcome}{_error(ended)}"
            said = f"was told{by} of a transaction with it: {outcome},"
            yield ended.t, (lines.who(ended), said)
    first: dict[str, int] = {}
    for event in told:
        if isinstance(event, kinds.Sent):
            first.setdefault(f"{event.topic}-{event.partition}", event.t)
    for fault in lines.of(kinds.Fault):
        lost = (fault.bytes_before or 0) - (fault.bytes_after or 0)
        sent = first.get(str(fault.file), fault.t)
        if fault.phase == FaultPhase.FORGOT and lost > 0 and sent < fault.t:
            yield fault.t, (f"its log on {fault.node}", "went back to what was flushed")


def _deliveries(told: Sequence[Event], lines: Lines) -> Iterator[tuple[int, Said]]:
    """Return the deliveries of a record and the acknowledgements by its readers."""
    return _said(told, DELIVERIES, SENDS, lines)


def _said(
    told: Sequence[Event], moves: Moves, other: Moves, lines: Lines
) -> Iterator[tuple[int, Said]]:
    """Return sentences about a record's moves, from the lines about it. ``other``: moves that these
    lines do not tell of; what the fault did to frames of a role that made only such moves is left
    out, too.
    """
    words = _SENT if moves == SENDS else _GIVEN
    mine = _last(told, moves, lines)
    elsewhere = _last(told, other, lines).keys() - mine.keys()
    kept = {
        f"{event.conn}:{event.corr}"
        for event in told
        if isinstance(event, kinds.Rule) and event.phase in _KEPT
    }
    answered = any(isinstance(event, kinds.ProduceAnswer) for event in told)
    readers = {lines.role(event) for event in told if isinstance(event, kinds.Delivered)} - {""}
    wired = bool(mine.keys() & lines.watched.keys())
    for event in told:
        role, left_out = lines.role(event), False  # other parts say it
        match event:
            case kinds.Taken():
                left_out = bool(mine)
            case kinds.Unsent():
                left_out = event.request in kept
            case kinds.Acked():
                left_out = answered
            case kinds.Fetched():
                left_out = bool(readers) and not wired
            case kinds.Delivered():
                left_out = role in lines.watched or (wired and not role)
            case kinds.Rule():
                left_out = role in elsewhere
        if type(event) in words and not left_out:
            who, did = words[type(event)](event, lines.who(event))
            if did:
                yield event.t, (who, did)


def _passed(told: Sequence[Event], lines: Lines) -> dict[Saved, str]:
    """Return, of each group that saved positions behind all copies of a record, the position by
    which it first had done so, and the words for the copy.
    """
    copies = list(filter(in_topic, told))
    groups: dict[str, list[Saved]] = {}
    for copy in copies:
        for saved in lines.past(copy):
            groups.setdefault(saved.group, []).append(saved)
    past = "it" if len(copies) == 1 else "the last of its copies"
    passed = (found for found in groups.values() if len(found) == len(copies))
    return {max(found, key=lambda saved: saved.t): past for found in passed}


def _error(event: kinds.OfAttempt | kinds.Transaction) -> str:
    """Return the error that a program names, in parentheses."""
    return f" ({kinds.root_cause_line(event.error)})" if event.error else ""


def _taken(event: kinds.Taken, who: str) -> Said:
    if event.passed:
        later = f"the transactions of {', '.join(event.passed)} began later"
        return "lostack", f"committed it to the table last of several: {later}"
    return ("lostack", "offered it") if event.by == "runner" else (who, "took it from the source")


def _answer(event: kinds.ProduceAnswer, who: str) -> Said:
    """Say what a broker answered to a request with the record. If the answer does not name the
    record's partition, it says nothing of the record.
    """
    error = event.error
    if error is None:
        return "", ""
    if event.reached is False:
        said = "acknowledgement of it" if error == 0 else f"answer with error {error}"
        return f"the broker's {said}", f"did not reach {who}"
    said = f"acknowledged it to {who}" if error == 0 else f"answered {who} with error {error}"
    return "the broker", said


def _fetched(event: kinds.Fetched, who: str) -> Said:
    return ("an answer with it", f"did not reach {who}") if _is_lost(event) else _given(event, who)


def _given(_: Move, who: str) -> Said:
    return who, "was given it"


def _acknowledged(event: kinds.Acknowledged, who: str) -> Said:
    """Say what a reader said of the record to a broker, or that the broker refused this."""
    how = event.how
    if event.outcome == Outcome.REFUSED:
        return "the broker", f"refused the {how} of {who} for it"
    if event.outcome is not None:
        return "", ""
    if event.reached is False:
        return f"the {how} of {who} for it", "did not reach the broker"
    bound = " in a transaction" if event.transactional_id else ""
    return who, f"{'acknowledged it' if how == 'ack' else f'answered it with {how}'}{bound}"


def _ruled(event: kinds.Rule, who: str) -> Said:
    """Say what lostack's fault did to a frame about the record. Waves of load are no fault."""
    did = _RULED.get(event.phase)
    if did is None or event.rule in kinds.WAVES:
        return "", ""
    way = f"{'to' if event.dir == Direction.RESPONSE else 'of'} {who}"
    return FAULT, did.format(f"the {event.api} {event.dir} {way} about it")


_KEPT: Final = frozenset({RulePhase.DISCARDED, RulePhase.DROPPED, RulePhase.ANSWERED})
"""Phases of a rule that explain why a request did not reach the broker."""
_RULED: Final = {
    RulePhase.HELD: "held {}",
    RulePhase.RELEASED: "released {}",
    RulePhase.DELIVERED: "delivered {} late",
    RulePhase.DISCARDED: "discarded {}",
    RulePhase.DROPPED: "discarded {}",
    RulePhase.ANSWERED: "answered {} in the broker's name",
}
"""What a wire rule did to a frame, by the phase of its line."""
_Words: TypeAlias = "Mapping[type[Event], Callable[[Any, str], Said]]"
_SENT: Final[_Words] = {
    kinds.Taken: _taken,
    kinds.Sent: lambda _, who: (who, "sent it"),
    kinds.Unsent: lambda _, who: (f"a request of {who} with it", "did not reach the broker"),
    kinds.ProduceAnswer: _answer,
    kinds.Acked: lambda _, who: (who, "was told that it is stored"),
    kinds.Refused: lambda e, who: (who, f"was told that it is not stored{_error(e)}"),
    kinds.Unknown: lambda e, who: (who, f"could not know whether it is stored{_error(e)}"),
    kinds.Rule: _ruled,
}
"""The sentences about a record that is sent, by the kind of line; each needs the program's name."""
_GIVEN: Final[_Words] = {
    kinds.Fetched: _fetched,
    kinds.Delivered: _given,
    kinds.Acknowledged: _acknowledged,
    kinds.Rule: _ruled,
}
"""The sentences about a record that is given to readers, by the kind of line."""


def _at_rest(row: RecordRow, told: Sequence[Event]) -> Iterator[str]:
    """Yield what the final queries found of a record."""
    copies = [e for e in told if isinstance(e, kinds.Stored) and e.hop == Hop.TOPIC]
    for visible, words in ((True, "stored"), (False, "stored where no committed reader sees it,")):
        places = [_place(copy) for copy in copies if copy.visible == visible]
        if places:
            more = f" and {len(places) - MOST} more" if len(places) > MOST else ""
            yield f"{words} at {', '.join(places[:MOST])}{more}"
    for event in told:
        if isinstance(event, kinds.Removed):
            yield f"the broker took it away from {_place(event)} ({event.why})"
        elif isinstance(event, kinds.Moved):
            yield f"it was moved to {event.to}"
    times = row["recordings"]
    yield f"the output has it {times} times" if times else "the output does not have it"


def _place(event: kinds.Stored | kinds.Removed) -> str:
    if event.offset is None:
        queue = event.queue if isinstance(event, kinds.Stored) else None
        return event.place or queue or "an unknown place"
    return f"partition {event.partition} offset {event.offset}"
