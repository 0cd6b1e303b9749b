"""What the wire asks of a protocol: bytes in, values out, no socket. A :class:`Session` says what the bytes of a connection are.

The wire owns sockets, holds, freezes, cuts, delays and rules, and calls of a session, for each direction in this order:

    feed → read → sending → settled → taken

``feed`` says what stands at the beginning of what is buffered, and says the same until ``taken``: the wire may wait, and ask
again with more bytes. ``read`` looks into a frame, where somebody wants that. ``sending`` comes before its first byte goes, as an
answer may come before the last one has gone. ``settled`` comes when the fate of a frame is known: also of one that was dropped,
discarded or swallowed, and of one of which the end of its connection has left only a part.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, runtime_checkable
from typing import Protocol as Interface

from harness.model.identity import UnreadValueError
from harness.wire.rules import Subject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from harness.model.identity import Identity
    from harness.wire.rules import Direction

Data: TypeAlias = bytes | bytearray | memoryview
Line: TypeAlias = tuple[str, dict[str, Any]]
"""A line of the history: kind and fields."""
Id: TypeAlias = int | str

UNKNOWN = "unknown"
"""The step of a frame of which nobody can say which it is."""


class UnableError(Exception):
    """A frame cannot be refused, or not in this way; the message is one line."""


# --- what feed() may say -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Need:
    """Not enough to tell: at least so many bytes from the beginning of what is buffered, and more than there are."""

    bytes: int


@dataclass(frozen=True, slots=True)
class Between:
    """Bytes that are no step, as heart-beats between frames: they pass in their turn, and no rule and no history meets them.

    ``because``: what could not be read of them, and had to be. It voids the cell.
    """

    size: int
    because: str | None = None


@dataclass(frozen=True, slots=True)
class Secure:
    """Bytes by which TLS is asked for, or granted; no step either.

    Who asks, the client, is heard again when it was answered. Behind a server's word both directions are TLS.
    """

    size: int


@dataclass(frozen=True, slots=True)
class Opaque:
    """No bytes of this protocol: from here on both directions pass unread, which voids the cell."""

    because: str


@dataclass(slots=True, eq=False)
class Frame:
    """One frame, as its header tells. Protocols make subclasses with what they need of it themselves."""

    step: str
    """The label of a step; one that is not in :attr:`Protocol.steps` passes, and can be chosen by its name."""
    size: int
    """Of the whole, in bytes, its length field included."""
    id: Id | None = None
    """What an answer will name; None: nothing can answer it."""
    answers: tuple[Id, ...] = ()
    """Ids of the other direction that this settles: none, one, or all of a range."""
    head: int = 0
    """How many of its bytes ``read`` wants of each cell's frames; 0: none, and what it is about its question says."""
    last: bool = True
    """Whether it ends its unit: one message may be several frames, and what is done to it is done at the last."""
    keepalive: bool = False
    """It is no step: no rule and no history meets it, and it is no load and no progress."""
    because: str | None = None
    """What cannot be, though it is a frame: it voids the cell."""
    facts: dict[str, Any] = field(default_factory=dict)
    """What its line in the history says of it: always ``version`` and ``corr``, which tells it from others of its connection."""


Fed: TypeAlias = Need | Between | Secure | Opaque | Frame


@dataclass(frozen=True, slots=True)
class Insight:
    """What one frame is about. ``error``: of an answer, why it refuses (0: it does not; None: nobody has read that).

    ``because``: why it could not be read; where ``voids``, that voids the cell even if no rule asked for it.
    """

    subject: Subject = field(default_factory=Subject)
    error: int | str | None = None
    because: str | None = None
    voids: bool = False

    def of_its_answer(self) -> Insight:
        """Return what an answer that nobody looks into is about: the same."""
        return Insight(self.subject, because=self.because)


def insight_of(session: Session, frame: Frame, data: bytes | None, ledger: Any) -> Insight:
    """Return what a frame is about; where a schema that it needs is not to be had, why, which voids the cell."""
    try:
        return session.read(frame, data, ledger)
    except UnreadValueError as error:
        return Insight(because=str(error), voids=True)


# --- moving a frame to another connection is a conversation, not bytes -------------------------------------------------


@dataclass(frozen=True, slots=True)
class Say:
    """Bytes to be sent; ``make`` is given what was kept of the answers so far. It may raise :class:`UnableError`."""

    make: Callable[[Mapping[str, str]], bytes]


@dataclass(frozen=True, slots=True)
class Expect:
    """An answer to be awaited, by its step; ``keep``: which of its facts are kept, by which names.

    ``take``: what of the whole of it is kept, which is nobody else's business. Raises :class:`UnableError` where it refuses.
    """

    step: str
    keep: Mapping[str, str] = field(default_factory=dict)
    take: Callable[[bytes], Mapping[str, str]] | None = None


@dataclass(frozen=True, slots=True)
class Move:
    """How a frame goes over a fresh connection: what is to be said before, and then its bytes."""

    frame: bytes
    talk: Sequence[Say | Expect] = ()


@dataclass(frozen=True, slots=True)
class Immovable:
    """It means nothing on another connection."""

    because: str


# --- the protocol ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Step:
    """What is known of a step, when a plan is made.

    ``selects``: by which fields of a rule it can be chosen. ``waits``: the other side keeps it waiting by design, so that its
    waits say nothing of the network. ``movable``: it may go over another connection. ``removable``: it may vanish while its
    connection lives on. ``durable``: who gets it changes durable state. ``errors``: legal refusals of it, and whether what was
    asked may be done all the same: only such a one may be given where the request was forwarded. ``hangs_up``: who refuses it
    ends the connection. ``again``: the client's library itself connects anew and asks again where no answer came.
    """

    selects: frozenset[str] = frozenset()
    waits: bool = False
    movable: bool = False
    removable: bool = False
    durable: bool = False
    errors: Mapping[str, bool] = field(default_factory=dict)
    hangs_up: bool = False
    again: bool = False


PLAIN = Step()


class Session(Interface):
    """One connection. ``ledger`` is what :meth:`Protocol.ledger` has made for the frame's cell; None: it is of no cell."""

    def feed(self, way: Direction, data: Data) -> Fed:
        """Say what ``data`` begins with. Keeps nothing of ``data``; raises nothing, whatever the bytes are."""

    def taken(self, way: Direction, size: int) -> None:
        """Take note that so many bytes have left the buffer, to wherever."""

    def read(self, frame: Frame, data: bytes | None, ledger: Any) -> Insight:
        """Say what a frame is about. ``data`` is the whole of it, or None: it is above the limit."""

    def sending(self, frame: Frame) -> None:
        """Take note that a frame is about to go to its destination."""

    def settled(self, frame: Frame, ledger: Any, *, reached: bool) -> Iterable[Line]:
        """Return the history lines of a frame whose fate is known: whether it has reached its destination whole."""

    def refuse(self, frame: Frame, data: bytes, error: str) -> bytes:
        """Return a legal answer to a frame, ``data`` whole, in the version that it asks in.

        Raises:
            UnableError: it cannot be refused, or not in this way.
        """

    def move(self, frame: Frame, data: bytes) -> Move | Immovable:
        """Say how a frame, ``data`` whole, goes over a fresh connection."""

    def owner(self) -> str | None:
        """Return the name that the client gives itself, or by what else its cell can be known; None: nothing yet."""

    def silence_s(self, way: Direction) -> float | None:
        """Return for how many seconds nothing may come in this direction before its receiver hangs up; None: for ever."""

    def ended(self, by: str, ledger: Any) -> Iterable[Line]:
        """Return the history lines of what the end of the connection, ``by`` client, broker or wire, has done."""


@runtime_checkable
class LogsIn(Interface):
    """An ability of a protocol: to say who comes, where a frame goes over a connection of the wire's own."""

    def admit(self, users: Mapping[str, str]) -> None:
        """Take note of passwords by user."""


class Protocol(Interface):
    """What is spoken on a route. One object of it serves all connections of a wire."""

    name: str
    steps: Mapping[tuple[str, Direction], Step]

    def learn(self, names: Mapping[str, str]) -> None:
        """Take note of what else the names of topics may be called in frames.

        Raises:
            ValueError: a name is none; one line.
        """

    def ledger(self, key: str, identity: Identity | None) -> Any:
        """Make the bookkeeping of one cell. ``identity``: where foreign records carry their ids."""

    def session(self, conn: int, *, limit: int) -> Session:
        """Begin a connection, by its number in the history. ``limit``: how many bytes of a frame are read."""
