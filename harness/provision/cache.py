"""The user's cache of files that are fetched or made once. An entry is filled under a lock, whole
or not at all.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import platformdirs
from filelock import FileLock, Timeout

from harness.model.failures import EnvironmentFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

VARIABLE: Final = "LOSTACK_CACHE"
LOCK_WITHIN_S: Final = 900.0
"""How many seconds to wait for another run, which may be fetching everything over a slow line."""
FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


def cache_root(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the cache directory, and make it if it is missing. ``LOSTACK_CACHE`` names another
    one.

    Raises:
        EnvironmentFailure: the folder is not writable.
    """
    root = (
        Path(environ.get(VARIABLE) or platformdirs.user_cache_path("lostack"))
        .expanduser()
        .absolute()
    )
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=root):
            pass
    except OSError as error:
        raise EnvironmentFailure(
            f"cannot write to the cache {root} ({error.strerror}): make it writable, or set "
            f"{VARIABLE} to another folder"
        ) from error
    return root


def expanded(path: str) -> Path:
    """Return a path with its ``~`` replaced by the home; unchanged if the user has none (a uid
    without an account).
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def need_space(directory: Path, needed_mb: int, what: str) -> None:
    """Make sure that the disk of ``directory`` has ``needed_mb`` MB free. ``what``: what needs the
    space.

    Raises:
        EnvironmentFailure: less is free.
    """
    free_mb = shutil.disk_usage(directory).free // 1_000_000
    if free_mb < needed_mb:
        raise EnvironmentFailure(
            f"the disk of {directory} is full: {what} needs {needed_mb} MB and {free_mb} MB are "
            f"free; make room, or set {VARIABLE} to a folder on another disk"
        )


@contextlib.contextmanager
def locked(target: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of a cache entry while the block runs.

    Raises:
        EnvironmentFailure: another run has held the lock for 15 minutes.
    """
    lock = FileLock(target.with_name(f".{target.name}.lock"))
    try:
        try:
            lock.acquire(timeout=0)
        except Timeout:
            say(f"another run is preparing {target.name}; waiting for it")
            lock.acquire(timeout=LOCK_WITHIN_S)
    except Timeout:
        raise EnvironmentFailure(
            f"another run has been preparing {target} for {LOCK_WITHIN_S / 60:g} minutes; end it "
            "and try again"
        ) from None
    except OSError as error:
        raise EnvironmentFailure(f"cannot lock {target}: {error.strerror}") from error
    try:
        yield
    finally:
        lock.release()


def fill(target: Path, make: Callable[[Path], None]) -> None:
    """Let ``make`` fill a new directory, and then rename it to ``target``. The caller must hold the
    lock of ``target``.

    Files left by an earlier attempt that was killed are removed.

    Raises:
        EnvironmentFailure: the disk is full.
        Exception: whatever ``make`` raises.
    """
    for stale in target.parent.glob(f".{target.name}.*.part"):
        shutil.rmtree(stale, ignore_errors=True)
    part = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent))
    try:
        part.chmod(0o755)
        make(part)
        if target.exists():
            shutil.rmtree(target)
        part.rename(target)
    except OSError as error:
        why = "the disk is full" if error.errno in FULL else error.strerror or error
        raise EnvironmentFailure(f"cannot prepare {target}: {why}") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
