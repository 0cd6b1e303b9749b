"""Small servers on loopback for tests of what is fetched: one that serves files, by TLS too, and a
proxy.
"""

from __future__ import annotations

import ssl
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from harness.provision.certificates import make_certificates

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


@dataclass
class Served:
    """A running server: its port, and the paths, or as a proxy the addresses, that it was asked
    for.
    """

    port: int
    asked: list[str] = field(default_factory=list)
    logins: list[str | None] = field(default_factory=list)
    """What a proxy was told of who asks."""

    @property
    def address(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def serving(files: Mapping[str, bytes], tls: Path | None = None) -> Iterator[Served]:
    """Serve files by their paths, or, as a proxy, by their whole addresses. ``tls``: a folder for
    certificates nobody trusts.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            served.asked.append(self.path)
            served.logins.append(self.headers["Proxy-Authorization"])
            content = files.get(self.path)
            self.send_response(404 if content is None else 200)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content or b"")

        def do_CONNECT(self) -> None:
            served.asked.append(self.path)
            served.logins.append(self.headers["Proxy-Authorization"])
            self.send_error(502, "no tunnel here")

        def log_message(self, *_: object) -> None:
            """Be quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(make_certificates(tls).server)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    served = Served(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
