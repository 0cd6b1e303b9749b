"""Kinds of events and their phases are named by what the types know, not by texts."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.model import kinds
from harness.model.events import CLASSES

if TYPE_CHECKING:
    from collections.abc import Iterator

HARNESS: Final = Path(__file__).parents[2] / "harness"


def literals(source: str) -> Iterator[str]:
    """Yield each comparison of a phase with a text."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Compare(left=ast.Attribute(attr="phase"), comparators=[with_what]):
                for each in ast.walk(with_what):
                    if isinstance(each, ast.Constant) and isinstance(each.value, str):
                        yield ast.unparse(node)


def test_a_phase_is_compared_with_its_enumeration() -> None:
    """A phase that no enumeration has would never be equal, and nobody would notice."""
    assert list(literals('a.phase == "hit"; b.phase in {"x", Y}; c.phase == Y; d == "hit"')) == [
        "a.phase == 'hit'",
        "b.phase in {'x', Y}",
    ]
    found = {
        str(file.relative_to(HARNESS)): told
        for file in HARNESS.rglob("*.py")
        if (told := list(literals(file.read_text(encoding="utf-8"))))
    }
    assert found == {}


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
