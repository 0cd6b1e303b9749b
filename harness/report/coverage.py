"""Coverage: the signs, errors, fences, aborts, rebalances and retries that a run's cells have seen,
and those that none has.

A goal is reached *sometimes*: in a cell or in many. One that no cell reaches is named: the run says
nothing of it. Goals are those that any cell could reach, the signs that its own cells ask for, and
the errors that Kafka may give to a request whose answers were read.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeVar

from harness.judge.rows import Rows
from harness.judge.signs import common_signs
from harness.model import events as kinds
from harness.model.events import (
    DrainPhase,
    FaultPhase,
    NetworkPhase,
    NodePhase,
    RulePhase,
    TransactionOutcome,
)
from harness.protocols.kafka.steps import ERRORS, STEPS, Api, error_name
from harness.report.reading import lines_of
from harness.wire.rules import Direction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from harness.judge.movement import Movement
    from harness.model.history import Event
    from harness.saved import CellResult, SavedRun

E = TypeVar("E", bound=kinds.Event)


class Group(StrEnum):
    """The groups of goals."""

    COURSE = "what happened"
    SIGN = "signs of protection"
    ERROR = "errors of brokers"


@dataclass(frozen=True, slots=True)
class Goal:
    """Something that a run should see at least once. ``cells``: the ids of those that saw it, in
    the order of the run.
    """

    group: Group
    name: str
    words: str
    cells: tuple[str, ...] = ()

    def row(self) -> dict[str, object]:
        """Return the goal as a row of ``report.json``."""
        return {
            "group": str(self.group),
            "name": self.name,
            "words": self.words,
            "cells": len(self.cells),
        }


@dataclass
class _Cell:
    """What is asked of one cell."""

    result: CellResult
    events: list[Event]

    def rule(self, *phases: RulePhase) -> bool:
        """Whether a rule of a fault came to one of these phases; what only keeps back
        load is none.
        """
        return any(e.phase in phases and e.rule not in kinds.WAVES for e in self.of(kinds.Rule))

    def killed(self) -> bool:
        """Whether a process was killed; what ends behind the drain is ended by the harness."""
        drained = min(
            (e.t for e in self.of(kinds.Drain) if e.phase != DrainPhase.BEGUN), default=None
        )
        deaths = (
            e.t for e in self.of(kinds.Node) if e.phase == NodePhase.EXITED and e.signal == SIGKILL
        )
        return any(drained is None or t < drained for t in deaths)

    def of(self, *wanted: type[E]) -> Iterator[E]:
        """Yield the lines of these kinds."""
        return (event for event in self.events if isinstance(event, wanted))

    def counts(self, name: str) -> bool:
        """Whether the account counts any."""
        return bool(self.result.judgement.account.counts.get(name))

    @property
    def beside(self) -> Movement:
        """What is told beside the counts."""
        return self.result.judgement.movement

    def errors(self) -> set[str]:
        """Return the errors of brokers that the wire saw, or gave in a broker's name."""
        told = [event.error for event in self.of(kinds.Frame)]
        told += [e.error for e in self.of(kinds.Rule) if e.phase == RulePhase.ANSWERED]
        return {
            error_name(error) if isinstance(error, int) else str(error) for error in told if error
        }


SIGKILL: Final = 9
_FENCES: Final = frozenset(
    {
        "INVALID_PRODUCER_EPOCH",
        "PRODUCER_FENCED",
        "FENCED_INSTANCE_ID",
        "FENCED_LEADER_EPOCH",
        "FENCED_MEMBER_EPOCH",
    }
)
_JOINS: Final = frozenset({str(Api.JOIN_GROUP), str(Api.SYNC_GROUP)})


def _retried(cell: _Cell) -> bool:
    """Whether a record went to one topic in more than one request."""
    asked = {
        (event.record, event.topic, event.request) for event in cell.of(kinds.Sent, kinds.Unsent)
    }
    return len(asked) > len({(record, topic) for record, topic, _ in asked})


def _rebalanced(cell: _Cell) -> bool:
    """Whether members of a group joined again, or got partitions again, when records had reached
    somebody.
    """
    first = min((event.t for event in cell.of(kinds.Fetched, kinds.Delivered)), default=None)
    if first is None:
        return False
    joins = (event.t for event in cell.of(kinds.Frame) if event.api in _JOINS)
    given = (event.t for event in cell.of(kinds.Ready) if event.partitions is not None)
    return any(t > first for t in (*joins, *given))


def _told(cell: _Cell, outcome: TransactionOutcome) -> bool:
    """Whether a program was told this of a transaction."""
    return any(event.outcome == outcome for event in cell.of(kinds.Transaction))


def _fenced(cell: _Cell) -> bool:
    return bool(_FENCES & cell.errors()) or _told(cell, TransactionOutcome.FENCED)


def _aborted(cell: _Cell) -> bool:
    asked = any(not event.commit for event in cell.of(kinds.EndTxn))
    return cell.counts("aborted") or _told(cell, TransactionOutcome.ABORTED) or asked


def _led_elsewhere(cell: _Cell) -> bool:
    leaders: dict[tuple[str, int], set[str]] = {}
    for event in cell.of(kinds.Leadership):
        leaders.setdefault((event.topic, event.partition), set()).add(event.leader)
    return any(len(each) > 1 for each in leaders.values())


_COURSE: Final[Mapping[str, tuple[str, Callable[[_Cell], bool]]]] = {
    "kill": ("a process was killed (SIGKILL)", _Cell.killed),
    "pause": (
        "a process was paused (SIGSTOP), and resumed",
        lambda cell: any(e.phase == NodePhase.PAUSED for e in cell.of(kinds.Node)),
    ),
    "restart": (
        "a program was started again",
        lambda cell: any(e.incarnation > 1 for e in cell.of(kinds.Node)),
    ),
    "held frame": ("the wire held a frame", lambda cell: cell.rule(RulePhase.HELD)),
    "dropped frame": (
        "a frame never arrived",
        lambda cell: cell.rule(RulePhase.DROPPED, RulePhase.DISCARDED),
    ),
    "cut connection": ("a connection was cut", lambda cell: cell.rule(RulePhase.CUT)),
    "late frame": (
        "a frame arrived late, over another connection",
        lambda cell: cell.rule(RulePhase.DELIVERED),
    ),
    "refusal": (
        "a request was refused in the broker's name",
        lambda cell: cell.rule(RulePhase.ANSWERED),
    ),
    "bad network": (
        "the network was made slow, narrow or silent",
        lambda cell: any(e.phase == NetworkPhase.ON for e in cell.of(kinds.Network)),
    ),
    "lost disk": (
        "a log went back to what was flushed",
        lambda cell: any(e.phase == FaultPhase.FORGOT for e in cell.of(kinds.Fault)),
    ),
    "leader moved": ("a partition got another leader", _led_elsewhere),
    "retry": ("a record was sent again", _retried),
    "rebalance": ("a group assigned its partitions again while records flowed", _rebalanced),
    "fence": ("a broker fenced a producer or a member of a group", _fenced),
    "abort": ("a transaction was aborted", _aborted),
    "unknown outcome": (
        "a producer did not learn whether a record was stored",
        lambda cell: cell.counts("unknown"),
    ),
    "in doubt": (
        "a program did not learn how a transaction ended",
        lambda cell: cell.counts("in_doubt"),
    ),
    "redelivery": (
        "a record was delivered, and recorded, again",
        lambda cell: cell.counts("delivered_twice"),
    ),
    "stored twice": (
        "a record was stored twice",
        lambda cell: cell.counts("stored_twice") or cell.beside.stored_again > 0,
    ),
    "absorbed copy": (
        "a second copy was not recorded",
        lambda cell: cell.counts("absorbed") or cell.beside.stored_again_recorded_once > 0,
    ),
    "set aside": ("a record ended among the dead letters", lambda cell: cell.counts("set_aside")),
    "loss": ("a record was lost", lambda cell: cell.counts("lost")),
    "reordering": ("records of a key came out of order", lambda cell: cell.counts("reordered")),
}


class _Known:
    """The coverage of the run that was asked for last: several renderers of one run ask."""

    run: SavedRun | None = None
    goals: tuple[Goal, ...] = ()


def coverage(run: SavedRun) -> tuple[Goal, ...]:
    """Return every goal of a run, by group, with the cells that reached it. A run without cells has
    none.
    """
    if _Known.run is not run:
        _Known.run, _Known.goals = run, tuple(_goals(run)) if run.results else ()
    return _Known.goals


def _goals(run: SavedRun) -> Iterator[Goal]:
    course: dict[str, list[str]] = {name: [] for name in _COURSE}
    signs: dict[str, list[str]] = {str(sign): [] for sign in common_signs(Rows(()))}
    signs |= {str(result.plan.sign): [] for result in run.results if result.plan.sign}
    words: dict[str, str] = {}
    errors: dict[str, list[str]] = {}
    read: set[str] = set()
    for result in run.results:
        cell = _Cell(result, lines_of(result, *_READ))
        for name, (_, reached) in _COURSE.items():
            if reached(cell):
                course[name].append(result.plan.id)
        for sign, records in result.judgement.signs.seen.items():
            words[str(sign)] = sign.words
            if records:
                signs.setdefault(str(sign), []).append(result.plan.id)
        read |= {str(event.api) for event in cell.of(kinds.Frame) if event.error is not None}
        for error in cell.errors():
            errors.setdefault(error, []).append(result.plan.id)
    yield from (
        Goal(Group.COURSE, name, said, tuple(course[name])) for name, (said, _) in _COURSE.items()
    )
    yield from (
        Goal(Group.SIGN, name, words.get(name, ""), tuple(cells))
        for name, cells in sorted(signs.items())
    )
    for name, steps in _possible(read, errors):
        yield Goal(
            Group.ERROR,
            name,
            f"to {', '.join(steps)}" if steps else "",
            tuple(errors.get(name, ())),
        )


_READ: Final[tuple[type[Event], ...]] = (
    kinds.Node,
    kinds.Ready,
    kinds.Rule,
    kinds.Drain,
    kinds.Network,
    kinds.Fault,
    kinds.Leadership,
    kinds.Frame,
    kinds.Sent,
    kinds.Unsent,
    kinds.Fetched,
    kinds.Delivered,
    kinds.Transaction,
    kinds.EndTxn,
)


def _possible(read: Iterable[str], seen: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Return the errors that Kafka may give to requests whose answers were read, and all that were
    seen: (name, to which).
    """
    asked = {
        step: STEPS[step, Direction.REQUEST].errors
        for step in sorted(read)
        if (step, Direction.REQUEST) in STEPS
    }
    names = dict.fromkeys(
        (
            *(name for name in ERRORS if any(name in errors for errors in asked.values())),
            *sorted(seen),
        )
    )
    return [(name, [step for step, errors in asked.items() if name in errors]) for name in names]


def groups(goals: Iterable[Goal]) -> list[tuple[str, list[Goal], list[Goal]]]:
    """Return, for each group, the goals that were seen (the most frequent first) and those that
    never were.
    """
    found = []
    goals = list(goals)
    for group in Group:
        mine = [goal for goal in goals if goal.group is group]
        if mine:
            seen = sorted((goal for goal in mine if goal.cells), key=lambda goal: -len(goal.cells))
            found.append((str(group), seen, [goal for goal in mine if not goal.cells]))
    return found


LEGEND: Final = (
    "In how many cells each was seen at all. Of what was never seen this run says nothing, "
    "neither good nor bad."
)
