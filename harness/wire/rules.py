"""Rules: which frame is meant, and what is done to it. Pure: needs neither asyncio nor a protocol
library.

A rule belongs to one cell and is armed over the control connection. It selects a frame by its
header (role, client, API, direction) and, where that is not enough, by its content (record, topic,
transactional id); among the frames that match since it was armed it acts on the ``occurrence``-th
and on, ``limit`` times in all.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from types import NoneType
from typing import TYPE_CHECKING, Any, Final

from harness.model.identity import RecordSelector
from harness.model.kinds import Direction as Direction  # noqa: PLC0414 - a rule has a direction

if TYPE_CHECKING:
    from collections.abc import Mapping


class RuleError(ValueError):
    """A rule that can never act as written; the message is one line."""


class StepName(StrEnum):
    """What a protocol calls its steps: the base of one enumeration for each protocol, whose values
    stand in the history.
    """

    @property
    def label(self) -> str:
        """The protocol's own spelling."""
        return self.value

    def selects(self, direction: Direction) -> frozenset[str]:
        """Return by which fields of a rule a frame of this step can be chosen: ``record``,
        ``topic``, ``transactional_id``.
        """
        raise NotImplementedError

    def removable(self, direction: Direction) -> bool:  # noqa: ARG002 - of most protocols nothing is
        """Say whether a frame of this step may vanish while its connection lives on."""
        return False

    @property
    def errors(self) -> Mapping[str, bool]:
        """Legal refusals of such a request, and whether what was asked may be done all the same
        (see ``protocol.Step``).
        """
        return {}


class Action(StrEnum):
    """What is done to the frame.

    ``hold``: it stalls its direction of its connection until it is resolved. ``drop``: it vanishes,
    and then ``after``. ``cut``: it vanishes and the connection ends. ``cut-after``: it arrives
    whole; of a request the broker's answer is awaited and swallowed; then the connection ends.
    ``delay``: it waits ``delay_s``. ``answer``: the wire refuses a request by ``error`` in the
    broker's name; with ``forward`` the request arrives, and the broker's own answer is swallowed,
    else it never does. ``mark``: nothing is done; rules that count ``since`` it begin to.
    """

    HOLD = "hold"
    DROP = "drop"
    CUT = "cut"
    CUT_AFTER = "cut-after"
    DELAY = "delay"
    ANSWER = "answer"
    MARK = "mark"


class After(StrEnum):
    """What follows a dropped frame: the connection ends, this direction of it goes silent, or it
    lives on without that frame.
    """

    CUT = "cut"
    BLACK_HOLE = "black-hole"
    GO_ON = "go-on"
    """Only where a peer cannot tell that a frame is missing
    (:attr:`~harness.wire.protocol.Step.removable`).
    """


class FreezeScope(StrEnum):
    """What is frozen in both directions from the moment of a hit: one client's connections, or the
    cell's connections to one broker.
    """

    CLIENT = "client"
    NODE = "node"


class How(StrEnum):
    """How a held frame is resolved.

    ``release``: it goes on in place, what was frozen thaws. ``discard``: it never arrived, what was
    frozen ends. ``deliver``: a request is sent whole over a fresh connection and its answer
    recorded and swallowed (a response has nobody left to go to); what was frozen ends.
    ``release-later``: it leaves its connection, which goes on or is cut, and may be delivered or
    discarded afterwards.
    """

    RELEASE = "release"
    DISCARD = "discard"
    DELIVER = "deliver"
    RELEASE_LATER = "release-later"


CONTENT = ("record", "topic", "transactional_id")
"""Selectors of a rule that need the frame's content, not only its header."""
_TEXT: Final = ("api", "role", "node", "client", *CONTENT, "carrying", "error", "since")
_PLAIN: Final[Mapping[str, type | tuple[type, ...]]] = {
    "id": str,
    **dict.fromkeys(_TEXT, (str, NoneType)),
    "occurrence": int,
    **dict.fromkeys(("least", "limit"), (int, NoneType)),
    "granted": bool,
    "delay_s": (int, float),
    **dict.fromkeys(("forward", "half"), bool),
}
"""The types of a rule's fields, as they come over the control connection."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. Every selector that is ``None`` matches anything.

    ``api`` is the name of the step; where it is a :class:`StepName`, what else selects must fit it.

    ``client`` is a prefix of the client id that ends at a word boundary, ``{key}`` in it stands for
    the cell's key: ``{key}.producer.2`` does not match ``….producer.20``. ``occurrence`` counts
    from 1 among the matches since arming; frames of fewer than ``least`` bytes are none. ``limit``
    is how often the rule fires (``None``: every time). ``granted`` passes over answers that refuse
    what was asked (their error code is not 0): the client asks again, and the answer to that may be
    the one. ``delay_s`` is in seconds, for ``delay``, and for an ``answer`` that is not forwarded:
    the connection's next requests go on meanwhile. ``error`` and ``forward`` are for ``answer``.

    ``half`` is for a held request: the first half of its bytes goes on at once, and nothing more of
    its connection is read until it is resolved.

    ``carrying`` says in JSON which record is meant, where records are their own ids
    (:class:`harness.model.identity.RecordSelector`).

    ``since`` is the id of another rule of the cell: frames count from behind the one at which that
    has fired first, and where it is of the same role, those of the same process only.
    """

    id: str
    action: Action
    api: str | None = None
    direction: Direction = Direction.REQUEST
    role: str | None = None
    node: str | None = None
    client: str | None = None
    record: str | None = None
    topic: str | None = None
    transactional_id: str | None = None
    carrying: str | None = None
    occurrence: int = 1
    least: int | None = None
    limit: int | None = 1
    granted: bool = False
    after: After = After.CUT
    delay_s: float = 0.0
    freeze: FreezeScope | None = None
    half: bool = False
    error: str | None = None
    forward: bool = False
    since: str | None = None

    def __post_init__(self) -> None:
        if not self.id:
            raise RuleError("a rule needs an id")
        if self.occurrence < 1:
            raise RuleError(f"rule {self.id}: occurrence counts from 1, not {self.occurrence}")
        if self.limit is not None and self.limit < 1:
            raise RuleError(f"rule {self.id}: a limit of {self.limit} would never fire")
        late = self.action is Action.ANSWER and not self.forward and self.delay_s >= 0
        if not late and (self.action is Action.DELAY) != (self.delay_s > 0):
            raise RuleError(
                f"rule {self.id}: delay_s belongs to the action delay, and there it is above 0"
            )
        self._check_hold()
        if self.granted and self.direction is not Direction.RESPONSE:
            raise RuleError(f"rule {self.id}: only an answer can be granted")
        if isinstance(self.api, StepName) and (
            missing := self.content - self.api.selects(self.direction)
        ):
            what = min(missing).replace("_", " ")
            raise RuleError(
                f"rule {self.id}: a {self.api.label} {self.direction} cannot be selected by {what}"
            )
        if (
            isinstance(self.api, StepName)
            and self.after is After.GO_ON
            and not self.api.removable(self.direction)
        ):
            raise RuleError(
                f"rule {self.id}: no {self.api.label} {self.direction} can vanish while its "
                "connection lives on"
            )
        if self.since == self.id:
            raise RuleError(f"rule {self.id}: it cannot count from itself")
        self._check_answer()

    def _check_hold(self) -> None:
        if self.freeze is not None and self.action is not Action.HOLD:
            raise RuleError(
                f"rule {self.id}: only a hold can freeze, since only its resolution ends the freeze"
            )
        if self.half and (self.action, self.direction) != (Action.HOLD, Direction.REQUEST):
            raise RuleError(f"rule {self.id}: only a request can be held when half of it is on")

    def _check_answer(self) -> None:
        if (self.action is Action.ANSWER) != (self.error is not None):
            raise RuleError(
                f"rule {self.id}: an error belongs to the action answer, and there it is named"
            )
        if self.action is not Action.ANSWER:
            if self.forward:
                raise RuleError(f"rule {self.id}: only what is answered is forwarded besides")
            return
        if self.direction is not Direction.REQUEST:
            raise RuleError(f"rule {self.id}: only a request can be answered")
        if self.api is None:
            raise RuleError(
                f"rule {self.id}: what is answered by {self.error} must be named by its step"
            )
        if isinstance(self.api, StepName):
            self.check_error(self.api.label, self.api.errors)

    def check_error(self, step: str, errors: Mapping[str, bool]) -> None:
        """Raise :class:`RuleError` if the step has no such error, or if the error says "not done"
        and the rule forwards the request.
        """
        error = self.error or ""
        if error not in errors:
            raise RuleError(f"rule {self.id}: a {step} is never refused by {error}")
        if self.forward and not errors[error]:
            raise RuleError(
                f"rule {self.id}: {error} says that a {step} is not done: it cannot be forwarded"
            )

    @property
    def content(self) -> frozenset[str]:
        """The selectors of this rule that need the frame's content."""
        named = frozenset(name for name in CONTENT if getattr(self, name) is not None)
        return named if self.carrying is None else named | {"record"}

    def to_json(self) -> dict[str, object]:
        """Return plain values, as they go over the control connection."""
        return asdict(self)

    @staticmethod
    def from_json(plain: Mapping[str, Any]) -> Rule:
        """Build a rule from :meth:`to_json`.

        Raises:
            RuleError: it is no rule; one line.
        """
        try:
            values = dict(plain)
            values["action"] = Action(values["action"])
            values["direction"] = Direction(values.get("direction", Direction.REQUEST))
            values["after"] = After(values.get("after", After.CUT))
            values["freeze"] = (
                None if values.get("freeze") is None else FreezeScope(values["freeze"])
            )
            _check_types(values)
            return Rule(**values)
        except RuleError:
            raise
        except (TypeError, ValueError, KeyError) as error:
            raise RuleError(f"not a rule: {error}") from error


def _check_types(values: Mapping[str, object]) -> None:
    for name, value in values.items():
        if not isinstance(value, _PLAIN.get(name, object)):
            raise TypeError(f"{name} is no {value!r}")


@dataclass(frozen=True, slots=True)
class RuleCounts:
    """What a rule has met: ``seen`` headers that fit, ``matched`` frames that fit whole, ``fired``
    actions.
    """

    seen: int = 0
    matched: int = 0
    fired: int = 0


@dataclass(frozen=True, slots=True)
class Header:
    """What a rule compares first. ``client`` is the client id (empty: none was given), ``api`` the
    step.
    """

    role: str
    client: str
    api: str
    direction: Direction
    node: str = ""


@dataclass(frozen=True, slots=True)
class Subject:
    """What a rule compares if the header is not enough: what the frame is about."""

    records: frozenset[str] = frozenset()
    topics: frozenset[str] = frozenset()
    transactional_ids: frozenset[str] = frozenset()


@dataclass(slots=True)
class ArmedRule:
    """A rule that is armed in a cell, with its counts."""

    rule: Rule
    key: str
    seen: int = 0
    matched: int = 0
    fired: int = 0
    _carrying: RecordSelector | None = field(init=False)

    def __post_init__(self) -> None:
        told = self.rule.carrying
        self._carrying = None if told is None else RecordSelector(**json.loads(told))

    @property
    def counts(self) -> RuleCounts:
        """Return the counts so far."""
        return RuleCounts(self.seen, self.matched, self.fired)

    def fits(self, header: Header) -> bool:
        """Say whether the rule may act on a frame with this header. Counts nothing."""
        rule = self.rule
        return (
            rule.direction is header.direction
            and (rule.api is None or rule.api == header.api)
            and (rule.role is None or rule.role == header.role)
            and (rule.node is None or rule.node == header.node)
            and (
                rule.client is None
                or is_prefix(rule.client.replace("{key}", self.key), header.client)
            )
        )

    def takes(self, subject: Subject) -> bool:
        """Say whether the rule selects a frame with this content. Counts nothing."""
        rule = self.rule
        return (
            (rule.record is None or rule.record in subject.records)
            and (self._carrying is None or any(map(self._carrying.fits, subject.records)))
            and (rule.topic is None or rule.topic in subject.topics)
            and (
                rule.transactional_id is None or rule.transactional_id in subject.transactional_ids
            )
        )

    def tears(self, half: bytes) -> bool:
        """Say whether the rule acts on a request of which only the first half has been read: it is
        for such a half, and its record's id stands there.
        """
        rule = self.rule
        if not rule.half or rule.record is None or not self._is_due(self.matched + 1):
            return False
        id_ = re.escape(rule.record.encode())
        return re.search(rb"(?<![\w-])" + id_ + rb"(?![\w-])", half) is not None

    @property
    def due(self) -> bool:
        """Whether the rule acts on the match that was just counted."""
        return self._is_due(self.matched)

    def _is_due(self, matched: int) -> bool:
        return matched >= self.rule.occurrence and (
            self.rule.limit is None or self.fired < self.rule.limit
        )


def is_prefix(prefix: str, client: str) -> bool:
    """Say whether ``prefix`` begins ``client`` and ends where a word of it ends.

    >>> is_prefix("k.producer.2", "k.producer.2-1"), is_prefix("k.producer.2", "k.producer.20")
    (True, False)
    """
    if not client.startswith(prefix):
        return False
    rest = client[len(prefix) :]
    return not (rest and prefix) or not (rest[0].isalnum() and prefix[-1].isalnum())
