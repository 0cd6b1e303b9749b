"""What fills a small disk to its last byte, and makes room again: run by a container beside the one whose disk it is.

Run as ``python -m harness.runtimes.disk fill|empty FOLDER``; prints ``{"size": bytes, "free": bytes}``. Standard library only.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from pathlib import Path
from typing import Final

FILLER: Final = ".filler"
CHUNKS: Final = (1 << 20, 4096, 1)
"""Bytes written at once: the last ones make sure that nothing more fits."""


def fill(folder: Path) -> None:
    """Write until nothing fits any more. Called again it takes what has become free since."""
    with (folder / FILLER).open("ab", buffering=0) as file:
        for size in CHUNKS:
            while _written(file.fileno(), bytes(size)):
                pass


def empty(folder: Path) -> None:
    """Give back what :func:`fill` has taken."""
    (folder / FILLER).unlink(missing_ok=True)


def room(folder: Path) -> dict[str, int]:
    """Return ``size`` and ``free``, in bytes, as the file system says them."""
    found = os.statvfs(folder)
    return {"size": found.f_blocks * found.f_frsize, "free": found.f_bavail * found.f_frsize}


def _written(descriptor: int, data: bytes) -> int:
    """Return how many bytes fitted.

    Raises:
        OSError: writing failed for another reason than a full disk.
    """
    try:
        return os.write(descriptor, data)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            return 0
        raise


def main() -> None:
    """Do what the arguments say, and tell what is free then."""
    verb, folder = sys.argv[1], Path(sys.argv[2])
    {"fill": fill, "empty": empty}[verb](folder)
    sys.stdout.write(json.dumps(room(folder)) + "\n")


if __name__ == "__main__":
    main()
