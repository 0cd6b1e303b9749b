"""Start a program below ``strace``, so that after its death its files can be made what a loss of
power would have left.

The tracer runs beside the program, which keeps its process id (``-D``). Only the calls that matter
stop the program (``--seccomp-bpf``). With that filter a process without its tracer cannot make
these calls at all, so none is missed. What the program writes stands in the tracer's log: it is
readable by its owner alone, and removed when it has been read.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.runtimes.power.disk import AfterPowerLoss, contents, restore_folder
from harness.runtimes.power.replay import TRACED, NotSeenError, Replay
from harness.runtimes.power.tree import Names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

STRACE: Final = "strace"
MOST_BYTES: Final = 64 << 20
"""The longest write that is logged as a whole."""
TRIED_S: Final = 20.0


def traced(argv: Sequence[str], log: Path) -> tuple[str, ...]:
    """Return the command that starts a program below a tracer which writes to ``log``."""
    return (
        STRACE,
        *("-D", "-f", "-q", "-y", "-ttt", "-a", "1", "-s", str(MOST_BYTES)),
        *("--seccomp-bpf", "--signal=none", "-e", "abbrev=execve", "-o", str(log)),
        *("-e", "trace=" + ",".join(f"?{call}" for call in TRACED)),
        *argv,
    )


@dataclass(frozen=True, slots=True)
class PowerCut:
    """What a loss of power has done. ``files``: the files that are not as they were; ``kept``: what
    the folder holds now; ``calls``, ``flushes``: how many the tracer saw; ``posix``: what is kept
    here, and is gone where a name survives only if its folder was flushed.
    """

    names: Names
    files: tuple[AfterPowerLoss, ...]
    kept: Mapping[str, bytes | None]
    calls: int
    flushes: int
    posix: tuple[str, ...] = ()


@dataclass
class PowerTrace:
    """Traces what a program does to the files of a folder, from the program's start.

    ``rebuilt``: patterns of mapped files that the program makes again from others when it starts.
    """

    folder: Path
    log: Path
    rebuilt: Sequence[str] = ()
    _base: dict[str, bytes | None] = field(default_factory=dict)
    _settled: int = 0

    def start(self, argv: Sequence[str]) -> tuple[str, ...]:
        """Note what the folder holds; return the command to be started instead of ``argv``.

        Raises:
            NotSeenError: the folder holds something else than files and folders.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self._base = contents(self.folder)
        self.log.unlink(missing_ok=True)
        self.log.touch(mode=0o600)
        self._settled = 0
        return traced(argv, self.log.absolute())

    def settle(self) -> None:
        """Take all that the program has done so far as written by the kernel itself, which it does
        within half a minute: the power goes later than that.
        """
        self._settled = self.log.stat().st_size

    def cut(self, names: Names = Names.EXT4, *, cwd: Path | None = None) -> PowerCut:
        """Make the folder what a loss of power leaves of it. The program is dead. ``cwd``: the
        folder in which it was started.

        Raises:
            NotSeenError: what the program did cannot be told from what the tracer saw.
        """
        real = os.path.realpath(self.folder)
        replay = Replay(real, self._base, str(self.folder.absolute()))
        with self.log.open("rb") as lines:
            replay.read(lines, str((cwd or Path.cwd()).absolute()), self._settled)
        now = contents(self.folder)
        replay.check(now, self.rebuilt)
        left = replay.left(names, now)
        strict = replay.left(Names.POSIX, now)
        changed = restore_folder(self.folder, now, left)
        if contents(self.folder) != left:
            raise NotSeenError(f"{self.folder} could not be made what is left of it")
        self.log.unlink()
        gone = tuple(path for path in left if path not in strict)
        return PowerCut(names, changed, left, replay.calls, replay.flushes, gone)


_TRIAL: Final = (
    "import os, sys; file = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY); "
    "os.write(file, b'kept'); os.fsync(file); os.write(file, b'lost')"
)


@functools.cache
def why_no_power_loss() -> str | None:
    """Say why no loss of power can be made on this machine; return ``None`` if one was made on a
    test program's file.

    The test runs once, and leaves nothing behind.
    """
    if shutil.which(STRACE) is None:
        return f"{STRACE} is not on the PATH (Debian: apt-get install strace)"
    with tempfile.TemporaryDirectory(prefix="lostack-") as made:
        trace = PowerTrace(Path(made) / "data", Path(made) / "log")
        argv = (sys.executable, "-I", "-S", "-c", _TRIAL, str(trace.folder / "file"))
        try:
            done = subprocess.run(
                trace.start(argv), capture_output=True, timeout=TRIED_S, check=False, text=True
            )
            if done.returncode == 0:
                cut = trace.cut()
                if cut.kept == {"file": b"kept"}:
                    return None
            said = done.stderr.strip().splitlines()[-1:] or ["it printed nothing"]
        except (NotSeenError, OSError, subprocess.TimeoutExpired) as error:
            said = [str(error)]
    return f"{STRACE} cannot trace a program that it starts: {said[0]}"
