"""A sweep or a soak that somebody else has made: no command leaves its folder, waits for a FIFO, or
fills the memory.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from errno import ENOSPC
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final

import pytest

from harness.cli.application import main
from harness.faults import Drop
from harness.model import safe_files
from harness.model.exits import ExitCode
from harness.model.failures import UsageError
from harness.soak.waves import SOAK_FILE, WAVES_FILE
from harness.sweep import exporting, telling
from harness.sweep.found import FoundScenario
from harness.sweep.shrinking import shrink_all
from tests.memory.plants import Plant
from tests.sweep.stepping import RIGHT, Quiet, sweep

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.model.cell import Cell
    from harness.sweep.settings import SweepSettings
    from harness.sweep.sweeping import Sweep

MINE: Final = "the line that only the user may read"
DEEP: Final = "[" * 100_000


def _wrong(cell: Cell) -> Plant:
    return Plant(lose=1) if isinstance(cell.scenario.fault, Drop) else RIGHT


def _again(asked: SweepSettings, directory: Path) -> Sweep:
    return sweep(directory, _wrong, acts=asked.acts)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a sweep with a finding."""
    one = sweep(tmp_path_factory.mktemp("made") / "sweep", _wrong, acts=("lose",))
    one.dry_run(Quiet())
    planned = one.plan()
    one.run(planned, Quiet())
    shrink_all(one, one.outcomes(planned), planned.usual, Quiet(), until=0.0)
    return one.directory


class Foreign:
    """A copy of the sweep, and beside it what is the user's."""

    def __init__(self, made: Path, folder: Path) -> None:
        self.sweep = Path(shutil.copytree(made, folder / "sweep", symlinks=True))
        [self.finding] = (self.sweep / "found").iterdir()
        self.mine = folder / "mine"
        self.mine.mkdir()
        (self.mine / "key").write_text(MINE)
        self.out = folder / "out"

    def instead(self, name: str, target: Path | str) -> None:
        """Put a link where a file or a folder is, or may be."""
        file = self.sweep / name
        if file.is_dir() and not file.is_symlink():
            shutil.rmtree(file)
        file.unlink(missing_ok=True)
        file.symlink_to(target)

    def fifo(self, name: str) -> None:
        """Put a FIFO where a file is."""
        (self.sweep / name).unlink(missing_ok=True)
        os.mkfifo(self.sweep / name)

    def names(self, declaration: Path) -> None:
        """Let the finding name a declaration, and the sweep, too, if it is one of a declared
        pipeline.
        """
        text = self.finding.read_text()
        old = next(line for line in text.splitlines() if line.startswith("pipeline = "))
        self.finding.write_text(text.replace(old, f"declaration = {json.dumps(str(declaration))}"))

    def check_untouched(self) -> None:
        """The user's file is as it was, alone, and no copy of it was made."""
        assert [path.name for path in self.mine.iterdir()] == ["key"]
        assert (self.mine / "key").read_text() == MINE
        for file in (*self.sweep.rglob("*"), *self.out.rglob("*")):
            if file.is_file() and not file.is_symlink():
                assert MINE.encode() not in file.read_bytes(), file


@pytest.fixture
def foreign(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Foreign:
    """Return a copy of the sweep, which is reported and exported as the play that it is of."""
    monkeypatch.setattr(exporting, "sweep_of", _again)
    monkeypatch.setattr(telling, "sweep_of", _again)
    return Foreign(made, tmp_path)


def _outputs(one: Foreign, target: str) -> None:
    for name in ("sweep.html", "result.json", ".sweep.html.part", ".result.json.part"):
        one.instead(name, one.mine / target)


HOSTILE: Final[dict[str, Callable[[Foreign], None]]] = {
    "sweep.json is a link": lambda one: one.instead("sweep.json", one.mine / "key"),
    "sweep.json is a FIFO": lambda one: one.fifo("sweep.json"),
    "sweep.json is without an end": lambda one: one.instead("sweep.json", "/dev/zero"),
    "sweep.json is deep": lambda one: [(one.sweep / "sweep.json").write_text(DEEP)].clear(),
    "outputs are links": lambda one: _outputs(one, "key"),
    "outputs lead to nothing yet": lambda one: _outputs(one, "new"),
    "the points are a link": lambda one: one.instead("points", one.mine),
    "the dry runs are a link": lambda one: one.instead("dry", one.mine),
    "the findings are a link": lambda one: one.instead("found", one.mine),
    "a finding is a link": lambda one: one.instead(f"found/{one.finding.name}", one.mine / "key"),
    "a finding is a FIFO": lambda one: one.fifo(f"found/{one.finding.name}"),
    "a finding is without an end": lambda one: one.instead(
        f"found/{one.finding.name}", "/dev/zero"
    ),
    "a finding is deep": lambda one: [one.finding.write_text(f"x = {DEEP}")].clear(),
    "a finding names a file of the user's": lambda one: one.names(one.mine / "key"),
    "a finding names a device": lambda one: one.names(Path("/dev/zero")),
    "a run's own file is a link": lambda one: one.instead(
        str(next((one.sweep / "points").glob("*/run.json")).relative_to(one.sweep)),
        one.mine / "key",
    ),
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("how", HOSTILE)
def test_no_command_leaves_the_folder_of_a_sweep(
    how: str,
    foreign: Foreign,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """A report and an export end by themselves, with an exit code; what is the user's is neither
    changed, copied nor shown.
    """
    monkeypatch.chdir(tmp_path)
    HOSTILE[how](foreign)
    for arguments in (
        ["report", str(foreign.sweep)],
        ["export", str(foreign.finding), "--to", str(foreign.out)],
    ):
        assert main(arguments) in frozenset(ExitCode) - {ExitCode.INTERRUPTED}
        told = capsys.readouterr()
        assert MINE not in told.out + told.err
        assert "Traceback" not in told.err
        assert told.err.count("\n") <= 1
        foreign.check_untouched()


def test_only_the_sweeps_own_declaration_is_exported(
    foreign: Foreign, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that a finding names is not copied because it names it."""
    foreign.names(foreign.mine / "key")
    assert main(["export", str(foreign.finding), "--to", str(foreign.out)]) == ExitCode.USAGE
    assert "names another declaration than that of its sweep" in capsys.readouterr().err
    assert not foreign.out.exists()


def test_a_file_that_is_no_declaration_is_not_exported(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not even if the sweep names it, too: it is read as one first, and that line shows nothing of
    it.
    """
    foreign = Foreign(made, tmp_path)
    foreign.names(foreign.mine / "key")
    settings = foreign.sweep / "sweep.json"
    said = json.loads(settings.read_text()) | {"what": str(foreign.mine / "key"), "declared": True}
    settings.write_text(json.dumps(said))
    assert main(["export", str(foreign.finding), "--to", str(foreign.out)]) == ExitCode.USAGE
    told = capsys.readouterr().err
    assert "is not TOML" in told
    assert MINE not in told
    assert not foreign.out.exists()


def test_a_refused_export_leaves_nothing_and_the_next_one_works(
    foreign: Foreign, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether the declaration's secrets cannot be masked, the history is unreadable, or the disk is
    full.
    """
    declaration = foreign.sweep / "pipeline.toml"
    declaration.write_text("x = nan # not a number\n")
    named = replace(FoundScenario.load(foreign.finding), declaration=str(declaration))
    asked = SimpleNamespace(declared=True, what=str(declaration), acts=("lose",))
    monkeypatch.setattr(exporting, "FoundScenario", SimpleNamespace(load=lambda *_: named))
    monkeypatch.setattr(exporting, "SweepSettings", SimpleNamespace(load=lambda _: asked))
    arguments = ["export", str(foreign.finding), "--to", str(foreign.out / "of" / "mine")]

    def refuse(*_: object) -> str:
        raise UsageError("it is refused")

    write_whole = safe_files.write_whole

    def write(below: Path, name: str, content: str) -> None:
        if name == foreign.finding.name:
            raise OSError(ENOSPC, "No space left on device")
        write_whole(below, name, content)

    for where, name, instead in (
        (exporting, "_concealed", refuse),
        (exporting, "_lines", refuse),
        (safe_files, "write_whole", write),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(where, name, instead)
            assert main(arguments) in {ExitCode.USAGE, ExitCode.ENVIRONMENT}
        assert [path.name for path in foreign.out.rglob("*")] in ([], ["of"])
        assert capsys.readouterr().err.count("\n") == 1
    assert main(arguments) == ExitCode.KEPT
    written = foreign.out / "of" / "mine"
    assert (written / "pipeline.toml").read_text() == declaration.read_text()
    assert 'declaration = "pipeline.toml"' in (written / foreign.finding.name).read_text()
    assert written.stat().st_mode == foreign.mine.stat().st_mode


@pytest.mark.parametrize("name", [SOAK_FILE, WAVES_FILE, "runs", "legs", "faults"])
@pytest.mark.parametrize("kind", ["link", "FIFO", "device"])
def test_a_soak_that_is_continued_stays_in_its_folder(
    name: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says in one line which of its files is none, before anything is run."""
    folder, mine = tmp_path / "soak", tmp_path / "mine"
    mine.mkdir()
    (mine / "key").write_text(MINE)
    arguments = ["soak", "plain", "--system", "memory", "--only", "ack-lost", "--records", "24"]
    assert main([*arguments, "--reports", str(tmp_path / "first")]) in frozenset(ExitCode)
    [first] = (path for path in (tmp_path / "first").iterdir() if path.is_dir())
    first.rename(folder)
    at = folder / name
    if at.is_dir():
        shutil.rmtree(at)
    at.unlink(missing_ok=True)
    if kind == "FIFO":
        os.mkfifo(at)
    else:
        at.symlink_to(mine if kind == "link" else "/dev/zero")
    capsys.readouterr()
    assert main([*arguments, "--resume", str(folder)]) in {ExitCode.USAGE, ExitCode.ENVIRONMENT}
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert name in told
    assert [path.name for path in mine.iterdir()] == ["key"]
