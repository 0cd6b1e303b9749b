"""Large frames pass in blocks that nobody looks at: not a byte is changed, and every verb still
bites in their midst.
"""

from __future__ import annotations

import hashlib
import random
import socket
import struct
import threading
from typing import TYPE_CHECKING

import psutil
import pytest

from harness.model import events as kinds
from harness.model.waiting import wait_until
from harness.protocols.kafka.steps import Api
from harness.wire.messages import Route
from harness.wire.rules import Action, Direction, FreezeScope, How, Rule
from tests.wire.broker import WITHIN_S, ScriptedBroker, corr_of, request, response
from tests.wire.conftest import WireProcess, hold_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.wire.conftest import Bench

MEGABYTES = 1 << 20


def digest(data: bytes) -> bytes:
    """Return what identifies bytes."""
    return hashlib.sha256(data).digest()


def answering_with_digest(extra: bytes = b"") -> ScriptedBroker:
    """Answer each request with the digest of the frame, and so many bytes besides."""
    return ScriptedBroker(lambda frame: response(corr_of(frame), digest(frame) + extra))


@pytest.mark.parametrize(
    "size", [65_000, 65_536, 65_537, 262_143, 262_144, 262_145, 5 * MEGABYTES + 7]
)
def test_not_a_byte_is_changed(make_bench: Callable[..., Bench], size: int) -> None:
    """Around every size of a block, both ways, and with small frames before and behind."""
    extra = random.Random(size).randbytes(size)
    bench = make_bench(answering_with_digest(extra))
    client = bench.client()
    frames = [
        request(Api.METADATA, n, "foreign", body)
        for n, body in enumerate((b"", extra, b"x", extra[::-1]), start=1)
    ]
    client.sock.settimeout(4 * WITHIN_S)
    sending = threading.Thread(target=client.send, args=frames)
    sending.start()
    for number, frame in enumerate(frames, start=1):
        assert client.read() == response(number, digest(frame) + extra)
    sending.join(WITHIN_S)


def test_a_stream_that_ends_inside_a_frame_ends_behind_it_too(bench: Bench) -> None:
    """Half a frame and an end: the broker gets the half and the end, and the wire lives on."""
    frame = request(Api.METADATA, 1, "foreign", bytes(MEGABYTES))
    client = bench.client()
    client.send(frame[: len(frame) // 2])
    client.sock.shutdown(socket.SHUT_WR)
    assert bench.broker.new.get(timeout=WITHIN_S).ended.wait(WITHIN_S)
    assert bench.client().ask(request(Api.METADATA, 2, "foreign")) == response(2, b"answer")


@pytest.mark.parametrize("acks", [0, 1])
def test_acks_are_found_in_front_of_a_large_batch(bench: Bench, acks: int) -> None:
    """Whether a Produce request is answered is read from its first bytes, behind a long
    transactional id too.
    """
    long_id = b"t" * 5000
    head = struct.pack(">h", len(long_id)) + long_id + struct.pack(">h", acks)
    client = bench.client()
    bench.broker.answer = lambda frame: (
        None if corr_of(frame) == 1 and not acks else response(corr_of(frame), b"answer")
    )
    client.send(request(Api.PRODUCE, 1, bench.name(), head + bytes(300_000), version=3))
    if acks:
        assert client.read() == response(1, b"answer")
    assert client.ask(request(Api.METADATA, 2, bench.name())) == response(2, b"answer")
    assert not [
        event
        for event in bench.events(kinds.Undecodable)
        if "whose request was not seen" in str(event.because)
    ]


def test_a_large_held_frame_is_kept_back_whole_and_released(
    make_bench: Callable[..., Bench],
) -> None:
    bench = make_bench(answering_with_digest())
    bench.arm(
        Rule(
            "hold",
            Action.HOLD,
            api=Api.METADATA,
            direction=Direction.REQUEST,
            freeze=FreezeScope.CLIENT,
        )
    )
    frame = request(Api.METADATA, 1, bench.name(), bytes(3 * MEGABYTES))
    client = bench.client()
    sending = threading.Thread(target=client.send, args=(frame,))
    sending.start()
    hit = bench.hit("hold")
    assert not bench.broker.frames
    bench.control.resolve(hold_of(hit), How.RELEASE)
    assert client.read() == response(1, digest(frame))
    sending.join(WITHIN_S)


def test_memory_stays_bounded_with_large_frames_on_many_connections(tmp_path: Path) -> None:
    """200 connections, and 50 MB frames in the midst of being passed on to a broker that does not
    read: blocks, not frames.
    """
    wire = WireProcess.start(tmp_path / "wire")
    process = psutil.Process(wire.process.pid)
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        port = wire.control.add_route(
            Route("r", "b", "producer", 0, listener.getsockname()[1], protocol="kafka")
        ).listen_port
        before = process.memory_info().rss
        socks = [
            socket.create_connection(("127.0.0.1", port), timeout=WITHIN_S) for _ in range(200)
        ]
        head = struct.pack(">i", 50 * MEGABYTES) + request(Api.METADATA, 1, "foreign")[4:]
        for sock in socks:
            sock.sendall(head)
            sock.setblocking(False)
        for sock in socks[:50]:
            _fill(sock)
        wait_until(
            lambda: wire.control.routes()[0].connections == 200,
            within_s=WITHIN_S,
            because="200 connections",
        )
        grown = process.memory_info().rss - before
        for sock in socks:
            sock.close()
    assert grown < 100 * MEGABYTES, f"{grown / MEGABYTES:.0f} MB"
    assert wire.stop() == 0


def _fill(sock: socket.socket) -> None:
    """Send until nothing more is taken."""
    block = bytes(MEGABYTES)
    try:
        while True:
            sock.send(block)
    except BlockingIOError:
        return
