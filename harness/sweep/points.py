"""The points of a sweep: each step, with all that may legally happen there."""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from harness.controls import AtWrite, InProgram, OnWire
from harness.faults import (
    Answer,
    CrashAtWrite,
    Drop,
    Hold,
    Kill,
    Late,
    Pause,
    Silent,
    Terminate,
    Twice,
    Withheld,
)
from harness.faults.network import Until
from harness.model.scenario import Role
from harness.model.writes import WRITES, chosen
from harness.plugins import load
from harness.protocols.kafka.steps import DENIED, Api
from harness.protocols.listing import listed
from harness.sweep.steps import FAILPOINT, WRITE, Step
from harness.wire.protocol import PLAIN
from harness.wire.protocol import Step as Known
from harness.wire.rules import Direction, How, StepName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from harness.controls import Trigger
    from harness.model import events as kinds
    from harness.model.cell import Load
    from harness.model.record import Record
    from harness.model.writes import Point as WritePoint
    from harness.sweep.steps import Passed, Steps

REQUEST, RESPONSE = Direction.REQUEST, Direction.RESPONSE
KILL, KILL_BROKER, LOSE, LATE, LATE_NEXT, LATE_NEXT_KILL = (
    "kill",
    "kill-broker",
    "lose",
    "late",
    "late-next",
    "late-next-kill",
)
SILENT = "silent"
LONG = (SILENT,)
"""Acts that wait for a time-out of a client's: they are tried only if they are named."""
HOLD, PAUSE, REFUSE, REFUSE_DONE = "hold", "pause", "refuse", "refuse-done"
TERMINATE, TERMINATE_KILL, WITHHOLD_KILL = "terminate", "terminate-kill", "withhold-kill"
ACTS = (
    KILL,
    KILL_BROKER,
    LOSE,
    LATE,
    LATE_NEXT,
    LATE_NEXT_KILL,
    HOLD,
    PAUSE,
    TERMINATE,
    TERMINATE_KILL,
    WITHHOLD_KILL,
    REFUSE,
    REFUSE_DONE,
    SILENT,
)
"""All acts. The name of a refusal is followed by its error."""
FENCED_MEMBER = "FENCED_INSTANCE_ID"
"""The error for static members only: another member joined with the same group.instance.id."""
READERS = (Role.CONSUMER, Role.PROCESSOR)
"""Roles whose responses can be held until everything else is done, because no other role waits for
them.
"""


def base_of(act: str) -> str:
    """Return the kind of an act. All refusals are of one kind.

    >>> base_of("refuse-done-NOT_COORDINATOR"), base_of("late-next")
    ('refuse', 'late-next')
    """
    return REFUSE if act.startswith(REFUSE) else act


@dataclass(frozen=True, slots=True)
class Happening:
    """An act at a frame or a durable write, as a scenario file describes it.

    ``into``: where a late request arrives; at what an answer goes on that is held (null: when the
    source is exhausted); or at which later step the program is killed.
    """

    act: str
    at: Trigger | AtWrite
    into: OnWire | None = None

    def fault(self) -> Any:
        """Return the fault that does it.

        Raises:
            ValueError: the act cannot be there.
            RuleError: the wire can hold no such frame.
        """
        if isinstance(self.at, AtWrite):
            if self.act != KILL:
                raise ValueError(f"the act {self.act} is not possible at a durable write")
            return CrashAtWrite(
                self.at.role, (self.at.since.api, self.at.since.direction), self.at.point
            )
        victims = {KILL: self.at.role, KILL_BROKER: Role.BROKER}
        if self.act in victims:
            return Kill(self.at, (victims[self.act],), held=How.DISCARD)
        if isinstance(self.at, InProgram):
            raise ValueError(f"the act {self.act} is not possible at a failpoint")  # noqa: TRY004 - a wrong file
        return self._of_frame(self.at)

    def _of_frame(self, at: OnWire) -> Any:
        """Return the fault that acts on the frame alone and kills no process."""
        if self.act.startswith(f"{REFUSE_DONE}-"):
            return Answer(at, self.act.removeprefix(f"{REFUSE_DONE}-"), forward=True)
        if self.act.startswith(f"{REFUSE}-"):
            return Answer(at, self.act.removeprefix(f"{REFUSE}-"))
        if self.into is not None and self.act in {LATE, LATE_NEXT, LATE_NEXT_KILL}:
            return Late(at, self.into, kill=self.act == LATE_NEXT_KILL)
        if self.into is not None and self.act in {TERMINATE_KILL, WITHHOLD_KILL}:
            return (Terminate if self.act == TERMINATE_KILL else Withheld)(at, self.into)
        if self.act == HOLD and at.direction == RESPONSE:
            return Hold(at, self.into or Until.EXHAUSTED)
        plain: dict[str, Callable[[OnWire], object]] = {
            LOSE: Drop,
            PAUSE: Pause,
            TERMINATE: Terminate,
            SILENT: Silent,
        }
        if self.act not in plain:
            raise ValueError(f"the act {self.act} is not possible at this frame")
        return plain[self.act](at)


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
            else f"{one}+then+{self.second[0].behind}+{self.second[1].act}"
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
    members: frozenset[str] = frozenset()
    failpoints: tuple[tuple[str, str], ...] = ()
    resends: bool = True
    """Whether a producer repeats unanswered requests. If not, none of its requests can come late.
    """
    reconnects: bool = True
    """Whether its programs are known to reconnect where their client library does not."""
    writes: tuple[tuple[str, WritePoint], ...] = ()
    """Durable writes, by role, that count from when a record is given to it."""


def _below(kind: type[StepName]) -> Iterator[type[StepName]]:
    """Yield the enumerations of steps that are loaded: they come with the protocols."""
    for each in kind.__subclasses__():
        yield each
        yield from _below(each)


@functools.cache
def step_names() -> Mapping[str, Mapping[str, StepName]]:
    """Return the steps that a rule can name, of each protocol by their labels: the enumeration that
    has all of its steps.
    """
    labels = {name: {label for label, _ in load(where).steps} for name, where in listed().items()}
    kinds = [{each.label: each for each in kind} for kind in _below(StepName)]
    return {
        name: next((kind for kind in kinds if of and kind.keys() >= of), {})
        for name, of in labels.items()
    }


def step_named(protocol: str, label: str) -> StepName | None:
    """Return the step that a rule can name, or ``None``. Without a protocol: that of the only one
    that has such a step.
    """
    of = [
        names[label]
        for name, names in step_names().items()
        if label in names and protocol in (name, "")
    ]
    return of[0] if len(of) == 1 else None


def shared(label: str) -> bool:
    """Say whether several protocols have a step that is called so."""
    return sum(label in names for names in step_names().values()) > 1


def protocol_of(name: StepName) -> str:
    """Return the protocol of a step."""
    return next(
        protocol for protocol, names in step_names().items() if names.get(name.label) is name
    )


def _known(step: Step, direction: Direction) -> Known:
    """Return what the protocol of a step knows of it, in one direction."""
    name = step_named(step.protocol, step.api)
    return (
        PLAIN
        if name is None
        else load(listed()[protocol_of(name)]).steps.get((step.api, direction), PLAIN)
    )


def trigger(step: Step) -> OnWire:
    """Return where a fault is placed; its target is :attr:`Step.at`.

    Raises:
        KeyError: no rule can name the step.
    """
    since = None if step.anchor is None else trigger(step.anchor)
    if (name := step_named(step.protocol, step.api)) is None:
        raise KeyError(step.api)
    return OnWire(
        Role(step.role), name, Direction(step.direction), occurrence=step.ordinal, since=since
    )


def points(steps: Steps, load: Load, can: Capabilities) -> Iterator[Point]:
    """Yield every point, in the order of the steps."""
    records = {record.id: record for record in load.records}
    for place, (step, frame) in enumerate(steps.found):
        if not nameable(step) or step.at not in records:
            continue
        after = _After(
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
            yield Point(step, happens, place, because, illegal=_illegal(step, happens, frame))


def _illegal(step: Step, happens: Happening, passed: Passed) -> str | None:
    """Say why no broker does this to this process, or ``None``."""
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
    """Yield the durable writes that are tried, of what a line says of a stage."""
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


def words(step: Step) -> str:
    """Describe the frame of a step in words."""
    way = (
        f"{step.role}'s {step.api} request"
        if step.direction == REQUEST
        else f"answer to the {step.role}'s {step.api}"
    )
    times = "" if step.ordinal == 1 else f" (number {step.ordinal})"
    if step.anchor is None:
        return f"the {way} about {step.record}{times}"
    return f"the {way}{times} next after {words(step.anchor)}"


def happenings(
    step: Step, passed: Passed, at: OnWire, can: Capabilities
) -> Iterator[tuple[Happening, str]]:
    """Yield what may happen at a step by itself, with a sentence each. ``passed``: its frame in the
    run that it is found in.
    """
    asks, frame, whom = step.direction == REQUEST, words(step), f"the {step.role}"
    known = _known(step, Direction(step.direction))
    if step.role != Role.BROKER:
        held = (
            f"{frame} never arrives, and {whom} that sends it"
            if asks
            else f"{whom}, before it reads {frame},"
        )
        yield Happening(KILL, at), f"{_begin(held)} is killed."
    if can.kill_broker and (known.durable or (not asks and _asked(step).durable)):
        done = "before it has seen" if asks else "when it has done what was asked, and not given"
        yield Happening(KILL_BROKER, at), f"The broker is killed {done} {frame}."
    yield Happening(LOSE, at), f"{_begin(frame)} is lost, and its connection is cut."
    if step.role != Role.BROKER and passed.line.answered is not False:
        yield (
            Happening(SILENT, at),
            (
                f"{_begin(frame)} never arrives, nor does what is behind it, on a connection that "
                f"lives until {whom} gives it up."
            ),
        )
    if not asks and step.role in READERS:
        yield (
            Happening(HOLD, at),
            f"{_begin(frame)} is on its way until the source is exhausted; then it arrives.",
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
            f"{_begin(frame)} never arrives, and is refused by {error}.",
        )
        if may_be_done:
            yield (
                Happening(f"{REFUSE_DONE}-{error}", at),
                f"{_begin(frame)} is done, and refused by {error} all the same.",
            )
    if step.role in can.members and step.anchor is None:
        yield (
            Happening(PAUSE, at),
            (
                f"{_begin(whom)} is stopped at {frame}, until its group has put it out; then it "
                "goes on."
            ),
        )
    if can.terminate and step.anchor is None:
        yield Happening(TERMINATE, at), f"{_begin(whom)} is told to end (SIGTERM) at {frame}."


def cut_short(
    step: Step, passed: Passed, behind: Sequence[Passed], at: OnWire, can: Capabilities
) -> Iterator[tuple[Happening, str]]:
    """Yield what ends by a kill at a later durable step of the same process: it is told to end, or
    its request is withheld.

    ``behind``: the frames after the step's, in the run that it is found in. They show which durable
    requests the process makes next.
    """
    mine = [each for each in behind if each.process == passed.process and not each.line.error]
    whom, frame = f"the {step.role}", words(step)
    if can.terminate and step.anchor is None and (asks := _durable(mine, REQUEST)) is not None:
        told = (
            f"{_begin(whom)} is told to end (SIGTERM) at {frame}, and is killed at its next "
            f"{asks.label} request, if it comes to one before it has ended."
        )
        yield Happening(TERMINATE_KILL, at, OnWire(at.role, asks, REQUEST, since=at)), told
    if step.direction != REQUEST or not _known(step, REQUEST).durable:
        return
    elsewhere = [each for each in mine if each.line.conn != passed.line.conn]
    if (done := _durable(elsewhere, RESPONSE)) is not None:
        told = (
            f"{_begin(frame)} is on its way while {whom} goes on; {whom} is killed when its next "
            f"{done.label} is done. If that waits for the request, it arrives; else it never does."
        )
        yield Happening(WITHHOLD_KILL, at, OnWire(at.role, done, RESPONSE, since=at)), told


def _durable(frames: Sequence[Passed], direction: Direction) -> StepName | None:
    """Return the step of the first frame in a direction that asks for something durable, or answers
    that it is done.
    """
    for frame in frames:
        role, api, way = frame.kind
        step = Step(role, api, way, 1, protocol=frame.protocol)
        if way == direction and _asked(step).durable:
            return step_named(frame.protocol, api)
    return None


def _asked(step: Step) -> Known:
    """Return what is known of the request that a step answers."""
    return _known(step, REQUEST)


def _begin(text: str) -> str:
    return text[:1].upper() + text[1:]


@dataclass(frozen=True, slots=True)
class _After:
    """The frames behind a step in the dry run. They show when a program has repeated a request that
    is held.
    """

    later: Sequence[tuple[Step, Passed]]
    frame: Passed
    records: Mapping[str, Record]
    here: Record
    again: bool
    """Whether its process repeats the request."""
    reconnects: bool
    """Whether its process goes on over another connection whatever its library does."""

    def happenings(self, step: Step) -> Iterator[tuple[Happening, str]]:
        """Yield when a late request may arrive: after its sender has repeated it, and during what
        the sender does next.

        And to a producer's last answer about a record: a reader may be given the record before that
        arrives.
        """
        known = _known(step, Direction(step.direction))
        if step.direction == RESPONSE and (given := self._given(step)) is not None:
            told = (
                f"{_begin(words(step))} is on its way until the {given.role} is given the "
                "record; then it arrives."
            )
            yield Happening(HOLD, trigger(step), given), told
        if (
            step.direction != REQUEST
            or not known.movable
            or not known.durable
            or not (known.again or self.reconnects)
        ):
            return
        at, frame = trigger(step), _begin(words(step))
        if self.again and (own := next(self._answers(beyond=False), None)) is not None:
            yield (
                Happening(LATE, at, own[1]),
                f"{frame} is on its way until its sender has asked again; then it arrives.",
            )
        if (following := self._next(step)) is not None:
            late = (
                f"{frame} is on its way until its sender has gone on to the next record; then it "
                "arrives"
            )
            yield Happening(LATE_NEXT, at, following), f"{late}."
            behind = self._commit_behind(step) or following
            yield Happening(LATE_NEXT_KILL, at, behind), f"{late}, and its sender is killed."

    def _given(self, step: Step) -> OnWire | None:
        """Return at what a reader is given a producer's record, where the answer is the last that
        stands before that.
        """
        if step.role != Role.PRODUCER or step.record is None or not _asked(step).durable:
            return None
        for later, _ in self.later:
            if later.record != step.record:
                continue
            if later.role == step.role and later.direction == REQUEST:
                return None  # the record is not visible before what it asks there
            if (
                later.role in READERS
                and later.direction == RESPONSE
                and later.api == Api.FETCH.label
            ):
                return trigger(later)
        return None

    def _next(self, step: Step) -> OnWire | None:
        """Return at what a late request arrives: the next answer about its key, or, where none
        comes, about any record.

        Records of one key are in one partition, and only there something late meets what was done
        since. Who ends a transaction ends it for all keys.
        """
        answers = list(self._answers(beyond=True))
        of_key = [
            answer
            for answer in answers
            if answer[0].key == self.here.key and step.api != Api.END_TXN.label
        ]
        return next((at for _, at in (*of_key, *answers)), None)

    def _commit_behind(self, step: Step) -> OnWire | None:
        """Return the commit but one behind that of a position, of its key: what the next one is
        about is worked on by then.

        Whoever saves the position first has not worked on it when that is answered: to die there
        does no harm.
        """
        if step.api != Api.OFFSET_COMMIT.label:
            return None
        mine = (later for later, frame in self.later if frame.process == self.frame.process)
        commits = (
            self.records.get(later.record or "")
            for later in mine
            if (later.api, later.direction) == (step.api, REQUEST)
        )
        places = dict.fromkeys(
            one.position for one in commits if one is not None and one.key == self.here.key
        )
        behind = next(
            itertools.islice((place for place in places if place > self.here.position), 1, None),
            None,
        )
        return (
            None
            if behind is None
            else replace(trigger(step), offset=behind - self.here.position, occurrence=1)
        )

    def _answers(self, *, beyond: bool) -> Iterator[tuple[Record, OnWire]]:
        """Yield the answers to this process about its record, or about later ones; their offsets
        count from the target.

        A reader asks for records whatever becomes of its other requests: an answer to that says
        nothing of where it is.
        """
        for step, frame in self.later:
            if (
                frame.process != self.frame.process
                or step.direction != RESPONSE
                or step.api == Api.FETCH.label
            ):
                continue
            record = None if step.record is None else self.records.get(step.record)
            if record is None:
                continue
            offset = record.position - self.here.position
            if offset > 0 if beyond else offset == 0:
                at = replace(trigger(step), offset=offset)
                yield record, at
