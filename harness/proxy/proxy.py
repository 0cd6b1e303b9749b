"""A proxy in front of a Kafka that runs already, and the faults that a test asks of it."""

from __future__ import annotations

import itertools
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self, Unpack

from harness.model.failures import EnvironmentFailure, UsageError
from harness.model.identity import WHOLE, Identity
from harness.proxy.asking import FrameSelector, asked_for, rule_of
from harness.proxy.fault import CELL, Fault
from harness.proxy.running import OwnWire
from harness.proxy.seen import ProxyView
from harness.proxy.spoken import KAFKA
from harness.proxy.upstream import CLIENT, ProxyFiles, Upstream
from harness.proxy.ways import ways
from harness.wire.messages import LOOPBACK, WireError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from harness.proxy.ways import RecordPassage
    from harness.wire.control import WireControl


class NotReadError(AssertionError):
    """Something passed the proxy that it could not read: what it counts is not whole."""


class Proxy:
    """A proxy in front of a broker that runs already. Programs that are given :attr:`bootstrap`
    reach every broker through it; nothing need be set in the broker.

    ``upstream``: ``HOST:PORT`` of any broker. ``located``: where brokers are that Kafka names by an
    address which does not lead there from here, as ``{"kafka:9092": "localhost:9092"}``. ``port``:
    where it listens (0: any). ``history``: the folder in which the lines of all that it saw stay.
    ``protocol``: ``kafka``, or another that is spoken: ``postgres``, ``stomp`` or ``amqp``.
    ``roles``: programs that get an address of their own, and its port (0: any), as
    ``{"consumer": 0}``; see :meth:`bootstrap_of`.

    ``security_protocol``: as Kafka's clients call it. With ``SSL`` and ``SASL_SSL`` the proxy ends
    TLS on both sides. ``ca``: the PEM file by which it trusts the brokers (by default this
    machine's authorities). ``ca_out``: where it writes the one by which programs trust the proxy;
    see :attr:`ca`. ``username``, ``password``: by whom it logs in for a request that it delivers
    itself (PLAIN, SCRAM).

    Each method that arms a fault takes the name of a request (``api``) as the protocol has it,
    such as ``Produce``, and the fields of :class:`~harness.proxy.asking.FrameSelector`, which
    select one frame. It returns a :class:`~harness.proxy.fault.Fault`. A request that does not
    exist, or fields that do not fit it, are a ``UsageError``.

    As a context manager it fails at the end if a fault has not struck, or if something could not
    be read.

    Raises:
        UsageError: an argument is wrong; one line.
        EnvironmentFailure: a port is taken, a file cannot be read or written, or the broker's
            certificate is not trusted.
    """

    def __init__(
        self,
        upstream: str,
        *,
        located: Mapping[str, str] | None = None,
        port: int = 0,
        history: Path | str | None = None,
        protocol: str = KAFKA,
        roles: Mapping[str, int] | None = None,
        security_protocol: str = "PLAINTEXT",
        ca: Path | str | None = None,
        ca_out: Path | str | None = None,
        username: str | None = None,
        password: str | None = None,
    ) -> None:
        asked = Upstream(
            upstream=upstream,
            located=located or {},
            port=port,
            protocol=protocol,
            roles=roles or {},
            security_protocol=security_protocol,
            ca=ca,
            ca_out=ca_out,
            username=username,
            password=password,
        )
        self._protocol = asked.spoken
        asked.check()
        self._wire = OwnWire(Path(history) if history is not None else None)
        self.faults: dict[str, Fault] = {}
        self._numbers = itertools.count(1)
        self._closed = False
        try:
            self._ca, self._at = self._begin(asked)
            self._seen = ProxyView(self._wire.folder / "history" / "wire.jsonl")
        except BaseException as error:
            self._wire.close()
            if isinstance(error, WireError):
                raise EnvironmentFailure(str(error)) from error
            raise

    def _begin(self, asked: Upstream) -> tuple[Path | None, dict[str, str]]:
        """Open routes and the cell; return the authority, and the address for each role."""
        papers = ProxyFiles(asked, self._wire.folder)
        try:
            routes = tuple(asked.routes(papers))
            at = {
                route.role: f"{LOOPBACK}:{self.control.add_route(route).listen_port}"
                for route in routes
            }
        finally:
            papers.forget()
        folder = self._wire.folder / "history"
        folder.mkdir(exist_ok=True)
        names = [route.name for route in routes]
        identity = Identity(where=WHOLE)
        self.control.open_cell(CELL, CELL, folder / "wire.jsonl", routes=names, identity=identity)
        return papers.authority, at

    @property
    def bootstrap(self) -> str:
        """The address for programs, ``HOST:PORT``."""
        return self._at[CLIENT]

    def bootstrap_of(self, role: str) -> str:
        """Return the address for the programs of a role.

        Raises:
            UsageError: there is no such role.
        """
        return self._at[self._role(role)]

    @property
    def roles(self) -> dict[str, str]:
        """The address for each role that was asked for."""
        return {role: at for role, at in self._at.items() if role != CLIENT}

    @property
    def ca(self) -> Path | None:
        """The PEM file by which programs trust the proxy; ``None`` without TLS."""
        return self._ca

    @property
    def control(self) -> WireControl:
        """The wire's control."""
        return self._wire.control

    def _role(self, role: str) -> str:
        if role not in self._at:
            raise UsageError(f"there is no role {role!r}: there are {', '.join(self._at)}")
        return role

    # -- faults ------------------------------------------------------------------------------------

    def fault(self, plain: Mapping[str, object]) -> Fault:
        """Arm a fault that is given as plain values: ``do`` is the name of a method below, the
        others are the parameters of that method.

        Raises:
            UsageError: there is no such fault, request or role; one line.
        """
        asked = asked_for(plain)
        if asked.role is not None:
            self._role(asked.role)
        rule = rule_of(f"f{next(self._numbers)}", asked, self._protocol)
        made = Fault(self.control, self._seen, asked.do, rule, self.unreached)
        self.faults[made.id] = made
        return made

    def lose(self, api: str, **which: Unpack[FrameSelector]) -> Fault:
        """Lose a request (``answer=True``: the broker's answer), and end its connection."""
        return self.fault({"do": "lose", "api": api, **which})

    def never(self, api: str, **which: Unpack[FrameSelector]) -> Fault:
        """Lose a request or answer, and all behind it; the connection stays, and is silent."""
        return self.fault({"do": "never", "api": api, **which})

    def cut(self, api: str, **which: Unpack[FrameSelector]) -> Fault:
        """End the connection when the request has been carried out (``answer=True``: when the
        answer has arrived).
        """
        return self.fault({"do": "cut", "api": api, **which})

    def hold(self, api: str, **which: Unpack[FrameSelector]) -> Fault:
        """Hold a request or answer, and all behind it on its connection, until ``release()``,
        ``discard()`` or ``deliver()`` of the fault.
        """
        return self.fault({"do": "hold", "api": api, **which})

    def late(self, api: str, **which: Unpack[FrameSelector]) -> Fault:
        """Take a request from its connection, which ends; it arrives over another one at
        ``deliver()`` of the fault.
        """
        return self.fault({"do": "late", "api": api, **which})

    def refuse(
        self, api: str, error: str, *, applied: bool = False, **which: Unpack[FrameSelector]
    ) -> Fault:
        """Refuse a request by a legal ``error``, by its name in the protocol, such as
        ``NOT_LEADER_OR_FOLLOWER``. ``applied``: the broker carries the request out all the same.
        """
        refused = {"do": "refuse", "api": api, "error": error, "applied": applied}
        return self.fault({**refused, **which})

    def delay(self, api: str, seconds: float, **which: Unpack[FrameSelector]) -> Fault:
        """Send a request or answer on ``seconds`` later."""
        return self.fault({"do": "delay", "api": api, "seconds": seconds, **which})

    # -- what was seen -----------------------------------------------------------------------------

    def records(
        self, topic: str | None = None, *, role: str | None = None, client: str | None = None
    ) -> list[RecordPassage]:
        """Return what was seen of each record, in the order of its first line. ``topic``: only
        records of this topic. ``role``: only what its programs did. ``client``: only what clients
        of this id did, or of one that begins so, up to the end of a word.

        Raises:
            UsageError: the wire reads no records of this protocol, or there is no such role.
        """
        if not self._protocol.records:
            raise UsageError("of this protocol the wire reads no records: ask for none")
        if role is not None:
            self._role(role)
        return ways(self._seen.all(), topic, role=role, client=client)

    def unreached(self) -> str:
        """Say how many connections found no broker, and why the last one did not; else nothing."""
        count, because = self._seen.refused()
        return f"; {count} found no broker: {because}" if count else ""

    def verify(self) -> None:
        """Fail if a fault has not struck, or if something could not be read.

        Raises:
            NeverStruckError: a fault has not struck.
            NotReadError: something could not be read.
        """
        for fault in tuple(self.faults.values()):
            fault.check()
        because = self._seen.unread()
        if because is not None:
            raise NotReadError(f"the proxy could not read all that passed: {because}")

    # -- the end -----------------------------------------------------------------------------------

    def close(self) -> None:
        """End the proxy: its ports are closed, and what it saw can still be asked for. Safe to call
        twice.
        """
        if self._closed:
            return
        self._closed = True
        try:
            with suppress(WireError):
                for fault in tuple(self.faults.values()):
                    fault.forget()
                self.control.close_cell(CELL)
        finally:
            self._wire.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self.verify()
        finally:
            self.close()
