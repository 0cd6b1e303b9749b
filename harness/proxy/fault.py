"""One armed fault of a proxy: wait for it, resolve the frames that it holds, count what it met."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

from harness.model.failures import UsageError
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.wire.messages import WireError
from harness.wire.rules import How

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from harness.proxy.seen import ProxyView
    from harness.wire.control import WireControl
    from harness.wire.rules import Rule, RuleCounts

CELL: Final = "proxy"
WITHIN_S: Final = 30.0
_LATE_S: Final = 3600.0


class NeverStruckError(AssertionError):
    """A fault has not struck: the test has proved nothing of it. The message says what was seen."""


class Fault:
    """One fault. As a context manager it ends with the block, and fails if it has not struck. Safe
    to use from several threads.
    """

    def __init__(
        self,
        control: WireControl,
        seen: ProxyView,
        do: str,
        rule: Rule,
        unreached: Callable[[], str] = str,
    ) -> None:
        self.id = rule.id
        self._control = control
        self._seen = seen
        self._do = do
        self._rule = rule
        self._unreached = unreached
        self._last: RuleCounts | None = None
        self._counting, self._resolving = threading.Lock(), threading.RLock()
        self._over = threading.Event()
        self._detached = threading.Event()
        self._resolved: set[str] = set()
        self._why_not_late: str | None = None
        control.arm(CELL, rule)
        self._letting_go = threading.Thread(target=self._let_go, daemon=True)
        if do == "late":
            self._letting_go.start()

    def __str__(self) -> str:
        rule = self._rule
        words = [self._do, str(rule.api), str(rule.direction)]
        words += [f"of role {rule.role}"] if rule.role else []
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
        with self._counting:
            return self._control.counts(CELL, self.id) if self._last is None else self._last

    @property
    def fired(self) -> int:
        """How often it has struck."""
        return self.counts.fired

    def wait(self, within_s: float = WITHIN_S) -> Self:
        """Wait until it has struck.

        Raises:
            NeverStruckError: it did not strike in time, or before it was ended.
        """
        with suppress(WaitTimeoutError):
            wait_until(
                lambda: self.fired > 0 or self._last is not None,
                within_s=within_s,
                because=str(self),
            )
        self.check()
        return self

    def check(self) -> None:
        """Raise :class:`NeverStruckError` if it has not struck."""
        if self._why_not_late is not None:
            raise NeverStruckError(self._why_not_late)
        counts = self.counts
        if not counts.fired:
            raise NeverStruckError(
                f"fault {self.id} never struck: {self}: of {counts.seen} frames of this API "
                f"{counts.matched} fitted{self._unreached()}"
            )

    def release(self) -> None:
        """Let go what it holds, where it stands."""
        self._resolve(How.RELEASE)

    def discard(self) -> None:
        """Throw away what it holds."""
        self._resolve(How.DISCARD)

    def deliver(self) -> None:
        """Send a held request over a new connection. Its answer is discarded."""
        if self._do == "late" and self.fired:
            self._detached.wait(WITHIN_S)
        self._resolve(How.DELIVER)

    def _held(self) -> list[str]:
        return [held for held in self._seen.held(self.id) if held not in self._resolved]

    def _resolve(self, how: How) -> None:
        with self._resolving:
            held = self._held()
            if not held:
                raise UsageError(self._why_not_late or f"fault {self.id} holds nothing: {self}")
            for each in held:
                done = self._control.resolve(each, how)
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
                    taken.add(each)
                    self._make_late(each)
                    self._detached.set()

    def _make_late(self, held: str) -> None:
        try:
            self._control.resolve(held, How.RELEASE_LATER)
        except WireError as error:
            if not self._over.is_set():
                self._why_not_late = (
                    f"fault {self.id} could not make a request late: {error} (the proxy logs in by "
                    "username and password)"
                )
                self._go_on(held)

    def end(self) -> RuleCounts:
        """Strike no more. What is held goes on: a late request is delivered."""
        with self._resolving:
            if self._last is not None:
                return self._last
            counts = self._disarm()
            try:
                if self._do == "late" and self._held():
                    self.deliver()
                for each in self._held():
                    self._go_on(each)
            finally:
                self.forget()
            return counts

    def _disarm(self) -> RuleCounts:
        with self._counting:
            if self._last is None:
                self._last = self._control.disarm(CELL, self.id)
            return self._last

    def _go_on(self, held: str) -> None:
        """Release a held frame; if its connection is gone meanwhile, it goes nowhere."""
        try:
            self._control.resolve(held, How.RELEASE)
        except WireError:
            self._control.resolve(held, How.DISCARD)
        self._resolved.add(held)

    def forget(self) -> None:
        """Strike no more, and wait for no more requests to be late. What is held stays held."""
        self._disarm()
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
