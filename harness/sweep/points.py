"""The points of a sweep: each step, with all that may legally happen there."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.controls import InProgram, OnWire
from harness.faults import Answer, Drop, Kill, Late, Pause, Terminate, Twice
from harness.model.scenario import Role
from harness.plugins import load
from harness.protocols.listing import listed
from harness.sweep.steps import FAILPOINT, Step
from harness.wire.protocol import PLAIN
from harness.wire.protocol import Step as Known
from harness.wire.rules import Direction, How, StepName

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from harness.controls import Trigger
    from harness.model.cell import Load
    from harness.sweep.steps import Passed, Steps

REQUEST, RESPONSE = Direction.REQUEST, Direction.RESPONSE
KILL, KILL_BROKER, LOSE, LATE, LATE_NEXT, LATE_NEXT_KILL = "kill", "kill-broker", "lose", "late", "late-next", "late-next-kill"
PAUSE, TERMINATE, REFUSE, REFUSE_DONE = "pause", "terminate", "refuse", "refuse-done"
ACTS = (KILL, KILL_BROKER, LOSE, LATE, LATE_NEXT, LATE_NEXT_KILL, PAUSE, TERMINATE, REFUSE, REFUSE_DONE)
"""All that may happen; of a refusal its error follows."""


@dataclass(frozen=True, slots=True)
class Happening:
    """Something that happens at a frame: all that a file needs to say of it. ``into``: where a late request arrives."""

    act: str
    at: Trigger
    into: OnWire | None = None

    def fault(self) -> Any:
        """Return the fault that does it. Raises ``ValueError`` (or RuleError) where the act cannot be there."""
        if self.act == KILL:
            return Kill(self.at, (self.at.role,), held=How.DISCARD)
        if self.act == KILL_BROKER:
            return Kill(self.at, (Role.BROKER,), held=How.DISCARD)
        if isinstance(self.at, InProgram):
            raise ValueError(f"inside a program nothing happens that is called {self.act}")  # noqa: TRY004 - a wrong file
        if self.act.startswith(f"{REFUSE_DONE}-"):
            return Answer(self.at, self.act.removeprefix(f"{REFUSE_DONE}-"), forward=True)
        if self.act.startswith(f"{REFUSE}-"):
            return Answer(self.at, self.act.removeprefix(f"{REFUSE}-"))
        if self.into is not None and self.act in {LATE, LATE_NEXT, LATE_NEXT_KILL}:
            return Late(self.at, self.into, kill=self.act == LATE_NEXT_KILL)
        plain: dict[str, Any] = {LOSE: Drop, PAUSE: Pause, TERMINATE: Terminate}
        if self.act not in plain:
            raise ValueError(f"nothing that happens is called {self.act}")
        return plain[self.act](self.at)


@dataclass(frozen=True, slots=True)
class Point:
    """One thing that may happen at one step. ``place`` is the step's place among the steps of the dry run.

    ``second``: what happens to its recovery, at which step of that.
    """

    step: Step
    happens: Happening
    place: int
    because: str
    second: tuple[Step, Happening] | None = None

    @property
    def act(self) -> str:
        """What happens, by its name."""
        return self.happens.act

    @property
    def id(self) -> str:
        """Its name, by which its cell is known."""
        one = f"{self.step}+{self.act}"
        return one if self.second is None else f"{one}+then+{self.second[0].behind}+{self.second[1].act}"

    @property
    def fault(self) -> Any:
        """The fault of its cell."""
        first = self.happens.fault()
        return first if self.second is None else Twice(first, self.second[1].fault())

    @property
    def kills_broker(self) -> bool:
        """Whether a broker dies of it."""
        return Role.BROKER in self.fault.evidence().killed


@dataclass(frozen=True, slots=True)
class Can:
    """What can be done to a pipeline's parts here.

    ``members``: roles whose work another process takes over. ``failpoints``: places in its programs, by role and name, each of
    which is reached with every record in hand.
    """

    kill_broker: bool = True
    terminate: bool = False
    members: frozenset[str] = frozenset()
    failpoints: tuple[tuple[str, str], ...] = ()


@functools.cache
def known_steps() -> Mapping[tuple[str, str], Known]:
    """Return what the protocols know of their steps, by label and direction."""
    return {key: step for where in listed().values() for key, step in load(where).steps.items()}


@functools.cache
def step_names() -> Mapping[str, StepName]:
    """Return the steps that a rule can name, by their labels."""
    known_steps()  # the enumerations come with the protocols
    return {each.label: each for kind in StepName.__subclasses__() for each in kind}


def trigger(step: Step) -> OnWire:
    """Return where a fault is placed; its target is :attr:`Step.at`. Raises ``KeyError`` where no rule can name the step."""
    since = None if step.anchor is None else trigger(step.anchor)
    return OnWire(Role(step.role), step_names()[step.api], Direction(step.direction), occurrence=step.ordinal, since=since)


def points(steps: Steps, load: Load, can: Can) -> Iterator[Point]:
    """Yield every point, in the order of the steps."""
    positions = {record.id: record.position for record in load.records}
    for place, (step, frame) in enumerate(steps.found):
        if not nameable(step) or step.at not in positions:
            continue
        after = _After(steps.found[place + 1 :], frame, positions, positions[step.at])
        for happens, because in (*happenings(step, trigger(step), can), *after.happenings(step)):
            yield Point(step, happens, place, because)


def in_programs(steps: Steps, can: Can) -> Iterator[Point]:
    """Yield the points inside programs: at every failpoint, with every record that a step is about."""
    first: dict[tuple[str, str], int] = {}
    for place, (step, _) in enumerate(steps.found):
        if step.record is not None:
            first.setdefault((step.role, step.record), place)
    for role, name in can.failpoints:
        for (of, record), place in first.items():
            if of == role:
                because = f"The {role} is killed at its failpoint {name}, with {record} in hand."
                yield Point(Step(role, name, FAILPOINT, 1, record), Happening(KILL, InProgram(Role(role), name)), place, because)


def nameable(step: Step) -> bool:
    """Whether a rule can find a step."""
    name = step_names().get(step.api)
    return name is not None and (step.record is None or "record" in name.selects(Direction(step.direction)))


def words(step: Step) -> str:
    """Say which frame a step is."""
    way = f"{step.role}'s {step.api} request" if step.direction == REQUEST else f"answer to the {step.role}'s {step.api}"
    times = "" if step.ordinal == 1 else f" (number {step.ordinal})"
    if step.anchor is None:
        return f"the {way} about {step.record}{times}"
    return f"the {way}{times} next after {words(step.anchor)}"


def happenings(step: Step, at: OnWire, can: Can) -> Iterator[tuple[Happening, str]]:
    """Yield what may happen at a step by itself, with a sentence each."""
    asks, frame, whom = step.direction == REQUEST, words(step), f"the {step.role}"
    known = known_steps().get((step.api, str(step.direction)), PLAIN)
    if step.role != Role.BROKER:
        held = f"{frame} never arrives, and {whom} that sends it" if asks else f"{whom}, before it reads {frame},"
        yield Happening(KILL, at), f"{_begin(held)} is killed."
    if can.kill_broker and (known.durable or (not asks and _asked(step).durable)):
        done = "before it has seen" if asks else "when it has done what was asked, and not given"
        yield Happening(KILL_BROKER, at), f"The broker is killed {done} {frame}."
    yield Happening(LOSE, at), f"{_begin(frame)} is lost, and its connection is cut."
    for error, may_be_done in known.errors.items() if asks else ():
        yield Happening(f"{REFUSE}-{error}", at), f"{_begin(frame)} never arrives, and is refused by {error}."
        if may_be_done:
            yield Happening(f"{REFUSE_DONE}-{error}", at), f"{_begin(frame)} is done, and refused by {error} all the same."
    if step.role in can.members and step.anchor is None:
        yield Happening(PAUSE, at), f"{_begin(whom)} is stopped at {frame}, until its group has put it out; then it goes on."
    if can.terminate and step.anchor is None:
        yield Happening(TERMINATE, at), f"{_begin(whom)} is told to end (SIGTERM) at {frame}."


def _asked(step: Step) -> Known:
    """Return what is known of the request that a step answers."""
    return known_steps().get((step.api, str(REQUEST)), PLAIN)


def _begin(text: str) -> str:
    return text[:1].upper() + text[1:]


@dataclass(frozen=True, slots=True)
class _After:
    """What comes behind a step in the dry run, by which it is known when a request that was held has been asked again."""

    later: Sequence[tuple[Step, Passed]]
    frame: Passed
    positions: Mapping[str, int]
    here: int

    def happenings(self, step: Step) -> Iterator[tuple[Happening, str]]:
        """Yield what may happen to a request that arrives late: when its sender has asked again, and in what it does next."""
        known = known_steps().get((step.api, str(step.direction)), PLAIN)
        if step.direction != REQUEST or not known.movable or not known.durable:
            return
        at, frame = trigger(step), _begin(words(step))
        if (own := self._answer(beyond=False)) is not None:
            yield Happening(LATE, at, own), f"{frame} is on its way until its sender has asked again; then it arrives."
        if (following := self._answer(beyond=True)) is not None:
            late = f"{frame} is on its way until its sender has gone on to the next record; then it arrives"
            yield Happening(LATE_NEXT, at, following), f"{late}."
            yield Happening(LATE_NEXT_KILL, at, following), f"{late}, and its sender is killed."

    def _answer(self, *, beyond: bool) -> OnWire | None:
        """Return the next answer to this process about its record, or about a later one; its offset counts from the target."""
        for step, frame in self.later:
            if frame.process != self.frame.process or step.direction != RESPONSE or step.record is None:
                continue
            offset = self.positions.get(step.record, 0) - self.here
            if offset > 0 if beyond else offset == 0:
                return OnWire(Role(step.role), step_names()[step.api], RESPONSE, offset=offset, occurrence=step.ordinal)
        return None
