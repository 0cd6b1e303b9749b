"""The control connection's wire side: one call a line, begun in the order of arrival, each answered
when it is done.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import sys
import traceback
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, TypeVar

import harness.values  # noqa: F401 - what an identity reads Avro and Protobuf by
from harness.model.conversion import convert
from harness.model.history import HistoryError
from harness.model.identity import Identity
from harness.wire.connections import Selection
from harness.wire.door import REFUSED, greeting, is_right
from harness.wire.messages import LOOPBACK, Route, WireError
from harness.wire.rules import How, Rule, RuleError
from harness.wire.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

MAX_LINE_BYTES = 16 << 20
CLOSE_WITHIN_S = 2.0
T = TypeVar("T")

GREETED_WITHIN_S = 10.0
"""How long, in seconds, a connection may take to send the secret."""


class ControlServer:
    """Calls the verbs of a :class:`~harness.wire.wire.Wire` that lines name, for connections that
    begin with the secret.
    """

    def __init__(self, history: Path, run: Path, secret: str, *, decode_limit: int) -> None:
        self.wire = Wire(history, run, push=self._push, decode_limit=decode_limit)
        self._secret = secret
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._known: set[asyncio.StreamWriter] = set()
        """The connections that have sent the secret."""
        self._serving: set[asyncio.Task[None]] = set()

    async def start(self, sock: socket.socket) -> None:
        """Serve the connections to a listening socket."""
        unix = sock.family == socket.AF_UNIX
        serve = asyncio.start_unix_server if unix else asyncio.start_server
        self._server = await serve(self._serve, sock=sock, limit=MAX_LINE_BYTES)

    async def close(self) -> None:
        """Stop listening, then end the wire."""
        if self._server is not None:
            self._server.close()
        await self.wire.close()
        for writer in tuple(self._writers):
            writer.close()
        if self._serving:
            await asyncio.wait(self._serving, timeout=CLOSE_WITHIN_S)

    def _push(self, message: dict[str, object]) -> None:
        for writer in self._known:
            _send(writer, message)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        self._keep(asyncio.current_task())
        try:
            if not await self._let_in(reader):
                _send(writer, {"push": "failed", "because": REFUSED})
                return
            self._known.add(writer)
            while line := await reader.readline():
                self._keep(asyncio.create_task(self._answer(line, writer)))
        except (OSError, ValueError):
            pass  # the harness is gone, or sent a line without end: that connection is over
        finally:
            self._writers.discard(writer)
            self._known.discard(writer)
            writer.close()

    async def _let_in(self, reader: asyncio.StreamReader) -> bool:
        """Say whether a connection begins with the secret, within the time for that."""
        try:
            async with asyncio.timeout(GREETED_WITHIN_S):
                told = await reader.readexactly(len(greeting(self._secret)))
        except (TimeoutError, asyncio.IncompleteReadError):
            return False
        return is_right(told, self._secret)

    def _keep(self, task: asyncio.Task[None] | None) -> None:
        """Keep a reference to a task until it is done, because the event loop keeps none."""
        if task is not None:
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)

    async def _answer(self, line: bytes, writer: asyncio.StreamWriter) -> None:
        number: object = None
        try:
            call = json.loads(line)
            number = call["id"]
            verb = VERBS.get(call["verb"])
            if verb is None:
                raise WireError(f"the wire knows no verb {call['verb']!r}")  # noqa: TRY301 - one path to the reply
            reply: dict[str, object] = {
                "id": number,
                "ok": _plain(await verb(self.wire, call.get("args", {}))),
            }
        except (WireError, RuleError) as error:
            reply = {"id": number, "error": str(error)}
        except HistoryError as error:
            self.wire.fail(str(error))
            reply = {"id": number, "error": str(error)}
        except (ValueError, TypeError, KeyError) as error:
            reply = {
                "id": number,
                "error": f"the wire cannot read this call: {type(error).__name__}: {error}",
            }
        except Exception as error:  # noqa: BLE001 - the caller must hear of it, whatever it is
            traceback.print_exception(error, file=sys.stderr)
            reply = {"id": number, "error": f"the wire failed: {type(error).__name__}: {error}"}
        _send(writer, reply)
        with contextlib.suppress(OSError):
            await writer.drain()


def _send(writer: asyncio.StreamWriter, message: dict[str, object]) -> None:
    if not writer.is_closing():
        writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")


def _plain(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value


async def _add_route(wire: Wire, args: dict[str, object]) -> object:
    return await wire.add_route(Route.from_json(args))


async def _admit(wire: Wire, args: dict[str, object]) -> object:
    wire.inside.admit(_arg(args, "run", str))
    return {}


async def _open_route(wire: Wire, args: dict[str, object]) -> object:
    return await wire.open_route(_arg(args, "name", str))


async def _close_route(wire: Wire, args: dict[str, object]) -> object:
    return await wire.close_route(_arg(args, "name", str))


async def _remove_route(wire: Wire, args: dict[str, object]) -> None:
    await wire.remove_route(_arg(args, "name", str))


async def _routes(wire: Wire, _args: dict[str, object]) -> object:
    return wire.routes()


async def _open_cell(wire: Wire, args: dict[str, object]) -> None:
    args = {"identity": None, "topics": {}, "routes": [], "reads": True, **args}
    path = wire.inside.path(_arg(args, "history_path", str))
    identity = (
        None
        if args["identity"] is None
        else Identity.from_json(_arg(args, "identity", dict[str, object]))
    )
    wire.open_cell(
        _arg(args, "cell_id", str),
        _arg(args, "key", str),
        path,
        _arg(args, "topics", dict[str, str]),
        routes=_arg(args, "routes", list[str]),
        identity=identity,
        reads=_arg(args, "reads", bool),
    )


async def _close_cell(wire: Wire, args: dict[str, object]) -> object:
    return await wire.close_cell(_arg(args, "cell_id", str))


async def _arm(wire: Wire, args: dict[str, object]) -> None:
    wire.arm(_arg(args, "cell_id", str), Rule.from_json(_arg(args, "rule", dict[str, object])))


async def _disarm(wire: Wire, args: dict[str, object]) -> object:
    return wire.disarm(_arg(args, "cell_id", str), _arg(args, "rule_id", str))


async def _counts(wire: Wire, args: dict[str, object]) -> object:
    return wire.counts(_arg(args, "cell_id", str), _arg(args, "rule_id", str))


async def _detour(wire: Wire, args: dict[str, object]) -> None:
    args = {"upstream_host": LOOPBACK, **args}
    wire.detour(
        _arg(args, "cell_id", str),
        _arg(args, "route", str),
        None if args["upstream_port"] is None else _arg(args, "upstream_port", int),
        _arg(args, "upstream_host", str),
    )


async def _traffic(wire: Wire, args: dict[str, object]) -> object:
    return wire.traffic(
        _arg(args, "cell_id", str), _arg(args, "role", str), restart=_arg(args, "restart", bool)
    )


async def _holds(wire: Wire, _args: dict[str, object]) -> object:
    return wire.holding.told()


async def _resolve(wire: Wire, args: dict[str, object]) -> object:
    return await wire.holding.resolve(
        _arg(args, "held", str),
        _arg(args, "how", How),
        cut=_arg(args, "cut", bool),
        within_s=_arg(args, "within_s", float),
    )


async def _cut(wire: Wire, args: dict[str, object]) -> object:
    return await wire.conns.cut(_selection(args))


def _arg(args: dict[str, object], name: str, kind: type[T]) -> T:
    """Return one argument of a call.

    Raises:
        ValueError: it is no ``kind``.
        KeyError: it is missing.
    """
    return convert(args[name], kind)


def _selection(args: dict[str, object]) -> Selection:
    return convert(
        {name: args.get(name) for name in ("client", "role", "node")}, Selection, strict=True
    )


VERBS: dict[str, Callable[[Wire, dict[str, object]], Awaitable[object]]] = {
    "add_route": _add_route,
    "admit": _admit,
    "open_route": _open_route,
    "close_route": _close_route,
    "remove_route": _remove_route,
    "routes": _routes,
    "open_cell": _open_cell,
    "close_cell": _close_cell,
    "arm": _arm,
    "disarm": _disarm,
    "counts": _counts,
    "detour": _detour,
    "traffic": _traffic,
    "holds": _holds,
    "resolve": _resolve,
    "cut": _cut,
}
