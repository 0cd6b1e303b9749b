"""The paths that a wire is told: all lie below the folder of a run that it serves, and no link
leads out.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from harness.wire.messages import WireError


class Inside:
    """Folders of runs. They themselves may be reached by links; nothing below them may."""

    def __init__(self, root: Path) -> None:
        self._roots = [_plain(root)]

    def admit(self, root: str | Path) -> None:
        """Take in the folder of another run, which goes on with this wire."""
        if (plain := _plain(root)) not in self._roots:
            self._roots.append(plain)

    def path(self, told: str | Path) -> Path:
        """Return a path below one of the folders. There is a regular file, or nothing.

        Raises:
            WireError: the path leads out of the folders, through a link, or to something else than
                a regular file.
        """
        path = _plain(told)
        root = next((each for each in self._roots if each in path.parents), None)
        if root is None:
            raise WireError(f"{path} is not below the folder of the run, {self._roots[-1]}")
        at = root
        try:
            for part in path.relative_to(root).parts:
                at /= part
                mode = at.lstat().st_mode
                if not (stat.S_ISREG(mode) if at == path else stat.S_ISDIR(mode)):
                    what = "a link" if stat.S_ISLNK(mode) else "of another kind"
                    raise WireError(f"the wire does not use {path}: {at} is {what}")
        except FileNotFoundError:
            pass
        except OSError as error:
            raise WireError(f"the wire cannot use {path}: {error.strerror}") from error
        return path


def _plain(path: str | Path) -> Path:
    """Return an absolute path without ``..``, by its words alone."""
    return Path(os.path.abspath(path))  # noqa: PTH100 - ``resolve`` would follow links
