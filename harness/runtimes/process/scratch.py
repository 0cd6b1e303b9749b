"""A temporary folder of one's own, which goes when its owner does, however that ends.

Programs that are killed leave behind what they unpacked or spilled (native libraries of a JVM, Spark's blocks). What the harness
starts is told to put that here, instead of into the system's temporary folder where nobody would ever look for it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX: Final = "lostack-tmp-"
FRESH_S: Final = 60.0
"""A folder younger than this may be about to be locked by its owner."""


class Scratch:
    """A temporary folder, locked for as long as this process lives. Its path is short: a socket's may have 107 bytes.

    The guardian of a runtime removes it where the harness is killed. What is left where all are killed goes with the next one.
    """

    def __init__(self) -> None:
        place = Path(tempfile.gettempdir())
        for left in place.glob(f"{PREFIX}*"):
            _remove_unowned(left)
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
        self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def folder(self, name: str) -> Path:
        """Return a folder in it, made where it is not there yet."""
        made = self.path / name
        made.mkdir(exist_ok=True)
        return made

    def close(self) -> None:
        """Remove it. Safe to call twice."""
        if self._lock >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1


def used_by(folder: Path, env: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which programs, their JVMs and their Spark use a folder for temporary files.

    A JVM says on its standard error which options it has picked up here; see :data:`harness.model.logs.NOTICE`.

    >>> used_by(Path("/t"), {"JAVA_TOOL_OPTIONS": "-ea"})["JAVA_TOOL_OPTIONS"]
    '-ea -Djava.io.tmpdir=/t'
    """
    options = f"{env.get('JAVA_TOOL_OPTIONS', '')} -Djava.io.tmpdir={folder}".strip()
    return {**env, "TMPDIR": str(folder), "SPARK_LOCAL_DIRS": str(folder), "JAVA_TOOL_OPTIONS": options}


def is_owned(folder: Path) -> bool:
    """Say whether a living process has such a folder locked.

    Raises:
        OSError: the folder is another user's, or gone.
    """
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _remove_unowned(folder: Path) -> None:
    """Remove a folder that no living process has locked."""
    with contextlib.suppress(OSError):
        if time.time() - folder.stat().st_mtime >= FRESH_S and not is_owned(folder):
            shutil.rmtree(folder, ignore_errors=True)
