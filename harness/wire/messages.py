"""The messages on the wire's control connection: typed values, one JSON object per line.

A call is ``{"id": n, "verb": "...", "args": {...}}``, its reply ``{"id": n, "ok": ...}`` or
``{"id": n, "error": "one line"}``.
If the wire fails, it sends ``{"push": "failed", "because": "..."}`` without being asked. It writes
what it sees, such as hits of rules, only into the histories of its cells (see
:mod:`harness.model.tail`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.model.conversion import convert
from harness.model.events import RulePhase  # noqa: TC001 - its values are checked when lines are decoded

if TYPE_CHECKING:
    from collections.abc import Mapping

LOOPBACK = "127.0.0.1"


class WireError(Exception):
    """The wire cannot do what was asked; the message is one clear line."""


@dataclass(frozen=True, slots=True)
class Tls:
    """How the wire ends TLS on a route; files are PEM.

    ``certificate``: the file with the key and certificates that the wire shows to clients.
    ``authorities``: the file of the authorities by which it trusts the server's certificate (empty:
    those of this machine). ``name``: the name that this certificate must have. ``at_once``: whether
    TLS begins at the first byte; else where the protocol says.
    """

    certificate: str
    authorities: str
    name: str = LOOPBACK
    at_once: bool = True


@dataclass(frozen=True, slots=True)
class Route:
    """One listener in front of one broker, or of a database, for one role. ``listen_port`` 0 lets
    the wire pick a free port.

    ``protocol`` is what is spoken on it: a name of the registry of protocols. ``users`` is a JSON
    file of passwords by user. With it the wire logs in when it delivers a frame over a connection
    of its own.
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
    follows: bool = False
    """Whether the servers that its answers name get ports of the wire, which take the place of
    their addresses in these answers.
    """
    located: dict[str, str] = field(default_factory=dict)
    """Of a route that follows: where a server is that answers name by an address which does not
    lead there from here, as ``{HOST:PORT: HOST:PORT}``.
    """

    def files(self) -> tuple[str, ...]:
        """Return the files that the wire reads for it."""
        tls = () if self.tls is None else (self.tls.certificate, self.tls.authorities)
        return tuple(filter(None, (*tls, self.users)))

    @staticmethod
    def from_json(fields: Mapping[str, object]) -> Route:
        """Build a route from the fields that ``dataclasses.asdict`` returned."""
        return convert(fields, Route)


@dataclass(frozen=True, slots=True)
class RouteState:
    """The state of a route: its ports, whether it listens, and how many live connections it has."""

    name: str
    node: str
    role: str
    listen_port: int
    upstream_port: int
    listening: bool
    connections: int


@dataclass(frozen=True, slots=True)
class Held:
    """A frame that the wire still holds. Unless ``attached`` to a live connection, it can only be
    delivered or discarded.
    """

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

    ``reached``: it arrived whole at its destination. ``error``: the broker's error code, if its
    answer was read (``answered``).
    """

    held: str
    outcome: RulePhase
    reached: bool
    answered: bool = False
    error: int | str | None = None
    because: str | None = None


@dataclass(frozen=True, slots=True)
class Traffic:
    """The traffic between the wire and a broker for one role of a cell, since the cell was opened
    or the counts were reset.

    ``sent`` and ``received`` are bytes to the broker and from it; the latter came in ``reads``
    pieces. Of ``opened`` connections the client ended ``left``, and the broker's side (or the
    network in between) ended ``lost``. ``answers`` counts the requests that were answered.
    ``longest_s`` is the longest wait for an answer in seconds, answered or not. ``rate`` is the
    bytes of all answered requests divided by the sum of their waits in seconds. These two leave out
    requests that a broker delays by design (a fetch, a join).
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
class CellSummary:
    """The summary of a closed cell: how many frames it had, and which holds were still open (now
    discarded).
    """

    cell: str
    frames: int
    discarded: tuple[str, ...] = field(default=())
