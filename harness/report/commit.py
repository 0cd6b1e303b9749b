"""The commit of a run: the one that the CI names, or else the one that the Git repository around a
folder has checked out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

VARIABLES: Final = (
    "LOSTACK_COMMIT",
    "GITHUB_SHA",
    "CI_COMMIT_SHA",
    "BUILDKITE_COMMIT",
    "CIRCLE_SHA1",
    "GIT_COMMIT",
)
"""The variables that name the commit: lostack's own first, then those of GitHub, GitLab, Buildkite,
CircleCI and Jenkins.
"""
_COMMIT: Final = re.compile(r"[0-9a-f]{7,64}")


def commit_of(environment: Mapping[str, str], folder: Path) -> str | None:
    """Return the commit in hex, or ``None`` if it is unknown. Changes that are not committed do not
    count.
    """
    said = next(
        (environment[name].strip() for name in VARIABLES if environment.get(name, "").strip()), None
    )
    found = said or _checked_out(folder.resolve())
    return found if found and _COMMIT.fullmatch(found) else None


def _checked_out(folder: Path) -> str | None:
    git = next(
        (each / ".git" for each in (folder, *folder.parents) if (each / ".git").exists()), None
    )
    try:
        if git is not None and git.is_file():  # a worktree's, or a submodule's: it names the folder
            git = (
                git.parent / git.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
            ).resolve()
        return None if git is None else _head(git)
    except (OSError, ValueError):
        return None


def _head(git: Path) -> str | None:
    head = (git / "HEAD").read_text(encoding="utf-8").strip()
    if not head.startswith("ref:"):
        return head
    name = head.removeprefix("ref:").strip()
    common = git / "commondir"
    shared = (
        (git / common.read_text(encoding="utf-8").strip()).resolve() if common.exists() else git
    )
    for place in (git / name, shared / name):
        if place.is_file():
            return place.read_text(encoding="utf-8").strip()
    packed = shared / "packed-refs"
    lines = packed.read_text(encoding="utf-8").splitlines() if packed.exists() else []
    return next((line.split()[0] for line in lines if line.endswith(f" {name}")), None)
