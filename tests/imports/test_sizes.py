"""No module of the harness has more lines than can be read in one go, and no class."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).parents[2]
FOLDERS = ("harness", "scenarios")
MOST_IN_A_FILE = 700
MOST_IN_A_CLASS = 400
LONGER_STILL = {
    "harness/pipelines/declaration.py",
    "harness/sweep/sweeping.py:Sweep",
    "harness/systems/kafka/observer.py:Observer",
    "scenarios/pulsar.py",
}
"""What the formatter made longer than that; to be split, and none to be added."""


def too_long(folder: Path) -> Iterable[str]:
    """Yield the files below a folder, and the classes in them (``file:class``), that have too many
    lines.
    """
    for file in sorted(folder.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        named = str(file.relative_to(folder.parent))
        if len(text.splitlines()) > MOST_IN_A_FILE:
            yield named
        for node in ast.walk(ast.parse(text)):
            if (
                isinstance(node, ast.ClassDef)
                and (node.end_lineno or 0) - node.lineno + 1 > MOST_IN_A_CLASS
            ):
                yield f"{named}:{node.name}"


def test_nothing_is_too_long() -> None:
    """Neither a file nor a class of ours."""
    assert {each for folder in FOLDERS for each in too_long(ROOT / folder)} == LONGER_STILL


@pytest.mark.parametrize(
    ("lines", "seen"),
    [
        (400, []),
        (401, ["harness/deep/m.py:C"]),
        (701, ["harness/deep/m.py", "harness/deep/m.py:C"]),
    ],
)
def test_one_line_too_many_is_seen(tmp_path: Path, lines: int, seen: list[str]) -> None:
    """In a file, and in a class, wherever they are."""
    file = tmp_path / "harness" / "deep" / "m.py"
    file.parent.mkdir(parents=True)
    file.write_text("class C:\n" + "    x = 1\n" * (lines - 1))
    assert list(too_long(tmp_path / "harness")) == seen
