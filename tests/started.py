"""Start a program for a test; it ends with the test, however that ends."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


@contextmanager
def started(words: Sequence[str], output: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program whose output goes into a file. Kill it at the end of the block, if it still
    runs: what a harness has started ends with it, by its guardian.
    """
    with output.open("wb") as into:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=into, stderr=subprocess.STDOUT
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
