"""A blocking end of TLS over a socket that can say its end and still read, which the standard
library's cannot.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from typing import TYPE_CHECKING

from harness.wire.tls import is_torn

if TYPE_CHECKING:
    from harness.provision.certificates import Certificates

CHUNK = 1 << 16
NAME = "127.0.0.1"


def serving(certificates: Certificates, *, identity: Certificates | None = None) -> ssl.SSLContext:
    """Make what a server is; ``identity``: whose certificates its clients must show."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF  # set in Python 3.11.2
    context.load_cert_chain(certificates.server)
    if identity is not None:
        context.load_verify_locations(identity.authority)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def trusting(certificates: Certificates) -> ssl.SSLContext:
    """Make what a client is that trusts one authority, and verifies as strictly as Python 3.13 and
    later do by default.
    """
    context = ssl.create_default_context(cafile=certificates.authority)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF
    return context


def meet(client: ssl.SSLContext, server: ssl.SSLContext, name: str) -> None:
    """Let both shake hands in memory. Raises :class:`ssl.SSLError` if one of them does
    not want to.
    """
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(back, there, server_hostname=name),
        server.wrap_bio(there, back, server_side=True),
    ]
    for _ in range(4):
        for each in ends:
            with contextlib.suppress(ssl.SSLWantReadError):
                each.do_handshake()
    assert all(each.version() for each in ends)


class TlsSocket:
    """Stands for a socket. ``name``: of the server that it is the client of; None: it is the
    server.
    """

    def __init__(
        self, sock: socket.socket, context: ssl.SSLContext, name: str | None = None
    ) -> None:
        self.sock = sock
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._in, self._out, server_side=name is None, server_hostname=name
        )
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._flush()
                self._take()
            except ssl.SSLError:
                self._flush()
                raise
            else:
                self._flush()
                return

    def recv(self, count: int) -> bytes:
        """Read some bytes; none at a clean end. Raises :class:`ssl.SSLEOFError` at any other."""
        while True:
            try:
                return self._tls.read(count)
            except ssl.SSLZeroReturnError:
                return b""
            except ssl.SSLWantReadError:
                self._take()
            except ssl.SSLError as error:
                raise (ssl.SSLEOFError() if is_torn(error) else error) from error

    def sendall(self, data: bytes) -> None:
        """Send bytes."""
        at = 0
        while at < len(data):
            at += self._tls.write(data[at : at + CHUNK])
            self._flush()

    def shutdown(self, how: int) -> None:
        """Say that all was said."""
        assert how == socket.SHUT_WR
        with contextlib.suppress(ssl.SSLWantReadError):
            self._tls.unwrap()
        self._flush()
        self.sock.shutdown(how)

    def close(self) -> None:
        """Leave without a word."""
        self.sock.close()

    def leave(self) -> None:
        """Say the end and leave, whoever listens."""
        with contextlib.suppress(OSError):
            self.shutdown(socket.SHUT_WR)
        self.sock.close()

    def _flush(self) -> None:
        if self._out.pending:
            self.sock.sendall(self._out.read())

    def _take(self) -> None:
        data = self.sock.recv(CHUNK)
        self._in.write(data) if data else self._in.write_eof()
