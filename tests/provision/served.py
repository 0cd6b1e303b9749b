"""A small server on loopback for tests of what is fetched: files, by TLS too, or a proxy."""

from __future__ import annotations

import socket
import socketserver
import ssl
import struct
import threading
from base64 import b64encode
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, cast
from urllib.parse import quote

from harness.provision.certificates import make_certificates
from tests.wire.broker import read_exactly

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

LOGIN_WANTED = 407


class Served(ThreadingHTTPServer):
    """A server that remembers what it was asked for: paths, or as a proxy whole addresses."""

    def __init__(self, files: Mapping[str, bytes], login: str | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files, self.asked = files, list[str]()
        self.login = f"Basic {b64encode(login.encode()).decode()}" if login else None

    @property
    def port(self) -> int:
        """Its port."""
        return self.server_address[1]

    @property
    def address(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"


class _Handler(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        if self._let_in():
            content = self._served.files.get(self.path)
            self._answer(404 if content is None else 200, content or b"")

    def do_CONNECT(self) -> None:
        if self._let_in():
            self._answer(502)

    @property
    def _served(self) -> Served:
        return cast("Served", self.server)

    def _let_in(self) -> bool:
        self._served.asked.append(self.path)
        if self._served.login in {None, self.headers["Proxy-Authorization"]}:
            return True
        self._answer(LOGIN_WANTED)
        return False

    def _answer(self, status: int, content: bytes = b"") -> None:
        self.send_response(status)
        if status == LOGIN_WANTED:
            self.send_header("Proxy-Authenticate", 'Basic realm="proxy"')
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Be quiet."""


@contextmanager
def serving(
    files: Mapping[str, bytes], tls: Path | None = None, login: str | None = None
) -> Iterator[Served]:
    """Serve files by their paths, or, as a proxy, by their whole addresses.

    ``tls``: a folder for certificates that nobody trusts. ``login``: user and password that a proxy
    asks for, such as ``me:secret``.
    """
    served = Served(files, login)
    if tls is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(make_certificates(tls).server)
        served.socket = context.wrap_socket(served.socket, server_side=True)
    thread = threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield served
    finally:
        served.shutdown()
        served.server_close()
        thread.join()


class Socks(socketserver.ThreadingTCPServer):
    """A SOCKS 5 proxy on loopback that remembers which host and port it was asked for, and leads
    all of them to one port of this machine.
    """

    daemon_threads = True

    def __init__(self, to: int, login: str | None) -> None:
        super().__init__(("127.0.0.1", 0), _Socks)
        self.to, self.login, self.asked = to, login, list[tuple[str, int]]()

    @property
    def named(self) -> str:
        """Its address, as a variable names it."""
        user, _, password = (self.login or "").partition(":")
        login = f"{user}:{quote(password)}@" if user else ""
        return f"socks5h://{login}127.0.0.1:{self.server_address[1]}"


class _Socks(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        proxy, client = cast("Socks", self.server), self.request
        offered = read_exactly(client, read_exactly(client, 2)[1])
        method = 2 if proxy.login else 0
        client.sendall(bytes([5, method if method in offered else 0xFF]))
        if method not in offered:
            return
        if proxy.login:
            user = read_exactly(client, read_exactly(client, 2)[1]).decode()
            password = read_exactly(client, read_exactly(client, 1)[0]).decode()
            right = f"{user}:{password}" == proxy.login
            client.sendall(bytes([1, not right]))
            if not right:
                return
        kind = read_exactly(client, 4)[3]
        length = read_exactly(client, 1)[0] if kind == _NAME else 4
        host = read_exactly(client, length)
        [port] = struct.unpack("!H", read_exactly(client, 2))
        proxy.asked.append((host.decode() if kind == _NAME else ".".join(map(str, host)), port))
        with socket.create_connection(("127.0.0.1", proxy.to)) as server:
            client.sendall(bytes([5, 0, 0, 1, 0, 0, 0, 0, 0, 0]))
            back = threading.Thread(target=_pass_on, args=(server, client), daemon=True)
            back.start()
            _pass_on(client, server)
            back.join()


_NAME = 3


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextmanager
def socks_to(port: int, login: str | None = None) -> Iterator[Socks]:
    """Run a SOCKS proxy that leads to a port. ``login``: user and password that it asks for."""
    with Socks(port, login) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()
