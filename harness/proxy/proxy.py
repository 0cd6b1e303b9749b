"""A proxy in front of a Kafka that runs already, and the faults that a test asks of it."""

from __future__ import annotations

import itertools
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, Unpack

from harness.model import events as kinds
from harness.model.events import ConnPhase, RulePhase
from harness.model.failures import EnvironmentFailure, UsageError
from harness.model.identity import WHOLE, Identity
from harness.model.tail import SoFar
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.proxy.asking import Which, asked_for, rule_of
from harness.proxy.running import OwnWire
from harness.proxy.spoken import KAFKA, spoken
from harness.proxy.ways import ways
from harness.wire.messages import LOOPBACK, Route, WireError
from harness.wire.rules import How, RuleCounts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from harness.model.history import Event
    from harness.proxy.ways import Way
    from harness.wire.control import WireControl
    from harness.wire.rules import Rule

CELL: Final = "proxy"
ROUTE: Final = "kafka"
ROLE: Final = "client"
WITHIN_S: Final = 30.0
_LATE_S: Final = 3600.0
PORTS: Final = 1 << 16


class NeverStruckError(AssertionError):
    """A fault has not struck: the test has proved nothing of it. The message says what was seen."""


class NotReadError(AssertionError):
    """Something passed the proxy that it could not read: what it counts is not whole."""


def host_and_port(text: str) -> tuple[str, int]:
    """Parse ``HOST:PORT``.

    Raises:
        UsageError: it is none.
    """
    host, _, port = str(text).rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or not 0 < int(port) < PORTS:
        raise UsageError(f"{text!r} is not HOST:PORT")
    return host, int(port)


def known_port(number: int) -> int:
    """Return a port (0: any).

    Raises:
        UsageError: there is no such port.
    """
    if not 0 <= number < PORTS:
        raise UsageError(f"there is no port {number}")
    return number


class Fault:
    """One fault. As a context manager it ends with the block, and fails if it has not struck."""

    def __init__(self, proxy: Proxy, name: str, do: str, rule: Rule) -> None:
        self.id = name
        self._proxy = proxy
        self._do = do
        self._rule = rule
        self._last: RuleCounts | None = None
        self._over = threading.Event()
        self._detached = threading.Event()
        self._hits = proxy.finder(name)
        self._resolved: set[str] = set()
        proxy.control.arm(CELL, rule)
        self._letting_go = threading.Thread(target=self._let_go, daemon=True)
        if do == "late":
            self._letting_go.start()

    def __str__(self) -> str:
        rule = self._rule
        words = [self._do, str(rule.api), str(rule.direction)]
        words += [f"of topic {rule.topic}"] if rule.topic else []
        words += [f"of client {rule.client}"] if rule.client else []
        words += [f"of transaction {rule.transactional_id}"] if rule.transactional_id else []
        words += [f"with {rule.carrying}"] if rule.carrying else []
        words += [f"number {rule.occurrence}"] if rule.occurrence > 1 else []
        return " ".join(words)

    @property
    def counts(self) -> RuleCounts:
        """How many frames fitted by their headers (``seen``), fitted whole (``matched``), and were
        struck (``fired``).
        """
        if self._last is not None:
            return self._last
        return self._proxy.control.counts(CELL, self.id)

    @property
    def fired(self) -> int:
        """How often it has struck."""
        return self.counts.fired

    def wait(self, within_s: float = WITHIN_S) -> Self:
        """Wait until it has struck.

        Raises:
            NeverStruckError: it did not strike in time.
        """
        with suppress(WaitTimeoutError):
            wait_until(lambda: self.fired > 0, within_s=within_s, because=str(self))
        self.check()
        return self

    def check(self) -> None:
        """Raise :class:`NeverStruckError` if it has not struck."""
        counts = self.counts
        if not counts.fired:
            raise NeverStruckError(
                f"fault {self.id} never struck: {self}: of {counts.seen} frames of this API "
                f"{counts.matched} fitted{self._proxy.unreached()}"
            )

    def release(self) -> None:
        """Let go what it holds, where it stands."""
        self._resolve(How.RELEASE)

    def discard(self) -> None:
        """Throw away what it holds."""
        self._resolve(How.DISCARD)

    def deliver(self) -> None:
        """Send a held request over a new connection. Its answer goes to nobody."""
        if self._do == "late" and self.fired:
            self._detached.wait(WITHIN_S)
        self._resolve(How.DELIVER)

    def _held(self) -> list[str]:
        return [hit.held for hit in self._hits() if hit.held and hit.held not in self._resolved]

    def _resolve(self, how: How) -> None:
        held = self._held()
        if not held:
            raise UsageError(f"fault {self.id} holds nothing: {self}")
        for each in held:
            done = self._proxy.control.resolve(each, how)
            self._resolved.add(each)
            if how is How.DELIVER and not done.reached:
                raise WireError(f"fault {self.id} could not be delivered: {done.because}")

    def _let_go(self) -> None:
        """Take each held request from its connection, which is cut: the client may try again."""
        taken: set[str] = set()
        with suppress(WireError, WaitTimeoutError):
            while not self._over.is_set():
                wait_until(
                    lambda: self._over.is_set() or set(self._held()) - taken,
                    within_s=_LATE_S,
                    because="a request to be late",
                    poll_s=0.02,
                )
                for each in set(self._held()) - taken:
                    self._proxy.control.resolve(each, How.RELEASE_LATER)
                    taken.add(each)
                    self._detached.set()

    def end(self) -> RuleCounts:
        """Strike no more. What is held goes on: a late request is delivered."""
        if self._last is None:
            self._last = self._proxy.control.disarm(CELL, self.id)
            try:
                if self._do == "late" and self._held():
                    self.deliver()
                for each in self._held():
                    self._go_on(each)
            finally:
                self.forget()
        return self._last

    def _go_on(self, held: str) -> None:
        """Release a held frame; if its connection is gone meanwhile, it goes nowhere."""
        try:
            self._proxy.control.resolve(held, How.RELEASE)
        except WireError:
            self._proxy.control.resolve(held, How.DISCARD)
        self._resolved.add(held)

    def forget(self) -> None:
        """Strike no more, and wait for no more requests to be late. What is held stays held."""
        if self._last is None:
            self._last = self._proxy.control.disarm(CELL, self.id)
        self._over.set()
        if self._letting_go.is_alive():
            self._letting_go.join(WITHIN_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        try:
            self.end()
        except WireError:
            if kind is None:
                raise
        if kind is None:
            self.check()


class Proxy:
    """Stands in front of a Kafka. Programs that are given :attr:`bootstrap` reach every broker
    through it; nothing in Kafka need be set.

    ``upstream``: ``HOST:PORT`` of any broker. ``located``: where brokers are that Kafka names by an
    address which does not lead there from here, as ``{"kafka:9092": "localhost:9092"}``. ``port``:
    where it listens (0: any). ``history``: the folder in which the lines of all that it saw stay.
    ``protocol``: ``kafka``, or another that is spoken: ``postgres``, ``stomp`` or ``amqp``.

    As a context manager it fails at the end if a fault has not struck, or if something could not
    be read.
    """

    def __init__(
        self,
        upstream: str,
        *,
        located: Mapping[str, str] | None = None,
        port: int = 0,
        history: Path | str | None = None,
        protocol: str = KAFKA,
    ) -> None:
        host, at = host_and_port(upstream)
        self._protocol = spoken(protocol)
        if located and not self._protocol.follows:
            raise UsageError(f"no answer of {protocol} names another server: there is none to map")
        places = {
            "{}:{}".format(*host_and_port(named)): "{}:{}".format(*host_and_port(there))
            for named, there in (located or {}).items()
        }
        known_port(port)
        self._wire = OwnWire(Path(history) if history is not None else None)
        self.faults: dict[str, Fault] = {}
        self._numbers = itertools.count(1)
        self._kept: list[Event] | None = None
        try:
            route = Route(
                ROUTE,
                "bootstrap",
                ROLE,
                port,
                at,
                upstream_host=host,
                protocol=self._protocol.name,
                follows=self._protocol.follows,
                located=places,
            )
            self._bootstrap = f"{LOOPBACK}:{self.control.add_route(route).listen_port}"
            folder = self._wire.folder / "history"
            folder.mkdir(exist_ok=True)
            identity = Identity(where=WHOLE)
            self.control.open_cell(
                CELL, CELL, folder / "wire.jsonl", routes=[ROUTE], identity=identity
            )
            self._so_far = SoFar(folder)
        except BaseException as error:
            self._wire.close()
            if isinstance(error, WireError):
                raise EnvironmentFailure(str(error)) from error
            raise

    @property
    def bootstrap(self) -> str:
        """The address for programs, ``HOST:PORT``."""
        return self._bootstrap

    @property
    def control(self) -> WireControl:
        """The wire's control."""
        return self._wire.control

    def finder(self, fault: str) -> Callable[[], list[kinds.Rule]]:
        """Return a function that returns a fault's strikes so far."""
        return self._so_far.finder(
            kinds.Rule, lambda event: event.phase is RulePhase.HIT and event.rule == fault
        )

    # -- faults ------------------------------------------------------------------------------------

    def fault(self, plain: Mapping[str, object]) -> Fault:
        """Arm a fault that is given as plain values: ``do`` is the name of a method below.

        Raises:
            UsageError: there is no such fault; one line.
        """
        asked = asked_for(plain)
        name = f"f{next(self._numbers)}"
        made = self.faults[name] = Fault(self, name, asked.do, rule_of(name, asked, self._protocol))
        return made

    def lose(self, api: str, **which: Unpack[Which]) -> Fault:
        """Lose a request (``answer=True``: the broker's answer), and end its connection."""
        return self.fault({"do": "lose", "api": api, **which})

    def never(self, api: str, **which: Unpack[Which]) -> Fault:
        """Lose a request or answer, and all behind it; the connection stays, and is silent."""
        return self.fault({"do": "never", "api": api, **which})

    def cut(self, api: str, **which: Unpack[Which]) -> Fault:
        """End the connection when the request has been carried out (``answer=True``: when the
        answer has arrived).
        """
        return self.fault({"do": "cut", "api": api, **which})

    def hold(self, api: str, **which: Unpack[Which]) -> Fault:
        """Hold a request or answer until ``release()``, ``discard()`` or ``deliver()``."""
        return self.fault({"do": "hold", "api": api, **which})

    def late(self, api: str, **which: Unpack[Which]) -> Fault:
        """Take a request from its connection, which ends; it arrives at ``deliver()``."""
        return self.fault({"do": "late", "api": api, **which})

    def refuse(
        self, api: str, error: str, *, applied: bool = False, **which: Unpack[Which]
    ) -> Fault:
        """Refuse a request by a legal error of Kafka (``applied``: it is carried out all the
        same).
        """
        refused = {"do": "refuse", "api": api, "error": error, "applied": applied}
        return self.fault({**refused, **which})

    def delay(self, api: str, seconds: float, **which: Unpack[Which]) -> Fault:
        """Delay a request or answer."""
        return self.fault({"do": "delay", "api": api, "seconds": seconds, **which})

    # -- what was seen -----------------------------------------------------------------------------

    def records(self, topic: str | None = None) -> list[Way]:
        """Return what was seen of each record.

        Raises:
            UsageError: the wire reads no records of this protocol.
        """
        if not self._protocol.records:
            raise UsageError("of this protocol the wire reads no records")
        seen = (kinds.Sent, kinds.Unsent, kinds.ProduceAnswer, kinds.Fetched, kinds.Committed)
        return ways(self._events(*seen), topic)

    def _events(self, *of: type[Event]) -> list[Event]:
        """Return the events of these kinds, in order of time; also when all is closed."""
        there = self._so_far.events() if self._kept is None else self._kept
        return sorted((each for each in there if isinstance(each, of)), key=lambda each: each.t)

    def unreached(self) -> str:
        """Say how many connections found no broker, and why the last one did not; else nothing."""
        failed = [
            event
            for event in self._events(kinds.Conn)
            if isinstance(event, kinds.Conn) and event.phase is ConnPhase.REFUSED
        ]
        return f"; {len(failed)} found no broker: {failed[-1].because}" if failed else ""

    def verify(self) -> None:
        """Fail if a fault has not struck, or if something could not be read.

        Raises:
            NeverStruckError: a fault has not struck.
            NotReadError: something could not be read.
        """
        for fault in tuple(self.faults.values()):
            fault.check()
        for each in self._events(kinds.Undecodable, kinds.Failed):
            because = getattr(each, "because", "")
            raise NotReadError(f"the proxy could not read all that passed: {because}")

    # -- the end -----------------------------------------------------------------------------------

    def close(self) -> None:
        """End the proxy: its ports are closed, and what it saw can still be asked for. Safe to call
        twice.
        """
        if self._kept is not None:
            return
        try:
            with suppress(WireError):
                for fault in tuple(self.faults.values()):
                    fault.forget()
                self.control.close_cell(CELL)
            self._kept = self._so_far.events()
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
