"""Servers that put their folder into a command or a URI as it is cannot run in every folder."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from harness.model.failures import EnvironmentFailure

if TYPE_CHECKING:
    from pathlib import Path

_UNUSUAL: Final = re.compile(r"[\s%#?\[\]{}<>\"\\|^`]")


def require_plain_folder(folder: Path, who: str) -> None:
    """Raise :class:`EnvironmentFailure` if a path has a character that ends a word or is special
    in a URI.
    """
    if found := _UNUSUAL.search(str(folder.absolute())):
        raise EnvironmentFailure(
            f"{who} cannot run in {folder.absolute()}, whose name has {found[0]!r}: name another "
            "folder by --reports"
        )
