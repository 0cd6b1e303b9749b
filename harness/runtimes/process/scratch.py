"""A temporary folder that is removed when its owner ends, in whatever way.

Programs that are killed leave files behind (native libraries of a JVM, Spark's blocks). The
programs that the harness starts put such files here instead of into the system's temporary folder,
where they would stay.
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
"""Age in seconds below which a folder is not removed, because its owner may be about to lock it."""


class Scratch:
    """A temporary folder, locked as long as this process lives. Its path is short, because a
    socket's has at most 107 bytes.

    If the harness is killed, the runtime's guardian removes it. If all are killed, the next Scratch
    removes it.
    """

    def __init__(self) -> None:
        place = Path(tempfile.gettempdir())
        for left in place.glob(f"{PREFIX}*"):
            _remove_unowned(left)
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
        self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def folder(self, name: str) -> Path:
        """Return a folder inside; make it if it is missing."""
        made = self.path / name
        made.mkdir(exist_ok=True)
        return made

    def close(self) -> None:
        """Remove the folder. Safe to call twice."""
        if self._lock >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1


def used_by(folder: Path, env: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which programs, their JVMs and their Spark use a folder for
    temporary files.

    A JVM reports these options on its standard error; see :data:`harness.model.logs.NOTICE`.

    >>> used_by(Path("/t"), {"JAVA_TOOL_OPTIONS": "-ea"})["JAVA_TOOL_OPTIONS"]
    '-ea -Djava.io.tmpdir=/t'
    """
    options = f"{env.get('JAVA_TOOL_OPTIONS', '')} -Djava.io.tmpdir={folder}".strip()
    return {
        **env,
        "TMPDIR": str(folder),
        "SPARK_LOCAL_DIRS": str(folder),
        "JAVA_TOOL_OPTIONS": options,
    }


def is_owned(folder: Path) -> bool:
    """Return whether a living process has locked the folder.

    Raises:
        OSError: the folder belongs to another user, or is gone.
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
