"""Keeps a second command out of a folder in which one runs, and in which it can be continued."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from filelock import FileLock, Timeout

from harness.model.failures import EnvironmentFailure, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOCK: Final = ".lock"
"""The file, in such a folder, that the command under way has locked."""


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Make a folder if it is not there, and keep other commands out of it. A process that is killed
    locks nothing any more.

    Raises:
        UsageError: another command runs in it.
        EnvironmentFailure: it cannot be made, not be written to, or its file system has no locks.
    """
    lock = FileLock(folder / LOCK)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        raise UsageError(f"another command runs in {folder}: wait until it has ended") from None
    except OSError as error:
        raise EnvironmentFailure(
            f"cannot lock {folder}: {error.strerror}; choose another folder with --reports"
        ) from error
    try:
        yield
    finally:
        lock.release()
