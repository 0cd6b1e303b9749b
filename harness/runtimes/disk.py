"""Fill a small disk to its last byte, or make room again. A helper container runs this, beside the
container with the disk.

Run as ``python -m harness.runtimes.disk fill|empty FOLDER``; prints ``{"size": bytes, "free":
bytes}``. Standard library only.
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
"""Bytes written at once, largest first. The smallest ones make sure that nothing more fits."""


def fill(folder: Path) -> None:
    """Write until the disk is full. Another call fills the space that has become free since."""
    with (folder / FILLER).open("ab", buffering=0) as file:
        for size in CHUNKS:
            while _written(file.fileno(), bytes(size)):
                pass


def empty(folder: Path) -> None:
    """Free the space that :func:`fill` has used."""
    (folder / FILLER).unlink(missing_ok=True)


def room(folder: Path) -> dict[str, int]:
    """Return ``size`` and ``free`` of the file system, in bytes."""
    found = os.statvfs(folder)
    return {"size": found.f_blocks * found.f_frsize, "free": found.f_bavail * found.f_frsize}


def _written(descriptor: int, data: bytes) -> int:
    """Write ``data`` and return how many bytes were written.

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
    """Fill or empty the folder, as the arguments say, and print the disk's size and free space."""
    verb, folder = sys.argv[1], Path(sys.argv[2])
    {"fill": fill, "empty": empty}[verb](folder)
    sys.stdout.write(json.dumps(room(folder)) + "\n")


if __name__ == "__main__":
    main()
