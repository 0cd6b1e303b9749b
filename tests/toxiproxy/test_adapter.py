"""The adapter against a real Toxiproxy server, and against one that answers nonsense."""

from __future__ import annotations

import http.server
import socket
import threading
import time
from typing import TYPE_CHECKING

import pytest

from harness.provision.cache import cache_root
from harness.provision.toxiproxy import ensure_toxiproxy
from harness.runtimes.ports import PortLease
from harness.runtimes.process.runtime import ProcessRuntime
from harness.services.toxiproxy import Bandwidth, Latency, ResetPeer, Slicer, Stream, Timeout
from harness.services.toxiproxy.client import Toxiproxy, ToxiproxyError
from harness.services.toxiproxy.server import ToxiproxyServer
from harness.services.toxiproxy.toxics import ToxicError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from harness.services.toxiproxy import Toxic

UP, DOWN = Stream.UPSTREAM, Stream.DOWNSTREAM


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToxiproxyServer]:
    """A server of this machine (built where there is none)."""
    program = ensure_toxiproxy(cache_root(), print)
    directory = tmp_path_factory.mktemp("toxiproxy")
    with PortLease(1) as lease, ProcessRuntime(directory=directory) as runtime:
        running = ToxiproxyServer(runtime, program, lease.port, directory / "toxiproxy.log")
        running.await_ready()
        yield running


@pytest.fixture
def echo() -> Iterator[int]:
    """A port that sends back what it is sent."""
    with socket.create_server((LOOPBACK, 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    sock, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=_echo, args=(sock,), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


LOOPBACK = "127.0.0.1"


def _echo(sock: socket.socket) -> None:
    with sock:
        try:
            while data := sock.recv(1 << 16):
                sock.sendall(data)
        except OSError:
            return


@pytest.fixture
def through(server: ToxiproxyServer, echo: int) -> Iterator[Callable[[], socket.socket]]:
    """Connections to the echo through a proxy named ``p``."""
    port = server.client.create("p", echo)
    made: list[socket.socket] = []

    def connect() -> socket.socket:
        made.append(socket.create_connection((LOOPBACK, port), timeout=5))
        return made[-1]

    yield connect
    for sock in made:
        sock.close()
    if "p" in server.client.names():
        server.client.destroy("p")


def ask(sock: socket.socket, data: bytes = b"ping") -> float:
    """Send, wait for all of it to come back; return the seconds it took."""
    since = time.monotonic()
    sock.sendall(data)
    left = len(data)
    while left:
        got = sock.recv(left)
        if not got:
            raise ConnectionError
        left -= len(got)
    return time.monotonic() - since


def test_a_proxy_passes_bytes_and_ends(
    server: ToxiproxyServer, through: Callable[[], socket.socket]
) -> None:
    """Made, it passes bytes; a second of its name is refused; ended, its connections end."""
    sock = through()
    ask(sock)
    assert "p" in server.client.names()
    with pytest.raises(ToxiproxyError, match=r"ProxyExists|exists"):
        server.client.create("p", 1)
    server.client.destroy("p")
    assert sock.recv(1) == b""
    with pytest.raises(ToxiproxyError, match="has no proxy p"):
        server.client.destroy("p")


@pytest.mark.parametrize(
    "toxic",
    [
        Latency(DOWN, 120, 10),
        Bandwidth(UP, 1),
        Slicer(DOWN, 8, 2, 100),
        Timeout(UP),
        ResetPeer(DOWN, 5),
    ],
    ids=lambda toxic: toxic.type,
)
def test_every_toxic_is_put_on_as_asked_and_taken_off(
    server: ToxiproxyServer, through: object, toxic: Toxic
) -> None:
    server.client.put_on("p", [toxic])
    (found,) = server.client.toxics("p").values()
    assert (found["type"], found["stream"], found["attributes"]) == (
        toxic.type,
        toxic.stream,
        toxic.attributes,
    )
    server.client.take_off("p", [toxic])
    assert server.client.toxics("p") == {}


def test_latency_is_felt_and_gone(
    server: ToxiproxyServer, through: Callable[[], socket.socket]
) -> None:
    """A live connection is late while the toxic is on, and no more when it is off."""
    sock = through()
    assert ask(sock) < 0.1
    server.client.put_on("p", [Latency(DOWN, 150)])
    assert ask(sock) >= 0.15
    server.client.take_off("p", [Latency(DOWN, 150)])
    assert ask(sock) < 0.1


def test_a_black_hole_swallows_and_its_end_cuts(
    server: ToxiproxyServer, through: Callable[[], socket.socket]
) -> None:
    """What this project relies on of ``timeout``: silence while it is on, an ended connection when
    it is taken off.
    """
    sock = through()
    ask(sock)
    server.client.put_on("p", [Timeout(DOWN)])
    sock.sendall(b"lost")
    sock.settimeout(0.2)
    with pytest.raises(TimeoutError):
        sock.recv(1)
    sock.settimeout(5)
    server.client.take_off("p", [Timeout(DOWN)])
    assert sock.recv(1) == b""


def test_two_servers_in_one_process(server: ToxiproxyServer, tmp_path: Path, echo: int) -> None:
    program = ensure_toxiproxy(cache_root(), print)
    with PortLease(1) as lease, ProcessRuntime(directory=tmp_path) as runtime:
        other = ToxiproxyServer(runtime, program, lease.port, tmp_path / "other.log")
        other.await_ready()
        other.client.create("only-there", echo)
        assert other.client.names() == ("only-there",)
        assert "only-there" not in server.client.names()
        other.node.kill()
        assert not other.client.ready()
        with pytest.raises(ToxiproxyError, match="ConnectionError"):
            other.client.names()


class _Broken(http.server.BaseHTTPRequestHandler):
    """Fails at everything, as a server does that runs out of descriptors."""

    def do_GET(self) -> None:
        self.send_response(500)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_POST = do_GET  # noqa: N815 - the standard library's name

    def log_message(self, *args: object) -> None:
        """Keep quiet."""


def test_a_failing_server_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    """HTTP 500 is one clear error, not ``KeyError: 'name'``; a proxy of the environment is not
    asked.
    """
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    with http.server.HTTPServer((LOOPBACK, 0), _Broken) as broken:
        threading.Thread(target=broken.serve_forever, daemon=True).start()
        with pytest.raises(ToxiproxyError, match="refused GET /proxies: status 500"):
            Toxiproxy(broken.server_port).create("p", 1)
        broken.shutdown()


@pytest.mark.parametrize(
    "make",
    [
        lambda: Latency(DOWN, 0),
        lambda: Latency(DOWN, 10, 20),
        lambda: Bandwidth(UP, 0),
        lambda: Slicer(UP, 8, 8),
    ],
)
def test_a_toxic_that_would_do_nothing_is_refused(make: Callable[[], Toxic]) -> None:
    with pytest.raises(ToxicError):
        make()
