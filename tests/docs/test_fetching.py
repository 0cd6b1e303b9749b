"""The page on what is fetched names every variable that decides from where."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
OURS = {"LOSTACK_HOME", "LOSTACK_IMAGE_"}
"""Set by lostack itself; and the beginning of names that another page lists."""


def test_every_variable_of_what_is_fetched_is_on_the_page() -> None:
    page = (ROOT / "docs" / "fetching.md").read_text()
    source = "".join(file.read_text() for file in (ROOT / "harness/provision").glob("*.py"))
    names = set(re.findall(r'"(LOSTACK_[A-Z_]+)"', source)) - OURS
    assert len(names) > 6
    assert [name for name in sorted(names) if f"`{name}" not in page] == []
