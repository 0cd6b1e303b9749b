"""The proxy over HTTP, for tests in any language: JSON, on loopback, guarded by a secret."""

from __future__ import annotations

import contextlib
import hmac
import json
import math
import socket
import sys
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs

import msgspec

from harness.model.conversion import convert
from harness.model.failures import EnvironmentFailure, UsageError, why_damaged
from harness.proxy.fault import NeverStruckError
from harness.proxy.proxy import NotReadError, Proxy
from harness.proxy.spoken import KAFKA
from harness.proxy.upstream import known_port
from harness.wire.messages import LOOPBACK, WireError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from email.message import Message

    from harness.proxy.fault import Fault

MOST_BYTES: Final = 1 << 20
"""Of a request."""
DIGITS: Final = 9
"""Of its length."""
MOST_WAIT_S: Final = 600.0
SILENT_S: Final = 60.0
"""After that many seconds without a byte a client is given up."""
PARTING_S: Final = 1.0
"""So long may a client send whose request was not taken."""
FIRST: Final = "1"
_STATUS: Final = {
    UsageError: HTTPStatus.BAD_REQUEST,
    NeverStruckError: HTTPStatus.CONFLICT,
    NotReadError: HTTPStatus.CONFLICT,
    WireError: HTTPStatus.CONFLICT,
    EnvironmentFailure: HTTPStatus.SERVICE_UNAVAILABLE,
}


class AskedRoute(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A route as it is asked for: what :class:`~harness.proxy.proxy.Proxy` takes."""

    upstream: str
    located: dict[str, str] = msgspec.field(default_factory=dict, name="map")
    port: int = 0
    protocol: str = KAFKA
    roles: dict[str, int] = msgspec.field(default_factory=dict)
    security_protocol: str = "PLAINTEXT"
    ca: str | None = None
    ca_out: str | None = None
    username: str | None = None
    password: str | None = None


class _NotThereError(Exception):
    """There is nothing at this address; one line."""


class Proxies:
    """All routes: each is a proxy of its own. Faults are numbered over all of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made = 0
        self.routes: dict[str, Proxy] = {}

    def add(self, asked: AskedRoute) -> dict[str, object]:
        """Add a route, and return what a client must know of it."""
        made = Proxy(**msgspec.structs.asdict(asked))
        with self._lock:
            self._made += 1
            name = str(self._made)
            self.routes[name] = made
        told = {"route": name, "bootstrap": made.bootstrap, "upstream": asked.upstream}
        roles = {"roles": made.roles} if made.roles else {}
        return {**told, **roles, **({"ca": str(made.ca)} if made.ca else {})}

    def remove(self, name: str) -> None:
        """End a route, and then fail if a fault of its own never struck.

        Raises:
            UsageError: there is no such route.
            AssertionError: as :meth:`Proxy.verify`.
        """
        with self._lock:
            proxy = self.route(name)
            del self.routes[name]
        try:
            proxy.verify()
        finally:
            proxy.close()

    def route(self, name: str) -> Proxy:
        """Return a route.

        Raises:
            UsageError: there is no such route.
        """
        if name not in self.routes:
            there = ", ".join(self.routes) or "none"
            raise UsageError(f"there is no route {name!r}: there are {there}")
        return self.routes[name]

    def fault(self, name: str) -> Fault:
        """Return a fault by ``ROUTE.ID``."""
        route, _, number = name.partition(".")
        with contextlib.suppress(KeyError):
            return self.routes[route].faults[number]
        raise _NotThereError(f"there is no fault {name}")

    def verify(self) -> None:
        """Fail if a fault has not struck, or if something could not be read."""
        for proxy in tuple(self.routes.values()):
            proxy.verify()

    def check(self) -> None:
        """Raise :class:`WireError` if a route has ended by itself."""
        for proxy in tuple(self.routes.values()):
            proxy.control.check()

    def close(self) -> None:
        """End all."""
        for proxy in self.routes.values():
            proxy.close()

    # -- what a request asks -----------------------------------------------------------------------

    def do(
        self, method: str, words: list[str], query: Mapping[str, str], body: dict[str, object]
    ) -> object:
        """Carry out a request, and return the answer as plain values."""
        match method, words:
            case "POST", ["routes"]:
                return self._route(body)
            case "DELETE", ["routes", name]:
                self.remove(name)
                return {"route": name}
            case "POST", ["verify"]:
                self.verify()
                return {"verified": True}
            case "GET", ["records"]:
                return self._records(query)
            case _, ["faults", *rest]:
                return self._faults(method, rest, query, body)
        raise _nothing(method, words)

    def _route(self, body: dict[str, object]) -> dict[str, object]:
        try:
            return self.add(convert(body, AskedRoute))
        except msgspec.ValidationError as error:
            raise UsageError(f"no route can be made of that: {error}") from error

    def _records(self, query: Mapping[str, str]) -> list[dict[str, object]]:
        proxy = self.route(query.get("route", FIRST))
        of = {name: query.get(name) for name in ("topic", "role", "client")}
        return [way.told() for way in proxy.records(**of)]

    def _faults(
        self, method: str, words: list[str], query: Mapping[str, str], body: dict[str, object]
    ) -> object:
        match method, words:
            case "POST", []:
                route = str(body.pop("route", FIRST))
                fault = self.route(route).fault(body)
                return _told(f"{route}.{fault.id}", fault)
            case "GET", []:
                return self._all()
            case "GET", [name] if "wait" in query:
                self.fault(name).wait(_seconds(query["wait"]))
            case "GET", [name]:
                pass
            case "POST", [name, "release" | "discard" | "deliver" as how]:
                getattr(self.fault(name), how)()
            case "DELETE", [name]:
                self.fault(name).end()
                self.fault(name).check()
            case _:
                raise _nothing(method, ["faults", *words])
        return _told(name, self.fault(name))

    def _all(self) -> list[dict[str, object]]:
        return [
            _told(f"{route}.{name}", fault)
            for route, proxy in tuple(self.routes.items())
            for name, fault in tuple(proxy.faults.items())
        ]


def _nothing(method: str, words: list[str]) -> _NotThereError:
    return _NotThereError(f"there is no {method} /{'/'.join(words)}")


def _told(name: str, fault: Fault) -> dict[str, object]:
    counts = fault.counts
    return {
        "id": name,
        "fault": str(fault),
        "seen": counts.seen,
        "matched": counts.matched,
        "fired": counts.fired,
    }


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not seconds >= 0:
        raise UsageError(f"wait={text}: a number of seconds is asked for")
    return min(seconds, MOST_WAIT_S)


def _refused(headers: Message, secret: str) -> tuple[HTTPStatus, object] | None:
    """Say why a request is refused before its body is read; ``None`` if it is accepted."""
    told = headers.get("Authorization", "").encode()
    if not hmac.compare_digest(told, f"Bearer {secret}".encode()):
        said = "send the header Authorization: Bearer SECRET"
        return HTTPStatus.UNAUTHORIZED, {"error": said}
    size = headers.get("Content-Length") or "0"
    if "Transfer-Encoding" in headers or not size.isdecimal():
        said = "send the body whole, with its number of bytes in the header Content-Length"
        return HTTPStatus.LENGTH_REQUIRED, {"error": said}
    if len(size) > DIGITS or int(size) > MOST_BYTES:
        return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, {"error": f"at most {MOST_BYTES} bytes"}
    return None


def _let_read(sock: socket.socket) -> None:
    """End a connection so that its client can read the answer, though it may still be sending. It
    gets a moment for that.
    """
    end = time.monotonic() + PARTING_S
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_WR)
        while (left := end - time.monotonic()) > 0:
            sock.settimeout(left)
            if not sock.recv(MOST_BYTES):
                return


def _object(data: bytes) -> dict[str, object]:
    """Return the JSON object in a body; of none, or of null, an empty one."""
    try:
        body = json.loads(data) if data else {}
    except (ValueError, RecursionError) as error:
        because = why_damaged(error)
        raise UsageError(f"the body is no JSON: {because}") from error
    if body is None:
        return {}
    if not isinstance(body, dict):
        raise UsageError("the body must be a JSON object")
    return body


class _Server(ThreadingHTTPServer):
    """Says nothing of clients that leave before they are answered. ``watch`` is called between
    requests, twice a second; what it raises ends the serving.
    """

    watch: Callable[[], None] | None = None
    request_queue_size = 128

    def service_actions(self) -> None:
        """Look."""
        super().service_actions()
        if self.watch is not None:
            self.watch()

    def handle_error(self, request: object, client_address: object) -> None:
        """Print a defect alone."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


def serve(proxies: Proxies, secret: str, port: int = 0) -> _Server:
    """Return a server that listens, and does not serve yet.

    Raises:
        EnvironmentFailure: the port is taken.
    """

    class Handler(BaseHTTPRequestHandler):
        """One request. Nothing of it is logged."""

        protocol_version = "HTTP/1.1"
        timeout = SILENT_S

        def log_message(self, *_: object) -> None:
            """Log nothing: lines would stand among those of tests."""

        def _any(self) -> None:
            refused = _refused(self.headers, secret)
            self.close_connection = self.close_connection or refused is not None
            status, answer = refused or self._answer()
            data = json.dumps(answer).encode() + b"\n"
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)
            if refused is not None:
                _let_read(self.connection)

        def _answer(self) -> tuple[HTTPStatus, object]:
            data = self.rfile.read(int(self.headers.get("Content-Length") or "0"))
            path, _, asked = self.path.partition("?")
            query = {name: values[-1] for name, values in parse_qs(asked).items()}
            words = [word for word in path.split("/") if word]
            try:
                answer = proxies.do(self.command, words, query, _object(data))
            except _NotThereError as error:
                return HTTPStatus.NOT_FOUND, {"error": str(error)}
            except tuple(_STATUS) as error:
                status = next(code for kind, code in _STATUS.items() if isinstance(error, kind))
                return status, {"error": str(error)}
            made = self.command == "POST" and len(words) == 1 and words[0] in ("routes", "faults")
            return HTTPStatus.CREATED if made else HTTPStatus.OK, answer

        do_GET = do_POST = do_DELETE = _any  # noqa: N815 - names of the standard library
        do_PUT = do_PATCH = do_HEAD = do_OPTIONS = _any  # noqa: N815 - which find nothing

    try:
        return _Server((LOOPBACK, known_port(port)), Handler)
    except OSError as error:
        raise EnvironmentFailure(f"cannot listen on port {port}: {error.strerror}") from error
