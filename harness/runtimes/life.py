"""One life of a node, as far as it is the same in every runtime."""

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
    """What is known of it, and how its end is awaited. ``check`` raises what makes its runtime useless."""

    gone_within_s: ClassVar[float]
    """How long it may take to be gone once it is killed."""

    def __init__(self, spec: NodeSpec, check: Callable[[], None], *, log_path: Path, incarnation: int) -> None:
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
        """How it ended; None while it lives."""
        return self._exit

    @property
    def alive(self) -> bool:
        """Whether it has not ended. A paused node is alive."""
        return not self._ended.is_set()

    def wait(self, within_s: float) -> Exit | None:
        """Wait for its end; None: it lives on.

        Raises:
            Exception: what makes the runtime useless, for nobody can know any more.
        """
        self._ended.wait(within_s)
        if self._exit is None:
            self._check()
        return self._exit

    def log_tail(self, lines: int = 20) -> str:
        """Return the last ``lines`` lines this incarnation wrote, of the last 64 KiB of the log."""
        return tail(self.log_path, self._log_start, lines)

    def end(self, exit_: Exit | None) -> None:
        """Note its end; None where nobody knows how."""
        self._exit = exit_
        self._ended.set()

    def _must_have_ended(self, before: str) -> None:
        if self.alive:
            raise NodeStateError(f"node {self.name} is alive (pid {self.pid}); end it before {before}")

    def _gone(self) -> Exit:
        exit_ = self.wait(self.gone_within_s)
        if exit_ is None:
            raise WaitTimeoutError(f"node {self.name} (pid {self.pid}) to be gone", self.gone_within_s)
        return exit_
