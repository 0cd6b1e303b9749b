"""The acts of a sweep: what may happen at a step, and how it is said."""

from __future__ import annotations

from dataclasses import dataclass
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
    TakenOver,
    Terminate,
    Withheld,
)
from harness.faults.network import Until
from harness.model.scenario import Role
from harness.model.takeovers import Turn
from harness.sweep.names import known_of, step_named
from harness.wire.rules import Direction, How

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.controls import Trigger
    from harness.sweep.steps import Step
    from harness.wire.protocol import Step as Known

REQUEST, RESPONSE = Direction.REQUEST, Direction.RESPONSE
KILL = "kill"
KILL_BROKER = "kill-broker"
LOSE = "lose"
LATE = "late"
LATE_NEXT = "late-next"
LATE_NEXT_KILL = "late-next-kill"
SILENT = "silent"
LONG = (SILENT,)
"""Acts that wait for a client's time-out. They are tried only if the user names them."""
HOLD, PAUSE, REFUSE, REFUSE_DONE = "hold", "pause", "refuse", "refuse-done"
HAND_OVER = "hand-over"
"""Another of several brokers becomes the leader of what the frame is about. The broker that the
frame was for stops leading it, and no process dies.
"""
TERMINATE, TERMINATE_KILL, WITHHOLD_KILL = "terminate", "terminate-kill", "withhold-kill"
ACTS = (
    KILL,
    KILL_BROKER,
    HAND_OVER,
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


_HARM = (
    (HOLD, LATE, LATE_NEXT),
    (LOSE, SILENT, REFUSE, PAUSE, HAND_OVER),
    (TERMINATE,),
    (KILL, KILL_BROKER, LATE_NEXT_KILL, TERMINATE_KILL, WITHHOLD_KILL),
)


def severity(act: str) -> int:
    """Return how much an act does: 0 delays a frame, 1 takes it away, stops a program for a
    while or lets another broker lead, 2 tells a program to end, 3 kills.

    >>> severity("late"), severity("refuse-NOT_COORDINATOR"), severity("kill-broker")
    (0, 1, 3)
    """
    return next(rank for rank, acts in enumerate(_HARM) if base_of(act) in acts)


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
            HAND_OVER: lambda at: TakenOver(at, Turn.HANDS_OVER),
        }
        if self.act not in plain:
            raise ValueError(f"the act {self.act} is not possible at this frame")
        return plain[self.act](at)


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


def request_of(step: Step) -> Known:
    """Return what is known of the request that a step answers."""
    return known_of(step, REQUEST)


def begin(text: str) -> str:
    """Return a text with a capital letter at its beginning."""
    return text[:1].upper() + text[1:]
