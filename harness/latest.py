"""What lies beside runs: a mark that lostack writes runs there, and the link ``latest`` to the run
that was started last.

Beside a run that somebody has put elsewhere (an artefact of a CI server, in a folder of downloads)
lostack writes nothing.
"""

from __future__ import annotations

import re
import secrets
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from harness.model import safe_files
from harness.saved import RUN_FILE, RunInfo, SavedRunError

if TYPE_CHECKING:
    from pathlib import Path

LATEST: Final = "latest"
MARK: Final = ".lostack-runs"
"""The file that marks a folder into which lostack writes runs."""
MARKED: Final = (
    "lostack writes runs into this folder, and beside them latest, index.html, history.jsonl and "
    "trend.html.\n"
)
_ID: Final = re.compile(r"\d{8}-\d{6}(?:-\d{1,3})?")
"""The name of a run's folder, as lostack makes it."""
_LONGEST: Final = 1024
"""More bytes has no file that names a run."""


def mark(reports: Path) -> None:
    """Mark a folder as one of runs."""
    if not is_marked(reports):
        safe_files.write_whole(reports, MARK, MARKED)


def is_marked(reports: Path) -> bool:
    """Whether lostack writes runs into a folder."""
    return safe_files.is_file(reports, MARK)


def is_newest(directory: Path, info: RunInfo) -> bool:
    """Return whether no run that was started after this one is the ``latest``."""
    try:
        latest = RunInfo.load(run_directory(directory.parent / LATEST))
    except (SavedRunError, OSError, ValueError):  # whatever it points to, it is no run
        return True
    return _age(info) >= _age(latest)


def _age(info: RunInfo) -> tuple[str, int, str]:
    """Return a sort key: the start, then the number at the end of the id for runs of one second
    (``...-2``, ``...-10``).
    """
    return info.started, len(info.id), info.id


def point_latest(directory: Path, info: RunInfo) -> str | None:
    """Make ``latest`` point to this run's folder, atomically, unless it points to a newer run.

    ``latest`` lies beside the folder. It is a symbolic link or, if the file system has none, a file
    that holds the folder's name. Returns a warning if it cannot be written. Beside a run that
    lostack has not put there, nothing is written.
    """
    beside = directory.parent
    if not is_marked(beside) or not is_newest(directory, info):
        return None
    if not _is_ours(beside):
        return f"{beside / LATEST} was not updated: it does not name a run, so it is not lostack's"
    part = beside / f".{secrets.token_hex(8)}.part"
    try:
        try:
            part.symlink_to(directory.name, target_is_directory=True)
        except (OSError, NotImplementedError):
            safe_files.write_whole(beside, LATEST, directory.name + "\n")
        else:
            part.replace(beside / LATEST)
    except OSError as error:
        part.unlink(missing_ok=True)
        return (
            f"{beside / LATEST} was not updated and still points to an older run: {error.strerror}"
        )
    return None


def _is_ours(beside: Path) -> bool:
    """Whether there is no ``latest``, or one that names a run beside it, or one that names a folder
    that is gone. A file that is no link names such a folder only by the name that runs get.
    """
    try:
        name = _named(beside)
    except SavedRunError:
        return False
    if name is None or safe_files.is_file(beside, f"{name}/{RUN_FILE}"):
        return True
    return not safe_files.exists(beside, name) and (
        (beside / LATEST).is_symlink() or _ID.fullmatch(name) is not None
    )


def _named(beside: Path) -> str | None:
    """Return the name that ``latest`` holds, as a link or as a file; ``None`` if there is no
    ``latest``, or an empty file.

    Raises:
        SavedRunError: it is something else, or it leads out of the folder.
    """
    latest = beside / LATEST
    try:
        text = (
            str(latest.readlink())
            if latest.is_symlink()
            else safe_files.read_text(beside, LATEST, _LONGEST)
        )
        name = text.strip()
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise SavedRunError(
            f"{latest} names no run: {getattr(error, 'strerror', None) or error}"
        ) from error
    if not name:
        return None
    if (
        len(PurePath(name).parts) != 1
        or name in {".", ".."}
        or PurePath(name).is_absolute()
        or "\0" in name
    ):
        raise SavedRunError(f"{latest} leads out of its folder: name the run's own folder")
    return name


def run_directory(named: Path) -> Path:
    """Return the run's folder for a path: the path itself, or the folder beside it that a
    ``latest`` points to.

    Raises:
        SavedRunError: there is no run at the path.
    """
    if named.name == LATEST and (named.is_symlink() or named.is_file()):
        name = _named(named.parent)
        if name is None or name not in safe_files.folders(named.parent):
            raise SavedRunError(
                f"there is no saved run at {named}: the folder that it names is gone"
            )
        return named.parent.resolve() / name
    if not named.is_dir():
        raise SavedRunError(f"there is no saved run at {named}")
    return named.resolve()
