"""Rules: which frame is meant, and what is done to it. Pure: needs neither asyncio nor a protocol library.

A rule belongs to one cell and is armed over the control connection. It selects a frame by its header (role, client,
API, direction) and, where that is not enough, by its content (record, topic, transactional id); among the frames that
match since it was armed it acts on the ``occurrence``-th and on, ``limit`` times in all.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class RuleError(ValueError):
    """A rule that could never do what it says; the message is one line."""


class Api(IntEnum):
    """The APIs of the Kafka protocol that rules name. Every other API passes the wire as a number.

    Beside them, by a number that no API of Kafka has: the COMMIT of a database, and its answer.
    """

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    API_VERSIONS = 18
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    CONSUMER_GROUP_HEARTBEAT = 68
    DATABASE_COMMIT = 20_000

    @property
    def label(self) -> str:
        """The protocol's own spelling: ``Api.END_TXN.label == "EndTxn"``."""
        return "".join(word.capitalize() for word in self.name.split("_"))


def api_label(number: int) -> str:
    """Return the spelling of an API number, also of one this wire does not name.

    >>> api_label(28), api_label(75)
    ('TxnOffsetCommit', 'api-75')
    """
    try:
        return Api(number).label
    except ValueError:
        return f"api-{number}"


class Direction(StrEnum):
    """Which way a frame goes."""

    REQUEST = "request"
    RESPONSE = "response"


class Action(StrEnum):
    """What is done to the frame.

    ``hold``: it stalls its direction of its connection until it is resolved. ``drop``: it vanishes, and then ``after``.
    ``cut``: it vanishes and the connection ends. ``cut-after``: it arrives whole; of a request the broker's answer is
    awaited and swallowed; then the connection ends. ``delay``: it waits ``delay_s``.
    """

    HOLD = "hold"
    DROP = "drop"
    CUT = "cut"
    CUT_AFTER = "cut-after"
    DELAY = "delay"


class After(StrEnum):
    """What follows a dropped frame: the connection ends, or this direction of it goes silent."""

    CUT = "cut"
    BLACK_HOLE = "black-hole"


class FreezeScope(StrEnum):
    """What stands still, both ways, from the instant of a hit: one client's connections, or the cell's to one broker."""

    CLIENT = "client"
    NODE = "node"


class How(StrEnum):
    """How a held frame is resolved.

    ``release``: it goes on in place, what was frozen thaws. ``discard``: it never arrived, what was frozen ends.
    ``deliver``: a request is sent whole over a fresh connection and its answer recorded and swallowed (a response has
    nobody left to go to); what was frozen ends. ``release-later``: it leaves its connection, which goes on or is cut,
    and may be delivered or discarded afterwards.
    """

    RELEASE = "release"
    DISCARD = "discard"
    DELIVER = "deliver"
    RELEASE_LATER = "release-later"


_REQ, _RES = Direction.REQUEST, Direction.RESPONSE
SELECTABLE_BY_RECORD = frozenset(
    {
        (Api.PRODUCE, _REQ),
        (Api.PRODUCE, _RES),
        (Api.FETCH, _RES),
        (Api.OFFSET_COMMIT, _REQ),
        (Api.OFFSET_COMMIT, _RES),
        (Api.TXN_OFFSET_COMMIT, _REQ),
        (Api.TXN_OFFSET_COMMIT, _RES),
        (Api.END_TXN, _REQ),
        (Api.END_TXN, _RES),
        (Api.WRITE_TXN_MARKERS, _REQ),
        (Api.WRITE_TXN_MARKERS, _RES),
        (Api.DATABASE_COMMIT, _REQ),
        (Api.DATABASE_COMMIT, _RES),
    }
)
"""Frames of which the wire knows the records. (An incremental fetch request names nothing: select its response.)"""
SELECTABLE_BY_TOPIC = frozenset(
    pair for pair in SELECTABLE_BY_RECORD if pair[0] not in {Api.END_TXN, Api.WRITE_TXN_MARKERS, Api.DATABASE_COMMIT}
)
SELECTABLE_BY_TRANSACTION = frozenset(
    (api, direction)
    for api in (
        Api.PRODUCE,
        Api.INIT_PRODUCER_ID,
        Api.ADD_PARTITIONS_TO_TXN,
        Api.ADD_OFFSETS_TO_TXN,
        Api.END_TXN,
        Api.TXN_OFFSET_COMMIT,
    )
    for direction in Direction
)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. Every selector that is ``None`` matches anything.

    ``client`` is a prefix of the client id that ends at a word boundary, ``{key}`` in it stands for the cell's key:
    ``{key}.producer.2`` does not match ``….producer.20``. ``occurrence`` counts from 1 among the matches since arming;
    ``limit`` is how often the rule fires (``None``: every time). ``granted`` passes over answers that refuse what was asked
    (their error code is not 0): the client asks again, and the answer to that may be the one. ``delay_s`` is in seconds, for
    ``delay`` only.
    """

    id: str
    action: Action
    api: Api | None = None
    direction: Direction = Direction.REQUEST
    role: str | None = None
    client: str | None = None
    record: str | None = None
    topic: str | None = None
    transactional_id: str | None = None
    occurrence: int = 1
    limit: int | None = 1
    granted: bool = False
    after: After = After.CUT
    delay_s: float = 0.0
    freeze: FreezeScope | None = None

    def __post_init__(self) -> None:
        if not self.id:
            raise RuleError("a rule needs an id")
        if self.occurrence < 1:
            raise RuleError(f"rule {self.id}: occurrence counts from 1, not {self.occurrence}")
        if self.limit is not None and self.limit < 1:
            raise RuleError(f"rule {self.id}: a limit of {self.limit} would never fire")
        if (self.action is Action.DELAY) != (self.delay_s > 0):
            raise RuleError(f"rule {self.id}: delay_s belongs to the action delay, and there it is above 0")
        if self.freeze is not None and self.action is not Action.HOLD:
            raise RuleError(f"rule {self.id}: only a hold can freeze, since only its resolution ends the freeze")
        if self.granted and self.direction is not Direction.RESPONSE:
            raise RuleError(f"rule {self.id}: only an answer can be granted")
        self._check("record", self.record, SELECTABLE_BY_RECORD)
        self._check("topic", self.topic, SELECTABLE_BY_TOPIC)
        self._check("transactional id", self.transactional_id, SELECTABLE_BY_TRANSACTION)

    def _check(self, what: str, wanted: str | None, selectable: frozenset[tuple[Api, Direction]]) -> None:
        if wanted is not None and self.api is not None and (self.api, self.direction) not in selectable:
            raise RuleError(f"rule {self.id}: a {self.api.label} {self.direction} cannot be selected by {what}")

    @property
    def needs_content(self) -> bool:
        """Whether a header alone cannot decide."""
        return not (self.record is None and self.topic is None and self.transactional_id is None)

    def readable(self, api: int, direction: Direction) -> bool:
        """Whether frames of this kind can have the content that is selected by."""
        kind = (api, direction)
        return not (
            (self.record is not None and kind not in SELECTABLE_BY_RECORD)
            or (self.topic is not None and kind not in SELECTABLE_BY_TOPIC)
            or (self.transactional_id is not None and kind not in SELECTABLE_BY_TRANSACTION)
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain values, as they go over the control connection."""
        return asdict(self)

    @staticmethod
    def from_json(plain: Mapping[str, Any]) -> Rule:
        """Build a rule from :meth:`to_json`; raises :class:`RuleError` with one line."""
        try:
            values = dict(plain)
            values["action"] = Action(values["action"])
            values["direction"] = Direction(values.get("direction", Direction.REQUEST))
            values["after"] = After(values.get("after", After.CUT))
            values["api"] = None if values.get("api") is None else Api(values["api"])
            values["freeze"] = None if values.get("freeze") is None else FreezeScope(values["freeze"])
            return Rule(**values)
        except RuleError:
            raise
        except (TypeError, ValueError, KeyError) as error:
            raise RuleError(f"not a rule: {error}") from error


@dataclass(frozen=True, slots=True)
class RuleCounts:
    """What a rule has met: ``seen`` headers that fit, ``matched`` frames that fit whole, ``fired`` actions."""

    seen: int = 0
    matched: int = 0
    fired: int = 0


@dataclass(frozen=True, slots=True)
class Header:
    """What a rule looks at first. ``client`` is the client id (``""`` where none was given)."""

    role: str
    client: str
    api: int
    direction: Direction


@dataclass(frozen=True, slots=True)
class Subject:
    """What a rule looks at where the header is not enough: what the frame is about."""

    records: frozenset[str] = frozenset()
    topics: frozenset[str] = frozenset()
    transactional_ids: frozenset[str] = frozenset()


@dataclass(slots=True)
class ArmedRule:
    """A rule at work in a cell, with its counts."""

    rule: Rule
    key: str
    seen: int = 0
    matched: int = 0
    fired: int = 0

    @property
    def counts(self) -> RuleCounts:
        """Return the counts so far."""
        return RuleCounts(self.seen, self.matched, self.fired)

    def fits(self, header: Header) -> bool:
        """Whether the header is one this rule may act on. Counts nothing."""
        rule = self.rule
        return (
            rule.direction is header.direction
            and (rule.api is None or rule.api == header.api)
            and (rule.role is None or rule.role == header.role)
            and (rule.client is None or is_prefix(rule.client.replace("{key}", self.key), header.client))
        )

    def takes(self, subject: Subject) -> bool:
        """Whether the content is what this rule selects. Counts nothing."""
        rule = self.rule
        return (
            (rule.record is None or rule.record in subject.records)
            and (rule.topic is None or rule.topic in subject.topics)
            and (rule.transactional_id is None or rule.transactional_id in subject.transactional_ids)
        )

    @property
    def due(self) -> bool:
        """Whether the match just counted is one to act on."""
        return self.matched >= self.rule.occurrence and (self.rule.limit is None or self.fired < self.rule.limit)


def is_prefix(prefix: str, client: str) -> bool:
    """Whether ``prefix`` begins ``client`` and ends where a word of it ends.

    >>> is_prefix("k.producer.2", "k.producer.2-1"), is_prefix("k.producer.2", "k.producer.20")
    (True, False)
    """
    if not client.startswith(prefix):
        return False
    rest = client[len(prefix) :]
    return not (rest and prefix) or not (rest[0].isalnum() and prefix[-1].isalnum())
