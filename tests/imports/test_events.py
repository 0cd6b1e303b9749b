"""Histories are read as types: by attributes, not by names of fields as texts."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from harness.model import kinds
from harness.model.events import CLASSES

if TYPE_CHECKING:
    from collections.abc import Iterator

HARNESS: Final = Path(__file__).parents[2] / "harness"
FIELDS: Final = {name for kind in CLASSES.values() for name in kind.__struct_fields__}
NO_LINES: Final = frozenset({"account", "counts", "found", "part", "records", "row", "self"})
"""What is read by text in the judge and is no line of a history: counts, and rows of an account."""
MOST: Final = {
    "judge": 0,
    "matrix": 34,
    "pipelines": 26,
    "proofs": 104,
    "report": 465,
    "run": 37,
    "services": 8,
    "soak": 53,
    "sweep": 130,
    "systems": 725,
}
"""By package, how many reads of a field by text there are at most, other than events' among them.
It only falls.
"""


def reads(source: str) -> Iterator[str]:
    """Yield each read of a field of an event by its name as a text, as ``subject.name``."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Subscript(value=value, slice=ast.Constant(value=str(name)), ctx=ast.Load()):
                pass
            case ast.Call(
                func=ast.Attribute(value=value, attr="get"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                pass
            case _:
                continue
        subject = ast.unparse(value)
        if name in FIELDS and subject.partition(".")[0].partition("[")[0] not in NO_LINES:
            yield f"{subject}.{name}"


def reads_of(package: str) -> list[str]:
    """Return the reads by text in a package."""
    return [
        f"{file.relative_to(HARNESS)}: {each}"
        for file in sorted((HARNESS / package).rglob("*.py"))
        for each in reads(file.read_text(encoding="utf-8"))
    ]


@pytest.mark.parametrize("package", MOST)
def test_a_history_is_read_by_attributes(package: str) -> None:
    """As many reads by text as there may be, and not one less: the limit falls with them."""
    found = reads_of(package)
    assert len(found) == MOST[package], found[:20]


def test_a_read_by_text_is_seen() -> None:
    """By index, and by ``get``; what is written is none, nor what no event has."""
    source = 'e["record"]; e.get("phase", 1); e["record"] = 1; e["no field"]; row["record"]'
    assert list(reads(source)) == ["e.record", "e.phase"]


def test_every_kind_has_its_name() -> None:
    """Who writes names a kind by a constant; who reads, by its class."""
    named = {
        value
        for name, value in vars(kinds).items()
        if name.isupper() and isinstance(value, str) and value in CLASSES
    }
    assert named == CLASSES.keys()


def test_a_program_of_ours_needs_no_library_to_write_its_history() -> None:
    """In an environment of its own there is its client, and nothing of ours but this package."""
    code = (
        "import sys; sys.modules['msgspec'] = None; import harness.failpoint, harness.stages.stage,"
        " harness.stages.producer, harness.stages.queue_consumer"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
