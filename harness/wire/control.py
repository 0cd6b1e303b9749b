"""The harness's side of the control connection: synchronous, thread-safe, with one reader thread.

It is for commands, and for what the wire counts and writes no line of; what the wire sees is in the
histories of its cells.
"""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import threading
from dataclasses import asdict
from types import NoneType
from typing import TYPE_CHECKING, Self, TypedDict, TypeVar

from harness.model.closing import Closing
from harness.model.conversion import convert
from harness.wire.door import connect, greeting
from harness.wire.messages import (
    LOOPBACK,
    CellSummary,
    Held,
    Resolved,
    Route,
    RouteState,
    Traffic,
    WireError,
)
from harness.wire.rules import How, Rule, RuleCounts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from harness.model.identity import Identity

REPLY_WITHIN_S = 15.0
RESOLVE_WITHIN_S = 10.0

T = TypeVar("T")


class Reply(TypedDict, total=False):
    """What the wire says: the reply to a call (``id``), or what it says unasked (``push``)."""

    id: int
    ok: object
    error: str
    push: str
    because: str


def argv(
    history: Path,
    run: Path,
    *,
    python: str = sys.executable,
    forget: bool = False,
) -> tuple[str, ...]:
    """Return the command that starts a wire. It prints ``{"control": address}`` and ends when its
    stdin does.

    ``run``: the folder below which all lies that the wire reads and writes. ``forget``: the wire
    removes it when its stdin has ended, also if its parent was killed.

    The wire finds the secret of its control connection in the variable
    :data:`harness.wire.door.SECRET`.
    """
    more = ("--forget",) if forget else ()
    return (python, "-m", "harness.wire", "--history", str(history), "--run", str(run), *more)


class WireControl(Closing):
    """A connection to a running wire. Every method raises :class:`WireError` with one line when it
    cannot be done.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._condition = threading.Condition()
        self._sending = threading.Lock()
        self._number = 0
        self._replies: dict[int, Reply] = {}
        self._waiting: set[int] = set()
        self._lost: str | None = None
        self._reader = threading.Thread(target=self._read, name="wire-control", daemon=True)
        self._reader.start()

    @classmethod
    def connect(cls, address: str | int, secret: str, *, within_s: float = REPLY_WITHIN_S) -> Self:
        """Connect to the address a wire has printed: the path of its socket, or a port.

        Raises:
            WireError: no wire answers there in time.
        """
        try:
            sock = connect(address, within_s)
            sock.settimeout(None)
            sock.sendall(greeting(secret))
        except OSError as error:
            raise WireError(f"no wire answers on {address}: {error}") from error
        return cls(sock)

    def close(self) -> None:
        """Close the control connection. The wire goes on."""
        with contextlib.suppress(OSError):  # it may have closed first
            self._sock.shutdown(socket.SHUT_RDWR)
        self._reader.join(REPLY_WITHIN_S)
        self._sock.close()

    def check(self) -> None:
        """Raise :class:`WireError` if the wire has ended or has reported a failure.
        Sends nothing.
        """
        with self._condition:
            self._check()

    # -- routes ------------------------------------------------------------------------------------

    def add_route(self, route: Route) -> RouteState:
        """Listen for one (node, role); the reply names the port."""
        return self._call("add_route", asdict(route), RouteState)

    def admit(self, run: Path) -> None:
        """Let the wire read and write below the folder of another run, which goes on with it."""
        self._call("admit", {"run": str(run)}, object)

    def open_route(self, name: str) -> RouteState:
        """Listen again on the same port."""
        return self._call("open_route", {"name": name}, RouteState)

    def close_route(self, name: str) -> RouteState:
        """Refuse new connections and cut those there are."""
        return self._call("close_route", {"name": name}, RouteState)

    def remove_route(self, name: str) -> None:
        """Close a route and forget it."""
        self._call("remove_route", {"name": name}, NoneType)

    def routes(self) -> tuple[RouteState, ...]:
        """Return all routes."""
        return self._call("routes", {}, tuple[RouteState, ...])

    # -- cells and rules ---------------------------------------------------------------------------

    def open_cell(
        self,
        cell_id: str,
        key: str,
        history_path: Path,
        topics: Mapping[str, str] | None = None,
        *,
        routes: Iterable[str] = (),
        identity: Identity | None = None,
        reads: bool = True,
    ) -> None:
        """Record what belongs to a cell: client ids that begin with ``key.``, and all that comes
        over ``routes``.

        ``topics`` maps topic names to topic ids (in any spelling that their protocol reads), where
        they are known beforehand. ``identity`` says where foreign records carry their ids. Unless
        it ``reads``, only headers are recorded: a line for each frame, none for a record, and no
        rule can select by what a frame carries.
        """
        args: dict[str, object] = {
            "cell_id": cell_id,
            "key": key,
            "history_path": str(history_path),
        }
        args["identity"] = None if identity is None else identity.to_json()
        self._call(
            "open_cell",
            {**args, "topics": dict(topics or {}), "routes": sorted(routes), "reads": reads},
            NoneType,
        )

    def close_cell(self, cell_id: str) -> CellSummary:
        """End a cell: holds discarded, rules disarmed, history closed."""
        return self._call("close_cell", {"cell_id": cell_id}, CellSummary)

    def arm(self, cell_id: str, rule: Rule) -> None:
        """Arm a rule."""
        self._call("arm", {"cell_id": cell_id, "rule": rule.to_json()}, NoneType)

    def disarm(self, cell_id: str, rule_id: str) -> RuleCounts:
        """Take a rule away; return its last counts."""
        return self._call("disarm", {"cell_id": cell_id, "rule_id": rule_id}, RuleCounts)

    def counts(self, cell_id: str, rule_id: str) -> RuleCounts:
        """Return how many frames a rule has seen, matched and acted on so far."""
        return self._call("counts", {"cell_id": cell_id, "rule_id": rule_id}, RuleCounts)

    def detour(
        self, cell_id: str, route: str, upstream_port: int | None, upstream_host: str = LOOPBACK
    ) -> None:
        """Send a cell's new connections on a route to the broker by another port; None
        ends that.
        """
        args = {
            "cell_id": cell_id,
            "route": route,
            "upstream_port": upstream_port,
            "upstream_host": upstream_host,
        }
        self._call("detour", args, NoneType)

    def traffic(self, cell_id: str, role: str, *, restart: bool = False) -> Traffic:
        """Return what has passed between wire and broker for one role of a cell since the last
        ``restart``.
        """
        return self._call(
            "traffic", {"cell_id": cell_id, "role": role, "restart": restart}, Traffic
        )

    # -- holds -------------------------------------------------------------------------------------

    def holds(self) -> tuple[Held, ...]:
        """Return the frames that are still held."""
        return self._call("holds", {}, tuple[Held, ...])

    def resolve(
        self, held: str, how: How, *, cut: bool = True, within_s: float = RESOLVE_WITHIN_S
    ) -> Resolved:
        """Release, discard or deliver a held frame. ``cut`` is only for ``release-later``."""
        args = {"held": held, "how": how, "cut": cut, "within_s": within_s}
        return self._call("resolve", args, Resolved, REPLY_WITHIN_S + 2 * within_s)

    # -- direct verbs ------------------------------------------------------------------------------

    def cut(
        self, *, client: str | None = None, role: str | None = None, node: str | None = None
    ) -> int:
        """End connections, chosen by client prefix, role, node; return how many."""
        return self._call("cut", {"client": client, "role": role, "node": node}, int)

    # -- the connection ----------------------------------------------------------------------------

    def _call(
        self,
        verb: str,
        args: Mapping[str, object],
        answer: type[T],
        within_s: float = REPLY_WITHIN_S,
    ) -> T:
        """Call a verb, and return what it answered, which is an ``answer``."""
        with self._condition:
            self._check()
            self._number += 1
            number = self._number
            self._waiting.add(number)
        line = json.dumps({"id": number, "verb": verb, "args": args}).encode() + b"\n"
        try:
            with self._sending:
                self._sock.sendall(line)
        except OSError as error:
            raise WireError(f"the wire is gone: {error.strerror}") from error
        return convert(self._await(number, verb, within_s), answer)

    def _await(self, number: int, verb: str, within_s: float) -> object:
        with self._condition:
            in_time = self._condition.wait_for(
                lambda: number in self._replies or self._lost, within_s
            )
            self._waiting.discard(number)
            reply = self._replies.pop(number, None)
            if reply is None:
                self._check()
                raise WireError(
                    f"the wire did not answer {verb} within {within_s:g} s ({in_time=})"
                )
        if "error" in reply:
            raise WireError(reply["error"])
        return reply["ok"]

    def _check(self) -> None:
        if self._lost is not None:
            raise WireError(self._lost)

    def _read(self) -> None:
        try:
            with self._sock.makefile("rb") as lines:
                for line in lines:
                    self._take(json.loads(line))
            because = "the wire is gone: it closed the control connection"
        except (OSError, ValueError) as error:
            because = f"the wire is gone: {error}"
        with self._condition:
            self._lost = self._lost or because
            self._condition.notify_all()

    def _take(self, message: Reply) -> None:
        with self._condition:
            match message.pop("push", None):
                case "failed":
                    self._lost = message["because"]
                case _:
                    if message["id"] in self._waiting:
                        self._replies[message["id"]] = message
            self._condition.notify_all()
