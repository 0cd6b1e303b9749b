"""One direction of a connection: a stream of frames from one socket to the other.

Sockets are used directly, without a transport: a lane reads only when it can pass on, nothing
is buffered beyond the frame at hand, and a frame has *reached* its destination when the kernel has
taken its last byte.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.model.events import ConnPhase, RulePhase
from harness.model.waiting import POLL_S
from harness.wire import asking
from harness.wire.connection import Pending, Swallow
from harness.wire.messages import WireError
from harness.wire.pipe import Pipe
from harness.wire.protocol import (
    Frame,
    Insight,
    NamesServers,
    Need,
    Opaque,
    Secure,
    UnableError,
    Unframed,
    insight_of,
)
from harness.wire.refusals import refusal_of
from harness.wire.rules import Action, After, Direction, How, Subject
from harness.wire.streams import TlsError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from harness.wire.cell import FrameInFlight, WireCell
    from harness.wire.connection import Connection, Hold, Hub
    from harness.wire.rules import ArmedRule, Rule
    from harness.wire.streams import Stream


LEAST_LIMIT = 1 << 20
"""The least size of the buffer, in bytes, while a protocol looks for the end of a frame."""

FIRST = 16
"""How many of a client's first bytes are recorded if they cannot be parsed. They show which
protocol it speaks.
"""


class CutError(Exception):
    """The connection ends here, on purpose."""


class Lane:
    """One direction of a connection."""

    def __init__(
        self, hub: Hub, conn: Connection, direction: Direction, source: Stream, target: Stream
    ) -> None:
        self._hub = hub
        self._conn = conn
        self._loop = asyncio.get_running_loop()
        self._pipe = Pipe(hub, conn, direction, source, target)
        self._inlet = self._pipe.inlet
        self._target = target
        self._direction = direction
        self._turn = conn.turn if direction is Direction.RESPONSE else contextlib.nullcontext()
        session = conn.session
        answers = direction is Direction.RESPONSE and conn.route.follows
        self._names = session if answers and isinstance(session, NamesServers) else None
        self.back: Lane | None = None
        """The response lane of the same connection; set only on the request lane."""

    async def run(self) -> None:
        """Pass frames on until the stream ends.

        Raises:
            CutError: a rule ends the connection.
        """
        while await self._next():
            pass
        await self._pipe.rest()
        asks = self._direction is Direction.REQUEST
        if asks and (self._conn.withheld or self._conn.pending[Direction.REQUEST]):
            _tell_left(self._hub, self._conn)
        await self._conn.gate()
        if asks or not self._pipe.dark:  # a broker forgets who has left
            await self._target.finish(torn=self._inlet.stream.torn)
        asking.answer(self._conn, self._direction)
        if self._direction is Direction.RESPONSE:
            self._conn.said_all()

    def close(self) -> None:
        """Stop reading the source."""
        self._inlet.close()

    # -- frames ------------------------------------------------------------------------------------

    async def _next(self) -> bool:
        """Carry the next frame, or the bytes between frames, to its end. Return false if nothing
        more is read.
        """
        if not (self._inlet.buffer or await self._pipe.fill(1)):
            return False
        if self._conn.opaque.is_set():
            return False
        fed = self._conn.session.feed(self._direction, self._inlet.buffer)
        if isinstance(fed, Need):
            return await self._need(fed.bytes)
        if isinstance(fed, Opaque):
            begins = (
                self._direction is Direction.REQUEST and not self._conn.flows[self._direction].sent
            )
            self._conn.go_opaque(fed.because, bytes(self._inlet.buffer[:FIRST]) if begins else b"")
            return False
        self._identify()
        if self._conn.frozen_by:
            await self._conn.gate()
        async with self._turn:
            if isinstance(fed, Unframed):
                if fed.because is not None and self._conn.cell is not None:
                    self._conn.unread(fed.because)
                going_on = await self._on(fed.size)
            elif isinstance(fed, Secure):
                on = partial(self._on, fed.size)
                going_on = await asking.secure(
                    self._conn, self._direction, self._inlet, self._target, on
                )
            else:
                going_on = await self._frame(fed)
        asking.answer(self._conn, self._direction)
        return going_on

    async def _need(self, count: int) -> bool:
        """Read until the buffer holds ``count`` bytes. Return false if the stream ends before, or
        if more than the buffer's limit is needed.
        """
        if count > max(self._hub.decode_limit, LEAST_LIMIT) + 1:
            self._conn.go_opaque(f"{count} bytes are needed to tell what they are")
            return False
        return await self._pipe.fill(max(count, len(self._inlet.buffer) + 1))

    def _identify(self) -> None:
        if (
            self._direction is Direction.REQUEST
            and (name := self._conn.session.owner()) is not None
        ):
            self._conn.identify(name)

    async def _frame(self, frame: Frame) -> bool:
        names = self._names
        if (
            names is not None
            and names.may_name(frame)
            and not await _rename(self._hub, self._conn, self._pipe, names, frame)
        ):
            return False
        carried = self._conn.carry(self._direction, frame)
        if frame.because is not None and carried.cell is not None:
            carried.cell.blind(carried, frame.because)
        if carried.cell is not None and not await self._look(carried, carried.cell):
            return False
        answered = self._conn.answered(self._direction, frame) if frame.answers else ()
        for pending in answered:
            _meter(pending, self._loop.time())
        return await self._treat(carried, next((each for each in answered if each.swallow), None))

    async def _look(self, carried: FrameInFlight, cell: WireCell) -> bool:
        """Read as much of the frame as is needed. Return false if the stream ends inside it."""
        frame = carried.frame
        candidates, wanted = cell.candidates(carried.header), frame.head and cell.reads
        if frame.size <= self._hub.decode_limit and (wanted or candidates):
            halves = frame.last and any(armed.rule.half for armed in candidates)
            if halves and await _stops(self._pipe, cell, carried, candidates):
                return True
            if not await self._pipe.fill(frame.size):
                return False
            await self._conn.gate()
            with memoryview(self._inlet.buffer) as view:
                carried.payload = bytes(view[: frame.size])
        if wanted or any(armed.rule.content for armed in candidates):
            carried.insight = insight_of(self._conn.session, frame, carried.payload, carried.ledger)
            if carried.insight.because and carried.insight.voids:
                cell.blind(carried, carried.insight.because)
        return True

    async def _treat(self, carried: FrameInFlight, asked: Pending | None) -> bool:
        """Apply the rules to a frame. Return false at the stream's end. ``asked``: the request
        whose response this frame is, if the client must not get it.
        """
        cell, frame = carried.cell, carried.frame
        if cell is None or frame.keepalive:
            if self._conn.session.owner() is None and not frame.keepalive:
                self._conn.keep(carried)
            return await self._forward(carried)
        await self._conn.gate()
        cell.seen(carried)
        if asked is not None and asked.swallow is not None:
            return await self._instead(carried, cell, asked.carried, asked.swallow)
        armed = cell.judge(carried, cell.candidates(carried.header)) if frame.last else None
        if armed is not None:
            return await self._act(carried, cell, armed)
        return await self._forward(carried)

    async def _act(self, carried: FrameInFlight, cell: WireCell, armed: ArmedRule) -> bool:
        rule = armed.rule
        if rule.action is Action.HOLD:
            return await self._hold(carried, cell, armed)
        cell.hit(rule, carried, None)
        if rule.action is Action.DELAY:
            await asyncio.sleep(rule.delay_s)
            cell.phase(rule, RulePhase.DELAYED, carried)
            return await self._forward(carried)
        if rule.action is Action.CUT_AFTER:
            return await self._cut_after(carried, cell, armed)
        if rule.action is Action.ANSWER:
            return await self._answer(carried, cell, rule)
        cell.settle(carried, reached=False)
        cell.phase(rule, RulePhase.DROPPED, carried)
        if rule.action is Action.DROP and rule.after is not After.CUT:
            self._pipe.dark = rule.after is After.BLACK_HOLE
            return await self._on(carried.frame.size, keep=False)
        cell.phase(rule, RulePhase.CUT, carried)
        raise CutError(f"rule {rule.id}")

    async def _cut_after(self, carried: FrameInFlight, cell: WireCell, armed: ArmedRule) -> bool:
        waits = self._direction is Direction.REQUEST and carried.frame.id is not None
        await self._forward(carried, swallow=Swallow(armed.rule) if waits else None)
        if waits:
            await self._conn.until_closed()
            return False
        cell.phase(armed.rule, RulePhase.CUT, carried)
        raise CutError(f"rule {armed.rule.id}")

    async def _answer(self, carried: FrameInFlight, cell: WireCell, rule: Rule) -> bool:
        """Refuse a request in the broker's name. The request is not forwarded, or its real answer
        is kept from the client.
        """
        refusal = refusal_of(carried, cell, rule, self._hub.decode_limit)
        if refusal is None:
            return await self._forward(carried)
        if rule.forward:
            return await self._forward(carried, swallow=Swallow(rule, refusal))
        assert self.back is not None  # noqa: S101 - only a request is answered
        cell.settle(carried, reached=False)
        going_on = await self._on(carried.frame.size, keep=False)
        if not await self._conn.until_told():
            cell.phase(rule, RulePhase.UNANSWERED, carried, because="the broker has left")
            return False
        if rule.delay_s:
            await self._conn.turn.acquire()  # later requests are answered after this one
            say = partial(self.back.say, refusal, carried, cell, rule)
            late = _say_late(self._conn, say, rule.delay_s)
            self._conn.late.append(asyncio.create_task(late))
            return going_on
        async with self._conn.turn:
            await self.back.say(refusal, carried, cell, rule)
        return going_on

    async def _instead(
        self, carried: FrameInFlight, cell: WireCell, asked: FrameInFlight, swallow: Swallow
    ) -> bool:
        """Keep an answer from its client. The connection ends, or the client gets the wire's own
        answer.
        """
        cell.settle(carried, reached=False)
        if swallow.refusal is None:
            cell.phase(swallow.rule, RulePhase.CUT, carried)
            raise CutError(f"rule {swallow.rule.id}")
        going_on = await self._on(carried.frame.size, keep=False)
        await self.say(swallow.refusal, asked, cell, swallow.rule, said=carried.insight.error)
        return going_on

    async def say(
        self, refusal: bytes, asked: FrameInFlight, cell: WireCell, rule: Rule, **more: object
    ) -> None:
        """Give the client the wire's own answer.

        Raises:
            CutError: the protocol refuses by ending the connection.
        """
        before = self._pipe.sent
        await self._pipe.send(refusal)
        told = {"error": rule.error, "forward": rule.forward, "reached": self._pipe.sent > before}
        cell.phase(rule, RulePhase.ANSWERED, asked, **told, **more)
        if asked.known.hangs_up:
            raise CutError(f"rule {rule.id}")

    async def _forward(
        self, carried: FrameInFlight, *, swallow: Swallow | None = None, begun: int = 0
    ) -> bool:
        if self._conn.frozen_by:
            await self._conn.gate()
        if not self._pipe.dark:
            if not begun:
                self._conn.session.sending(carried.frame)
            if carried.frame.id is not None:
                self._conn.expect(Pending(carried, self._loop.time(), swallow))
        carried.payload = None
        try:
            reached = await self._pipe.pass_on(carried.frame.size, begun=begun)
        except BaseException:
            if self._pipe.ahead:  # else its last bytes were on their way, and nobody knows
                self._settle(carried, reached=False)
            raise
        self._settle(carried, reached=reached)
        return reached or self._goes_on

    def _settle(self, carried: FrameInFlight, *, reached: bool) -> None:
        if carried.cell is not None:
            carried.cell.settle(carried, reached=reached)
        else:
            carried.session.settled(carried.frame, None, reached=reached)

    @property
    def _goes_on(self) -> bool:
        """Whether more frames may come."""
        return not self._inlet.ended or bool(self._inlet.buffer)

    async def _on(self, size: int, *, keep: bool = True) -> bool:
        """Pass on, or discard, ``size`` bytes as they come. Return false if the stream ended."""
        await self._pipe.pass_on(size, keep=keep)
        return self._goes_on

    async def _hold(self, carried: FrameInFlight, cell: WireCell, armed: ArmedRule) -> bool:
        hold = self._hub.hold(carried, cell, armed.rule, self._conn)
        cell.hit(armed.rule, carried, hold.id)
        silence_s = self._conn.session.silence_s(self._direction)
        told: dict[str, object] = {} if silence_s is None else {"silence_s": silence_s}
        begun = carried.frame.size // 2 if armed.rule.half else 0
        half = bytes(self._inlet.buffer[:begun])
        if begun:
            self._conn.session.sending(carried.frame)
            await self._pipe.begin(begun, carried.frame.size)
            told["passed"] = begun
        cell.phase(armed.rule, RulePhase.HELD, carried, held=hold.id, **told)
        answers = self._direction is Direction.RESPONSE
        self._conn.withheld += answers
        await _decided(self._hub, self._conn, hold, self._inlet.stream)
        self._conn.withheld -= answers
        if hold.how is How.RELEASE_LATER:
            await self._pipe.pass_on(carried.frame.size, keep=False)
            return True
        if begun and carried.payload is None and carried.frame.size <= self._hub.decode_limit:
            await self._pipe.fill(carried.frame.size - begun)
            _read(carried, half + self._inlet.buffer)
        going_on = await self._forward(carried, begun=begun)
        hold.forwarded.set()
        return going_on


async def _rename(
    hub: Hub, conn: Connection, pipe: Pipe, names: NamesServers[Frame], frame: Frame
) -> bool:
    """Put the wire's own ports into an answer that names servers; if they cannot be found it
    passes as it is, and voids. Return false if the stream ends inside it.
    """
    if not await pipe.fill(frame.size):
        return False
    with memoryview(pipe.inlet.buffer) as view:
        whole = bytes(view[: frame.size])
    try:
        if not (servers := names.servers(frame, whole)):
            return True
        new = names.renamed(frame, whole, await hub.follow(conn.route, servers))
    except (UnableError, WireError) as error:
        frame.because = str(error)
        return True
    pipe.inlet.buffer[: frame.size] = new
    frame.size, frame.head = len(new), frame.head and len(new)
    return True


def _read(carried: FrameInFlight, data: bytes) -> None:
    """Read a request that stopped half-way and has come whole by now, if it has."""
    if len(data) >= carried.frame.size:
        whole = bytes(data[: carried.frame.size])
        carried.insight = insight_of(carried.session, carried.frame, whole, carried.ledger)


def _tell_left(hub: Hub, conn: Connection) -> None:
    hub.note(conn.cell, kinds.Conn(phase=ConnPhase.LEFT, **conn.fields()))


async def _decided(hub: Hub, conn: Connection, hold: Hold, stream: Stream) -> None:
    """Wait until it is decided what becomes of a held frame. Of a request that stopped half-way,
    tell meanwhile that its client has left, though nothing more is read.
    """

    async def look() -> None:
        while not stream.left:  # noqa: ASYNC110 - the kernel tells who asks
            await asyncio.sleep(POLL_S)
        _tell_left(hub, conn)

    looking = asyncio.create_task(look()) if hold.rule.half else None
    try:
        await hold.decided.wait()
    finally:
        if looking is not None:
            looking.cancel()


async def _stops(
    pipe: Pipe, cell: WireCell, carried: FrameInFlight, candidates: Sequence[ArmedRule]
) -> bool:
    """Whether a rule stops a request half-way, by the record in that half: the rest is not read."""
    size = carried.frame.size // 2
    pipe.inlet.stream.narrow()
    if await pipe.fill(size):
        records = cell.torn(carried, candidates, bytes(pipe.inlet.buffer[:size]))
        carried.insight = Insight(Subject(records)) if records else carried.insight
        return bool(records)
    return False


async def _say_late(conn: Connection, say: Callable[[], Awaitable[None]], delay_s: float) -> None:
    """Say a refusal when its time has come, and end the turn to say something."""
    try:
        await asyncio.sleep(delay_s)
        await say()
    except CutError:
        conn.cut()
    except OSError:  # the client has left
        pass
    finally:
        conn.turn.release()


def _meter(pending: Pending, now: float) -> None:
    """Record how long a request waited for its response."""
    asked = pending.carried
    if asked.cell is not None and asked.direction is Direction.REQUEST:
        meter = asked.cell.meter(asked.role)
        meter.answered(asked.frame.size, pending.since, now, waits=asked.known.waits)


def _whose(hub: Hub, conn: Connection, error: OSError) -> WireCell | None:
    """Return the cell whose history gets an error of TLS, which comes before the client has named
    itself.
    """
    return hub.cell_of(conn.client, conn.route) if isinstance(error, TlsError) else None


async def carry(hub: Hub, conn: Connection, client: Stream, upstream: Stream) -> None:
    """Pass frames both ways until both streams have ended, one breaks, or the connection is cut."""
    lanes = (
        Lane(hub, conn, Direction.REQUEST, client, upstream),
        Lane(hub, conn, Direction.RESPONSE, upstream, client),
    )
    lanes[0].back = lanes[1]
    tasks = [asyncio.create_task(lane.run()) for lane in lanes]
    ended = asyncio.create_task(conn.until_closed())
    because, cell = "both ends closed", None
    try:
        waiting: set[asyncio.Task[None]] = {*tasks, ended}
        while waiting - {ended}:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if ended in done:
                because = "cut"
                break
            for task in done:
                task.result()
    except CutError as error:
        because = f"cut by {error}"
    except OSError as error:
        because, cell = error.strerror or str(error), _whose(hub, conn, error)
    finally:
        conn.alive = False
        for each in (*tasks, ended, *conn.late):
            each.cancel()
        await asyncio.gather(*tasks, ended, *conn.late, return_exceptions=True)
        for lane in lanes:
            lane.close()
        for stream in (client, upstream):
            stream.close()
        by = "wire" if because.startswith("cut") else conn.ended_by()
        conn.over(by)
        if conn.cell is not None:
            meter = conn.cell.meter(conn.route.role)
            conn.tell_waits(meter)
            meter.over(replace(conn.traffic(), left=int(by == "client"), lost=int(by == "broker")))
        hub.note(
            conn.cell or cell,
            kinds.Conn(
                phase=ConnPhase.CLOSE,
                because=because,
                ended_by=by,
                **conn.fields(),
            ),
        )
