"""One connection through the wire: its client, the frames held on it, and the requests that have no
answer yet.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypedDict
from typing import Protocol as Interface

from harness.model import events as kinds
from harness.model.events import ConnPhase, RulePhase
from harness.wire.cell import NOTHING, FrameInFlight
from harness.wire.inlet import Flow
from harness.wire.messages import Traffic
from harness.wire.protocol import PLAIN
from harness.wire.rules import Direction

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from harness.model.events import Event
    from harness.wire.cell import WireCell
    from harness.wire.messages import Route
    from harness.wire.protocol import Address, Frame, Id, Protocol
    from harness.wire.rules import How, Rule
    from harness.wire.tls import Ends
    from harness.wire.traffic import Meter

MAX_PENDING = 10_000
"""Unanswered frames remembered per connection and direction."""
MAX_EARLY = 64
"""Maximum number of frames that are kept until their client has named itself."""


class OfConnection(TypedDict):
    """The fields that identify a connection in the history."""

    conn: int
    role: str
    node: str
    client: str


@dataclass(frozen=True, slots=True)
class Swallow:
    """Marks a request whose response the client must not get: the wire sends ``refusal`` instead,
    or ends the connection.
    """

    rule: Rule
    refusal: bytes | None = None


@dataclass(slots=True)
class Pending:
    """A forwarded frame that still waits for its response."""

    carried: FrameInFlight
    since: float
    """When it was passed on, by the loop's clock."""
    swallow: Swallow | None = None


@dataclass(slots=True, eq=False)
class Hold:
    """A held frame: the wire keeps it until a command resolves it."""

    id: str
    carried: FrameInFlight
    cell: WireCell
    rule: Rule
    conn: Connection
    freeze: str | None
    decided: asyncio.Event = field(default_factory=asyncio.Event)
    forwarded: asyncio.Event = field(default_factory=asyncio.Event)
    how: How | None = None
    detached: bool = False

    @property
    def attached(self) -> bool:
        """Whether the frame's connection is open and still waits for the frame."""
        return self.conn.alive and not self.detached


class Hub(Interface):
    """What connections and their lanes ask of the wire."""

    decode_limit: int

    def cell_of(self, client: str, route: Route) -> WireCell | None:
        """Return the cell a client belongs to."""

    def process_of(self, client: str, route: Route | None = None) -> str:
        """Return what names the process behind a client id."""

    def freeze_newcomer(self, conn: Connection) -> None:
        """Apply to a connection, whose client has just become known, the freezes that cover it."""

    def note(self, cell: WireCell | None, event: Event) -> None:
        """Write a line to the cell's history, or without a cell to the wire's own history."""

    def hold(self, carried: FrameInFlight, cell: WireCell, rule: Rule, conn: Connection) -> Hold:
        """Register a held frame and apply the freeze of its rule, with nothing in between."""

    async def follow(self, route: Route, servers: Mapping[int, Address]) -> dict[int, Address]:
        """Return the wire's own address for each server that an answer has named."""

    def scratch(self) -> AbstractContextManager[memoryview]:
        """Lend a buffer for bytes that are forwarded without being read."""


class Connection:
    """A client's connection and the one to the broker behind it. ``peer`` is the port that the
    client comes from.
    """

    def __init__(
        self,
        hub: Hub,
        number: int,
        route: Route,
        protocol: Protocol,
        peer: int,
        *,
        ends: Ends | None = None,
    ) -> None:
        self._hub = hub
        self.id = number
        self.route = route
        self.protocol = protocol
        self.session = protocol.session(number, limit=hub.decode_limit)
        self.peer = peer
        self.ends = ends
        """How TLS ends here; None: it cannot."""
        self.client = ""
        self.process = ""
        self.cell: WireCell | None = None
        self.opaque = asyncio.Event()
        """Set when the bytes turned out to be no frames: then nothing is read or kept back any
        more.
        """
        self.alive = True
        self.pending: dict[Direction, OrderedDict[Id, Pending]] = {
            way: OrderedDict() for way in Direction
        }
        """By the direction of the request."""
        self.turn = asyncio.Lock()
        """Its holder writes one whole frame to the client."""
        self.late: list[asyncio.Task[None]] = []
        """Say refusals later; the answers to what is asked meanwhile come behind them."""
        self.withheld = 0
        """How many answers the wire holds from the client."""
        self._told = asyncio.Event()
        self._has_said_all = False
        self.flows = {way: Flow() for way in Direction}
        self.frozen_by: set[str] = set()
        self._early: deque[FrameInFlight] = deque()
        self._forgot_early = False
        self._open_gate = asyncio.Event()
        self._open_gate.set()
        self._ended = asyncio.Event()
        self._over = asyncio.Event()
        self._announced = False
        self._granted = asyncio.Event()

    # -- who it is ---------------------------------------------------------------------------------

    def identify(self, client: str) -> None:
        """Set the client's name. If the client gives several names, the last one counts."""
        if (
            self._announced
            and client == self.client
            and self.cell is self._hub.cell_of(client, self.route)
        ):
            return
        self.client = client
        self.process = self._hub.process_of(client, self.route)
        before, self.cell = self.cell, self._hub.cell_of(client, self.route)
        self._hub.freeze_newcomer(self)
        if self.cell is not None and self.cell is not before:
            self.cell.write(
                kinds.Conn(
                    phase=ConnPhase.OPEN,
                    peer=self.peer,
                    protocol=self.protocol.name,
                    **self.fields(),
                )
            )
            self._tell_early(self.cell)
        self._announced = True

    def keep(self, carried: FrameInFlight) -> None:
        """Keep a frame until it is known which cell it belongs to: its line is written then."""
        self._early.append(carried)
        if len(self._early) > MAX_EARLY:
            self._early.popleft()
            self._forgot_early = True

    def _tell_early(self, cell: WireCell) -> None:
        if self._forgot_early:
            self.unread(f"more than {MAX_EARLY} frames came before it was known whose they are")
        while self._early:
            carried = self._early.popleft()
            carried.client, carried.cell, carried.ledger = (
                self.client,
                cell,
                cell.ledger(self.protocol),
            )
            cell.seen(carried)

    def fields(self) -> OfConnection:
        """Return the fields that identify this connection in the history."""
        return {
            "conn": self.id,
            "role": self.route.role,
            "node": self.route.node,
            "client": self.client,
        }

    def carry(self, direction: Direction, frame: Frame) -> FrameInFlight:
        """Return what is known of the frame that has just been read. An answer belongs to the cell
        of its request.
        """
        asked = self.asked(direction, frame)
        cell, client, insight = self.cell, self.client, NOTHING
        if asked is not None:
            cell, client = asked.cell, asked.client
            insight = NOTHING if cell is None else asked.insight.of_its_answer()
        return FrameInFlight(
            frame=frame,
            session=self.session,
            known=self.protocol.steps.get((frame.step, direction), PLAIN),
            conn=self.id,
            role=self.route.role,
            node=self.route.node,
            client=client,
            process=self.process,
            direction=direction,
            cell=cell,
            ledger=None if cell is None else cell.ledger(self.protocol),
            insight=insight,
        )

    def go_opaque(self, because: str, first: bytes = b"") -> None:
        """Pass all further bytes on without reading them. ``first``: what the client began with, if
        nothing of it could be read.
        """
        if not self.opaque.is_set():
            self.opaque.set()
            self.answer_to_tls()
            self._hub.note(
                self.cell, kinds.Conn(phase=ConnPhase.OPAQUE, because=because, **self.fields())
            )
            self.unread(because, first.hex() or None)

    def unread(self, because: str, first: str | None = None) -> None:
        """Write that bytes could not be read, which voids the cell."""
        cell = self.cell or self._hub.cell_of(self.client, self.route)
        if cell is not None:
            cell.write(
                kinds.Undecodable(
                    api="unknown",
                    version=-1,
                    because=because,
                    first=first,
                    **self.fields(),
                )
            )

    # -- what was asked ----------------------------------------------------------------------------

    def asked(self, direction: Direction, frame: Frame) -> FrameInFlight | None:
        """Return the request that a frame answers; if it answers several, the last one."""
        questions = self.pending[_OTHER[direction]]
        found = next(
            (questions[each] for each in reversed(frame.answers) if each in questions), None
        )
        return found.carried if found else None

    def answered(self, direction: Direction, frame: Frame) -> list[Pending]:
        """Remove the requests that a frame answers, and return them."""
        questions = self.pending[_OTHER[direction]]
        self._told.set()
        return [questions.pop(each) for each in frame.answers if each in questions]

    async def until_told(self) -> bool:
        """Wait until every earlier request of the client is being answered, so that the wire's own
        answer comes in its turn.

        Return false if no more answers come.
        """
        while self.pending[Direction.REQUEST] and not self._has_said_all:
            self._told.clear()
            await self._told.wait()
        return not self._has_said_all

    def said_all(self) -> None:
        """Note that no more bytes come from the broker."""
        self._has_said_all = True
        self._told.set()

    def expect(self, pending: Pending) -> None:
        """Remember a request that will be answered. If there are too many, the oldest
        is forgotten.
        """
        carried = pending.carried
        assert carried.frame.id is not None  # noqa: S101 - only such are answered
        questions = self.pending[carried.direction]
        questions[carried.frame.id] = pending
        if len(questions) > MAX_PENDING:
            forgotten = questions.popitem(last=False)[1].carried
            if forgotten.cell is not None:
                forgotten.cell.blind(
                    forgotten, f"more than {MAX_PENDING} {carried.direction}s have no answer"
                )

    def unanswered(self) -> list[Pending]:
        """Return the client's requests that have no response yet."""
        return list(self.pending[Direction.REQUEST].values())

    # -- TLS that is asked for ---------------------------------------------------------------------

    def ask_for_tls(self) -> asyncio.Event:
        """Note that the client asks for TLS. Return an event that is set at the answer."""
        self._granted.clear()
        return self._granted

    def answer_to_tls(self) -> None:
        """Note that the server has answered the request for TLS; if it granted it, TLS
        has begun.
        """
        self._granted.set()

    # -- standing still ----------------------------------------------------------------------------

    async def gate(self) -> None:
        """Wait while the connection is frozen."""
        while self.frozen_by:
            await self._open_gate.wait()

    def freeze(self, name: str) -> None:
        """Stop both directions of the connection."""
        self.frozen_by.add(name)
        self._open_gate.clear()

    def thaw(self, name: str) -> None:
        """Undo one freeze."""
        self.frozen_by.discard(name)
        if not self.frozen_by:
            self._open_gate.set()

    # -- life --------------------------------------------------------------------------------------

    def over(self, by: str) -> None:
        """Note that both sockets are closed. ``by``: the side that closed first (client, broker or
        wire).
        """
        self._ended.set()
        self._over.set()
        for pending in self.unanswered():
            if pending.swallow is not None and pending.carried.cell is not None:
                refused = pending.swallow.refusal is not None
                phase = RulePhase.UNANSWERED if refused else RulePhase.CUT
                pending.carried.cell.phase(
                    pending.swallow.rule, phase, pending.carried, because="no answer came"
                )
        cell = self.cell
        for event in self.session.ended(by, None if cell is None else cell.ledger(self.protocol)):
            self._hub.note(cell, event)

    def traffic(self) -> Traffic:
        """Return the traffic of this connection so far."""
        up, down = self.flows[Direction.REQUEST], self.flows[Direction.RESPONSE]
        return Traffic(up.sent, down.received, down.reads, opened=1)

    def tell_waits(self, meter: Meter) -> None:
        """Tell the meter how long the unanswered requests have waited."""
        now = asyncio.get_running_loop().time()
        for pending in self.unanswered():
            meter.waited(pending.since, now, waits=pending.carried.known.waits)

    def ended_by(self) -> str:
        """Return which side closed first: the client's or the broker's. The network counts as the
        side that it is on.
        """
        up, down = self.flows[Direction.REQUEST], self.flows[Direction.RESPONSE]
        ends = (
            ("client", up.ended_at),
            ("broker", down.ended_at),
            ("broker", up.refused_at),
            ("client", down.refused_at),
        )
        known = [(at, who) for who, at in ends if at is not None]
        return min(known)[1] if known else "wire"

    def cut(self) -> None:
        """End the connection now."""
        self._ended.set()

    async def until_closed(self) -> None:
        """Wait until the connection begins to close."""
        await self._ended.wait()

    async def until_over(self) -> None:
        """Wait until both sockets are closed."""
        await self._over.wait()


_OTHER = {Direction.REQUEST: Direction.RESPONSE, Direction.RESPONSE: Direction.REQUEST}
