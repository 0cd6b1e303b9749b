"""The generated parts of pages: what stands between ``<!-- NAME -->`` and ``<!-- /NAME -->``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.docs import faults, published, reference, scenarios, sources, suites
from tests.docs.moving import PICTURE, drawn
from tests.docs.recording import Recording
from tests.docs.tables import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ROOT: Final = Path(__file__).parents[2]
PARTS: Final[Mapping[str, Callable[[], str]]] = {
    "verdict": published.annotated_cell,
    "clients": published.where_clients_differ,
    "scoreboard": published.scoreboard,
    "suites": suites.sizes,
    "faults": faults.table,
}
"""What each part says, by its name. ``points`` is written by ``tests.points``."""
AT_THE_TOP: Final = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")
REFERENCE: Final = ROOT / "docs" / "reference"
MARK: Final = re.compile(
    r"<!-- ([\w/ .,+-]+?)(?: -->|(\n(?:(?!-->).)*)-->)\n(.*?)<!-- /\1 -->", re.DOTALL
)
"""A generated part: its name, the notes in its opening mark, and what stands there."""


def pages() -> list[Path]:
    """Return every page that we write: those at the top, and those below docs and examples."""
    found = [*(ROOT / name for name in AT_THE_TOP), *sorted((ROOT / "docs").rglob("*.md"))]
    return [*found, *sorted((ROOT / "examples").rglob("*.md"))]


def parts_of(page: Path) -> list[str]:
    """Return the names of a page's generated parts."""
    return [match[1] for match in MARK.finditer(page.read_text(encoding="utf-8"))]


def table(name: str) -> Table | None:
    """Return the table that a part is, if it is one."""
    kind, _, rest = name.partition(" ")
    return Table(*rest.split("/")) if kind == "table" else None


def part(name: str, notes: str = "") -> str | None:
    """Return what a part says; ``None`` where it is made elsewhere, by nobody, or stays by hand
    until its run is committed.

    ``table SYSTEM/CLIENT/PIPELINE/GROUP`` is what was measured of those scenarios
    (:mod:`tests.docs.tables`); ``source FILE [NAME]`` is a file of the repository, or what it
    defines.
    """
    kind, _, rest = name.partition(" ")
    if kind == "source":
        return sources.shown(rest)
    shown = table(name)
    if shown is not None:
        return None if shown.waits() else shown.text(notes)
    return PARTS[name]() if name in PARTS else None


def rewritten(page: Path) -> str:
    """Return a page with its generated parts made anew."""

    def anew(match: re.Match[str]) -> str:
        name, notes = match[1], match[2] or ""
        made = part(name, notes)
        opening = f"<!-- {name}{notes}-->" if notes else f"<!-- {name} -->"
        return match[0] if made is None else f"{opening}\n\n{made.strip()}\n\n<!-- /{name} -->"

    return MARK.sub(anew, page.read_text(encoding="utf-8"))


def generated() -> dict[Path, str]:
    """Return the pages that are made as a whole, with what each is to hold."""
    made = {
        "commands": reference.command_page(),
        "events": reference.event_page(),
        "declaration": reference.declaration_page(),
        "scenarios": scenarios.index(),
        **{f"scenarios/{system}": scenarios.page(system) for system in scenarios.systems()},
    }
    return {REFERENCE / f"{name}.md": text for name, text in made.items()}


def wanted() -> dict[Path, str]:
    """Return every page with what it is to hold, and the moving picture."""
    made = generated() | {PICTURE: drawn(Recording.read())}
    return {page: rewritten(page) for page in pages() if page not in made} | made
