"""What the command `lostack check` says, and how it ends; on a played system, without a broker."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from harness import cli
from harness.core.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from harness.core.cell import Cell

EXAMPLES = Path(__file__).parents[2] / "examples"


class PlayedDeclared:
    """A system for declared pipelines that starts nothing; what happens when a cell is prepared, a test says."""

    name = "declared"
    attached: ClassVar[bool] = False
    happens: ClassVar[Callable[[], object]]

    def __init__(self, *, keep: bool = False) -> None:
        """Nothing is kept."""

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
