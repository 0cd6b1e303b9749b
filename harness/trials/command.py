"""One run of a user's command. All processes that it has started end with it, or with lostack."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import tempfile
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness.model.failures import UsageError
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.runtimes.interface import NodeSpec
from harness.runtimes.process.runtime import ProcessRuntime

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from harness.runtimes.interface import Exit

BOOTSTRAP: Final = "LOSTACK_BOOTSTRAP"
PLACE: Final = "{bootstrap}"
GRACE_S: Final = 5.0
HOW: Final = f"give it the address that is in its variable {BOOTSTRAP}, or write {PLACE} in --run"
LAST: Final = 4096


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended. ``code``: ``None`` if it did not end in time. ``said``: the last line of
    its output.
    """

    code: int | None
    seconds: float
    said: str

    @property
    def told(self) -> str:
        """Its result, as a word."""
        if self.code is None:
            return f"no end in {self.seconds:.0f} s"
        return "passed" if self.code == 0 else f"failed ({self.code})"


class Command:
    """A user's command.

    Raises:
        UsageError: it is none, or there is no such program.
    """

    def __init__(self, text: str, folder: Path) -> None:
        try:
            self._words = shlex.split(text)
        except ValueError as error:
            raise UsageError(f"--run {text!r}: {error}") from error
        if not self._words:
            raise UsageError("--run is empty: write the command that runs your test")
        if shutil.which(self._words[0], path=os.environ.get("PATH")) is None:
            raise UsageError(f"--run: there is no program {self._words[0]!r} to start")
        self._folder = folder

    def run(
        self, bootstrap: str, output: Path, within_s: float, look: Callable[[], object]
    ) -> Ended:
        """Run it to its end, and call ``look`` meanwhile. What it started ends with it.

        ``output``: the file that gets what it says.
        """
        words = tuple(word.replace(PLACE, bootstrap) for word in self._words)
        env = {BOOTSTRAP: bootstrap, "TMPDIR": os.environ.get("TMPDIR") or tempfile.gettempdir()}
        spec = NodeSpec("test", "test", words, env, self._folder, log=output, foreign=True)
        began = time.monotonic()
        with ProcessRuntime(directory=output.parent) as runtime:
            node = runtime.start(spec)
            try:
                with contextlib.suppress(WaitTimeoutError):
                    wait_until(
                        lambda: not node.alive or (look() and None),
                        within_s=within_s,
                        because="the command to end",
                        poll_s=0.02,
                    )
                code = None if node.alive else _code_of(node.exit)
            finally:
                if node.alive:
                    node.terminate(GRACE_S)
        return Ended(code, time.monotonic() - began, _last(output))


def _code_of(end: Exit | None) -> int:
    """Return the exit code, or the signal's number below zero, as a shell's caller knows it."""
    if end is None or end.status is None:
        return -(end.signal or 0) if end else -1
    return end.status


def _last(output: Path) -> str:
    with output.open("rb") as file:
        file.seek(max(0, output.stat().st_size - LAST))
        lines = file.read().decode("utf-8", "replace").splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
