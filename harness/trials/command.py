"""One run of somebody's own command, in a process group that ends with it."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness.model.failures import UsageError
from harness.model.waiting import WaitTimeoutError, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

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
    """Somebody's command.

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
        words = [word.replace(PLACE, bootstrap) for word in self._words]
        began = time.monotonic()
        with output.open("wb") as said:
            started = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
                env={**os.environ, BOOTSTRAP: bootstrap},
                process_group=0,
            )
        code: int | None = None
        try:
            wait_until(
                lambda: _is_over(started.pid) or (look() and None),
                within_s=within_s,
                because="the command to end",
                poll_s=0.02,
            )
            _signal(started.pid, signal.SIGKILL)  # what it has left behind
            code = started.wait()
        except WaitTimeoutError:
            pass
        finally:
            _end(started)
        return Ended(code, time.monotonic() - began, _last(output))


def _is_over(pid: int) -> bool:
    """Whether it has ended. It is not reaped, so that its number stays its group's."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end(started: subprocess.Popen[bytes]) -> None:
    """End it, and all of its group: first it is asked to."""
    if started.returncode is not None:
        return
    _signal(started.pid, signal.SIGTERM)
    with contextlib.suppress(WaitTimeoutError):
        wait_until(lambda: _is_over(started.pid), within_s=GRACE_S, because="the command to end")
    _signal(started.pid, signal.SIGKILL)
    started.wait()


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


def _last(output: Path) -> str:
    with output.open("rb") as file:
        file.seek(max(0, output.stat().st_size - LAST))
        lines = file.read().decode("utf-8", "replace").splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
