"""The files of a folder, read whole and put back as a loss of power leaves them."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.runtimes.power.replay import NotSeenError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class AfterPowerLoss:
    """What a loss of power leaves of one file: its size before and after. ``None``: it was not
    there.
    """

    path: str
    before: int | None
    after: int | None


def contents(folder: Path) -> dict[str, bytes | None]:
    """Return what a folder holds, by relative path (``None``: a folder).

    Raises:
        NotSeenError: it holds something else than files and folders.
    """
    found: dict[str, bytes | None] = {}
    for where, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(where, name)  # noqa: PTH118 - many files
            relative = os.path.relpath(path, folder)
            if os.path.islink(path) or not os.path.exists(path):  # noqa: PTH110, PTH114 - as above
                raise NotSeenError(f"{relative} is neither a file nor a folder")
            if name in folders:
                found[relative] = None
            else:
                with open(path, "rb") as file:  # noqa: PTH123 - as above
                    found[relative] = file.read()
    return found


def restore_folder(
    folder: Path, now: Mapping[str, bytes | None], left: Mapping[str, bytes | None]
) -> tuple[AfterPowerLoss, ...]:
    """Make a folder hold ``left`` instead of ``now``; return which files that has changed."""
    changed = []
    for path, content in sorted(now.items(), reverse=True):
        if path not in left or (left[path] is None) != (content is None):
            changed.append(AfterPowerLoss(path, None if content is None else len(content), None))
            if content is None:
                shutil.rmtree(folder / path)
            else:
                (folder / path).unlink()
    for path, content in sorted(left.items()):
        before = now.get(path)
        if content is None:
            (folder / path).mkdir(exist_ok=True)
        elif path not in now or before != content:
            (folder / path).write_bytes(content)
            changed.append(
                AfterPowerLoss(path, None if before is None else len(before), len(content))
            )
    return tuple(sorted(changed, key=lambda each: each.path))
