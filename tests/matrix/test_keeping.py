"""What stays of cells on the disk, and that nothing is missing which a command reads."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness import registry, systems
from harness.cli.application import main
from harness.matrix import keeping
from harness.matrix.keeping import LARGE_LOG, LOG_END, REMOVED
from harness.matrix.room import new_run
from harness.model.history import HISTORY, LOGS
from harness.model.plan import PLAN_FILE
from tests.cli.played import SCENARIOS, PlayedSystem
from tests.memory.about import SYSTEM
from tests.memory.system import MemoryDeployed

if TYPE_CHECKING:
    from harness.model.cell import Cell
    from harness.model.history import HistoryWriter
    from harness.model.scenario import Deployment, Scenario
    from tests.memory.system import MemoryCellRun

DATA, WORK, LOG = "services/store/base", "work", "logs/consumer.log"
NEEDED = {PLAN_FILE, HISTORY, LOGS}
LAST = "the last line of a long log\n"
KEPT, BROKEN = "none", "loses/exactly-once"


class FillingSystem(PlayedSystem):
    """The play, whose cells and deployments leave data behind, as services of real ones do."""

    def deploy(self, need: Deployment, directory: Path) -> MemoryDeployed:
        """Deploy what leaves a log and a database."""
        (directory / "database").mkdir(parents=True)
        (directory / "database" / "page").write_bytes(bytes(1000))
        (directory / "broker-1.log").write_text("up\n")
        return _Filling(**vars(super().deploy(need, directory)))


class _Filling(MemoryDeployed):
    def cell_run(self, cell: Cell, directory: Path, history: HistoryWriter) -> MemoryCellRun:
        for name in (DATA, WORK, LOGS):
            (directory / name).mkdir(parents=True, exist_ok=True)
        (directory / DATA / "page").write_bytes(bytes(1000))
        (directory / WORK / "link").symlink_to("/etc")
        (directory / "outbox.sqlite").write_bytes(bytes(1000))
        (directory / LOG).write_text("x" * LARGE_LOG + "\n" + LAST)
        (directory / LOGS / "short.log").write_text("ready\n")
        return super().cell_run(cell, directory, history)


FILLING = replace(SYSTEM, launcher="tests.matrix.test_keeping:FillingSystem")


@pytest.fixture(autouse=True)
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The commands see the filling system, and work in a folder of their own."""
    monkeypatch.setitem(systems.SYSTEMS, "memory", "tests.matrix.test_keeping:FILLING")
    monkeypatch.setattr(registry, "scenarios", _scenarios)
    monkeypatch.chdir(tmp_path)


def _scenarios() -> tuple[Scenario, ...]:
    return SCENARIOS


def ran(*more: str, only: tuple[str, ...] = (KEPT, BROKEN)) -> dict[str, Path]:
    """Run cells that leave data; return the folder of one of each kind, by its word."""
    words = [word for name in only for word in ("--only", name)]
    main(["run", "--system", "memory", *words, *more])
    cells = {
        name: next(Path("reports/latest/cells").glob(f"*.{name.replace('/', '.')}*"))
        for name in only
    }
    return {name: cell.resolve() for name, cell in cells.items()}


def left(cell: Path) -> set[str]:
    """Return what is in a folder."""
    return {path.name for path in cell.iterdir()}


@pytest.mark.parametrize(
    ("keep", "kept", "broken"),
    [
        ((), False, True),
        (("--keep", "broken"), False, True),
        (("--keep", "all"), True, True),
        (("--keep", "none"), False, False),
    ],
)
def test_what_stays(keep: tuple[str, ...], *, kept: bool, broken: bool) -> None:
    cells = ran(*keep)
    for name, whole in ((KEPT, kept), (BROKEN, broken)):
        cell = cells[name]
        assert left(cell) >= NEEDED
        assert (left(cell) == NEEDED) is not whole
        assert (cell / DATA / "page").exists() is whole
        log = (cell / LOG).read_text()
        assert log.endswith(LAST)
        assert (len(log) > LARGE_LOG) is whole
        assert whole or (
            len(log) < LOG_END + 200 and log.startswith("(lostack has kept the last 65,536 bytes")
        )
        assert (cell / LOGS / "short.log").read_text() == "ready\n"
    for deployment in Path("reports/latest/deployments").iterdir():
        assert (deployment / "broker-1.log").exists()
        assert (deployment / "database").exists()
    assert not Path("reports/latest", REMOVED).exists()


def test_a_control_that_was_convicted_is_green() -> None:
    """It is broken as it must be, so nobody looks for the reason."""
    [cell] = ran(only=("control-cursor-outside-the-transaction",)).values()
    assert left(cell) == NEEDED


def test_no_command_misses_what_is_gone(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Verdicts, reports, events and the path of a record are the same as with everything there."""
    ran("--keep", "all")
    capsys.readouterr()
    whole = Path("reports/latest").resolve()
    thin = shutil.copytree(whole.parent, tmp_path / "thin", symlinks=True) / whole.name
    for cell in (thin / "cells").iterdir():
        keeping.tidy_folder(cell, thin)
        assert left(cell) == NEEDED
    keeping.clean(thin)
    target = json.loads(next((thin / "cells").glob("*/cell.json")).read_text())["target"]
    for command in (
        ("judge", "RUN", "--json"),
        ("report", "RUN", "--format", "json"),
        ("report", "RUN", "--format", "html"),
        ("report", "RUN", "--record", target),
        ("events", "RUN"),
        ("clients", "RUN"),
    ):
        said = []
        for run in (whole, thin):
            code = main([str(run) if word == "RUN" else word for word in command])
            said.append((code, capsys.readouterr().out))
        assert said[0] == said[1], command


def test_a_run_killed_while_it_removes_leaves_each_part_whole_or_gone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What it had put aside lies in one folder, out of every cell, and the next run removes it."""
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)  # killed before each removal
    [cell] = ran(only=(KEPT,)).values()
    run = cell.parents[1]
    assert left(cell) == NEEDED
    assert any((run / REMOVED).iterdir())
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    photos = tmp_path / "reports" / "photos" / REMOVED / "one.png"
    photos.parent.mkdir(parents=True)
    photos.write_bytes(b"")
    new_run(Path("reports"))
    assert not (run / REMOVED).exists()
    assert photos.exists(), "it lies in no run of lostack's"
    assert left(cell) == NEEDED


def test_what_cannot_be_removed_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a container may be somebody else's; the verdict stands."""

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "services")

    monkeypatch.setattr(Path, "rename", refuse)
    [cell] = ran(only=(KEPT,)).values()
    assert (cell / DATA / "page").exists()
    assert json.loads(Path("reports/latest/report.json").read_text())["summary"]["green"]
