"""A saved run: judged again it says the same, wherever it lies; what is cut or damaged in it is
never taken for evidence.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.cli import main
from harness.judge.verdict import Kind
from harness.matrix.runner import RunPlan, run
from harness.model.history import HISTORY, read_history
from harness.model.plan import PLAN_FILE, Plan
from harness.model.prediction import Permitted
from harness.model.scenario import Predicted
from harness.model.semantics import Semantic
from harness.saved import CELLS, RUN_FILE, SavedRunError, judge_cell, load_run
from scenarios.plain import ACK_LOST, DELIVERY_LOST, NONE
from tests.matrix.troubled import Watched, named
from tests.memory.plants import Plant
from tests.memory.system import MemorySystem

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.saved import CellResult, SavedRun

FORGIVING = replace(
    DELIVERY_LOST, expect={s: Predicted(lost=Permitted(), duplicated=Permitted()) for s in Semantic}
)
"""Nothing is predicted, no sign is asked for: whatever is wrong with the history itself must be
noticed by itself.
"""
PLANTS = {
    "cell-1": Plant(),
    "cell-2": Plant(lose=3),
    "cell-3": Plant(duplicate=2),
    "cell-4": Plant(resurrect=1, tear=1, phantom=1),
    "cell-5": Plant(stop_reading=True),
    "cell-6": Plant(disarm=True),
}


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> SavedRun:
    """Return a run with every verdict, as the runner gave it back."""
    cells = (
        *named(len(PLANTS), ACK_LOST),
        *(replace(cell, semantic=Semantic.EXACTLY_ONCE) for cell in named(len(PLANTS), NONE)),
    )
    plan = RunPlan(
        (MemorySystem(plants=PLANTS),),
        cells,
        (),
        tmp_path_factory.mktemp("saved"),
        2,
        "test",
        (1,),
        24,
    )
    return run(plan, Watched())


@pytest.fixture
def cell(tmp_path: Path) -> Path:
    """Return the folder of a saved cell that is kept, and that nothing else than its history speaks
    for.
    """
    (only,) = named(1, FORGIVING)
    plan = RunPlan(
        (MemorySystem(),),
        (replace(only, semantic=Semantic.AT_MOST_ONCE),),
        (),
        tmp_path,
        1,
        "test",
        (1,),
        24,
    )
    (result,) = run(plan, Watched()).results
    assert result.verdict.kind is Kind.KEPT
    return result.directory


def rows(saved: SavedRun) -> list[dict[str, Any]]:
    """Return what a report would say of each cell."""
    return [result.row() for result in saved.results]


# --- judged again ---------------------------------------------------------------------------------


def test_a_saved_run_judged_again_says_the_same(
    fresh: SavedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every row is the same as in the run itself: judged twice, copied elsewhere, and reached by a
    relative path.
    """
    assert {row["verdict"] for row in rows(fresh)} == {"kept", "broken", "stuck", "void"}
    moved = tmp_path / "else where"
    shutil.copytree(fresh.directory, moved)
    monkeypatch.chdir(tmp_path)
    for directory in (fresh.directory, fresh.directory, moved, Path("else where")):
        again = load_run(directory)
        assert rows(again) == rows(fresh)
        assert (again.info, again.missing, again.whole) == (fresh.info, (), True)


def test_a_cell_with_an_unreadable_history_has_ended(
    cell: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is void, with the reason. Whoever runs what has not ended does not run it again."""
    monkeypatch.setattr("harness.model.history.MOST_BYTES", 1000)
    result = judge_cell(cell)
    assert result.verdict.kind is Kind.VOID
    assert "is larger than 1,000 bytes" in result.verdict.reason
    assert result.ended


@pytest.mark.parametrize("seed", ["1", "2"])
def test_another_process_says_the_same(fresh: SavedRun, seed: str) -> None:
    """Nothing that is said depends on the order of a set: a process that hashes otherwise gives the
    same rows.
    """
    code = (
        "import json, sys; from pathlib import Path; from harness.saved import load_run; "
        "print(json.dumps([result.row() for result in load_run(Path(sys.argv[1])).results]))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(
        [sys.executable, "-c", code, str(fresh.directory)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=environment,
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == rows(fresh)


# --- cut and damaged ------------------------------------------------------------------------------


def without_last_line(text: bytes) -> bytes:
    """Return a file without its last line."""
    return b"".join(text.splitlines(keepends=True)[:-1])


@pytest.mark.parametrize("writer", ["producer-1", "consumer"])
@pytest.mark.parametrize("scenario", ["cell-1", "cell-2", "cell-4"])
def test_a_cut_last_line_is_as_if_it_had_never_been(
    fresh: SavedRun, tmp_path: Path, scenario: str, writer: str
) -> None:
    """Wherever SIGKILL cuts the last line of a program's file, the cell is judged exactly as
    without that line.
    """
    source = next(result.directory for result in fresh.results if result.plan.scenario == scenario)
    shutil.copytree(source, tmp_path / "cell")
    file = tmp_path / "cell" / HISTORY / f"{writer}.jsonl"
    whole = file.read_bytes()
    file.write_bytes(without_last_line(whole))
    expected = judge_cell(tmp_path / "cell")
    last = len(whole) - len(without_last_line(whole))
    for cut in (2, last // 2, last - 1):
        file.write_bytes(whole[:-cut])
        assert judge_cell(tmp_path / "cell").row() == expected.row()
        assert read_history(tmp_path / "cell" / HISTORY).cut_lines == (file.name,)


@pytest.mark.parametrize("writer", ["runner", "wire"])
def test_a_cut_last_line_of_who_is_never_killed_is_damage(cell: Path, writer: str) -> None:
    """Nobody kills runner or wire while a cell is under way: where their file ends inside a line,
    something was cut off it.
    """
    file = cell / HISTORY / f"{writer}.jsonl"
    whole = file.read_bytes()
    for cut in (1, 2, 20):
        file.write_bytes(whole[:-cut])
        verdict = judge_cell(cell).verdict
        assert verdict.kind is Kind.VOID
        assert f"{file.name}:{len(whole.splitlines())} (it ends inside a line)" in verdict.reason
    file.write_bytes(whole)
    assert judge_cell(cell).verdict.kind is Kind.KEPT


@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.rest)])
def test_a_runner_that_died_anywhere_proves_nothing(cell: Path, step: int) -> None:
    """Whichever line of the runner was its last before the one that ends the cell, the cell is
    void: neither kept nor broken.
    """
    file = cell / HISTORY / "runner.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    ends = next(number for number, line in enumerate(lines) if b'"phase":"observed"' in line)
    assert ends == len(lines) - 2
    for number in (*range(0, ends + 1, step), ends + 1):
        file.write_bytes(b"".join(lines[:number]))
        verdict = judge_cell(cell).verdict
        assert verdict.kind is Kind.VOID, (number, verdict)
    file.write_bytes(b"".join(lines))
    assert judge_cell(cell).verdict.kind is Kind.KEPT


def test_a_run_cut_short_convicts_nobody(fresh: SavedRun, tmp_path: Path) -> None:
    """A duplicate was written down, and not all that the authorities had to say: nobody knows what
    else they would have said.
    """
    source = next(
        r.directory
        for r in fresh.results
        if r.plan.scenario == "cell-3" and r.plan.semantic is Semantic.EXACTLY_ONCE
    )
    shutil.copytree(source, tmp_path / "cell")
    file = tmp_path / "cell" / HISTORY / "runner.jsonl"
    assert judge_cell(tmp_path / "cell").verdict.kind is Kind.BROKEN
    file.write_bytes(without_last_line(without_last_line(file.read_bytes())))
    assert judge_cell(tmp_path / "cell").verdict.kind is Kind.VOID


def overwrite(line: bytes) -> bytes:
    """Damage a few bytes."""
    return line[:20] + b"\x00\xff\x00" + line[23:]


def lose_the_end(line: bytes) -> bytes:
    """Lose the end of a line, and go on with the next."""
    return line[: len(line) // 2] + b"\n"


def nest(line: bytes) -> bytes:
    """Put what no parser can go down into."""
    return b"[" * 200_000 + b"\n"


@pytest.mark.parametrize("damage", [overwrite, lose_the_end, nest])
@pytest.mark.parametrize("writer", ["runner", "producer-1", "consumer", "wire"])
def test_damage_in_the_middle_is_void_and_says_where(
    cell: Path, writer: str, damage: Callable[[bytes], bytes]
) -> None:
    file = cell / HISTORY / f"{writer}.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    middle = len(lines) // 2
    file.write_bytes(b"".join([*lines[:middle], damage(lines[middle]), *lines[middle + 1 :]]))
    found = judge_cell(cell)
    assert found.verdict.kind is Kind.VOID
    assert f"the history is damaged at {file.name}:{middle + 1}" in found.verdict.reason


def test_a_history_told_twice_is_void_and_doubles_nothing(cell: Path) -> None:
    """A file copied beside itself is told twice: void, and every count stays as it was."""
    before = judge_cell(cell)
    for file in sorted((cell / HISTORY).glob("*.jsonl")):
        shutil.copy(file, file.with_name(f"{file.stem} (copy).jsonl"))
    found = judge_cell(cell)
    assert (found.verdict.kind, found.judgement.account.counts) == (
        Kind.VOID,
        before.judgement.account.counts,
    )
    assert "(told twice)" in found.verdict.reason


def test_the_history_of_another_cell_is_void_and_counts_nothing(
    fresh: SavedRun, cell: Path
) -> None:
    """A cell whose folder holds the files of another as well is void, for its own account stays
    what it was.
    """
    before = judge_cell(cell)
    other = next(r.directory for r in fresh.results if r.plan.id != before.plan.id)
    for file in sorted((other / HISTORY).glob("*.jsonl")):
        shutil.copy(file, cell / HISTORY / f"other-{file.name}")
    found = judge_cell(cell)
    assert (found.verdict.kind, found.judgement.account.counts) == (
        Kind.VOID,
        before.judgement.account.counts,
    )
    assert "(of another cell)" in found.verdict.reason


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("visible", "false"),
        ("intact", 1),
        ("offset", 2.9),
        ("offset", True),
        ("offset", "2"),
        ("record", 7),
    ],
)
def test_a_field_of_another_type_is_void(cell: Path, field: str, value: object) -> None:
    """Nothing is guessed: a truth value in quotes is true to a machine, and half an offset would be
    cut.
    """
    file = cell / HISTORY / "runner.jsonl"
    events = [json.loads(line) for line in file.read_text().splitlines()]
    next(event for event in events if event["event"] == "stored")[field] = value
    file.write_text("".join(f"{json.dumps(event)}\n" for event in events))
    verdict = judge_cell(cell).verdict
    assert verdict.kind is Kind.VOID
    assert re.search(rf"runner.jsonl:\d+ \(stored: Expected .*{field}`", verdict.reason)


# --- the plan -------------------------------------------------------------------------------------


def rewrite(cell: Path, **changes: object) -> None:
    """Change a cell's plan in its file; ``None`` takes a word away."""
    file = cell / PLAN_FILE
    plain = {**json.loads(file.read_text()), **changes}
    file.write_text(
        json.dumps(
            {
                name: value
                for name, value in plain.items()
                if value is not None or name not in changes
            }
        )
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"semantic": "at-least-once"},
        {"target": "k1-99"},
        {"logs": {"topic": 1}},
        {"logs": {}},
        {"sign": "absorbed"},
        {"seal": "0" * 64},
        {"seal": None},
        {"schema": 1},
        {"because": "Another reason."},
    ],
)
def test_a_plan_that_was_changed_judges_nothing(cell: Path, changes: dict[str, Any]) -> None:
    """Whatever is changed in it, the cell is void, says why, and is still shown with the rest of
    its run.
    """
    rewrite(cell, **changes)
    for found in (judge_cell(cell), *load_run(cell.parent.parent).results):
        assert found.verdict.kind is Kind.VOID
        assert (
            found.verdict.reason
            == "cell.json was changed after the cell began: its seal does not match its content"
        )
        assert not found.verdict.green


def test_a_plan_that_was_sealed_anew_is_not_the_one_of_the_cell(cell: Path) -> None:
    """The history's first line has the seal of the plan that the cell was begun with."""
    plan = replace(Plan.load(cell), because="Another reason.")
    (cell / PLAN_FILE).write_text(plan.to_json())
    assert judge_cell(cell).verdict.reason == "the plan is not the one with which the cell began"


def test_a_sealed_plan_does_not_pass_for_an_old_one(cell: Path) -> None:
    """Without its version and its seal it is taken for one of before there were seals; its history
    knows better.
    """
    rewrite(cell, schema=None, seal=None, logs=None)
    assert Plan.load(cell).schema == 1
    assert judge_cell(cell).verdict.reason == "the plan is not the one with which the cell began"


def test_an_old_plan_is_judged_as_it_is(cell: Path) -> None:
    """It has no seal, says so by its version, and its history has none either: what was written
    before there were any.
    """
    rewrite(cell, schema=None, seal=None, logs=None)
    file = cell / HISTORY / "runner.jsonl"
    text = file.read_text()
    file.write_text(re.sub(r',"seal":"[0-9a-f]{64}"', "", text))
    assert (Plan.load(cell).schema, Plan.load(cell).seal, judge_cell(cell).verdict.kind) == (
        1,
        None,
        Kind.KEPT,
    )


def test_the_spelling_of_a_plan_is_not_sealed(cell: Path) -> None:
    text = (cell / PLAN_FILE).read_text()
    (cell / PLAN_FILE).write_text(
        json.dumps(dict(reversed(json.loads(text).items())), indent=7, ensure_ascii=False)
    )
    assert judge_cell(cell).verdict.kind is Kind.KEPT


def test_a_plan_of_a_newer_version_is_one_clear_line(cell: Path) -> None:
    rewrite(cell, schema=99, something="new")
    with pytest.raises(
        SavedRunError,
        match=r"cell.json was written by a newer lostack \(schema 99, .*upgrade to read it",
    ):
        load_run(cell.parent.parent)


# --- what cannot be read --------------------------------------------------------------------------


def no_history(folder: Path) -> None:
    """Take the history away."""
    shutil.rmtree(folder)


def empty_history(folder: Path) -> None:
    """Empty every file."""
    for file in folder.iterdir():
        file.write_bytes(b"")


def a_folder_for_a_file(folder: Path) -> None:
    """Put a folder where a file should be."""
    (folder / "more.jsonl").mkdir()


@pytest.mark.parametrize("spoil", [no_history, empty_history, a_folder_for_a_file])
def test_a_history_that_cannot_be_read_is_void(cell: Path, spoil: Callable[[Path], None]) -> None:
    """No history, an empty one, one that the system will not read: void, with the rest of the run
    as it is.
    """
    spoil(cell / HISTORY)
    saved = load_run(cell.parent.parent)
    assert [result.verdict.kind for result in saved.results] == [Kind.VOID]
    assert saved.results[0].verdict.reason


def test_a_nested_run_file_is_one_clear_line(cell: Path) -> None:
    """A run.json that no parser can go down into is SavedRunError, like any damage."""
    (cell.parent.parent / RUN_FILE).write_text("[" * 200_000)
    with pytest.raises(SavedRunError, match="is damaged"):
        load_run(cell.parent.parent)


def test_a_run_without_one_of_its_cells_is_not_whole(fresh: SavedRun, tmp_path: Path) -> None:
    """A planned cell whose folder is gone is missing by name, and the run is not whole, though it
    once was complete.
    """
    shutil.copytree(fresh.directory, tmp_path / "run")
    gone: CellResult = fresh.results[3]
    shutil.rmtree(tmp_path / "run" / CELLS / gone.directory.name)
    saved = load_run(tmp_path / "run")
    assert (saved.missing, saved.info.complete, saved.whole) == ((gone.plan.id,), True, False)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"{}", "it has no '"),
        (b"[]", "it does not have the expected form"),
        (b'"\xff"', "it is not UTF-8 from byte 1 on"),
        (b"[" * 100_000, "it is nested too deeply"),
        (b"", "Expecting value: line 1 column 1"),
    ],
)
@pytest.mark.parametrize("command", ["judge", "report", "events"])
def test_what_is_damaged_is_told_in_plain_words(
    cell: Path, capsys: pytest.CaptureFixture[str], command: str, text: bytes, said: str
) -> None:
    directory = cell.parents[1]
    whole = (directory / RUN_FILE).read_bytes()
    for file in (directory / RUN_FILE, cell / PLAN_FILE):
        file.write_bytes(text)
        assert main([command, str(directory)]) == 2
        told = capsys.readouterr().err
        assert str(file) in told
        assert said in told
        assert told.count("\n") == 1
        (directory / RUN_FILE).write_bytes(whole)


def test_events_of_a_run_without_cells(cell: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = cell.parents[1]
    shutil.rmtree(cell)
    assert main(["events", str(directory)]) == 2
    assert "has no cell: it ended before its first cell" in capsys.readouterr().err


def test_a_pattern_that_means_no_cell_is_blamed(
    cell: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["report", "--record", "k1-1"], ["events"]):
        assert main([words[0], str(cell.parents[1]), *words[1:], "--only", "nope"]) == 2
        assert "matches 'nope'" in capsys.readouterr().err
