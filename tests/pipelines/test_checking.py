"""What the command `lostack check` says, and how it ends; on a played system, without a broker."""

from __future__ import annotations

import signal
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from harness import cli
from harness.matrix import checking, room, seen
from harness.matrix.room import full_disk
from harness.model.failures import CellFailure, EnvironmentFailure
from harness.model.waiting import wait_until
from harness.pipelines.failure_points import NO_FAULT, failure_points
from harness.pipelines.traffic import StageTraffic
from harness.saved import load_run
from harness.systems.declared.learnt.silence import Silences
from tests.gate.saved import HERE, SUFFIX, unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.model.cell import Cell
    from harness.model.scenario import Scenario
    from harness.pipelines.declaration import Pipeline
    from harness.saved import SavedRun

REQUESTS = {
    "producer": StageTraffic(("orders-in",), 1, {"InitProducerId": 1, "Produce": 9}),
    "consumer": StageTraffic(
        ("orders-out",), 2, {"JoinGroup": 1, "OffsetFetch": 1, "Fetch": 9, "OffsetCommit": 9}
    ),
}
"""What the dry run of the orders pipeline sees, in short."""
EXAMPLES = Path(__file__).parents[2] / "examples"


class PlayedDeclared:
    """A system for declared pipelines that starts nothing; what happens when a cell is prepared, a
    test says.
    """

    name = "declared"
    attached: ClassVar[bool] = False
    happens: ClassVar[Callable[[], object]]

    def __init__(self, *, keep: bool = False) -> None:  # noqa: ARG002 - the stand-in takes what the real one takes
        """Nothing is kept."""
        self.silences = Silences()

    def why_alone(self, _: Pipeline) -> str | None:
        """Cells have nothing in common."""

    def prepare(self, say: Callable[[str], None]) -> None:
        """Nothing to be had."""

    def versions(self) -> dict[str, str]:
        """Nothing takes part."""
        return {}

    def deploy(self, *_: object) -> PlayedDeclared:
        """It is its own deployment."""
        return self

    def check(self) -> None:
        """It cannot break."""

    def close(self) -> None:
        """Nothing was begun."""

    def cell_run(self, cell: Cell, *_: object) -> PlayedRun:
        """Return a cell's run."""
        return PlayedRun(cell)


class PlayedRun:
    """A cell on its way."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell

    def prepare(self) -> None:
        """Let happen what is to happen."""
        PlayedDeclared.happens()

    def close(self) -> None:
        """Nothing was begun."""

    load = inject = drain = observe = close


def played(monkeypatch: pytest.MonkeyPatch, folder: Path, happens: Callable[[], object]) -> int:
    """Check a pipeline, in the course of whose dry run something happens; return the exit code."""
    monkeypatch.setattr("harness.systems.declared.system.DeclaredSystem", PlayedDeclared)
    monkeypatch.setattr(PlayedDeclared, "happens", staticmethod(happens), raising=False)
    return cli.main(
        ["check", str(EXAMPLES / "orders" / "pipeline.toml"), "--reports", str(folder / "reports")]
    )


def test_ctrl_c_in_the_dry_run_is_no_verdict(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """It ends with 130 and one line: nothing is said of a pipeline of which nothing is known."""

    def interrupt() -> None:
        signal.raise_signal(signal.SIGINT)
        wait_until(lambda: False, within_s=20, because="the run to be cut short")

    assert played(monkeypatch, tmp_path, interrupt) == 130
    out, err = capfd.readouterr()
    assert err == "lostack: interrupted during the dry run: no failure point was tried\n"
    assert "proves nothing" not in out + err


@pytest.mark.parametrize(("what", "code"), [(CellFailure, 4), (EnvironmentFailure, 3)])
def test_a_full_disk_says_so_first(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    what: type[Exception],
    code: int,
) -> None:
    """Before what follows from it: a program that could not write, or a broker that ended."""

    def fails() -> None:
        raise what("the rest of the stack")

    assert played(monkeypatch, tmp_path, fails) == code
    assert "is full" not in capfd.readouterr().err
    monkeypatch.setattr(room, "LEAST", 1 << 62)
    assert played(monkeypatch, tmp_path, fails) == code
    err = capfd.readouterr().err
    assert "is full (" in err
    assert err.index("the disk of ") < err.index("the rest of the stack")


def test_a_cell_that_ended_on_a_full_disk_proves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whatever it seems to have lost: there may have been no room for it."""
    monkeypatch.setattr(room, "LEAST", 1 << 62)
    assert played(monkeypatch, tmp_path, lambda: None) == 4
    err = capfd.readouterr().err
    assert "the dry run without a fault proves nothing: the run failed: the disk of " in err
    [page] = {file.resolve() for file in (tmp_path / "reports" / "dry-runs").glob("*/report.html")}
    assert "the run failed: the disk of " in page.read_text()
    assert f"{page.parent.name}/report.html" in err


def test_a_disk_is_full_where_nothing_is_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Neither room nor, where it counts them, files; who is not root has not what is kept back for
    root.
    """
    assert full_disk(tmp_path) is None
    assert full_disk(tmp_path / "gone") is None
    for left, files, full in ((1 << 20, 1, False), ((1 << 20) - 4096, 1, True), (1 << 30, 0, True)):
        blocks = left // 4096
        said = SimpleNamespace(
            f_frsize=4096, f_bavail=blocks, f_bfree=blocks, f_files=10, f_favail=files
        )
        monkeypatch.setattr("harness.matrix.room.os.statvfs", lambda _, said=said: said)
        assert (full_disk(tmp_path) is not None) is full


@dataclass(frozen=True, slots=True)
class Checked:
    """A real check of the orders pipeline, saved: 25 kept, some of them with no sign of their
    fault.
    """

    run: SavedRun

    def ends(
        self, monkeypatch: pytest.MonkeyPatch, *options: str, jobs: list[int] | None = None
    ) -> int:
        """Let the command have these cells for its own; return its exit code. ``jobs``: takes how
        many cells it wants at once.
        """
        dry = next(result for result in self.run.results if result.plan.scenario == NO_FAULT)

        def rehearsed(check: checking.Check, *_: object, **__: object) -> checking.Rehearsal:
            if jobs is not None:
                jobs.append(check.jobs)
            return checking.Rehearsal(dry, 1)

        monkeypatch.setattr(checking.Check, "rehearsed", rehearsed)
        monkeypatch.setattr(
            seen, "seen_in", lambda _: dict(REQUESTS)
        )  # the archive has none of a cell's requests

        def faults(
            _: object, __: object, ___: object, ____: object, untried: Sequence[str] = ()
        ) -> SavedRun:
            return replace(self.run, info=replace(self.run.info, untried=tuple(untried)))

        monkeypatch.setattr(checking.Check, "faults", faults)
        asked = [
            "check",
            str(EXAMPLES / "orders" / "pipeline.toml"),
            "--reports",
            str(self.run.directory.parent),
        ]
        return cli.main([*asked, *options])

    def seen_of_all(self) -> Checked:
        """Return it without the cells that show no sign of their fault."""
        results = tuple(result for result in self.run.results if result.verdict.effect)
        return Checked(
            replace(
                self.run,
                results=results,
                info=replace(self.run.info, planned=tuple(result.plan.id for result in results)),
            )
        )


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Checked:
    """Return the check that lies in the gate. Reports are written beside it; nobody reads them."""
    cells = unpack(HERE / f"declared{SUFFIX}", tmp_path_factory.mktemp("checked"))
    orders = next(cell for cell in cells if cell.name.startswith("declared.orders.orders."))
    return Checked(load_run(orders.parents[1]))


@pytest.mark.parametrize(
    ("options", "jobs"),
    [
        ((), 3),
        (("--jobs", "2"), 2),
        (("--jobs", "1"), 1),
        (("--only", "ack-lost"), 1),
        (("--only", "ack-lost", "--only", "commit-lost"), 2),
    ],
)
def test_as_many_cells_run_at_once_as_there_are_and_as_the_machine_bears(
    monkeypatch: pytest.MonkeyPatch, checked: Checked, options: tuple[str, ...], jobs: int
) -> None:
    """On two cores three, or as many as were asked for; not more than points that may be meant, of
    which the dry run tells.
    """
    monkeypatch.setattr("harness.cli.options.os.cpu_count", lambda: 2)
    asked: list[int] = []
    checked.ends(monkeypatch, "--explain", *options, jobs=asked)
    assert asked == [jobs]


def test_a_fault_without_an_effect_fails_only_where_that_is_asked(
    monkeypatch: pytest.MonkeyPatch, checked: Checked, capfd: pytest.CaptureFixture[str]
) -> None:
    """With ``--strict`` the exit code is 4 and the failure points are named; where each shows an
    effect it is 0.
    """
    assert checked.ends(monkeypatch) == 0
    assert "--strict" not in capfd.readouterr().err
    assert checked.ends(monkeypatch, "--strict") == 4
    said = capfd.readouterr().err
    assert "--strict: no effect was seen of " in said
    named = [result.plan.scenario for result in checked.run.results if not result.verdict.effect]
    assert len(named) > 1
    assert all(name in said for name in named)
    assert checked.seen_of_all().ends(monkeypatch, "--strict") == 0


def test_a_stage_that_no_point_kills_is_not_passed(
    monkeypatch: pytest.MonkeyPatch, checked: Checked, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whether the faults are run or only explained, and whichever are chosen, the exit code is 4
    where it says *not tried*. What a choice leaves out is not untried.
    """
    assert checked.ends(monkeypatch, "--explain") == 0
    assert checked.ends(monkeypatch, "--explain", "--only", "ack-lost") == 0
    assert checked.ends(monkeypatch, "--only", "ack-lost") == 0
    assert "not tried" not in capfd.readouterr().out

    def sparing(*given: Any, **named: Any) -> tuple[Scenario, ...]:
        return tuple(
            each
            for each in failure_points(*given, **named)
            if "consumer" not in each.fault.evidence().killed
        )

    monkeypatch.setattr(checking, "failure_points", sparing)
    capfd.readouterr()
    assert checked.ends(monkeypatch, "--explain") == 4
    assert "The consumer is not tried: no failure point kills it." in capfd.readouterr().out
    assert checked.ends(monkeypatch) == 4
    assert "The consumer is not tried: no failure point kills it." in capfd.readouterr().out
    for more in (("--explain",), ()):
        assert checked.ends(monkeypatch, "--only", "ack-lost", *more) == 4
        assert "The consumer is not tried" in capfd.readouterr().out
