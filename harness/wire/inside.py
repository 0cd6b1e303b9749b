"""The paths that a wire is told: all lie below the folder of its run, and no link leads out."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from harness.wire.messages import WireError


class Inside:
    """A folder. ``root`` itself may be reached by links; nothing below it may."""

    def __init__(self, root: Path) -> None:
        self.root = _plain(root)

    def path(self, told: str | Path) -> Path:
        """Return a path below the folder. There is a regular file, or nothing.

        Raises:
            WireError: the path leads out of the folder, through a link, or to something else than
                a regular file.
        """
        path = _plain(told)
        if not path.is_relative_to(self.root) or path == self.root:
            raise WireError(f"{path} is not below the folder of the run, {self.root}")
        at = self.root
        try:
            for part in path.relative_to(self.root).parts:
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
