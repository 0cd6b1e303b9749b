"""The state of one connection to ZooKeeper: its requests with their paths, and the answers.

A client numbers its requests (``xid``), and gets answers in order. It does not send a name of its
own. The first part of a path that holds a dot is taken for its name, because the nodes of a cell
have such names.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from harness.model.record import decode_id
from harness.protocols.acts import Act
from harness.protocols.listening import Listening
from harness.protocols.telling import About, line
from harness.protocols.zookeeper.reading import (
    Cursor,
    Operation,
    UnreadableError,
    operation,
    operations,
    refused,
)
from harness.protocols.zookeeper.steps import OPCODES, STEPS, WITH_DATA, WITHOUT_PATH, Op
from harness.wire.protocol import (
    UNKNOWN,
    Frame,
    Insight,
    Need,
    Opaque,
    UnableError,
    Unframed,
)
from harness.wire.rules import Direction, Subject

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from harness.model.events import Event
    from harness.model.identity import Identity
    from harness.wire.protocol import Data, Fed

MAX_REMEMBERED: Final = 10_000
MOST_BYTES: Final = 1 << 30
MOST_PATH_BYTES: Final = 1 << 16
CONNECTING: Final = "connecting"
"""What the first answer answers, which has no number."""
PING: Final = -2
WATCHED: Final = -1
_BEGINNING: Final = struct.Struct(">ii")
"""How long it is, and its number."""
_REQUEST: Final = struct.Struct(">iii")
_ANSWER: Final = struct.Struct(">iiqi")
_HELLO: Final = struct.Struct(">iiqiqi")
"""Of a client: size, version, the last it has seen, its session's time-out (ms), the session, how
long its password is.
"""
_WELCOME: Final = struct.Struct(">iiiqi")
"""Of a server: size, version, the time-out (ms) that is agreed on, the session, how long its
password is.
"""
MOST_PASSWORD: Final = 1024
READS_WITHIN: Final = 2 / 3
"""How much of the time-out a client waits for its server."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """The bookkeeping of one cell: where its records carry their ids."""

    identity: Identity | None

    def record(self, data: bytes) -> str | None:
        """Return the record id in a node's data; ``None`` if it is not a record of this cell."""
        return decode_id(data) if self.identity is None else self.identity.find(None, data, ())


@dataclass(slots=True, eq=False)
class KeeperFrame(Frame):
    """One frame. ``asked``: for an answer, the request."""

    way: Direction = Direction.REQUEST
    number: int = 0
    asked: KeeperFrame | None = None
    subject: Subject = field(default_factory=Subject)
    error: int | None = None
    """Of an answer, once it was read."""


class ZooKeeper:
    """The protocol ZooKeeper, as the wire reads it."""

    name = "zookeeper"
    steps = STEPS

    def learn(self, names: Mapping[str, str]) -> None:
        """Do nothing: a path has only one name."""

    def ledger(self, key: str, identity: Identity | None) -> Ledger:  # noqa: ARG002 - record ids are told apart by the offered ones
        """Make the bookkeeping of a cell."""
        return Ledger(identity)

    def session(self, conn: int, *, limit: int) -> KeeperSession:
        """Return the state of a new connection."""
        return KeeperSession(conn, limit)


class KeeperSession(Listening[KeeperFrame]):
    """The state of one connection. A session outlives it, so its end says nothing. Its owner is the
    first part of a path that holds a dot.
    """

    immovable = "belongs to its session, which is on one connection at a time"
    kept = (KeeperFrame, Unframed)

    def __init__(self, conn: int, limit: int) -> None:
        super().__init__()
        self._conn = conn
        self._limit = limit
        self._greeted = dict.fromkeys(Direction, False)
        self._numbers = dict.fromkeys(Direction, 0)
        self._asked: OrderedDict[str, KeeperFrame] = OrderedDict()
        self._timeout_s: float | None = None

    # -- frames ------------------------------------------------------------------------------------

    def _next(self, way: Direction, data: Data) -> Fed:
        """Find the next frame, or ping."""
        return self._frame(way, data) if self._greeted[way] else self._greeting(way, data)

    def taken(self, way: Direction, size: int) -> None:
        """Take note that bytes have left the buffer: the next frame may be looked for."""
        super().taken(way, size)
        self._greeted[way] = True

    def _greeting(self, way: Direction, data: Data) -> Fed:
        form = _HELLO if way is Direction.REQUEST else _WELCOME
        if len(data) < form.size:
            return Need(form.size)
        size, version, *_, password = form.unpack_from(data)
        behind = size + 4 - form.size - password
        if (
            version != 0 or not 0 <= password <= MOST_PASSWORD or behind not in (0, 1)
        ):  # the last byte: whether it only reads
            return Opaque(
                "a greeting of no client" if way is Direction.REQUEST else "a greeting of no server"
            )
        frame = self._made(way, Op.CONNECT, size + 4, CONNECTING, "")
        if way is Direction.RESPONSE:
            self._timeout_s = max(form.unpack_from(data)[2], 1) / 1000
        return frame

    def _frame(self, way: Direction, data: Data) -> Fed:
        if len(data) < _BEGINNING.size:
            return Need(_BEGINNING.size)
        size, xid = _BEGINNING.unpack_from(data)
        if xid == PING and _BEGINNING.size - 4 <= size <= MOST_BYTES:
            return Unframed(size + 4)
        form = _REQUEST if way is Direction.REQUEST else _ANSWER
        if not form.size - 4 <= size <= MOST_BYTES:
            return Opaque(f"a frame of {size} bytes")
        if len(data) < form.size:
            return Need(form.size)
        return (
            self._answer(size + 4, xid)
            if way is Direction.RESPONSE
            else self._request(size + 4, xid, data)
        )

    def _request(self, size: int, xid: int, data: Data) -> Fed:
        number = _REQUEST.unpack_from(data)[2]
        op = OPCODES.get(number)
        if op is None:
            return Opaque(f"a request {number}")
        if op in WITHOUT_PATH or size < (begins := _REQUEST.size + 4):
            return self._made(Direction.REQUEST, op, size, str(xid), "")
        if len(data) < begins:
            return Need(begins)
        ends = begins + struct.unpack_from(">i", data, _REQUEST.size)[0]
        if not begins <= ends <= min(size, MOST_PATH_BYTES):
            return self._made(Direction.REQUEST, op, size, str(xid), "")
        if len(data) < ends:
            return Need(ends)
        return self._made(
            Direction.REQUEST,
            op,
            size,
            str(xid),
            bytes(data[begins:ends]).decode("utf-8", "replace"),
        )

    def _answer(self, size: int, xid: int) -> KeeperFrame:
        if xid == WATCHED:
            return self._made(Direction.RESPONSE, Op.EVENT, size, None, "")
        asked = self._asked.get(str(xid))
        frame = self._made(
            Direction.RESPONSE, None, size, str(xid), asked.facts.get("path", "") if asked else ""
        )
        frame.step = asked.step if asked else UNKNOWN
        return frame

    def _made(
        self, way: Direction, op: Op | None, size: int, xid: str | None, path: str
    ) -> KeeperFrame:
        self._numbers[way] += 1
        asked = self._asked.get(xid) if way is Direction.RESPONSE and xid is not None else None
        number = (
            asked.number
            if asked
            else self._numbers[way]
            if way is Direction.REQUEST
            else -self._numbers[way]
        )
        facts: dict[str, Any] = {"version": "0", "corr": number} | ({"path": path} if path else {})
        if self._owner is None and way is Direction.REQUEST:
            self._owner = next((word for word in path.split("/") if "." in word), None)
        name, answers = (
            (xid, ()) if way is Direction.REQUEST else (None, (xid,) if xid is not None else ())
        )
        return KeeperFrame(
            str(op) if op else UNKNOWN,
            size,
            name,
            answers,
            head=size,
            facts=facts,
            way=way,
            number=number,
            asked=asked,
        )

    # -- what they are about -----------------------------------------------------------------------

    def read(self, frame: KeeperFrame, data: bytes | None, ledger: Ledger) -> Insight:
        """Say which paths a frame is about, and which records are in their data."""
        if data is None:
            return Insight(
                because=f"{frame.size} bytes are above the limit of {self._limit}",
                voids=frame.step in WITH_DATA,
            )
        try:
            if frame.way is Direction.RESPONSE:
                frame.subject = frame.asked.subject if frame.asked else Subject()
                return Insight(frame.subject, _error(frame, data))
            frame.subject = _subject(_operations(frame, data), ledger)
        except UnreadableError as error:
            return Insight(
                frame.subject,
                because=f"a {frame.step}: {error}",
                voids=frame.step in (*WITH_DATA, Op.MULTI),
            )
        return Insight(frame.subject)

    def sending(self, frame: KeeperFrame) -> None:
        """Remember a frame that will be answered. If there are too many, the oldest is
        forgotten.
        """
        if frame.id is not None:
            self._asked[str(frame.id)] = frame
            if len(self._asked) > MAX_REMEMBERED:
                self._asked.popitem(last=False)

    def settled(
        self, frame: KeeperFrame, ledger: Ledger | None, *, reached: bool
    ) -> Iterable[Event]:
        """Return what the frame carried, now that its fate is known."""
        of = frame.asked or frame
        if frame.asked is not None:
            self._asked.pop(str(frame.asked.id), None)
        if ledger is None:
            return ()
        about = About(Act.SEND, self._conn, of.number, of.facts.get("path"))
        return [
            line(about, record, reached=reached, answered=of is not frame, error=frame.error or 0)
            for record in sorted(frame.subject.records)
        ]

    # -- what can be done to it --------------------------------------------------------------------

    def refuse(self, frame: KeeperFrame, data: bytes, error: str) -> bytes:  # noqa: ARG002 - there is none
        """Raise UnableError: the wire cannot refuse a request to ZooKeeper."""
        raise UnableError(f"a {frame.step} cannot be refused by {error!r}")

    def silence_s(self, way: Direction) -> float | None:
        """Return the session's time-out. A client gives its server up earlier."""
        if self._timeout_s is None:
            return None
        return self._timeout_s * (1 if way is Direction.REQUEST else READS_WITHIN)


def _operations(frame: KeeperFrame, data: bytes) -> Iterable[Operation]:
    if frame.step in (Op.MULTI, Op.MULTI_READ):
        return tuple(operations(Cursor(data, _REQUEST.size))) if frame.step == Op.MULTI else ()
    if "path" not in frame.facts:
        return ()
    return (operation(Cursor(data, _REQUEST.size), Op(frame.step)),)


def _subject(found: Iterable[Operation], ledger: object) -> Subject:
    records = (
        {ledger.record(each.data) for each in found if each.data}
        if isinstance(ledger, Ledger)
        else set()
    )
    return Subject(
        frozenset(each for each in records if each is not None),
        frozenset(each.path for each in found),
    )


def _error(frame: KeeperFrame, data: bytes) -> int | None:
    """Return the error of an answer; ``None`` for a greeting or an event, which have none."""
    if frame.step in (Op.CONNECT, Op.EVENT):
        return None
    error = int(_ANSWER.unpack_from(data)[3])
    if not error and frame.step == Op.MULTI:
        error = refused(Cursor(data, _ANSWER.size))
    frame.error = error
    return error
