"""Builds the site from the pages of the repository: ``python -m tests.docs.site [FOLDER]``.

Pages, and the files to which they lead, are laid into a folder as they lie in the repository. So
each link of a page leads on the site where it leads on a forge. A link that leads nowhere, or to no
heading, stops the build.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.docs.links import links
from tests.docs.pages import ROOT, pages

if TYPE_CHECKING:
    from collections.abc import Iterable

SITE: Final = ROOT / "build" / "site"
SETTINGS: Final = ROOT / "mkdocs.yml"
BESIDE: Final = ROOT / "docs" / "site"
"""What only the site has."""


def laid_out(files: Iterable[Path], root: Path, to: Path) -> None:
    """Copy pages, and the files of the repository to which they lead, into a folder."""
    for page in files:
        led = ((page.parent / link.partition("#")[0]).resolve() for link in links(page))
        for file in (page, *(each for each in led if each.is_file())):
            copy = to / file.relative_to(root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)


def build(source: Path, to: Path, settings: Path = SETTINGS) -> None:
    """Build the site of a folder of pages.

    Raises:
        mkdocs.exceptions.Abort: a link leads nowhere.
    """
    os.environ.setdefault("NO_MKDOCS_2_WARNING", "1")
    from mkdocs.commands.build import build as built  # noqa: PLC0415 - an extra
    from mkdocs.config import load_config  # noqa: PLC0415

    told = load_config(str(settings), docs_dir=str(source), site_dir=str(to), strict=True)
    built(told)


def main(to: Path = SITE) -> None:
    """Build the site of the repository."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        laid_out(pages(), ROOT, Path(folder))
        shutil.copytree(BESIDE, Path(folder) / BESIDE.relative_to(ROOT))
        build(Path(folder), to)
    print(to / "index.html")  # noqa: T201 - a command


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
