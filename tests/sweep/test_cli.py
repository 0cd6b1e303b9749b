"""``lostack sweep`` on the command line: wrong use in one line, a sweep of the play from its plan
to its exit code.
"""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from harness.cli import sweep as command
from harness.cli.application import main
from harness.faults import Drop
from harness.model.exits import ExitCode
from harness.model.failures import EnvironmentFailure
from harness.sweep import pipelines
from harness.sweep.sweeping import Sweep
from tests.memory.plants import Plant
from tests.memory.system import MemorySystem
from tests.sweep.stepping import RIGHT, Stepping

if TYPE_CHECKING:
    from pathlib import Path

    from harness.model.cell import Cell
    from harness.sweep.settings import SweepSettings

PLAIN = (
    "sweep",
    "--only",
    "plain/at-least-once",
    "--system",
    "memory",
    "--records",
    "12",
    "--jobs",
    "1",
    "--act",
    "lose",
)

ALL_PLAIN = tuple("plain" if each.startswith("plain/") else each for each in PLAIN)


@pytest.fixture
def wrong(monkeypatch: pytest.MonkeyPatch) -> list[Plant]:
    """Let sweeps run on the play; the last of the list is planted where anything is lost."""
    return _played(monkeypatch)


def _played(monkeypatch: pytest.MonkeyPatch) -> list[Plant]:
    planted = [RIGHT]

    def made(asked: SweepSettings, directory: Path, *, keep: bool = True) -> Sweep:
        del keep
        [base] = pipelines.swept([asked.what], asked)
        return Sweep(
            directory,
            asked,
            base,
            Stepping(lambda cell: planted[-1] if isinstance(_fault(cell), Drop) else RIGHT),
        )

    monkeypatch.setattr(pipelines, "sweep_of", made)
    return planted


def _fault(cell: Cell) -> object:
    return cell.scenario.fault


@pytest.mark.parametrize(
    ("arguments", "because"),
    [
        (("sweep",), "name a declaration"),
        (("sweep", "x.toml", "--only", "plain"), "name a declaration"),
        (("sweep", "x.toml"), "cannot read x.toml"),
        (("sweep", "--only", "plane"), "did you mean plain"),
        (("sweep", "--only", "plain", "--shard", "3/2"), "--shard 3/2"),
        (("sweep", "--resume", "nowhere"), "not the folder of"),
        (
            ("sweep", "--system", "memory", "--only", "plain", "--act", "kil-broker"),
            "did you mean kill-broker",
        ),
        ((*PLAIN, "--shard", "1/²"), "--shard 1/²"),
        ((*PLAIN, "--minutes", "nan"), "--minutes"),
        ((*PLAIN, "--minutes", "-1"), "--minutes"),
        ((*PLAIN, "--findings", "/dev/null"), "this is a file: name a folder"),
        ((*PLAIN, "--explain", "--json"), "--explain prints the plan as text"),
        ((*ALL_PLAIN, "--json"), "--only selects plain/at-most-once, plain/at-least-once"),
        ((*PLAIN, "--keep", "my finds"), "give --findings 'my finds'"),
        (("run", "--keep", "found"), "'found' is none of all, broken, none"),
        (
            ("sweep", "--resume", "nowhere", "--only", "plain"),
            "leave out the declaration and --only",
        ),
        (("sweep", "--only", "plain", "--client", "jav"), "no client is called jav"),
        (("run", "--scenario", "x.toml"), "cannot read x.toml"),
        (("run", "--scenario", "x", "--only", "plain"), "--scenario goes without --only: its"),
        (
            ("run", "--scenario", "x", "--seeds", "3", "--seed", "7", "--system", "spark"),
            "--scenario goes without --seed, --seeds, --system: its files say what is run",
        ),
        (
            ("run", "--scenario", "x", "--records", "24", "--client", "java", "--semantic", "x"),
            "--scenario goes without --semantic, --client, --records: its",
        ),
        (
            ("run", "--scenario", "x", "--suite", "core", "--runtime", "process"),
            "--scenario goes without --runtime, --suite: its",
        ),
        (("export", "x.toml"), "not in the folder found"),
    ],
)
def test_wrong_use(
    arguments: tuple[str, ...],
    because: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One line, exit code 2, and nothing written."""
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == ExitCode.USAGE
    told = capsys.readouterr().err
    assert because in told
    assert told.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_that_ends_before_its_first_cell_leaves_nothing(
    wrong: list[Plant],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One line says what the machine lacks; no folder can be continued that has nothing in it."""

    def lack(*_: object) -> None:
        raise EnvironmentFailure("no Java")

    monkeypatch.setattr(Stepping, "prepare", lack)
    assert main((*PLAIN, "--reports", str(tmp_path))) == ExitCode.ENVIRONMENT
    assert capsys.readouterr().err == "lostack: no Java\n"
    assert [file for file in tmp_path.rglob("*") if not file.is_dir()] == []
    assert list((tmp_path / command.SWEEPS).iterdir()) == []


def test_a_sweep(wrong: list[Plant], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing found: 0. What is planted: 1, with the line that runs it again, a page and JSON; told
    again by its folder.
    """
    arguments = (*PLAIN, "--reports", str(tmp_path))
    assert main((*arguments, "--explain")) == ExitCode.KEPT
    assert "classes; to be run: " in capsys.readouterr().out
    assert main((*arguments, "--json")) == ExitCode.KEPT
    assert json.loads(capsys.readouterr().out)["findings"] == []
    wrong.append(Plant(lose=1))
    assert main((*arguments, "--findings", str(tmp_path / "kept"))) == ExitCode.BROKEN
    told = capsys.readouterr().out
    assert "finding 1: broken: lost" in told
    assert "came back 3 of 3 times, with one partition" in told
    assert all(file.name.endswith(".lostack.toml") for file in (tmp_path / "kept").iterdir())
    [*_, last] = sorted((tmp_path / command.SWEEPS).iterdir())
    assert {"sweep.json", "result.json", "sweep.html", "found"} <= {
        file.name for file in last.iterdir()
    }
    assert main(("report", str(last))) == ExitCode.BROKEN
    assert "finding 1: broken: lost" in capsys.readouterr().out
    assert main(("sweep", "--resume", str(last))) == ExitCode.BROKEN
    assert "0 cells" not in capsys.readouterr().out


def test_a_sweep_that_is_done_goes_on_without_time(wrong: list[Plant], tmp_path: Path) -> None:
    """There is nothing left that the time could buy."""
    assert wrong
    assert main((*PLAIN, "--reports", str(tmp_path))) == ExitCode.KEPT
    [one] = (tmp_path / command.SWEEPS).iterdir()
    assert main(("sweep", "--resume", str(one), "--minutes", "0")) == ExitCode.KEPT


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a sweep that has its dry runs."""
    reports = tmp_path_factory.mktemp("begun")
    with pytest.MonkeyPatch.context() as patch:
        _played(patch)
        assert main((*PLAIN, "--reports", str(reports), "--explain")) == ExitCode.KEPT
    [one] = (reports / command.SWEEPS).iterdir()
    return one


@pytest.mark.parametrize(
    ("arguments", "because"),
    [
        (("--seed", "2"), "--seed: the sweep was begun with --seed 1"),
        (("--act", "kill"), "begun with --act lose"),
        (("--shard", "1/2"), "begun with --shard 1/1"),
        (("--depth", "2"), "begun with --depth 1"),
        (("--client", "java"), "begun without --client"),
        (("--system", "kafka"), "begun with --system memory"),
        (("--records", "24"), "begun with --records 12"),
        (("--like", "late-commit"), "begun without --like"),
        (("--reports", "elsewhere"), "the sweep's own folder"),
    ],
)
def test_what_would_make_other_points_of_a_sweep_is_refused(
    arguments: tuple[str, ...],
    because: str,
    begun: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = sorted(begun.rglob("*"))
    assert main(("sweep", "--resume", str(begun), *arguments)) == ExitCode.USAGE
    told = capsys.readouterr().err
    assert because in told
    assert told.count("\n") == 1
    assert sorted(begun.rglob("*")) == before


def test_a_sweep_goes_on_as_it_was_begun(begun: Path, wrong: list[Plant], tmp_path: Path) -> None:
    assert wrong
    one = shutil.copytree(begun, tmp_path / "one", symlinks=True)
    same = ("--seed", "1", "--act", "lose", "--records", "12", "--jobs", "2", "--minutes", "5")
    assert main(("sweep", "--resume", str(one), *same)) == ExitCode.KEPT


@pytest.mark.parametrize("arguments", [(), ("--explain",)], ids=["run", "explained"])
def test_a_sweep_without_points_says_why(
    arguments: tuple[str, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of what has no wire, and of what cannot be there: void, never a success."""
    memory = (
        "sweep",
        "--only",
        "plain/at-least-once",
        "--system",
        "memory",
        "--reports",
        str(tmp_path),
        *arguments,
    )
    assert main(memory) == ExitCode.VOID
    assert (
        "nothing to sweep: the system memory sends nothing through the wire"
        in capsys.readouterr().err
    )

    def made(asked: SweepSettings, directory: Path, *, keep: bool = True) -> Sweep:
        del keep
        [base] = pipelines.swept([asked.what], asked)
        return Sweep(directory, asked, base, Stepping())

    monkeypatch.setattr(pipelines, "sweep_of", made)
    assert main((*memory, "--act", "terminate")) == ExitCode.VOID
    assert (
        "nothing to sweep: the acts of --act terminate are possible at no step"
        in capsys.readouterr().err
    )


def test_a_pipeline_without_points_does_not_end_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has its turn, also behind one that is void without a fault."""
    swept: list[Sweep] = []

    def made(asked: SweepSettings, directory: Path, *, keep: bool = True) -> Sweep:
        del keep
        [base] = pipelines.swept([asked.what], asked)
        swept.append(Sweep(directory, asked, base, MemorySystem() if not swept else Stepping()))
        return swept[-1]

    monkeypatch.setattr(pipelines, "sweep_of", made)
    assert main((*ALL_PLAIN, "--reports", str(tmp_path))) == ExitCode.VOID
    told = capsys.readouterr()
    assert told.err.count("nothing to sweep") == 1
    assert len(swept) > 2
    for one in swept[1:]:
        assert f"{one.settings.what}: " in told.out
        assert (one.directory / "result.json").exists()


@pytest.mark.parametrize("way", ["Ctrl-C", "--exit-first"])
def test_what_was_not_begun_is_named_and_leaves_nothing(
    way: str,
    wrong: list[Plant],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its folder was empty. The one that was begun can go on."""
    wrong.append(Plant(lose=1))
    arguments, code = (*ALL_PLAIN, "--reports", str(tmp_path)), ExitCode.BROKEN
    if way == "Ctrl-C":
        code = ExitCode.INTERRUPTED

        def pressed(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(Sweep, "run", pressed)
    else:
        arguments += ("--exit-first",)
    assert main(arguments) == code
    told = capsys.readouterr().err
    begun = list((tmp_path / command.SWEEPS).iterdir())
    what = [json.loads((one / "sweep.json").read_text())["what"] for one in begun]
    [line] = [line for line in told.splitlines() if "not begun" in line]
    assert f"not begun, because of {way}: plain/" in line
    assert not any(one in line for one in what)
    assert len(what) + line.count("plain/") == 3
    assert ("lostack sweep --resume" in told) == (way == "Ctrl-C")
