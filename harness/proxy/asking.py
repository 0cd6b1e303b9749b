"""From what a test asks for to a rule of the wire. Pure."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Final, TypedDict

import msgspec

from harness.model.conversion import convert
from harness.model.failures import UsageError
from harness.model.identity import RecordSelector
from harness.proxy.spoken import KAFKA, SPOKEN
from harness.wire.protocol import PLAIN
from harness.wire.rules import Action, After, Direction, Rule, RuleError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.proxy.spoken import ProxiedProtocol

ACTIONS: Final = {
    "lose": Action.CUT,
    "never": Action.DROP,
    "cut": Action.CUT_AFTER,
    "hold": Action.HOLD,
    "late": Action.HOLD,
    "refuse": Action.ANSWER,
    "delay": Action.DELAY,
}
"""What can be done to a frame, in the words of a test."""


class FrameSelector(TypedDict, total=False):
    """Selects a frame: all that is given must fit."""

    answer: bool
    """The broker's answer; else the request."""
    topic: str | None
    role: str | None
    """The role of the programs that send or get it."""
    client: str | None
    """The client's id."""
    transaction: str | None
    """The transactional id."""
    record: Mapping[str, object] | str | None
    """A record in it: fields of its JSON value, by their dotted paths, or a text in the value."""
    key: str | None
    """The record's key."""
    header: Mapping[str, str] | None
    """Headers of the record."""
    nth: int
    """Which of the frames that fit, from 1."""
    times: int | None
    """How many frames from there on; ``None``: all."""


class FaultRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fault as it is asked for: what is :class:`FrameSelector`, and what is done to it."""

    do: str
    api: str
    answer: bool = False
    topic: str | None = None
    role: str | None = None
    client: str | None = None
    transaction: str | None = None
    record: dict[str, object] | str | None = None
    key: str | None = None
    header: dict[str, str] | None = None
    nth: int = 1
    times: int | None = 1
    seconds: float | None = None
    error: str | None = None
    applied: bool | None = None

    @property
    def wanted(self) -> RecordSelector | None:
        """Which record is meant; ``None``: any."""
        if self.record is None and self.key is None and self.header is None:
            return None
        text = self.record if isinstance(self.record, str) else None
        fields = self.record if isinstance(self.record, dict) else {}
        return RecordSelector(self.key, self.header or {}, fields, text)

    def check(self) -> None:
        """Raise :class:`UsageError` if an option belongs to another fault, or is missing."""
        if self.do not in ACTIONS:
            raise UsageError(f"there is no fault {self.do!r}: there are {', '.join(ACTIONS)}")
        for name, of in (("seconds", "delay"), ("error", "refuse"), ("applied", "refuse")):
            if getattr(self, name) is not None and self.do != of:
                raise UsageError(f"{name} belongs to {of}: leave it out of {self.do}")
        if self.do == "delay" and self.seconds is None:
            raise UsageError("delay needs seconds: a number above 0")
        if self.do == "refuse" and self.error is None:
            raise UsageError("refuse needs error: the name of an error of the protocol")
        if self.seconds is not None and not 0 < self.seconds < math.inf:
            raise UsageError(f"seconds is a number above 0, not {self.seconds:g}")
        self._check_names()
        if self.nth < 1:
            raise UsageError(f"nth counts from 1, not {self.nth}")
        if self.times is not None and self.times < 1:
            raise UsageError(f"times={self.times} would never strike: it is at least 1, or null")
        if self.do == "late" and self.answer:
            raise UsageError("a late answer has nobody left to go to: only a request can be late")

    def _check_names(self) -> None:
        for name in ("topic", "client", "transaction"):
            if getattr(self, name) == "":
                raise UsageError(
                    f"{name} is empty, and would select all: name one, or leave it out"
                )


def asked_for(plain: Mapping[str, object]) -> FaultRequest:
    """Return a fault from plain values.

    Raises:
        UsageError: there is no such fault; one line.
    """
    try:
        asked = convert(dict(plain), FaultRequest)
    except msgspec.ValidationError as error:
        raise UsageError(f"no fault can be made of that: {error}") from error
    asked.check()
    return asked


def rule_of(name: str, asked: FaultRequest, protocol: ProxiedProtocol = SPOKEN[KAFKA]) -> Rule:
    """Return the rule of a fault.

    Raises:
        UsageError: the protocol has no such API, or it cannot be selected by that; one line.
    """
    api = protocol.step(asked.api)
    way = Direction.RESPONSE if asked.answer else Direction.REQUEST
    wanted = asked.wanted
    if wanted is not None and not protocol.records:
        raise UsageError(
            f"a {api} cannot be selected by record, for the wire reads none of it: leave it out"
        )
    step = protocol.steps.get((api, way), PLAIN)
    if asked.do == "late" and not step.movable:
        raise UsageError(f"a {api} belongs to its connection, so it cannot be late: write `hold`")
    try:
        made = Rule(
            name,
            ACTIONS[asked.do],
            api,
            way,
            role=asked.role,
            client=asked.client,
            topic=asked.topic,
            transactional_id=asked.transaction,
            carrying=None if wanted is None else json.dumps(asdict(wanted)),
            occurrence=asked.nth,
            limit=asked.times,
            after=After.BLACK_HOLE if asked.do == "never" else After.CUT,
            delay_s=asked.seconds or 0.0,
            error=asked.error,
            forward=bool(asked.applied),
        )
        if asked.error is not None:
            made.check_error(api, protocol.steps.get((api, Direction.REQUEST), PLAIN).errors)
    except RuleError as error:
        raise UsageError(str(error).removeprefix(f"rule {name}: ")) from error
    missing = made.content - step.selects
    if missing:
        what = min(missing).replace("_", " ")
        raise UsageError(f"a {api} {way} cannot be selected by {what}: leave it out")
    return made
