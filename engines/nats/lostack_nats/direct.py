"""Ask a server past the wire: one request of JetStream's API on a connection of its own."""

from __future__ import annotations

import json
import secrets
import socket
from typing import Any, Final

from lostack_nats import frames

WITHIN_S: Final = 5.0
NOT_FOUND: Final = 404


class RefusedError(OSError):
    """The server refuses what it is asked. ``code``: HTTP's."""

    def __init__(self, subject: str, error: dict[str, Any]) -> None:
        super().__init__(f"{subject}: {error.get('description', error)}")
        self.code = error.get("code")


class NobodyError(OSError):
    """Nobody has the subject that is asked."""


def ask(
    port: int, subject: str, asked: object = None, within_s: float = WITHIN_S
) -> dict[str, Any]:
    """Return the answer to a request.

    Raises:
        RefusedError: the server refuses.
        NobodyError: nobody has the subject.
        OSError: the server cannot be reached, or does not answer.
    """
    inbox = f"{frames.INBOX}{secrets.token_hex(8)}"  # what goes to a common one all would get
    body = b"" if asked is None else json.dumps(asked).encode()
    hello = b'CONNECT {"verbose":false,"headers":true,"no_responders":true,"name":"lostack"}\r\n'
    request = f"SUB {inbox} 1\r\nPUB {subject} {inbox} {len(body)}\r\n".encode()
    with socket.create_connection(("127.0.0.1", port), within_s) as connection:
        connection.settimeout(within_s)
        connection.sendall(hello + request + body + frames.CRLF)
        data = bytearray()
        while True:
            try:
                line = frames.line_at(data) if data else None
            except frames.NotAFrameError as error:
                raise OSError(str(error)) from error
            if line is None or len(data) < line.size:
                more = connection.recv(1 << 16)
                if not more:
                    raise OSError("the server has ended the connection")
                data += more
                continue
            if line.verb == "MSG":
                return _said(subject, bytes(data[slice(*line.body)]))
            if line.verb == "HMSG" and data[line.headers[0] :].startswith(frames.NOBODY):
                raise NobodyError(f"{subject}: nobody is there")
            if line.verb in ("HMSG", "-ERR"):
                raise OSError(f"{subject}: the server says {line.verb} {line.text}")
            del data[: line.size]


def _said(subject: str, body: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(body)
    if "error" in found:
        raise RefusedError(subject, found["error"])
    return found
