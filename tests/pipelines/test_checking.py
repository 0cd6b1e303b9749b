"""What the command `lostack check` says, and how it ends; on a played system, without a broker."""

from __future__ import annotations

import signal
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, ClassVar

import pytest

from harness import cli, room
from harness.core.waiting import wait_until
from harness.interfaces import CellFailure, EnvironmentFailure
from harness.room import full_disk
from harness.systems.declared.silence import Silences

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.core.cell import Cell

EXAMPLES = Path(__file__).parents[2] / "examples"


class PlayedDeclared:
    """A system for declared pipelines that starts nothing; what happens when a cell is prepared, a test says."""

    name = "declared"
    attached: ClassVar[bool] = False
    happens: ClassVar[Callable[[], object]]

    def __init__(self, *, keep: bool = False) -> None:  # noqa: ARG002 - the stand-in takes what the real one takes
        """Nothing is kept."""
        self.silences = Silences()

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
    return cli.main(["check", str(EXAMPLES / "orders" / "pipeline.toml"), "--reports", str(folder / "reports")])


def test_ctrl_c_in_the_dry_run_is_no_verdict(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """It ends with 130 and one line: nothing is said of a pipeline of which nothing is known."""

    def interrupt() -> None:
        signal.raise_signal(signal.SIGINT)
        wait_until(lambda: False, within_s=20, because="the run to be cut short")

    assert played(monkeypatch, tmp_path, interrupt) == 130
    out, err = capfd.readouterr()
    assert err == "lostack: interrupted in the dry run: nothing is judged\n"
    assert "proves nothing" not in out + err


@pytest.mark.parametrize(("what", "code"), [(CellFailure, 4), (EnvironmentFailure, 3)])
def test_a_full_disk_says_so_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str], what: type[Exception], code: int
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
    assert "the dry run without a fault proves nothing: the run failed: the disk of " in capfd.readouterr().err


def test_a_disk_is_full_where_nothing_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither room nor, where it counts them, files; who is not root has not what is kept back for root."""
    assert full_disk(tmp_path) is None
    assert full_disk(tmp_path / "gone") is None
    for left, files, full in ((1 << 20, 1, False), ((1 << 20) - 4096, 1, True), (1 << 30, 0, True)):
        blocks = left // 4096
        said = SimpleNamespace(f_frsize=4096, f_bavail=blocks, f_bfree=blocks, f_files=10, f_favail=files)
        monkeypatch.setattr("harness.room.os.statvfs", lambda _, said=said: said)
        assert (full_disk(tmp_path) is not None) is full
