"""One connection through the wire: two lanes, each a stream of frames from one socket to the other.

Sockets are used directly (``loop.sock_recv``, ``loop.sock_sendall``): a lane reads only when it can pass on, nothing
is buffered beyond the frame at hand, and a frame has *reached* its destination when the kernel has taken its last byte.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from harness.core import events as kinds
from harness.wire import codec, frames
from harness.wire.cell import Frame
from harness.wire.messages import Traffic
from harness.wire.postgres import Dialogue
from harness.wire.rules import Action, After, Api, Direction, How, api_label
from harness.wire.tracker import NOTHING, FetchSession, Insight

if TYPE_CHECKING:
    from harness.wire.cell import WireCell
    from harness.wire.messages import Route
    from harness.wire.rules import ArmedRule
    from harness.wire.traffic import Meter
    from harness.wire.wire import Wire

CHUNK_BYTES = 1 << 16
MAX_PENDING = 10_000
"""Unanswered requests remembered per connection. A broker answers in order and one at a time: no client gets there."""
CELL_APIS = frozenset({Api.PRODUCE, Api.FETCH, Api.OFFSET_COMMIT, Api.END_TXN, Api.TXN_OFFSET_COMMIT})
"""What is read of every cell, rules or not."""
CALLS = frozenset({
    (Api.ADD_PARTITIONS_TO_TXN, Direction.REQUEST), (Api.ADD_PARTITIONS_TO_TXN, Direction.RESPONSE),
    (Api.ADD_OFFSETS_TO_TXN, Direction.REQUEST), (Api.ADD_OFFSETS_TO_TXN, Direction.RESPONSE),
    (Api.WRITE_TXN_MARKERS, Direction.REQUEST), (Api.INIT_PRODUCER_ID, Direction.REQUEST),
})  # fmt: skip
"""What is counted for the transaction it is about, what begins and ends one, and the answers that take a refused request from the
count."""


class CutError(Exception):
    """The connection ends here, on purpose."""


@dataclass(slots=True)
class Pending:
    """A request that was passed on and has no answer yet."""

    frame: Frame
    since: float
    """When it was passed on, by the loop's clock."""
    swallow: ArmedRule | None = None


class Inlet:
    """Reads one socket, holding only what is needed."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self._reading: asyncio.Task[bytes] | None = None
        self.buffer = bytearray()
        self.ended = False
        self.bytes = 0
        self.reads = 0
        self.ended_at: float | None = None
        """When the stream ended or broke, by the loop's clock."""

    async def read(self) -> bool:
        """Wait for more bytes; false at the end of the stream."""
        if self.ended:
            return False
        try:
            if self._reading is None:
                data = await self._loop.sock_recv(self._sock, CHUNK_BYTES)
            else:
                data, self._reading = await self._reading, None
        except OSError:
            self._end()
            raise
        return self._got(data)

    async def read_into(self, view: memoryview) -> int:
        """Read past the buffer, which must be empty; return how many bytes came, 0 at the end of the stream."""
        if self.ended:
            return 0
        if self._reading is not None:  # begun before: its bytes come first
            await self.read()
            data = self.take(len(view))
            view[: len(data)] = data
            return len(data)
        try:
            count = await self._loop.sock_recv_into(self._sock, view)
        except OSError:
            self._end()
            raise
        if not count:
            self._end()
        self.bytes += count
        self.reads += 1
        return count

    async def read_unless(self, event: asyncio.Event) -> bool:
        """Like :meth:`read`, but also come back, with true, when the event is set meanwhile."""
        if self.ended:
            return False
        if self._reading is None:
            self._reading = asyncio.create_task(self._loop.sock_recv(self._sock, CHUNK_BYTES))
        other = asyncio.create_task(event.wait())
        try:
            await asyncio.wait((self._reading, other), return_when=asyncio.FIRST_COMPLETED)
        finally:
            other.cancel()
        if not self._reading.done():
            return True
        done, self._reading = self._reading, None
        try:
            data = done.result()
        except OSError:
            self._end()
            raise
        return self._got(data)

    def _end(self) -> None:
        self.ended = True
        self.ended_at = self._loop.time()

    def _got(self, data: bytes) -> bool:
        if not data:
            self._end()
        self.buffer += data
        self.bytes += len(data)
        self.reads += 1
        return not self.ended

    def drop(self, count: int) -> None:
        """Forget the first ``count`` bytes at hand."""
        del self.buffer[:count]

    def take(self, count: int) -> bytes:
        """Return and forget the first ``count`` bytes at hand (or what there is)."""
        with memoryview(self.buffer) as view:
            taken = bytes(view[:count])
        del self.buffer[:count]
        return taken

    def close(self) -> None:
        """Stop reading."""
        if self._reading is not None:
            self._reading.cancel()


class Lane:
    """One direction of a connection."""

    def __init__(self, conn: Connection, direction: Direction, source: socket.socket, target: socket.socket) -> None:
        self._conn = conn
        self._wire = conn.wire
        self._loop = asyncio.get_running_loop()
        self.inlet = self._inlet = Inlet(source)
        self._target = target
        self._direction = direction
        self.dark = False
        """A rule has made this direction silent for good."""
        self.swallowed = False
        """Bytes of this direction were thrown away by a black hole of the control connection."""
        self.sent = 0
        """Bytes given to the destination."""
        self.refused_at: float | None = None
        """When the destination took no more, by the loop's clock."""

    async def run(self) -> None:
        """Pass frames on until the stream ends; raises :class:`CutError` where the connection is to end."""
        one = self._request if self._direction is Direction.REQUEST else self._response
        try:
            while await one():
                pass
        except frames.NotAFrameError as error:
            self._conn.go_opaque(str(error))
        await self._raw()
        await self._conn.gate()
        if not self._silent:
            with contextlib.suppress(OSError):
                self._target.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Let go of the source."""
        self._inlet.close()

    # -- bytes ----------------------------------------------------------------------------------------------------

    async def _fill(self, count: int) -> bool:
        """Have ``count`` bytes at hand; false where the stream ends before, or is opaque."""
        inlet, opaque = self._inlet, self._conn.opaque
        while len(inlet.buffer) < count and not opaque.is_set():
            if not await (inlet.read_unless(opaque) if inlet.buffer else inlet.read()):
                return False
        return not opaque.is_set()

    @property
    def _silent(self) -> bool:
        return self.dark or self._wire.is_dark(self._conn, self._direction)

    async def _send(self, data: bytes | memoryview) -> None:
        await self._conn.gate()
        if self.dark:
            return
        if self._wire.is_dark(self._conn, self._direction):
            self.swallowed = True
            return
        try:
            await self._loop.sock_sendall(self._target, data)
        except OSError:
            self.refused_at = self._loop.time()
            raise
        self.sent += len(data)

    async def _raw(self) -> None:
        """Pass on what is left as bare bytes."""
        while True:
            while self._inlet.buffer:
                await self._send(self._inlet.take(CHUNK_BYTES))
            if not await self._inlet.read():
                return

    async def _pass(self, size: int, *, keep: bool = True) -> bool:
        """Pass on (or, unless ``keep``, throw away) the next ``size`` bytes; true when all of them went."""
        inlet, left = self._inlet, size
        while left:
            if not inlet.buffer and left >= CHUNK_BYTES:
                left = await self._stream(left, keep=keep)
            if left and not inlet.buffer and not await inlet.read():
                return False
            count = min(left, len(inlet.buffer))
            if keep and count:
                with memoryview(inlet.buffer) as whole, whole[:count] as part:
                    await self._send(part)
            inlet.drop(count)
            left -= count
        return keep and not self._silent

    async def _stream(self, size: int, *, keep: bool) -> int:
        """Pass on what lies between two headers without looking at it; return how many bytes are left to pass."""
        left = size
        with self._wire.scratch() as scratch:
            while left >= CHUNK_BYTES:
                count = await self._inlet.read_into(scratch[:left])
                if not count:
                    break
                left -= count
                if keep:
                    await self._send(scratch[:count])
        return left

    # -- frames ---------------------------------------------------------------------------------------------------

    async def _request(self) -> bool:
        inlet, at = self._inlet, frames.LENGTH_BYTES
        if not await self._fill(at):
            return False
        size = frames.frame_size(inlet.buffer, least=frames.MIN_REQUEST_BYTES)
        if not await self._fill(at + frames.request_prefix_bytes(size)):
            return False
        length = frames.request_head_bytes(bytes(inlet.buffer[at : at + frames.request_prefix_bytes(size)]), size)
        if not await self._fill(at + length):
            return False
        head = frames.request_head(bytes(inlet.buffer[at : at + length]), size)
        self._conn.identify(head.client)
        await self._conn.gate()
        frame = self._conn.frame(self._direction, head.api, head.version, head.corr, size)
        if not await self._read(frame):
            return False
        if head.api == Api.PRODUCE and not await self._see_acks(frame, head):
            return False
        return await self._treat(frame, None)

    async def _see_acks(self, frame: Frame, head: frames.RequestHead) -> bool:
        at, most = frames.LENGTH_BYTES, min(frame.size, frames.ACKS_PREFIX_BYTES)
        least = min(most, head.head_bytes + frames.ACKS_USUALLY_WITHIN_BYTES)
        for count in (least, most):
            if not await self._fill(at + count):
                return False
            acks = frames.produce_acks(bytes(self._inlet.buffer[at : at + count]), head)
            if acks is not None:
                break
        frame.unanswered = acks == 0
        return True

    async def _response(self) -> bool:
        inlet, at = self._inlet, frames.LENGTH_BYTES
        if not await self._fill(at):
            return False
        size = frames.frame_size(inlet.buffer, least=frames.MIN_RESPONSE_BYTES)
        if not await self._fill(at + frames.MIN_RESPONSE_BYTES):
            return False
        corr = frames.correlation(bytes(inlet.buffer[at : at + frames.MIN_RESPONSE_BYTES]))
        await self._conn.gate()
        pending = self._conn.pending.get(corr)
        asked = pending.frame if pending else None
        api, version = (asked.api, asked.version) if asked else (-1, -1)
        frame = self._conn.frame(self._direction, api, version, corr, size)
        if asked:
            frame.client, frame.cell = asked.client, asked.cell
        elif frame.cell is not None:
            frame.cell.blind(frame, "a response to no known request")
        if not await self._read(frame, asked):
            return False
        self._conn.pending.pop(corr, None)
        if pending is not None and pending.frame.cell is not None:
            meter = pending.frame.cell.meter(frame.role)
            meter.answered(api, pending.frame.size, pending.since, self._loop.time())
        return await self._treat(frame, pending)

    async def _read(self, frame: Frame, asked: Frame | None = None) -> bool:
        """Read what must be known of the frame; false where the stream ends inside it."""
        cell = frame.cell
        if cell is None:
            return True
        candidates = cell.candidates(frame.header)
        wanted = any(armed.rule.needs_content for armed in candidates) and codec.decodable(frame.api, self._direction)
        needed = frame.api in CELL_APIS
        names = frame.api == Api.METADATA and self._direction is Direction.RESPONSE
        counted = (frame.api, self._direction) in CALLS
        if frame.size <= self._wire.decode_limit and (needed or names or counted or candidates):
            if not await self._fill(frames.LENGTH_BYTES + frame.size):
                return False
            await self._conn.gate()
            start = frames.LENGTH_BYTES
            frame.payload = bytes(memoryview(self._inlet.buffer)[start : start + frame.size])
        earlier = asked.insight if asked else NOTHING
        if needed or names or counted or wanted:
            frame.insight = self._look(frame, cell, earlier, needed=needed)
        else:
            frame.insight = Insight(earlier.subject, because=earlier.because)
        return True

    def _look(self, frame: Frame, cell: WireCell, asked: Insight, *, needed: bool) -> Insight:
        try:
            content = codec.decode(frame.api, self._direction, frame.version, self._whole(frame))
        except codec.UndecodableError as error:
            insight = Insight(asked.subject, because=str(error))
        else:
            if isinstance(content, codec.Names):
                self._wire.names.update(content.names)
                return NOTHING
            if self._direction is Direction.REQUEST:
                insight = cell.tracker.look_at_request(content, frame.request)
            else:
                insight = cell.tracker.look_at_response(content, asked, self._conn.session, self._conn.id)
        if insight.because and needed:
            cell.blind(frame, insight.because)
        return insight

    def _whole(self, frame: Frame) -> bytes:
        if frame.payload is None:
            raise codec.UndecodableError(f"{frame.size} bytes are above the limit of {self._wire.decode_limit}")
        return frame.payload

    async def _treat(self, frame: Frame, pending: Pending | None) -> bool:
        """Do to the frame what the rules say; false where the stream has ended."""
        cell = frame.cell
        delay_s = self._wire.delay_of(self._conn, self._direction)
        if delay_s:
            await asyncio.sleep(delay_s)
        if cell is None:
            return await self._forward(frame)
        await self._conn.gate()
        cell.seen(frame)
        if pending is not None and pending.swallow is not None:
            cell.settle(frame, reached=False)
            cell.phase(pending.swallow.rule, "cut", frame)
            raise CutError(f"rule {pending.swallow.rule.id}")
        armed = cell.judge(frame, cell.candidates(frame.header))
        if armed is not None:
            return await self._act(frame, cell, armed)
        return await self._forward(frame)

    async def _act(self, frame: Frame, cell: WireCell, armed: ArmedRule) -> bool:
        rule = armed.rule
        if rule.action is Action.HOLD:
            return await self._hold(frame, cell, armed)
        cell.hit(rule, frame, None)
        if rule.action is Action.DELAY:
            await asyncio.sleep(rule.delay_s)
            cell.phase(rule, "delayed", frame)
            return await self._forward(frame)
        if rule.action is Action.CUT_AFTER:
            return await self._cut_after(frame, cell, armed)
        cell.settle(frame, reached=False)
        cell.phase(rule, "dropped", frame)
        if rule.action is Action.DROP and rule.after is After.BLACK_HOLE:
            self.dark = True
            await self._pass(frames.LENGTH_BYTES + frame.size, keep=False)
            return True
        cell.phase(rule, "cut", frame)
        raise CutError(f"rule {rule.id}")

    async def _cut_after(self, frame: Frame, cell: WireCell, armed: ArmedRule) -> bool:
        waits = self._direction is Direction.REQUEST and not frame.unanswered
        await self._forward(frame, swallow=armed if waits else None)
        if waits:
            await self._conn.until_closed()
            return False
        cell.phase(armed.rule, "cut", frame)
        raise CutError(f"rule {armed.rule.id}")

    async def _forward(self, frame: Frame, *, swallow: ArmedRule | None = None) -> bool:
        await self._conn.gate()
        if self._direction is Direction.REQUEST and not frame.unanswered and not self._silent:
            self._conn.expect(Pending(frame, self._loop.time(), swallow))
        frame.payload = None
        reached = await self._pass(frames.LENGTH_BYTES + frame.size)
        if frame.cell is not None:
            frame.cell.settle(frame, reached=reached)
        return reached or not self._inlet.ended or bool(self._inlet.buffer)

    async def _hold(self, frame: Frame, cell: WireCell, armed: ArmedRule) -> bool:
        hold = self._wire.hold(frame, cell, armed.rule, self._conn)
        cell.hit(armed.rule, frame, hold.id)
        cell.phase(armed.rule, "held", frame, held=hold.id)
        await hold.decided.wait()
        if hold.how is How.RELEASE_LATER:
            await self._pass(frames.LENGTH_BYTES + frame.size, keep=False)
            return True
        going_on = await self._forward(frame)
        hold.forwarded.set()
        return going_on


def _port_of(client: socket.socket) -> int:
    """Return the port that a client's connection comes from; 0 where it is gone already."""
    try:
        port: int = client.getpeername()[1]
    except OSError:
        return 0
    return port


class Connection:
    """A client's connection and the one to the broker behind it."""

    def __init__(
        self, wire: Wire, number: int, route: Route, client: socket.socket, upstream: socket.socket, *, lane: type[Lane] = Lane
    ) -> None:
        self.wire = wire
        self.id = number
        self.route = route
        self.client = ""
        self.process = ""
        self.cell: WireCell | None = None
        self.opaque = asyncio.Event()
        """Set when the bytes turned out to be no frames: then nothing is read or kept back any more."""
        self.alive = True
        self.peer = _port_of(client)
        self.pending: OrderedDict[int, Pending] = OrderedDict()
        self.session = FetchSession()
        self.dialogue = Dialogue()
        """Of a connection to a database."""
        self.frozen_by: set[str] = set()
        self._open_gate = asyncio.Event()
        self._open_gate.set()
        self._ended = asyncio.Event()
        self._over = asyncio.Event()
        self._sockets = (client, upstream)
        self._announced = False
        self.lanes = {
            Direction.REQUEST: lane(self, Direction.REQUEST, client, upstream),
            Direction.RESPONSE: lane(self, Direction.RESPONSE, upstream, client),
        }

    # -- who it is ------------------------------------------------------------------------------------------------

    def identify(self, client: str | None) -> None:
        """Take note of the client id of a request; the last one given counts."""
        name = client if client is not None else self.client
        if self._announced and name == self.client and self.cell is self.wire.cell_of(name, self.route):
            return
        self.client = name
        self.process = self.wire.process_of(name, self.route)
        before, self.cell = self.cell, self.wire.cell_of(name, self.route)
        self.wire.freeze_newcomer(self)
        if self.cell is not None and self.cell is not before:
            self.cell.write("conn", phase="open", peer=self.peer, **self.fields())
        self._announced = True

    def fields(self) -> dict[str, object]:
        """Return what names this connection in the history."""
        return {"conn": self.id, "role": self.route.role, "node": self.route.node, "client": self.client}

    def frame(self, direction: Direction, api: int, version: int, corr: int, size: int) -> Frame:
        """Make the record of a frame that is at hand."""
        return Frame(
            conn=self.id,
            role=self.route.role,
            node=self.route.node,
            client=self.client,
            direction=direction,
            api=api,
            api_name=api_label(api) if api >= 0 else "unknown",
            version=version,
            corr=corr,
            size=size,
            cell=self.cell,
        )

    def go_opaque(self, because: str) -> None:
        """From here on bytes pass untouched and unread."""
        if not self.opaque.is_set():
            self.opaque.set()
            self.wire.note(self.cell, "conn", phase="opaque", because=because, **self.fields())
            cell = self.cell or self.wire.cell_of(self.client, self.route)
            if cell is not None:
                cell.write(kinds.UNDECODABLE, api="unknown", version=-1, because=because, **self.fields())

    def expect(self, pending: Pending) -> None:
        """Remember a request that will be answered; the oldest is forgotten where there are too many."""
        self.pending[pending.frame.corr] = pending
        if len(self.pending) > MAX_PENDING:
            _, forgotten = self.pending.popitem(last=False)
            if forgotten.frame.cell is not None:
                forgotten.frame.cell.blind(forgotten.frame, f"more than {MAX_PENDING} requests have no answer")

    # -- standing still -------------------------------------------------------------------------------------------

    async def gate(self) -> None:
        """Wait while the connection is frozen."""
        while self.frozen_by:
            await self._open_gate.wait()

    def freeze(self, name: str) -> None:
        """Let nothing pass in either direction."""
        self.frozen_by.add(name)
        self._open_gate.clear()

    def thaw(self, name: str) -> None:
        """Undo one freeze."""
        self.frozen_by.discard(name)
        if not self.frozen_by:
            self._open_gate.set()

    # -- life -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Pass frames both ways until both streams have ended, one breaks, or the connection is cut."""
        tasks = [asyncio.create_task(lane.run()) for lane in self.lanes.values()]
        ended = asyncio.create_task(self._ended.wait())
        because = "both ends closed"
        try:
            waiting: set[asyncio.Task[object]] = {*tasks, ended}
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
            because = error.strerror or str(error)
        finally:
            self.alive = False
            for each in (*tasks, ended):
                each.cancel()
            await asyncio.gather(*tasks, ended, return_exceptions=True)
            for lane in self.lanes.values():
                lane.close()
            for sock in self._sockets:
                sock.close()
            self._ended.set()
            self._over.set()
            self._unanswered_cuts()
            by = "wire" if because.startswith("cut") else self._ended_by()
            if self.cell is not None:
                meter = self.cell.meter(self.route.role)
                self.tell_waits(meter)
                meter.over(replace(self.traffic(), left=int(by == "client"), lost=int(by == "broker")))
            self.wire.note(self.cell, "conn", phase="close", because=because, ended_by=by, **self.fields())

    def traffic(self) -> Traffic:
        """Return what has passed so far."""
        up, down = self.lanes[Direction.REQUEST], self.lanes[Direction.RESPONSE]
        return Traffic(up.sent, down.inlet.bytes, down.inlet.reads, opened=1)

    def tell_waits(self, meter: Meter) -> None:
        """Say how long the unanswered requests have waited."""
        now = asyncio.get_running_loop().time()
        for pending in self.pending.values():
            meter.waited(pending.frame.api, pending.since, now)

    def _ended_by(self) -> str:
        """Say whose end of the connection went first: the client's or the broker's (or of the network before it)."""
        up, down = self.lanes[Direction.REQUEST], self.lanes[Direction.RESPONSE]
        ends = (
            ("client", up.inlet.ended_at),
            ("broker", down.inlet.ended_at),
            ("broker", up.refused_at),
            ("client", down.refused_at),
        )
        known = [(at, who) for who, at in ends if at is not None]
        return min(known)[1] if known else "wire"

    def _unanswered_cuts(self) -> None:
        for pending in self.pending.values():
            if pending.swallow is not None and pending.frame.cell is not None:
                pending.frame.cell.phase(pending.swallow.rule, "cut", pending.frame, because="no answer came")

    def cut(self) -> None:
        """End the connection now."""
        self._ended.set()

    async def until_closed(self) -> None:
        """Wait for the end of the connection to be near."""
        await self._ended.wait()

    async def until_over(self) -> None:
        """Wait until both sockets are closed."""
        await self._over.wait()


def reset(sock: socket.socket) -> None:
    """Close a socket so that the other side sees a reset."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()
