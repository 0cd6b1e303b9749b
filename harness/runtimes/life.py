"""The parts of a node's life that are the same in every runtime."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, ClassVar

from harness.model.waiting import WaitTimeoutError
from harness.runtimes.interface import NodeStateError
from harness.runtimes.logs import tail

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from harness.runtimes.interface import Exit, NodeSpec


class NodeLife:
    """One life of a node: its state, and the wait for its end. ``check`` raises if the runtime can
    no longer be used.
    """

    gone_within_s: ClassVar[float]
    """How many seconds it may take to be gone after it was killed."""

    def __init__(
        self, spec: NodeSpec, check: Callable[[], None], *, log_path: Path, incarnation: int
    ) -> None:
        self.spec = spec
        self.name = spec.name
        self.role = spec.role
        self.log_path = log_path
        self.incarnation = incarnation
        self.pid = 0
        self._check = check
        self._log_start = log_path.stat().st_size if log_path.exists() else 0
        self._exit: Exit | None = None
        self._ended = threading.Event()

    @property
    def exit(self) -> Exit | None:
        """How it ended; ``None`` while it is :attr:`alive`."""
        return None if self.alive else self._exit

    @property
    def alive(self) -> bool:
        """Whether it has not ended. A paused node is alive."""
        return not self._ended.is_set()

    def wait(self, within_s: float) -> Exit | None:
        """Wait for its end, at most ``within_s`` seconds; return ``None`` if it lives on.

        Raises:
            Exception: the runtime can no longer be used, so the node's state is unknown.
        """
        ended = self._ended.wait(within_s)
        if self._exit is None:
            self._check()
        return self._exit if ended else None

    def log_tail(self, lines: int = 20) -> str:
        """Return the last ``lines`` lines that this incarnation wrote, from the last 64 KiB of the
        log.
        """
        return tail(self.log_path, self._log_start, lines)

    def end(self, exit_: Exit | None) -> None:
        """Record how it ended; ``None`` if that is unknown."""
        self._exit = exit_
        self._ended.set()

    def _must_have_ended(self, before: str) -> None:
        if self.alive:
            raise NodeStateError(
                f"node {self.name} is alive (pid {self.pid}); end it before {before}"
            )

    def _gone(self) -> Exit:
        exit_ = self.wait(self.gone_within_s)
        if exit_ is None:
            raise WaitTimeoutError(
                f"node {self.name} (pid {self.pid}) to be gone", self.gone_within_s
            )
        return exit_
