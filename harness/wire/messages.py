"""What goes over the control connection: typed values, one JSON object a line.

A call is ``{"id": n, "verb": "...", "args": {...}}``, its reply ``{"id": n, "ok": ...}`` or
``{"id": n, "error": "one line"}``.
Unasked, the wire pushes ``{"push": "failed", "because": "..."}``. What it sees, hits of rules among that, it writes into the
histories of its cells, and nowhere else (see :mod:`harness.model.tail`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

LOOPBACK = "127.0.0.1"


class WireError(Exception):
    """The wire cannot do what was asked; the message is one clear line."""


@dataclass(frozen=True, slots=True)
class Tls:
    """How TLS is ended on a route; files are PEM.

    ``certificate``: key and certificates that its clients are shown. ``authorities``: those that its server is trusted by
    (nothing: those of this machine), which must be called ``name``. ``at_once``: from the first byte on, not from where the
    protocol says that it begins.
    """

    certificate: str
    authorities: str
    name: str = LOOPBACK
    at_once: bool = True


@dataclass(frozen=True, slots=True)
class Route:
    """One listener in front of one broker, or of a database, for one role. ``listen_port`` 0 lets the wire pick a free port.

    ``protocol`` is what is spoken on it: a name of the list in ``harness/protocols``, or a ``module:class``. ``users`` is a file
    of passwords by user (JSON), by which the wire logs in where a frame is to go over a connection of its own.
    """

    name: str
    node: str
    role: str
    listen_port: int
    upstream_port: int
    listen_host: str = LOOPBACK
    upstream_host: str = LOOPBACK
    protocol: str = field(kw_only=True)
    tls: Tls | None = None
    users: str = ""

    @staticmethod
    def from_json(fields: Mapping[str, Any]) -> Route:
        """Make it of what ``dataclasses.asdict`` has made of it."""
        tls = fields.get("tls")
        return Route(**{**fields, "tls": None if tls is None else Tls(**tls)})


@dataclass(frozen=True, slots=True)
class RouteState:
    """A route as it is: its port, whether it listens, and its live connections."""

    name: str
    node: str
    role: str
    listen_port: int
    upstream_port: int
    listening: bool
    connections: int


@dataclass(frozen=True, slots=True)
class Held:
    """A frame the wire still has. Not ``attached`` to a live connection, it can only be delivered or discarded."""

    held: str
    rule: str
    cell: str
    conn: int
    dir: str
    api: str
    client: str
    attached: bool
    records: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Resolved:
    """What became of a held frame: released, discarded, delivered or detached.

    ``reached``: it went to its destination whole. ``error`` is the broker's error code where an answer was read
    (``answered``).
    """

    held: str
    outcome: str
    reached: bool
    answered: bool = False
    error: int | str | None = None
    because: str | None = None


@dataclass(frozen=True, slots=True)
class Traffic:
    """What passed between the wire and a broker for one role of a cell, since the cell was opened, or since a restart.

    ``sent`` and ``received`` are bytes towards the broker and from it, in ``reads`` pieces; ``opened`` connections, of
    which ``left`` were ended by the client and ``lost`` from the broker's side (or by the network in between).
    Of the requests passed on since: ``answers`` are those answered; ``longest_s`` is the longest that one has waited for
    its answer, or still waits, or waited in vain; ``rate`` is the bytes of all answered requests by the seconds that
    they waited, one after the other. The two leave out requests that a broker keeps waiting by design (a fetch, a join).
    """

    sent: int = 0
    received: int = 0
    reads: int = 0
    opened: int = 0
    left: int = 0
    lost: int = 0
    answers: int = 0
    longest_s: float = 0.0
    rate: float = 0.0


@dataclass(frozen=True, slots=True)
class Frozen:
    """A freeze asked for by hand: how many connections stand still now."""

    freeze: str
    connections: int


@dataclass(frozen=True, slots=True)
class CellSummary:
    """What a closed cell had: frames seen, holds that were still open (discarded now)."""

    cell: str
    frames: int
    discarded: tuple[str, ...] = field(default=())
