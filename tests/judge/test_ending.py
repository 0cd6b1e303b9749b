"""A history ends by what its files held: whatever is missing later voids the cell."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from harness.judge.verdict import Kind
from harness.model.ending import RUNNER, end_anew
from harness.model.history import HISTORY
from harness.model.plan import PLAN_FILE, sealed_anew
from harness.model.semantics import Semantic
from harness.report.publishing import without_folders
from harness.saved import CELLS, judge_cell, load_run
from scenarios.plain import PRODUCER_CRASH_BEFORE_ACK
from tests.memory.plants import Plant
from tests.planted.lies import run_planted

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from harness.saved import CellResult


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> CellResult:
    """Return a cell that is kept, and whose producer was killed."""
    plants = {"whole": (PRODUCER_CRASH_BEFORE_ACK, Semantic.AT_LEAST_ONCE, Plant())}
    return run_planted(plants, tmp_path_factory.mktemp("reports"))["whole"]


@pytest.fixture
def cell(kept: CellResult, tmp_path: Path) -> Path:
    """Return a copy of its folder."""
    assert kept.verdict.kind is Kind.KEPT, kept.verdict.reason
    return shutil.copytree(kept.directory, tmp_path / "cell")


def names(cell: Path) -> list[str]:
    """Return the names of the files of its history."""
    found = sorted(file.name for file in (cell / HISTORY).iterdir())
    assert len(found) > 4
    assert {RUNNER, "wire.jsonl", "producer-1.jsonl", "producer-2.jsonl"} <= set(found)
    return found


def void(cell: Path, said: str) -> None:
    """Hold that a cell is void, and why. Where the runner's own lines are gone, the cell is told
    as cut short.
    """
    found = judge_cell(cell).verdict
    assert found.kind is Kind.VOID
    if said.startswith(RUNNER) and "cut short before the drain" in found.reason:
        return
    assert found.reason.startswith("the history is damaged at ")
    assert said in found.reason


def renumbered(lines: list[bytes]) -> bytes:
    """Return lines with the numbers that they would have if no other had ever been there."""
    events = [json.loads(line) | {"line": number} for number, line in enumerate(lines, start=1)]
    return b"".join(json.dumps(e, separators=(",", ":")).encode() + b"\n" for e in events)


DAMAGES: dict[str, Callable[[list[bytes]], bytes]] = {
    "the last line": lambda lines: b"".join(lines[:-1]),
    "all but the first": lambda lines: lines[0],
    "half of the last line": lambda lines: b"".join(lines)[: -len(lines[-1]) // 2],
    "a line in the middle": lambda lines: b"".join(lines[:1] + lines[2:]),
    "a line in the middle, and the numbers mended": lambda lines: renumbered(lines[:1] + lines[2:]),
    "everything": lambda _: b"",
}


def test_a_history_ends_with_what_its_files_held(cell: Path) -> None:
    assert judge_cell(cell).verdict.kind is Kind.KEPT
    last = json.loads((cell / HISTORY / RUNNER).read_bytes().splitlines()[-1])
    assert last["phase"] == "ended"
    assert sorted(last["files"]) == names(cell)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_line_that_is_cut_out_of_any_file_is_missed(cell: Path, damage: str) -> None:
    """Whole lines at the end of a file were not, for a writer that was killed has no last line."""
    tried = 0
    for name in names(cell):
        file = cell / HISTORY / name
        whole = file.read_bytes()
        lines = whole.splitlines(keepends=True)
        if len(lines) > 2 or damage == "everything":
            file.write_bytes(DAMAGES[damage](lines))
            void(cell, name)
            file.write_bytes(whole)
            tried += 1
    assert tried > 3
    assert judge_cell(cell).verdict.kind is Kind.KEPT


def test_a_file_that_is_gone_is_missed(cell: Path) -> None:
    """Of 14 cells without their producers' files all were kept."""
    for name in names(cell):
        file = cell / HISTORY / name
        whole = file.read_bytes()
        file.unlink()
        void(cell, f"{name} (it{'s end is missing' if name == RUNNER else ' is gone'}")
        file.write_bytes(whole)


def test_a_file_of_another_place_or_time_is_seen(cell: Path) -> None:
    first, second = (cell / HISTORY / f"producer-{number}.jsonl" for number in (1, 2))
    deeper = cell / HISTORY / "aa" / "wire.jsonl"
    deeper.parent.mkdir()
    deeper.write_bytes(b"")
    void(cell, "aa/wire.jsonl (it came after the cell had ended)")
    shutil.rmtree(deeper.parent)
    copy = cell / HISTORY / "producer-9.jsonl"
    shutil.copy(first, copy)
    void(cell, "told twice")
    copy.write_bytes(b"")
    void(cell, "producer-9.jsonl (it came after the cell had ended)")
    copy.unlink()
    contents = first.read_bytes(), second.read_bytes()
    assert contents[0] != contents[1]
    second.write_bytes(contents[0])
    first.write_bytes(contents[1])
    void(cell, "producer-1.jsonl")
    first.write_bytes(contents[0])
    second.write_bytes(contents[1] + contents[1].splitlines(keepends=True)[-1])
    void(cell, "producer-2.jsonl")
    second.write_bytes(contents[1].replace(b'"record"', b'"recorD"', 1))
    void(cell, "producer-2.jsonl (changed since the cell ended)")


def test_a_history_of_an_earlier_version_is_judged_as_it_was(cell: Path) -> None:
    plan, runner = cell / PLAN_FILE, cell / HISTORY / RUNNER
    old = json.loads(plan.read_text())["seal"]
    plan.write_text(sealed_anew(json.dumps(json.loads(plan.read_text()) | {"schema": 3})))
    runner.write_text(runner.read_text().replace(old, json.loads(plan.read_text())["seal"]))
    producer = cell / HISTORY / "producer-2.jsonl"
    producer.write_bytes(b"".join(producer.read_bytes().splitlines(keepends=True)[:-1]))
    assert judge_cell(cell).verdict.kind is Kind.KEPT


def test_a_copy_with_other_folders_ends_by_its_own_files(kept: CellResult, tmp_path: Path) -> None:
    run = load_run(kept.directory.parents[1])
    copied = without_folders(run, tmp_path / "copy") / CELLS / kept.directory.name
    assert judge_cell(copied).verdict.kind is Kind.KEPT
    broken = shutil.copytree(kept.directory, tmp_path / "broken") / HISTORY
    producer = broken / "producer-2.jsonl"
    producer.write_bytes(b"".join(producer.read_bytes().splitlines(keepends=True)[:-1]))
    shutil.copy(producer, copied / HISTORY)
    end_anew(broken, copied / HISTORY)
    void(copied, "producer-2.jsonl (")
