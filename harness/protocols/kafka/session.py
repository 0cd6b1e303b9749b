"""The state of one connection of Kafka's protocol: its requests, and the answers with the same
correlation ids.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from harness.protocols.kafka import (
    addresses,
    codec,
    frames,
    grouping,
    memberships,
    reading,
    sasl,
    sharing,
)
from harness.protocols.kafka.fetching import FetchSession
from harness.protocols.kafka.insights import NOTHING, Insight
from harness.protocols.kafka.refusing import refusal
from harness.protocols.kafka.steps import CELL_APIS, LOGIN, STEPS, Api, step_of
from harness.protocols.kafka.tracker import Tracker
from harness.wire.protocol import (
    PLAIN,
    UNKNOWN,
    Frame,
    Immovable,
    Move,
    Need,
    Opaque,
    UnableError,
    Unframed,
)
from harness.wire.rules import Direction

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from harness.model.events import Event
    from harness.model.identity import Identity
    from harness.wire.protocol import Address, Data, Fed

NOBODY: Final[Mapping[str, str]] = MappingProxyType({})
MAX_PENDING: Final = 10_000
"""Requests remembered whose answers have not come. A broker answers in order and one at a time: no
client gets there.
"""
AT: Final = frames.LENGTH_BYTES
"""Where a frame begins, behind its length."""
_ERROR_ENDS: Final = AT + frames.MIN_RESPONSE_BYTES + 2
"""Of an answer that begins with it."""
_LOGIN: Final = frozenset(api.number for api in LOGIN)
_JOINS: Final = frozenset({Api.JOIN_GROUP.number, Api.CONSUMER_GROUP_HEARTBEAT.number})
_READ_HERE: Final = _LOGIN | _JOINS | {Api.API_VERSIONS.number}
"""Requests that name the user, the client library or the group's member. They are read whole for
every cell.
"""


@dataclass(slots=True, eq=False)
class KafkaFrame(Frame):
    """A request (``asked`` null), or a response."""

    way: Direction = Direction.REQUEST
    version: int = -1
    corr: int = -1
    asked: KafkaFrame | None = None
    tokens: int = 0
    """How many tokens without a header follow it in each direction."""
    insight: Insight = field(default=NOTHING)


class Kafka:
    """Kafka's protocol. ``names``: topic names by id, learnt from Metadata responses and by
    :meth:`learn`.
    """

    name = "kafka"
    steps = STEPS

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self._users: dict[str, str] = {}

    def admit(self, users: Mapping[str, str]) -> None:
        """Add the passwords of users, with which the wire can log in."""
        self._users.update(users)

    def learn(self, names: Mapping[str, str]) -> None:
        """Add topic names with their ids, in hex or in Kafka's base64.

        Raises:
            ValueError: a value is not a topic id.
        """
        self.names.update({codec.topic_id_name(topic_id): name for name, topic_id in names.items()})

    def ledger(self, key: str, identity: Identity | None) -> Tracker:  # noqa: ARG002 - record ids are told apart by the offered ones
        """Make the bookkeeping of a cell."""
        return Tracker(self.names, identity)

    def session(self, conn: int, *, limit: int) -> KafkaSession:
        """Return the state of a new connection."""
        return KafkaSession(conn, self.names, limit, self._users)


class KafkaSession:
    """The state of one connection."""

    def __init__(
        self, conn: int, names: dict[str, str], limit: int, users: Mapping[str, str] = NOBODY
    ) -> None:
        self._conn = conn
        self._names = names
        self._limit = limit
        self._client: str | None = None
        self._asked: OrderedDict[int, KafkaFrame] = OrderedDict()
        self._fetches = FetchSession()
        self._users = users
        self._mechanism: str | None = None
        self._user: str | None = None
        self._tokens = dict.fromkeys(Direction, 0)
        self._at_token: set[Direction] = set()

    # -- frames ------------------------------------------------------------------------------------

    def feed(self, way: Direction, data: Data) -> Fed:
        """Find the next frame."""
        try:
            if self._tokens[way]:
                return self._token(way, data)
            return self._request(data) if way is Direction.REQUEST else self._response(data)
        except frames.NotAFrameError as error:
            return Opaque(str(error))

    def _request(self, data: Data) -> Fed:
        if len(data) < AT:
            return Need(AT)
        size = frames.frame_size(data, least=frames.MIN_REQUEST_BYTES)
        end = AT + frames.request_prefix_bytes(size)
        if len(data) < end:
            return Need(end)
        end = AT + frames.request_head_bytes(data[AT:end], size)
        if len(data) < end:
            return Need(end)
        head = frames.request_head(data[AT:end], size)
        self._client = self._client or "" if head.client is None else head.client
        unanswered = itself = False
        because = named = acks = session = None
        if head.api == Api.PRODUCE.number:
            acks = _acks(data, head)
            if isinstance(acks, Need):
                return acks
            unanswered = acks == 0
        elif head.api in _READ_HERE and size <= sasl.MOST_BYTES:
            if len(data) < AT + size:
                return Need(AT + size)
            request = bytes(data[AT : AT + size])
            named = frames.software(request, head) if head.api == Api.API_VERSIONS.number else None
            because = self._logs_in(request, head) if head.api in _LOGIN else None
            itself = head.api in _JOINS and frames.names_itself(
                request, head, joins=head.api == Api.JOIN_GROUP.number
            )
            if head.api == Api.JOIN_GROUP.number:
                session = frames.session_ms(request, head)
        frame = self._frame(
            Direction.REQUEST,
            step_of(head.api),
            size,
            head.version,
            head.corr,
            id=None if unanswered else head.corr,
            because=because,
        )
        told = {
            "software": named or None,
            "named_member": itself or None,
            "session_ms": session,
            "acks": acks,
        }
        frame.facts |= {name: value for name, value in told.items() if value is not None}
        return frame

    def _logs_in(self, request: bytes, head: frames.RequestHead) -> str | None:
        """Record the user and mechanism of a log-in; return why it cannot pass the wire, or
        ``None``.
        """
        if head.api == Api.SASL_HANDSHAKE.number:
            self._mechanism = sasl.mechanism_of(request, head.head_bytes)
            return sasl.why_not(self._mechanism)
        self._user = (
            sasl.user_of(self._mechanism, sasl.token_of(request, head.head_bytes, head.version))
            or self._user
        )
        return None

    def _token(self, way: Direction, data: Data) -> Fed:
        """Find what logs in without a header, as it did before SaslAuthenticate."""
        if len(data) < AT:
            return Need(AT)
        self._at_token.add(way)
        return Unframed(AT + frames.frame_size(data, least=0))

    def _response(self, data: Data) -> Fed:
        if len(data) < AT:
            return Need(AT)
        size = frames.frame_size(data, least=frames.MIN_RESPONSE_BYTES)
        if len(data) < AT + frames.MIN_RESPONSE_BYTES:
            return Need(AT + frames.MIN_RESPONSE_BYTES)
        corr = frames.correlation(data[AT : AT + frames.MIN_RESPONSE_BYTES])
        asked = self._asked.get(corr)
        if asked is None:
            because = "a response whose request was not seen"
            return self._frame(
                Direction.RESPONSE, UNKNOWN, size, -1, corr, answers=(corr,), because=because
            )
        tokens = 0
        if asked.step == Api.SASL_HANDSHAKE and asked.version == 0:
            if len(data) < _ERROR_ENDS:
                return Need(_ERROR_ENDS)
            refused = any(data[_ERROR_ENDS - 2 : _ERROR_ENDS])
            tokens = 0 if refused else sasl.TOKENS.get(self._mechanism or "", 0)
        return self._frame(
            Direction.RESPONSE,
            asked.step,
            size,
            asked.version,
            corr,
            answers=(corr,),
            asked=asked,
            tokens=tokens,
        )

    def _frame(
        self, way: Direction, step: str, size: int, version: int, corr: int, **more: Any
    ) -> KafkaFrame:
        whole = AT + size
        facts = {"version": version, "corr": corr, "size": size}
        head = whole if reading.decodable(step, way) else 0
        return KafkaFrame(
            step, whole, head=head, facts=facts, way=way, version=version, corr=corr, **more
        )

    def taken(self, way: Direction, size: int) -> None:  # noqa: ARG002 - however many
        """Take note that bytes have left the buffer. Only tokens without a header are counted."""
        if way in self._at_token:
            self._at_token.remove(way)
            self._tokens[way] -= 1

    # -- the brokers that answers name -------------------------------------------------------------

    def may_name(self, frame: KafkaFrame) -> bool:
        """Say whether an answer may name brokers."""
        return frame.asked is not None and addresses.may_name(frame.step, frame.version)

    def servers(self, frame: KafkaFrame, data: Data) -> Mapping[int, Address]:
        """Return the brokers that an answer names, by id."""
        return addresses.brokers_in(frame.step, frame.version, data)

    def renamed(self, frame: KafkaFrame, data: Data, own: Mapping[int, Address]) -> bytes:
        """Return an answer with other addresses of brokers, and note in its line that it is not
        the broker's. Its ``size`` there is that of the broker's answer.
        """
        frame.facts["renamed"] = len(own)
        return addresses.with_addresses(frame.step, frame.version, data, own)

    # -- what they are about -----------------------------------------------------------------------

    def read(self, frame: KafkaFrame, data: bytes | None, ledger: Tracker) -> Insight:
        """Decode a frame, and say what it is about."""
        frame.insight = self._look(frame, data, ledger)
        return frame.insight

    def _look(self, frame: KafkaFrame, data: bytes | None, tracker: Tracker) -> Insight:
        asked = frame.asked.insight if frame.asked else NOTHING
        if not reading.decodable(frame.step, frame.way):
            return Insight(asked.subject, because=asked.because)
        voids = frame.step in CELL_APIS
        if data is None:
            because = f"{frame.size - AT} bytes are above the limit of {self._limit}"
            return Insight(asked.subject, because=because, voids=voids)
        try:
            content = reading.decode(frame.step, frame.way, frame.version, data[AT:])
        except codec.UndecodableError as error:
            return Insight(asked.subject, because=_why(frame, error), voids=voids)
        if isinstance(content, codec.Names):
            self._names.update(content.names)
            return NOTHING
        if isinstance(content, codec.LogInAnswer):
            return Insight(error=content.error or None)
        if isinstance(content, codec.Fetch) and content.follower < 0:
            frame.facts["committed_only"] = content.read_committed
        insight = self._about(frame, content, asked, tracker)
        return replace(insight, voids=voids) if insight.because else insight

    def _about(
        self, frame: KafkaFrame, content: reading.Content, asked: Insight, tracker: Tracker
    ) -> Insight:
        """Return what a decoded frame is about."""
        asks, name = frame.way is Direction.REQUEST, f"{self._conn}:{frame.corr}"
        if isinstance(content, grouping.Content):
            found = memberships.about(content, asked, name)
        elif isinstance(content, sharing.Content) and asks:
            found = tracker.shares.asked(content, name)
        elif isinstance(content, sharing.Content):
            found = tracker.shares.answered(content, asked, self._conn)
        elif asks:
            found = tracker.look_at_request(content, name)
        else:
            found = tracker.look_at_response(content, asked, self._fetches, self._conn)
        if asks or not tracker.foreign or frame.step not in memberships.APIS:
            return found
        lines = memberships.lines(content, asked, frame.step, self._conn, self._names)
        frame.facts |= memberships.facts(lines)
        return replace(found, lines=lines)

    def sending(self, frame: KafkaFrame) -> None:
        """Remember a request that will be answered. If there are too many, the oldest
        is forgotten.
        """
        if (
            isinstance(frame, KafkaFrame)
            and frame.way is Direction.REQUEST
            and frame.id is not None
        ):
            self._asked[frame.corr] = frame
            if len(self._asked) > MAX_PENDING:
                self._asked.popitem(last=False)
        elif isinstance(frame, KafkaFrame) and frame.tokens:
            self._tokens = dict.fromkeys(Direction, frame.tokens)

    def settled(
        self, frame: KafkaFrame, ledger: Tracker | None, *, reached: bool
    ) -> Iterable[Event]:
        """Return what the frame carried, now that its fate is known."""
        if frame.asked is not None and self._asked.get(frame.corr) is frame.asked:
            del self._asked[frame.corr]
        if ledger is None or frame.insight is NOTHING:
            return ()
        return ledger.settle(frame.insight, reached=reached)

    # -- what can be done to it --------------------------------------------------------------------

    def refuse(self, frame: KafkaFrame, data: bytes, error: str) -> bytes:
        """Return the answer that refuses a request, as a broker would.

        Raises:
            UnableError: the request gets no answer, or is never refused by this error.
        """
        if frame.id is None or error not in STEPS.get((frame.step, frame.way), PLAIN).errors:
            raise UnableError(
                f"a {frame.step} {frame.way} that asks for {'no' if frame.id is None else 'an'} "
                f"answer is never refused by {error}"
            )
        return refusal(
            frame.step, frame.version, frame.corr, data[AT:], error, self._fetched_by(frame, data)
        )

    def _fetched_by(self, frame: KafkaFrame, data: bytes) -> Collection[tuple[str, int]]:
        """Return all partitions that a Fetch is for, also those that it does not name."""
        if frame.step != Api.FETCH:
            return ()
        try:
            asked = reading.decode(frame.step, frame.way, frame.version, data[AT:])
        except codec.UndecodableError as error:
            raise UnableError(
                f"a {frame.step} of version {frame.version} cannot be refused: {error}"
            ) from error
        if not isinstance(asked, codec.Fetch):
            return ()
        fetches = FetchSession(dict(self._fetches.positions))
        fetches.ask(asked)
        return fetches.positions

    def move(self, frame: KafkaFrame, data: bytes) -> Move | Immovable:
        """Say how a frame can be sent on another connection.

        A request means the same on every connection of its user. An answer can only be discarded.
        """
        if frame.step in LOGIN:
            return Immovable("belongs to the log-in of its connection")
        if self._mechanism is None:
            return Move(data)
        user = self._user or ""
        if user not in self._users:
            return Immovable(f"is of the user {user!r}, whose password the wire was not told")
        try:
            return Move(
                data, sasl.talk(self._mechanism, user, self._users[user], self._client or "")
            )
        except UnableError as error:
            return Immovable(str(error))

    def owner(self) -> str | None:
        """Return the client id of the last request."""
        return self._client

    def silence_s(self, way: Direction) -> None:
        """Return ``None``: brokers have time-outs for members and producers alone."""

    def ended(self, by: str, ledger: object) -> Iterable[Event]:  # noqa: ARG002 - whoever ended it
        """Return no line: a broker's state belongs to group members and producers, and not to
        connections.
        """
        return ()


def _why(frame: KafkaFrame, error: codec.UndecodableError) -> str | None:
    """Say why a frame cannot be read; ``None`` if it matters to no account. What a member of a
    group is told is a proof of some faults.
    """
    return None if frame.step in memberships.CLASSIC else str(error)


def _acks(data: Data, head: frames.RequestHead) -> int | Need | None:
    """Return the acks of a Produce request, None where it does not have any."""
    most = min(head.size, frames.ACKS_PREFIX_BYTES)
    for count in (min(most, head.head_bytes + frames.ACKS_USUALLY_WITHIN_BYTES), most):
        if len(data) < AT + count:
            return Need(AT + count)
        acks = frames.produce_acks(data[AT : AT + count], head)
        if acks is not None:
            return acks
    return None
