"""The user's cache of files that are fetched or made once. An entry is filled under a lock, whole
or not at all.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import platformdirs
from filelock import FileLock, Timeout

from harness.model.failures import EnvironmentFailure
from harness.provision.platforms import why_not_here

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

VARIABLE: Final = "LOSTACK_CACHE"
FILLED: Final = "jars"
"""The folder of a cache that every run fills."""
BESIDE: Final = "beside-"
"""How the name of a folder begins that links to a read-only cache."""
LOCK_WITHIN_S: Final = 900.0
"""How many seconds to wait for another run, which may be fetching everything over a slow line."""
FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


def cache_root(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the cache directory, and make it if it is missing. ``LOSTACK_CACHE`` names another
    one.

    A filled cache that ``LOSTACK_CACHE`` names need not be writable. Then the folder that is
    returned links to each of its entries, and takes locks and what is made or fetched besides.

    Raises:
        EnvironmentFailure: the folder is neither writable nor filled, or lostack does not run on
            this system.
    """
    if why := why_not_here():  # everything that is fetched asks for this folder first
        raise EnvironmentFailure(why)
    chosen = environ.get(VARIABLE)
    root = expanded(chosen).absolute() if chosen else _own_root()
    try:
        return _written(root)
    except EnvironmentFailure:
        if not (root / FILLED).is_dir():
            raise
    return _beside(root)


def _written(root: Path) -> Path:
    """Make a folder, and make sure that files can be written there; return it.

    Raises:
        EnvironmentFailure: it cannot be written.
    """
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


def _own_root() -> Path:
    """Return the user's cache directory; for a user without a home, one for temporary files."""
    try:
        root = Path(platformdirs.user_cache_path("lostack"))
    except RuntimeError:  # a uid without an account, and no HOME
        return temporary_root()
    there = next(each for each in (root, *root.parents) if each.exists())
    return root if there == root or os.access(there, os.W_OK) else temporary_root()


def temporary_root() -> Path:
    """Return the user's own folder among those for temporary files.

    Raises:
        EnvironmentFailure: somebody else has made that folder.
    """
    root = Path(tempfile.gettempdir(), f"lostack-{os.getuid()}")
    with contextlib.suppress(FileExistsError):
        root.mkdir(mode=0o700)
    found = root.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise EnvironmentFailure(f"{root} belongs to somebody else: set {VARIABLE} to a folder")
    return root


def _beside(base: Path) -> Path:
    """Return a folder that links to the entries of a read-only cache: to files and folders of the
    second level, such as ``jars/kafka-4.3.0``.
    """
    name = f"{BESIDE}{hashlib.sha256(str(base).encode()).hexdigest()[:16]}"
    own = _own_root()
    try:
        mine = _written((temporary_root() if own == base else own) / name)
    except EnvironmentFailure:  # the user's own folder is read-only, too
        mine = _written(temporary_root() / name)
    for entry in _entries(base):
        if not entry.is_dir():
            _link(mine / entry.name, entry)
            continue
        (mine / entry.name).mkdir(exist_ok=True)
        for inner in _entries(entry):
            _link(mine / entry.name / inner.name, inner)
    for link in (*mine.iterdir(), *mine.glob("*/*")):
        if link.is_symlink() and not link.exists():  # removed from the cache since
            link.unlink(missing_ok=True)
    return mine


def _entries(folder: Path) -> list[Path]:
    """Return what a folder of the cache holds, without locks and what is half made."""
    return [entry for entry in folder.iterdir() if not entry.name.startswith(".")]


def _link(link: Path, entry: Path) -> None:
    with contextlib.suppress(FileExistsError):  # linked before, or made anew here
        link.symlink_to(entry)


def original(entry: Path) -> Path:
    """Return where an entry of the cache lies: in a read-only cache, if this is a link to it.

    A class-data archive fits only the paths that it was made with.
    """
    return entry.readlink() if entry.is_symlink() else entry


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
        if target.is_symlink():
            target.unlink()
        elif target.exists():
            shutil.rmtree(target)
        part.rename(target)
    except OSError as error:
        why = "the disk is full" if error.errno in FULL else error.strerror or error
        raise EnvironmentFailure(f"cannot prepare {target}: {why}") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
