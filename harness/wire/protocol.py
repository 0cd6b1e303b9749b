"""What the wire asks of a protocol: bytes in, values out, no socket. A :class:`Session` parses the
bytes of one connection.

The wire owns sockets, holds, freezes, cuts, delays and rules. For each direction it calls a session
in this order:

    feed → servers, renamed → read → sending → settled → taken

``feed`` says what stands at the beginning of the buffered bytes, and says the same until ``taken``:
the wire may wait, and ask again with more bytes. Only of a route that follows, an answer that names
servers is then changed (:class:`NamesServers`). ``read`` looks into a frame, if a rule or a
history needs that. ``sending`` comes before the first byte of a frame is sent, because its answer
may arrive before the last byte is sent. ``settled`` comes when the fate of a frame is known, also
if the frame was dropped, discarded or swallowed, or was cut off when its connection ended.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, runtime_checkable
from typing import Protocol as Interface

from harness.model.identity import UnreadValueError
from harness.wire.rules import Subject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from harness.model.events import Event
    from harness.model.identity import Identity
    from harness.wire.rules import Direction

Data: TypeAlias = bytes | bytearray | memoryview
Id: TypeAlias = int | str
Address: TypeAlias = "tuple[str, int]"
"""Host and port."""

UNKNOWN = "unknown"
"""The step of a frame whose kind the protocol does not know."""


class UnableError(Exception):
    """A frame cannot be refused, or not with this error; the message is one line."""


# --- what feed() may say --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Need:
    """Too few bytes to parse: the session needs at least ``bytes``, counted from the beginning of
    the buffer.
    """

    bytes: int


@dataclass(frozen=True, slots=True)
class Unframed:
    """Bytes that are no step, such as heart-beats between frames: they pass in order, and neither
    rules nor histories see them.

    ``because``: why bytes could not be read that had to be read. It voids the cell.
    """

    size: int
    because: str | None = None


@dataclass(frozen=True, slots=True)
class Secure:
    """Bytes that ask for TLS (of the client) or grant it (of the server); they are no step.

    After a client's request the wire reads nothing more of it until the server has answered. After
    the server's grant both directions are TLS.
    """

    size: int


@dataclass(frozen=True, slots=True)
class Opaque:
    """The bytes are not of this protocol: from here on both directions pass unread, which voids the
    cell.
    """

    because: str


@dataclass(slots=True, eq=False)
class Frame:
    """One frame, as its header describes it. Protocols make subclasses with further fields for
    their own use.
    """

    step: str
    """The name of its step. A step that is not in :attr:`Protocol.steps` passes, and rules can
    select it by this name.
    """
    size: int
    """The size of the whole frame, in bytes, its length field included."""
    id: Id | None = None
    """The id that its answer will name; None: the frame has no answer."""
    answers: tuple[Id, ...] = ()
    """The ids of frames of the other direction that this one answers: none, one, or
    all of a range.
    """
    head: int = 0
    """How many of its bytes ``read`` needs; 0: none, because its request says what the frame is
    about.
    """
    last: bool = True
    """Whether it is the last frame of its message. A message may be several frames; rules act at
    the last one.
    """
    keepalive: bool = False
    """Whether it only keeps the connection alive: rules and histories do not see it, and it is
    neither load nor progress.
    """
    because: str | None = None
    """What is wrong with the frame, if the protocol does not allow it; it voids the cell."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Fields of its line in the history: always ``version``, and ``corr``, which is unique among
    the connection's requests.
    """


Fed: TypeAlias = Need | Unframed | Secure | Opaque | Frame


@dataclass(frozen=True, slots=True)
class Insight:
    """What one frame is about. ``error``: the error code of an answer (0: it grants; None: it was
    not read).

    ``because``: why the frame could not be read. With ``voids`` that voids the cell even if no rule
    needed to read the frame. ``forgotten``: why it may be about more records than are known.
    """

    subject: Subject = field(default_factory=Subject)
    error: int | str | None = None
    because: str | None = None
    voids: bool = False
    forgotten: str | None = None

    def of_its_answer(self) -> Insight:
        """Return what the answer to this request is about, if the answer is not read itself: the
        same.
        """
        return Insight(self.subject, because=self.because, forgotten=self.forgotten)


def insight_of(session: Session, frame: Frame, data: bytes | None, ledger: object) -> Insight:
    """Return what a frame is about. If the schema of its value cannot be obtained, return why,
    which voids the cell.
    """
    try:
        return session.read(frame, data, ledger)
    except UnreadValueError as error:
        return Insight(because=str(error), voids=True)


# --- to move a frame to another connection takes a dialogue ---------------------------------------


@dataclass(frozen=True, slots=True)
class SendBytes:
    """Bytes to send. ``make`` returns them from the facts kept of earlier answers, by name; it may
    fail with an UnableError.
    """

    make: Callable[[Mapping[str, str]], bytes]


@dataclass(frozen=True, slots=True)
class AwaitAnswer:
    """An answer to wait for, by its step.

    ``keep``: which of its facts are kept for later bytes, as ``{fact: name}``. ``take`` reads
    further values from the whole answer, by name; it fails with an UnableError if the answer is a
    refusal.
    """

    step: str
    keep: Mapping[str, str] = field(default_factory=dict)
    take: Callable[[bytes], Mapping[str, str]] | None = None


@dataclass(frozen=True, slots=True)
class Move:
    """How to send a frame over a fresh connection: first the dialogue ``talk``, then the bytes
    ``frame``.
    """

    frame: bytes
    talk: Sequence[SendBytes | AwaitAnswer] = ()


@dataclass(frozen=True, slots=True)
class Immovable:
    """The frame is valid only on its own connection, and cannot be sent over another one;
    ``because`` says why.
    """

    because: str


# --- the protocol ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Step:
    """What a plan needs to know of a step.

    ``selects``: the fields of a rule by which it can be selected. ``waits``: its receiver delays
    the answer by design, so the delay says nothing about the network. ``movable``: it may be sent
    over another connection. ``removable``: it may be dropped without cutting its connection.
    ``durable``: its receiver changes durable state. ``errors``: the legal refusals of it, and for
    each whether the broker may have carried out the request (only such an error may be given to a
    request that was forwarded). ``hangs_up``: a broker that refuses it also closes the connection.
    ``again``: if no answer comes, the client's library connects again and repeats it.
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


F_contra = TypeVar("F_contra", bound=Frame, contravariant=True)
L_contra = TypeVar("L_contra", contravariant=True)


class SessionOf(Interface[F_contra, L_contra]):
    """One connection of a protocol, with its own frames and ledgers. ``ledger``: what
    :meth:`Protocol.ledger` returned for the frame's cell; None: the frame is of no cell.
    """

    def feed(self, way: Direction, data: Data) -> Fed:
        """Return what ``data`` begins with. Keep no reference to ``data``, and fail for no bytes,
        whatever they are.
        """

    def taken(self, way: Direction, size: int) -> None:
        """Take note that the wire has removed ``size`` bytes from the beginning of the buffer."""

    def read(self, frame: F_contra, data: bytes | None, ledger: L_contra) -> Insight:
        """Return what a frame is about. ``data``: the whole frame; None: it is larger than the
        limit.
        """

    def sending(self, frame: F_contra) -> None:
        """Take note that a frame is about to go to its destination."""

    def settled(
        self, frame: F_contra, ledger: L_contra | None, *, reached: bool
    ) -> Iterable[Event]:
        """Return the history lines of a frame whose fate is known. ``reached``: whether it arrived
        whole at its destination.
        """

    def refuse(self, frame: F_contra, data: bytes, error: str) -> bytes:
        """Return a legal answer that refuses a frame with ``error``, in the request's version.
        ``data``: the whole frame.

        Raises:
            UnableError: the frame cannot be refused, or not with this error.
        """

    def move(self, frame: F_contra, data: bytes) -> Move | Immovable:
        """Return how a frame can be sent over a fresh connection, or why it cannot. ``data``: the
        whole frame.
        """

    def owner(self) -> str | None:
        """Return the name that the client gave itself, or other text that identifies its cell;
        None: nothing came yet.
        """

    def silence_s(self, way: Direction) -> float | None:
        """Return after how many seconds without bytes in this direction the receiver disconnects;
        None: never.
        """

    def ended(self, by: str, ledger: L_contra | None) -> Iterable[Event]:
        """Return the history lines that follow from the connection's end. ``by``: who ended it:
        client, broker or wire.
        """


Session: TypeAlias = SessionOf[Any, Any]
"""A session as the wire holds it: it gives each one its own frames and ledgers back."""


@runtime_checkable
class LogsIn(Interface):
    """An ability of a protocol: to log in on connections that the wire itself opens to deliver a
    frame.
    """

    def admit(self, users: Mapping[str, str]) -> None:
        """Take note of the passwords, ``{user: password}``."""


@runtime_checkable
class NamesServers(Interface[F_contra]):
    """An ability of a session: its server's answers name the servers to which the client connects
    next, and other addresses can be put in their place.

    The engine asks before ``read``, which is given the frame as the client gets it.
    """

    def may_name(self, frame: F_contra) -> bool:
        """Say whether a frame may name servers."""

    def servers(self, frame: F_contra, data: Data) -> Mapping[int, Address]:
        """Return the servers that a frame names, by number. ``data``: the whole frame.

        Raises:
            UnableError: they cannot be found.
        """

    def renamed(self, frame: F_contra, data: Data, own: Mapping[int, Address]) -> bytes:
        """Return the whole frame with other addresses of these servers."""


class Protocol(Interface):
    """The protocol that is spoken on a route. One object serves all connections of a wire."""

    name: str

    @property
    def steps(self) -> Mapping[tuple[str, Direction], Step]:
        """What is known of each step, by its name and direction."""

    def learn(self, names: Mapping[str, str]) -> None:
        """Take note of other names that topics have in frames (such as topic ids), ``{other name:
        topic}``.

        Raises:
            ValueError: a name is not valid; one line.
        """

    def ledger(self, key: str, identity: Identity | None) -> object:
        """Return new bookkeeping for one cell. ``key``: the cell's key. ``identity``: where foreign
        records carry their ids.
        """

    def session(self, conn: int, *, limit: int) -> Session:
        """Return a session for a new connection, number ``conn`` in the history. ``limit``: most
        bytes of a frame to read.
        """
