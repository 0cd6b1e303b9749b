"""Saved real runs, judged again: every verdict and every count is what it was."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from harness.model.history import HISTORY
from harness.saved import judge_cell
from tests.gate.saved import EXPECTED, archives, said_of, unpack

if TYPE_CHECKING:
    from pathlib import Path


def differences(cells: list[Path]) -> dict[str, Any]:
    """Return what is said now and was said before, by the name of each cell of which
    that differs.
    """
    found = {}
    for cell in cells:
        now = said_of(judge_cell(cell))
        before = json.loads((cell / EXPECTED).read_text(encoding="utf-8"))
        now["counts"] = {
            name: now["counts"].get(name) for name in before["counts"]
        }  # there may be more columns since
        if now != before:
            found[cell.name] = {"now": now, "before": before}
    return found


@pytest.mark.parametrize("archive", archives(), ids=lambda file: file.name.partition(".")[0])
def test_what_was_said_of_a_saved_run_is_said_again(archive: Path, tmp_path: Path) -> None:
    """Where a rule was wrong, the difference is meant: the archive is written anew, and the change
    says why.
    """
    cells = unpack(archive, tmp_path)
    assert cells
    assert differences(cells) == {}


def test_a_line_less_is_noticed(tmp_path: Path) -> None:
    """The comparison can fail: a result that is taken out of a history is a count less."""
    cells = unpack(archives()[0], tmp_path)
    cell = next(
        cell for cell in cells if json.loads((cell / EXPECTED).read_text())["counts"]["recorded"]
    )
    file = next(
        file for file in (cell / HISTORY).glob("*.jsonl") if b'"recorded"' in file.read_bytes()
    )
    lines = file.read_bytes().splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if b'"event":"recorded"' in line)
    file.write_bytes(b"".join(lines[:at] + lines[at + 1 :]))
    assert list(differences([cell])) == [cell.name]
