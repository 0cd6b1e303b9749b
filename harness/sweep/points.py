"""The points of a sweep: each step, with all that may legally happen there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from harness.controls import AtWrite, InProgram, OnWire
from harness.faults import (
    Twice,
)
from harness.model.scenario import Role
from harness.model.writes import WRITES, chosen
from harness.proofs.takeover import COORDINATED
from harness.protocols.kafka.steps import DENIED, Api
from harness.sweep.acts import (
    HAND_OVER,
    HOLD,
    KILL,
    KILL_BROKER,
    LOSE,
    PAUSE,
    READERS,
    REFUSE,
    REFUSE_DONE,
    REQUEST,
    RESPONSE,
    SILENT,
    TERMINATE,
    TERMINATE_KILL,
    WITHHOLD_KILL,
    Happening,
    begin,
    request_of,
    trigger,
    words,
)
from harness.sweep.names import known_of, step_named
from harness.sweep.repeats import FramesAfter
from harness.sweep.steps import FAILPOINT, WRITE, Step
from harness.wire.rules import Direction, StepName

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from harness.model import events as kinds
    from harness.model.cell import Load
    from harness.model.writes import Point as WritePoint
    from harness.sweep.steps import NamedFrame, Steps

FENCED_MEMBER = "FENCED_INSTANCE_ID"
"""The error for static members only: another member joined with the same group.instance.id."""
OUT_OF_RANGE = "OFFSET_OUT_OF_RANGE"
"""The error for readers of offsets that are gone. Retention makes it true, and a sweep does not."""


THEN = "+then+"
"""What stands between the name of a first fault and that of the second one."""


@dataclass(frozen=True, slots=True)
class Point:
    """One act at one step. ``place`` is the step's place among the steps of the dry run.

    ``second``: what happens to its recovery, at which step of that.
    """

    step: Step
    happens: Happening
    place: int
    because: str
    second: tuple[Step, Happening] | None = None
    illegal: str | None = None
    """Why the act is impossible at this step, although it is possible at other steps of the same
    name.
    """

    @property
    def act(self) -> str:
        """The name of the act."""
        return self.happens.act

    @property
    def id(self) -> str:
        """Its name, by which its cell is known."""
        one = f"{self.step}+{self.act}"
        return (
            one
            if self.second is None
            else f"{one}{THEN}{self.second[0].behind}+{self.second[1].act}"
        )

    @property
    def fault(self) -> Any:
        """The fault of its cell."""
        first = self.happens.fault()
        return first if self.second is None else Twice(first, self.second[1].fault())

    @property
    def kills_broker(self) -> bool:
        """Whether the act kills a broker."""
        return Role.BROKER in self.fault.evidence().killed


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What can be done to a pipeline's parts here.

    ``members``: roles whose work another process takes over. ``failpoints``: places in its
    programs, by role and name, each of which is reached with every record in hand.
    """

    kill_broker: bool = True
    terminate: bool = False
    hand_over: bool = False
    """Whether there are several brokers, one of which can hand over what it leads."""
    members: frozenset[str] = frozenset()
    failpoints: tuple[tuple[str, str], ...] = ()
    resends: bool = True
    """Whether a producer repeats unanswered requests. If not, none of its requests can come late.
    """
    reconnects: bool = True
    """Whether its programs are known to reconnect where their client library does not."""
    writes: tuple[tuple[str, WritePoint], ...] = ()
    """Durable writes, by role, that count from when a record is given to it."""


def points(steps: Steps, load: Load, can: Capabilities) -> Iterator[Point]:
    """Yield every point, in the order of the steps."""
    records = {record.id: record for record in load.records}
    for place, (step, frame) in enumerate(steps.found):
        if not nameable(step) or step.at not in records:
            continue
        after = FramesAfter(
            steps.found[place + 1 :],
            frame,
            records,
            records[step.at],
            again=can.resends or step.role != Role.PRODUCER,
            reconnects=can.reconnects,
        )
        behind = [passed for _, passed in steps.found[place + 1 :]]
        for happens, because in (
            *happenings(step, frame, trigger(step), can),
            *cut_short(step, frame, behind, trigger(step), can),
            *after.happenings(step),
        ):
            yield Point(
                step, happens, place, because, illegal=_illegal(step, happens, frame, steps)
            )


def is_led(step: Step) -> bool:
    """Return whether a step is about something that one broker of several leads: a partition with
    a record, or a coordinator's log.
    """
    return step.role != Role.BROKER and (step.record is not None or step.api in COORDINATED)


def _illegal(step: Step, happens: Happening, passed: NamedFrame, steps: Steps) -> str | None:
    """Return why no broker can do this to this process, or ``None``."""
    retried = steps.retried.get(step.like, step.ordinal + 1)
    here = step in steps.refused or (step.ordinal == retried and step.record is None)
    done = here and happens.act.startswith(REFUSE_DONE)
    if done or step.ordinal > retried:
        sure = "that it is done" if done else "to come"
        return (
            f"not sure {sure}: brokers refused such {step.api} requests by themselves in the runs "
            "without a fault"
        )
    if happens.act == f"{REFUSE}-{OUT_OF_RANGE}":
        return (
            f"not legal: the log has the offset that the {step.role} asks for, and {OUT_OF_RANGE} "
            "says that it has not"
        )
    if happens.act.endswith(FENCED_MEMBER) and not passed.named_member:
        return (
            f"not legal: the {step.role} has joined its group without a group.instance.id, and "
            f"{FENCED_MEMBER} is about that"
        )
    return None


def in_programs(steps: Steps, can: Capabilities) -> Iterator[Point]:
    """Yield the points inside programs: at every failpoint, with every record that a
    step is about.
    """
    first: dict[tuple[str, str], int] = {}
    for place, (step, _) in enumerate(steps.found):
        if step.record is not None:
            first.setdefault((step.role, step.record), place)
    for role, name in can.failpoints:
        for (of, record), place in first.items():
            if of == role:
                because = f"The {role} is killed at its failpoint {name}, with {record} in hand."
                yield Point(
                    Step(role, name, FAILPOINT, 1, record),
                    Happening(KILL, InProgram(Role(role), name)),
                    place,
                    because,
                )


def tried(line: kinds.Writes) -> Iterator[WritePoint]:
    """Yield the durable writes of a stage that are tried, from a line about the stage."""
    for write in chosen(line.made, line.records):
        yield replace(write, files=line.files) if write.call in WRITES else write


def at_writes(steps: Steps, can: Capabilities) -> Iterator[Point]:
    """Yield the points at durable writes: at each, counted from every record that its stage is
    given.
    """
    for role, write in can.writes:
        known: set[str] = set()
        for place, (step, _) in enumerate(steps.found):
            given = (
                step.role == role
                and step.direction == RESPONSE
                and step.api == Api.FETCH.label
                and step.anchor is None
            )
            if not given or step.at in known or not nameable(step):
                continue
            known.add(step.at)
            since = replace(trigger(step), occurrence=1)
            because = (
                f"The {role} is killed {write.side} its {write.call} number {write.occurrence} "
                f"since it was given {step.at}."
            )
            yield Point(
                Step(role, str(write), WRITE, 1, step.at),
                Happening(KILL, AtWrite(Role(role), write, since)),
                place,
                because,
            )


def nameable(step: Step) -> bool:
    """Return whether a rule can select a step."""
    name = step_named(step.protocol, step.api)
    return name is not None and (
        step.record is None or "record" in name.selects(Direction(step.direction))
    )


def happenings(
    step: Step, passed: NamedFrame, at: OnWire, can: Capabilities
) -> Iterator[tuple[Happening, str]]:
    """Yield the single acts that are possible at a step, with a sentence each. ``passed``: its
    frame in the run that it is found in.
    """
    asks, frame, whom = step.direction == REQUEST, words(step), f"the {step.role}"
    known = known_of(step, Direction(step.direction))
    if step.role != Role.BROKER:
        held = (
            f"{frame} never arrives, and {whom} that sends it"
            if asks
            else f"{whom}, before it reads {frame},"
        )
        yield Happening(KILL, at), f"{begin(held)} is killed."
    if can.kill_broker and (known.durable or (not asks and request_of(step).durable)):
        done = "before it has seen" if asks else "when it has done what was asked, and not given"
        yield Happening(KILL_BROKER, at), f"The broker is killed {done} {frame}."
    if can.hand_over and is_led(step):
        told = f"Another broker leads in place of the one that {frame} is for, or comes from."
        yield Happening(HAND_OVER, at), told
    yield Happening(LOSE, at), f"{begin(frame)} is lost, and its connection is cut."
    if step.role != Role.BROKER and passed.line.answered is not False:
        yield (
            Happening(SILENT, at),
            (
                f"{begin(frame)} never arrives, nor does what is behind it, on a connection that "
                f"lives until {whom} gives it up."
            ),
        )
    if not asks and step.role in READERS:
        yield (
            Happening(HOLD, at),
            f"{begin(frame)} is on its way until the source is exhausted; then it arrives.",
        )
    answered = asks and passed.line.answered is not False
    errors = (
        {error: done for error, done in known.errors.items() if error not in DENIED}
        if answered
        else {}
    )
    for (
        error,
        may_be_done,
    ) in errors.items():  # rights are not lost for a moment: refusals of a declaration name them
        yield (
            Happening(f"{REFUSE}-{error}", at),
            f"{begin(frame)} never arrives, and is refused by {error}.",
        )
        if may_be_done:
            yield (
                Happening(f"{REFUSE_DONE}-{error}", at),
                f"{begin(frame)} is done, and refused by {error} all the same.",
            )
    if step.role in can.members and step.anchor is None:
        yield (
            Happening(PAUSE, at),
            (
                f"{begin(whom)} is stopped at {frame}, until its group has put it out; then it "
                "goes on."
            ),
        )
    if can.terminate and step.anchor is None:
        yield Happening(TERMINATE, at), f"{begin(whom)} is told to end (SIGTERM) at {frame}."


def cut_short(
    step: Step, passed: NamedFrame, behind: Sequence[NamedFrame], at: OnWire, can: Capabilities
) -> Iterator[tuple[Happening, str]]:
    """Yield the acts that end with a kill at a later durable step of the same process: the process
    is told to end, or its request is withheld. ``behind``: the frames after the step's, in the run
    that it is found in. They show which durable requests the process makes next.
    """
    mine = [each for each in behind if each.process == passed.process and not each.line.error]
    whom, frame = f"the {step.role}", words(step)
    if can.terminate and step.anchor is None and (asks := _durable(mine, REQUEST)) is not None:
        told = (
            f"{begin(whom)} is told to end (SIGTERM) at {frame}, and is killed at its next "
            f"{asks.label} request, if it comes to one before it has ended."
        )
        yield Happening(TERMINATE_KILL, at, OnWire(at.role, asks, REQUEST, since=at)), told
    if step.direction != REQUEST or not known_of(step, REQUEST).durable:
        return
    elsewhere = [each for each in mine if each.line.conn != passed.line.conn]
    if (done := _durable(elsewhere, RESPONSE)) is not None:
        told = (
            f"{begin(frame)} is on its way while {whom} goes on; {whom} is killed when its next "
            f"{done.label} is done. If that waits for the request, it arrives; else it never does."
        )
        yield Happening(WITHHOLD_KILL, at, OnWire(at.role, done, RESPONSE, since=at)), told


def _durable(frames: Sequence[NamedFrame], direction: Direction) -> StepName | None:
    """Return the step of the first frame in a direction that requests a durable change, or answers
    such a request.
    """
    for frame in frames:
        role, api, way = frame.kind
        step = Step(role, api, way, 1, protocol=frame.protocol)
        if way == direction and request_of(step).durable:
            return step_named(frame.protocol, api)
    return None
