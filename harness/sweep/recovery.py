"""Crashes during recovery: a second fault is placed in the run that a first fault has produced.

The second fault goes only on steps that the dry runs do not have: repeated requests about a record,
and requests that no program makes without a fault; and on the first step of each kind that the
successor of an ended program makes with a record. Recoveries count as one if they follow the same
act (of a refusal: the same error) at the same kind of step, make the same requests, and make the
same requests about records again, as often.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from harness.model.history import HISTORY, read_history
from harness.model.plan import Plan
from harness.sweep.acts import KILL, KILL_BROKER, LOSE, TERMINATE, WITHHOLD_KILL, trigger
from harness.sweep.outcomes import hit_of
from harness.sweep.phases import name_of, phases
from harness.sweep.points import Point, cut_short, happenings, nameable
from harness.sweep.steps import FAILPOINT, WRITE, Step, trace

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from harness.controls import OnWire
    from harness.model.cell import Load
    from harness.sweep.outcomes import Outcome
    from harness.sweep.points import Capabilities
    from harness.sweep.steps import NamedFrame

Second: TypeAlias = "tuple[Point, str]"
"""A point of a recovery, and the phase that its second step passes in."""
RecoveryKind: TypeAlias = "tuple[tuple[str, str, str], str, tuple[str, ...], tuple[str, ...]]"
"""The kind of the first fault's step, its act, the requests that dry runs do not make, and the
requests that are made again.
"""
ACTS = frozenset({KILL, KILL_BROKER, LOSE, TERMINATE, WITHHOLD_KILL})
"""The acts that a second fault may be."""


def first_faults(outcomes: Iterable[Outcome], begun: Collection[str] = ()) -> tuple[Outcome, ...]:
    """Return the first outcome of each kind of recovery (:func:`kind_of`). ``begun``: the points
    behind which second faults were run already. Each of them is returned, and stands for its kind.
    """
    found: dict[RecoveryKind, list[Outcome]] = {}
    for one in sorted(outcomes, key=lambda one: (one.point.id not in begun, one.point.place)):
        if (
            one.proved
            and one.point.second is None
            and one.point.step.direction not in {FAILPOINT, WRITE}
        ):
            alike = found.setdefault(kind_of(one), [])
            if not alike or one.point.id in begun:
                alike.append(one)
    return tuple(one for alike in found.values() for one in alike)


def kind_of(one: Outcome) -> RecoveryKind:
    """Return what recoveries that count as one have in common.

    The step counts, because what a program has to recover depends on where it was struck, even if
    its requests are the same. The error of a refusal counts, because a client answers each in its
    own way. What it asks again counts: a batch that is split and one that is sent again whole are
    the same kind of request.
    """
    return one.point.step.kind, one.point.act, one.signature.recovery, one.again


def seconds(
    first: Outcome, known: frozenset[Step], usual: frozenset[str], load: Load, can: Capabilities
) -> Iterator[Second]:
    """Yield the points of one fault's recovery, each with the phase that its second step passes in.

    ``known``: the steps of the dry runs; ``usual``: the requests that these make, as ``role api``.
    """
    history = read_history(first.directory / HISTORY)
    hit, phase = hit_of(history), phases(history)
    if hit is None:
        return
    frames = trace(history, Plan.load(first.directory).key).frames
    at = next(
        (number for number, frame in enumerate(frames) if name_of(frame.line) == name_of(hit)),
        len(frames),
    )
    before = frozenset(frame.line.conn for frame in frames[: at + 1])
    for step, frame in _steps(first.point, frames[at:], before, known, usual):
        if not nameable(step) or not any(record.id == step.at for record in load.records):
            continue
        where, behind = _at(step, first.point, load), frames[frames.index(frame) + 1 :]
        for happens, because in (
            *happenings(step, frame, where, can),
            *cut_short(step, frame, behind, where, can),
        ):
            if happens.act in ACTS:
                told = f"{first.point.because} Then: {because[:1].lower()}{because[1:]}"
                yield (
                    replace(first.point, second=(step, happens), because=told),
                    phase.get(name_of(frame.line), ""),
                )


def in_turn(recoveries: Sequence[Sequence[Second]]) -> Iterator[Second]:
    """Interleave the points of several recoveries, so that a truncated sweep has tried the first
    points of each.

    Kills come first, because they leave a recovery half done; the other acts follow. Within each
    kind the first step of every recovery comes before the second step of any.
    """
    for kills in (True, False):
        of_kind = [[one for one in each if _is_kill(one[0]) is kills] for each in recoveries]
        yield from (
            one for turn in itertools.zip_longest(*of_kind) for one in turn if one is not None
        )


def _is_kill(point: Point) -> bool:
    return point.second is not None and point.second[1].act == KILL


def _steps(
    point: Point,
    frames: tuple[NamedFrame, ...],
    before: frozenset[int | None],
    known: frozenset[Step],
    usual: frozenset[str],
) -> Iterator[tuple[Step, NamedFrame]]:
    """Yield the steps behind a hit, ``frames[0]``, that the dry runs do not have, without refused
    answers.

    ``before``: the connections that were open at the hit. The successor of a program that was
    killed or terminated has other connections. In a declared pipeline nothing else distinguishes
    the two.
    """
    if not frames:
        return
    evidence = point.fault.evidence()
    struck, ended = frames[0].process, {str(role) for role in evidence.killed + evidence.told}
    counts: Counter[tuple[str, str, str]] = Counter()
    taken: set[tuple[str, str, str]] = set()
    for frame in frames[1:]:
        role, api, way = frame.kind
        succeeds = role in ended and role == point.step.role and frame.line.conn not in before
        if frame.names:
            begins = succeeds and frame.kind not in taken
            name = next(
                (name for name in frame.names if name not in known),
                frame.names[0] if begins else None,
            )
            taken |= {frame.kind} if succeeds else set()
        else:
            other = frame.process != struck
            lives = other or succeeds if role in ended else role != point.step.role or not other
            name = None
            if lives and not frame.line.error and not frame.line.records:
                counts[role, api, way] += 1
                new = f"{role} {api}" not in usual
                name = (
                    Step(
                        role,
                        api,
                        way,
                        counts[role, api, way],
                        anchor=point.step,
                        protocol=frame.protocol,
                    )
                    if new
                    else None
                )
        if name is not None:
            yield name, frame


def _at(step: Step, first: Point, load: Load) -> OnWire:
    """Return the trigger of a step in a recovery: at a record, counted from that of the first
    fault, or counted from the first fault's own trigger.
    """
    if step.record is None:
        return replace(trigger(step), since=first.happens.at)  # type: ignore[arg-type]  # see first_faults
    positions = {record.id: record.position for record in load.records}
    return replace(trigger(step), offset=positions[step.at] - positions[first.step.at])
