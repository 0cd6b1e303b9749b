"""A run of many seeds: what differs by seed is told, one that was ended goes on, the disk does not
fill, and a leak shows.
"""

from __future__ import annotations

import importlib
import json
import os
import shlex
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

import pytest

from harness import cli, systems
from harness.matrix.runner import RunPlan
from harness.model.cell import Cell
from harness.model.code import code_of as code_of_lostack
from harness.model.exits import ExitCode
from harness.model.keep import Keep
from harness.model.semantics import Semantic
from harness.saved import CELLS
from harness.soak import waves
from harness.soak.seeds import (
    HELD_FILE,
    ROWS_FILE,
    SEEDS_FILE,
    Seeds,
    as_json,
    as_lines,
    code_of,
    run_seeds,
)
from harness.soak.waves import RUNS, SoakError
from scenarios import plain
from tests.memory.plants import Plant
from tests.memory.system import MemoryDeployed, MemorySystem
from tests.soak.test_waves import Heard, left_of_killed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from harness.model.history import HistoryWriter
    from harness.model.scenario import Deployment
    from tests.memory.system import MemoryCellRun

SEEDS = (1, 2, 3)
FAULTS = (plain.ACK_LOST, plain.COMMIT_LOST)


@dataclass(frozen=True)
class Losing(MemoryDeployed):
    """Loses a record at some seeds."""

    at: Sequence[int] = ()

    def cell_run(self, cell: Cell, directory: Path, history: HistoryWriter) -> MemoryCellRun:
        """Return the run of one cell, which loses if it is of such a seed."""
        plant = Plant(lose=1) if cell.seed in self.at else Plant()
        return MemoryDeployed(plant, {}).cell_run(cell, directory, history)


@dataclass
class Losers(MemorySystem):
    """Deploys what loses ``at`` some seeds; ``leaks``: each deployment keeps a file open."""

    at: Sequence[int] = ()
    leaks: bool = False
    kept: list[IO[str]] = field(default_factory=list)

    def deploy(self, need: Deployment, directory: Path) -> Losing:
        """Return a deployment without processes."""
        del need
        if self.leaks:
            directory.parent.mkdir(parents=True, exist_ok=True)
            self.kept += [directory.with_suffix(f".{n}").open("w") for n in range(8)]
        return Losing(Plant(), {}, self.at)


def asked(
    folder: Path, system: MemorySystem, *, hours: float | None = None, **options: Any
) -> Seeds:
    """Ask for two faults at three seeds."""
    cells = tuple(
        Cell(one, Semantic.AT_LEAST_ONCE, "memory", "memory", "process", seed, 24)
        for one in FAULTS
        for seed in SEEDS
    )
    plan = RunPlan((system,), cells, (), folder, 1, "lostack run", SEEDS, 24, **options)
    return Seeds(folder, plan, lambda _: False, hours)


def on_disk(folder: Path) -> list[str]:
    """Return the cells of which everything is there."""
    return sorted(each.name for each in (folder / RUNS).glob(f"2*/{CELLS}/*"))


def test_what_differs_by_seed_is_told(tmp_path: Path) -> None:
    """A record is lost at seed 2. That cell's folder stays, and a line of each other cell."""
    one = asked(tmp_path, Losers(at=[2]))
    found = run_seeds(one, Heard())
    assert [(row.seed, row.green) for row in found.rows] == [
        (1, True), (1, True), (2, False), (2, False), (3, True), (3, True)
    ]  # fmt: skip
    assert len(found.flips) == 2
    lines = as_lines(found, one)
    assert [line.partition(" ")[0] for line in lines[:4]] == ["broken", "", "broken", ""]
    assert all(line.startswith("  saved: ") for line in lines[1:4:2])
    told = "\n".join(lines)
    assert told.count("kept at seeds 1, 3; broken at seed 2") == 2
    assert "6 cells of 3 seeds: 4 kept, 2 broken; 2 differ by seed" in told
    assert code_of(found, one) is ExitCode.BROKEN
    assert [name.rpartition(".")[2] for name in on_disk(tmp_path)] == ["s2", "s2"]
    saved = [row.saved for row in found.rows if row.saved]
    assert all((tmp_path / each / "cell.json").is_file() for each in saved)
    assert len(as_json(found, one)["cells"]) == 6


def test_all_green_leaves_lines_alone(tmp_path: Path) -> None:
    one = asked(tmp_path, Losers())
    found = run_seeds(one, Heard())
    assert code_of(found, one) is ExitCode.KEPT
    assert not found.flips
    assert on_disk(tmp_path) == []
    assert sorted(each.name for each in (tmp_path / RUNS).iterdir()) == [".lostack-runs"]


def test_everything_stays_where_it_is_asked_for(tmp_path: Path) -> None:
    """Also what an interrupted command kept; who forgets the option hears of it."""
    run_seeds(asked(tmp_path, Losers(), keep=Keep.ALL), Heard(most=4))
    with pytest.raises(SoakError, match=r"begun with other settings \(keep\)"):
        run_seeds(asked(tmp_path, Losers()), Heard())
    run_seeds(asked(tmp_path, Losers(), keep=Keep.ALL), Heard())
    whole = {name.removesuffix("-2") for name in on_disk(tmp_path)}
    assert len(whole) == 6


def test_a_broken_system_does_not_fill_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waves, "MOST_SAVED", 1)
    found = run_seeds(asked(tmp_path, Losers(at=SEEDS)), Heard())
    assert [bool(row.saved) for row in found.rows] == [True] + 5 * [False]
    assert len(on_disk(tmp_path)) == 1


def test_it_goes_on_where_it_was_ended(tmp_path: Path) -> None:
    """Ctrl-C, then what a SIGKILL leaves: a line cut off, and a cell that had not ended."""
    part = run_seeds(asked(tmp_path, Losers(at=[3])), Heard(most=4))
    assert part.interrupted
    assert 0 < len(part.rows) < 6
    assert code_of(part, asked(tmp_path, Losers())) is ExitCode.INTERRUPTED
    for name, cut in ((ROWS_FILE, '{"cell": "kaf'), (HELD_FILE, '{"seed": 1, "descr')):
        with (tmp_path / name).open("a") as opened:
            opened.write(cut)
    left_of_killed(tmp_path / RUNS, "half.s2")
    one = asked(tmp_path, Losers(at=[3]))
    whole = run_seeds(one, Heard())
    assert whole.rows[: len(part.rows)] == part.rows
    assert sorted(row.cell for row in whole.rows) == sorted(cell.id for cell in one.plan.cells)
    held = [json.loads(line)["seed"] for line in (tmp_path / HELD_FILE).read_text().splitlines()]
    assert held == sorted(held)
    assert held[-1] == 3
    assert [name.rpartition(".")[2] for name in on_disk(tmp_path)] == ["s3", "s3"]
    assert run_seeds(one, Heard()).rows == whole.rows, "nothing is left to run"


def test_a_history_that_cannot_be_read_is_a_void_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row says why, and the history stays."""
    monkeypatch.setattr("harness.model.history.MOST_BYTES", 1000)
    one = asked(tmp_path, Losers())
    found = run_seeds(one, Heard())
    assert [row.label for row in found.rows] == 6 * ["void"]
    assert all("is larger than 1,000 bytes" in row.reason for row in found.rows)
    assert len(on_disk(tmp_path)) == 6


def test_another_run_is_not_continued(tmp_path: Path) -> None:
    run_seeds(asked(tmp_path, Losers()), Heard())
    other = asked(tmp_path, Losers())
    cells = other.plan.cells[:3]
    with pytest.raises(SoakError, match=r"begun with other settings \(cells\)"):
        run_seeds(Seeds(tmp_path, RunPlan((Losers(),), cells, (), tmp_path, 1, "", SEEDS, 24),
                        lambda _: False), Heard())  # fmt: skip
    (tmp_path / ROWS_FILE).write_text('{"cell": 1}\n')
    with pytest.raises(SoakError, match="is damaged"):
        run_seeds(other, Heard())


def test_other_code_does_not_continue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of the system has changed since; and a folder of a lostack that named no code. With
    the code as it was the run goes on.
    """
    package = tmp_path / "brought"
    package.mkdir()
    (package / "__init__.py").touch()
    file = package / "system.py"
    line = "from tests.soak.test_seeds import Losers\nclass Brought(Losers): ...\n"
    file.write_text(line)
    monkeypatch.syspath_prepend(str(tmp_path))
    folder = tmp_path / "seeds"
    one = asked(folder, importlib.import_module("brought.system").Brought())
    run_seeds(one, Heard(most=4))
    file.write_text(f"{line}# mended\n")
    code_of_lostack.cache_clear()
    other = r"begun by lostack 0\S+\+\w{12}, and this is 0\S+\+\w{12}: continue with that one, or"
    with pytest.raises(SoakError, match=other):
        run_seeds(one, Heard())
    file.write_text(line)
    code_of_lostack.cache_clear()
    assert len(run_seeds(one, Heard()).rows) == 6
    settings = json.loads((folder / SEEDS_FILE).read_text())
    del settings["lostack"]
    (folder / SEEDS_FILE).write_text(json.dumps(settings))
    with pytest.raises(SoakError, match="begun by lostack of an older version, and this is"):
        run_seeds(one, Heard())


def test_the_hours_are_over(tmp_path: Path) -> None:
    """No further cell begins; whoever continues runs the others."""
    now = iter(range(0, 10**6, 1000))
    one = asked(tmp_path, Losers(), hours=1)
    part = run_seeds(one, Heard(), clock=lambda: next(now))
    assert len(part.rows) < 6
    assert code_of(part, one) is ExitCode.VOID
    assert any(f"PARTIAL, {len(part.rows)} of 6 cells" in line for line in as_lines(part, one))
    assert len(run_seeds(one, Heard()).rows) == 6


def test_a_leak_shows(tmp_path: Path) -> None:
    """A system that keeps files open: the descriptors grow from seed to seed. A right one's do
    not.
    """
    right = run_seeds(asked(tmp_path / "right", Losers()), Heard()).held
    assert right[-1].descriptors - right[0].descriptors < 8
    system = Losers(leaks=True)
    one = asked(tmp_path / "leaking", system)
    found = run_seeds(one, Heard())
    for each in system.kept:
        each.close()
    assert [each.seed for each in found.held] == [*SEEDS]
    first, last = found.held[0].descriptors, found.held[-1].descriptors
    assert last - first >= 16
    assert f"held behind seed 1 and behind seed 3: descriptors {first} and {last}" in "\n".join(
        as_lines(found, one)
    )


def test_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(systems.SYSTEMS, "memory", "tests.cli.played:PLAYED")
    line = "run --system memory --only plain/none/at-least-once --seeds 2 --json --hours"
    assert cli.main(shlex.split(f"{line} 0")) == ExitCode.VOID
    told = capsys.readouterr()
    assert "to continue: lostack run with the same options and --resume reports/seeds-" in told.err
    [folder] = tmp_path.glob("reports/seeds-*")
    assert cli.main(shlex.split(f"{line} 1 --resume {os.path.relpath(folder)}")) == ExitCode.KEPT
    assert [row["seed"] for row in json.loads(capsys.readouterr().out)["cells"]] == [1, 2]
    assert cli.main(shlex.split(f"{line} 1 --resume .")) == ExitCode.USAGE
    assert "it has no seeds.json" in capsys.readouterr().err
