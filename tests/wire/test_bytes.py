"""The wire invents no failure: whatever the bytes are and however they are cut, they arrive as they
were sent.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import socket
import struct
import threading
from typing import TYPE_CHECKING

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.model import events as kinds
from harness.model.waiting import wait_until
from harness.protocols.kafka.steps import Api
from harness.wire.rules import Action, Direction, FreezeScope, How, Rule
from tests.wire import kafka_frames as kf
from tests.wire.broker import WITHIN_S, Client, ScriptedBroker, corr_of, framed, request, response
from tests.wire.conftest import hold_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.wire.conftest import Bench

SHARED = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
MEGABYTE = 1 << 20


@pytest.fixture
def pipe(make_bench: Callable[..., Bench]) -> Bench:
    """Make a bench whose broker is a bare socket."""
    return make_bench(ScriptedBroker(raw=True))


def read_all(sock: socket.socket) -> bytes:
    """Read to the end of the stream."""
    data = bytearray()
    while more := sock.recv(1 << 16):
        data += more
    return bytes(data)


def through(bench: Bench, there: list[bytes], back: list[bytes]) -> tuple[bytes, bytes]:
    """Send pieces to the broker, then pieces back, each side closing behind its last; return what
    came out.
    """
    client = Client(bench.port)
    peer = bench.broker.new.get(timeout=WITHIN_S)
    peer.sock.settimeout(WITHIN_S)
    for piece in there:
        client.send(piece)
    client.sock.shutdown(socket.SHUT_WR)
    arrived = read_all(peer.sock)
    for piece in back:
        peer.sock.sendall(piece)
    peer.sock.close()
    returned = read_all(client.sock)
    client.close()
    return arrived, returned


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    """Cut bytes at these places."""
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[a:b] for a, b in itertools.pairwise(places)]


def conversation(key: str) -> tuple[bytes, bytes]:
    """Make requests and responses of many kinds, most of which are read for the cell."""
    client, values = f"{key}.p.1", [kf.payload("a-1"), kf.payload("a-2", "x" * 2000)]
    requests = [
        request(Api.API_VERSIONS, 1, client, b"\0", version=4),
        kf.metadata(2, client),
        kf.produce(3, client, kf.batch(values, codec="zstd")),
        kf.fetch(4, client, 0),
        kf.commit(5, client, 2),
        kf.end_txn(6, client, kf.Writer(1, 0, 0, "tx")),
        request(500, 7, client, b"an API nobody knows", version=77),
        framed(struct.pack(">hhi", 7, 0, 8)),
    ]
    responses = [
        response(1, b"\0" * 11),
        kf.metadata_answer(2),
        kf.produce_answer(3),
        kf.fetch_answer(4, kf.batch(values)),
        kf.commit_answer(5),
        kf.end_txn_answer(6),
        response(7, b"x" * 70_000),
        response(8),
    ]
    return b"".join(requests), b"".join(responses)


@given(
    cuts=st.lists(st.integers(0, 10**6), max_size=30),
    back_cuts=st.lists(st.integers(0, 10**6), max_size=30),
)
@SHARED
def test_any_split_of_a_stream_gives_the_same_bytes(
    pipe: Bench, cuts: list[int], back_cuts: list[int]
) -> None:
    """Frames may be cut anywhere, lengths and headers too, and come out byte for byte the same."""
    there, back = conversation(pipe.key)
    assert through(pipe, pieces(there, cuts), pieces(back, back_cuts)) == (there, back)


def test_a_stream_byte_by_byte(pipe: Bench) -> None:
    there, back = conversation(pipe.key)
    assert through(pipe, pieces(there, list(range(len(there)))), [back]) == (there, back)
    assert [event.event for event in pipe.events(kinds.Undecodable)] == []


@given(
    there=st.binary(max_size=300),
    back=st.binary(max_size=300),
    cuts=st.lists(st.integers(0, 300), max_size=4),
)
@SHARED
def test_garbage_passes_untouched(pipe: Bench, there: bytes, back: bytes, cuts: list[int]) -> None:
    """Bytes that are no frames of the protocol come out as they went in, and nothing breaks."""
    assert through(pipe, pieces(there, cuts), pieces(back, cuts)) == (there, back)


@given(data=st.data())
@SHARED
def test_damaged_frames_pass_untouched(pipe: Bench, data: st.DataObject) -> None:
    """Real frames with bytes flipped anywhere, read or not, come out as they went in."""
    there, back = (bytearray(each) for each in conversation(pipe.key))
    for victim in (there, back):
        for place in data.draw(st.lists(st.integers(0, len(victim) - 1), min_size=1, max_size=6)):
            victim[place] ^= data.draw(st.integers(1, 255))
    assert through(pipe, [bytes(there)], [bytes(back)]) == (bytes(there), bytes(back))


@pytest.mark.parametrize(
    "head", [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\0", b"GET / HTTP/1.1\r\n\r\n"]
)
def test_absurd_lengths_make_the_connection_opaque_at_once(pipe: Bench, head: bytes) -> None:
    """Neither side waits for a frame that will never be whole: a conversation in another protocol
    just works.
    """
    pipe.control.open_cell(
        f"c{pipe.key}", f"c{pipe.key}", pipe.path.parent / "claim" / "w.jsonl", routes=[pipe.route]
    )
    client = pipe.client()
    peer = pipe.broker.new.get(timeout=WITHIN_S)
    peer.sock.settimeout(WITHIN_S)
    peer.sock.sendall(
        b"abc"
    )  # too short for a response: kept back until it is clear that it is none
    client.send(head)
    assert peer.sock.recv(100) == head
    assert client.sock.recv(3) == b"abc"
    peer.sock.sendall(b"x")
    assert client.sock.recv(1) == b"x"
    assert [event.api for event in pipe.events(kinds.Undecodable)] == ["unknown"]
    pipe.control.close_cell(f"c{pipe.key}")


def test_a_client_that_has_said_all_still_gets_its_answers(pipe: Bench) -> None:
    client = pipe.client()
    peer = pipe.broker.new.get(timeout=WITHIN_S)
    client.send(request(Api.HEARTBEAT, 1, pipe.name()))
    client.sock.shutdown(socket.SHUT_WR)
    peer.sock.settimeout(WITHIN_S)
    assert corr_of(read_all(peer.sock)) == 1
    peer.sock.sendall(response(1, b"late"))
    assert client.read() == response(1, b"late")


def test_pipelined_requests_are_answered_in_order(bench: Bench) -> None:
    """A thousand requests sent at once get a thousand answers, each known by its request's API."""
    client = bench.client()
    frames = [request(Api.HEARTBEAT, corr, bench.name(), b"x" * 100) for corr in range(1000)]
    sender = threading.Thread(target=client.send, args=frames)
    sender.start()
    assert [client.read()[4:8] for _ in frames] == [struct.pack(">i", corr) for corr in range(1000)]
    sender.join(WITHIN_S)
    assert {event.api for event in bench.events(kinds.Frame)} == {"Heartbeat"}


def test_requests_without_acks_have_no_answer(make_bench: Callable[..., Bench]) -> None:
    """With acks=0 the broker answers only what comes after; the wire expects no answer and mistakes
    none.
    """

    def answer(frame: bytes) -> bytes | None:
        return None if frame[4:6] == b"\0\0" else response(corr_of(frame), b"answer")

    bench = make_bench(ScriptedBroker(answer))
    bench.arm(Rule("r", Action.CUT_AFTER, Api.PRODUCE, record="last"))
    client = bench.client()
    for corr in range(5):
        client.send(kf.produce(corr, bench.name(), kf.batch([kf.payload(f"a-{corr}")]), acks=0))
    assert client.ask(request(Api.HEARTBEAT, 5, bench.name())) == response(5, b"answer")
    assert [event.record for event in bench.events(kinds.Sent)] == [
        f"a-{corr}" for corr in range(5)
    ]
    client.send(kf.produce(6, bench.name(), kf.batch([kf.payload("last")]), acks=0))
    assert client.ended()
    wait_until(
        lambda: 6 in bench.broker.corrs(), within_s=WITHIN_S, because="the request before the cut"
    )
    assert bench.events(kinds.Undecodable) == []


def test_many_connections_at_once(bench: Bench) -> None:
    clients = [bench.client() for _ in range(300)]
    for corr, client in enumerate(clients):
        client.send(request(Api.HEARTBEAT, corr, bench.name(incarnation=str(corr))))
    for corr, client in enumerate(clients):
        assert client.read() == response(corr, b"answer")
    for client in clients:
        client.close()

    def gone() -> bool:
        return (
            next(state for state in bench.control.routes() if state.name == bench.route).connections
            == 0
        )

    wait_until(gone, within_s=WITHIN_S, because="the wire to notice")


def _send_large(client: Client, size: int, name: str, api: int) -> None:
    head = request(api, 1, name)
    client.send(struct.pack(">i", size + len(head) - 4) + head[4:])
    block = random.Random(1).randbytes(MEGABYTE)
    for _ in range(size // MEGABYTE):
        client.send(block)


def _read_large(sock: socket.socket, size: int, look: Callable[[], None] = lambda: None) -> int:
    total = 0
    while total < size:
        more = len(sock.recv(MEGABYTE))
        if not more:
            break
        total += more
        look()
    return total


@pytest.mark.parametrize("api", [Api.SYNC_GROUP, Api.PRODUCE])
def test_a_frame_of_100_megabytes_streams_through(pipe: Bench, api: Api) -> None:
    """The wire's memory does not grow with the frame, and a frame too large to be read voids what
    needed it.
    """
    size = 100 * MEGABYTE
    memory = psutil.Process(pipe.wire.process.pid).memory_info
    before = memory().rss
    client = pipe.client()
    peer = pipe.broker.new.get(timeout=WITHIN_S)
    sender = threading.Thread(target=_send_large, args=(client, size, pipe.name(), api))
    sender.start()
    whole = size + len(request(api, 1, pipe.name()))
    peer.sock.settimeout(WITHIN_S)
    peaks: list[int] = []
    assert _read_large(peer.sock, whole, lambda: peaks.append(memory().rss)) == whole
    sender.join(WITHIN_S)
    assert max(peaks) - before < 8 * MEGABYTE
    undecodable = [str(event.because) for event in pipe.events(kinds.Undecodable)]
    assert [("above the limit" in because) for because in undecodable] == (
        [True] if api is Api.PRODUCE else []
    )


def test_a_slow_reader_slows_its_writer_down(pipe: Bench) -> None:
    """The wire reads only while the other side takes: what it buffers is bounded."""
    client = pipe.client()
    pipe.broker.new.get(timeout=WITHIN_S)
    client.sock.settimeout(0.5)
    head = request(Api.SYNC_GROUP, 1, pipe.name())
    client.send(struct.pack(">i", 512 * MEGABYTE) + head[4:])
    sent = 0
    with contextlib.suppress(TimeoutError):
        while sent < 256 * MEGABYTE:
            sent += client.sock.send(b"x" * MEGABYTE)
    assert sent < 64 * MEGABYTE


def test_a_held_large_frame_goes_on_in_place(pipe: Bench) -> None:
    """A frame above the limit can be held and released, without being kept in memory."""
    pipe.arm(Rule("r", Action.HOLD, Api.SYNC_GROUP, Direction.REQUEST))
    client = pipe.client()
    peer = pipe.broker.new.get(timeout=WITHIN_S)
    peer.sock.settimeout(WITHIN_S)
    size = 20 * MEGABYTE
    sender = threading.Thread(target=_send_large, args=(client, size, pipe.name(), Api.SYNC_GROUP))
    sender.start()
    hit = pipe.hit()
    releaser = threading.Thread(target=pipe.control.resolve, args=(hit.held, How.RELEASE))
    releaser.start()
    whole = size + len(request(Api.SYNC_GROUP, 1, pipe.name()))
    assert _read_large(peer.sock, whole) == whole
    releaser.join(WITHIN_S)
    sender.join(WITHIN_S)
    assert pipe.phases("r")[-1] == "released"


def test_a_freeze_stops_a_large_frame_halfway(pipe: Bench) -> None:
    """A frame that is streaming stops where it is when its connection is frozen, and goes on from
    there.
    """
    client = pipe.client()
    peer = pipe.broker.new.get(timeout=WITHIN_S)
    peer.sock.settimeout(WITHIN_S)
    size = 50 * MEGABYTE
    sender = threading.Thread(target=_send_large, args=(client, size, pipe.name(), Api.SYNC_GROUP))
    sender.start()
    whole = size + len(request(Api.SYNC_GROUP, 1, pipe.name()))
    got = _read_large(peer.sock, MEGABYTE)
    pipe.arm(Rule("r", Action.HOLD, Api.END_TXN, freeze=FreezeScope.CLIENT))
    pipe.client().send(request(Api.END_TXN, 99, pipe.name()))
    hit = pipe.hit()
    peer.sock.settimeout(0.3)
    with contextlib.suppress(TimeoutError):
        while got < whole:  # what was under way in the kernel's buffers
            got += len(peer.sock.recv(MEGABYTE))
    assert got < whole
    peer.sock.settimeout(WITHIN_S)
    pipe.control.resolve(hold_of(hit), How.RELEASE)
    assert got + _read_large(peer.sock, whole - got) == whole
    sender.join(WITHIN_S)


def test_an_answer_belongs_to_whoever_asked(pipe: Bench) -> None:
    """On a connection that several clients share (a user's own proxy), an answer goes to the cell
    of its request.
    """
    client = pipe.client()
    peer = pipe.broker.new.get(timeout=WITHIN_S)
    client.send(request(Api.HEARTBEAT, 1, pipe.name()), request(Api.HEARTBEAT, 2, "stranger"))
    peer.sock.settimeout(WITHIN_S)
    _read_large(
        peer.sock,
        len(request(Api.HEARTBEAT, 1, pipe.name()) + request(Api.HEARTBEAT, 2, "stranger")),
    )
    peer.sock.sendall(response(1) + response(2))
    assert [client.read(), client.read()] == [response(1), response(2)]
    frames = [(event.dir, event.corr, event.client) for event in pipe.events(kinds.Frame)]
    assert frames == [("request", 1, pipe.name()), ("response", 1, pipe.name())]
