"""No two commands run in one folder: each command that can be continued keeps others out."""

from __future__ import annotations

import errno
import fcntl
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.cli import main
from harness.judge.verdict import Kind, Verdict
from harness.matrix.alone import LOCK, alone_in
from harness.matrix.checking import Check
from harness.matrix.room import new_directory
from harness.model.exits import ExitCode
from harness.model.failures import EnvironmentFailure, UsageError
from harness.soak.seeds import run_seeds
from harness.soak.stream import Streaming
from harness.soak.waves import SOAK_FILE
from tests.report.hostile import ACK_LOST, ALO, result
from tests.soak import test_seeds, test_stream, test_waves
from tests.soak.play import Play
from tests.sweep.stepping import asked

if TYPE_CHECKING:
    from collections.abc import Callable

ORDERS = Path(__file__).parents[2] / "examples" / "orders" / "pipeline.toml"
RUNS: dict[str, Callable[[Path], object]] = {
    "seeds": lambda folder: run_seeds(
        test_seeds.asked(folder, test_seeds.Losers()), test_waves.Heard()
    ),
    "stream": lambda folder: Streaming(
        plan := test_stream.asked(folder), Play(plan), test_stream.Heard(), poll_s=0
    ).run(),
}


@pytest.mark.parametrize("kind", RUNS)
def test_a_second_command_runs_nothing(tmp_path: Path, kind: str) -> None:
    with (
        alone_in(tmp_path),
        pytest.raises(UsageError, match=r"another command runs in .*: wait until it has ended"),
    ):
        RUNS[kind](tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == [LOCK]
    RUNS[kind](tmp_path)


def test_a_sweep_is_continued_by_one_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked().save(tmp_path)
    before = sorted(tmp_path.iterdir())
    with alone_in(tmp_path):
        assert main(("sweep", "--resume", str(tmp_path))) == ExitCode.USAGE
    assert "another command runs in" in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == sorted([*before, tmp_path / LOCK])


@pytest.mark.parametrize(
    "what", [str(ORDERS), "plain --client kafka-python"], ids=["declared", "own"]
)
def test_a_soak_is_continued_by_one_command(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    what: str,
) -> None:
    """The other one does not even run without a fault; alone it does both in the folder's lock."""
    seen: list[str] = []

    def locked(folder: Path, step: str) -> None:
        with pytest.raises(UsageError, match="another command runs in"), alone_in(folder):
            pass
        seen.append(step)

    def dry_run(check: Check, _: object) -> Any:
        locked(check.reports, "dry run")
        return result(ACK_LOST, ALO, Verdict(Kind.KEPT, "as promised"))

    def soak(one: Any, _: object) -> Any:
        locked(one.folder, "soak")
        return SimpleNamespace(kind=Kind.KEPT, interrupted=False)

    monkeypatch.setattr(Check, "dry_run", dry_run)
    monkeypatch.setattr("harness.matrix.seen.seen_in", lambda _: {})
    monkeypatch.setattr("harness.cli.soak.run_soak", soak)
    monkeypatch.setattr("harness.cli.soak.as_lines", lambda *_: [])
    (tmp_path / SOAK_FILE).write_text("{}")
    words = ["soak", *what.split(), "--resume", str(tmp_path)]
    with alone_in(tmp_path):
        assert main(words) == ExitCode.USAGE
    assert "another command runs in" in capsys.readouterr().err
    assert not seen
    assert main(words) == ExitCode.KEPT
    assert seen[-1] == "soak"
    assert ("dry run" in seen) is what.endswith(".toml")


def test_what_fails_inside_is_told_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(TimeoutError), alone_in(tmp_path):
        raise TimeoutError
    with alone_in(tmp_path):
        pass


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def flock(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)
    said = f"cannot lock {tmp_path}: {os.strerror(number)}; choose another folder with --reports"
    with pytest.raises(EnvironmentFailure, match=f"^{re.escape(said)}$"), alone_in(tmp_path):
        pass


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(EnvironmentFailure, match=r"^cannot lock .*: Not a directory; choose"),
        alone_in(tmp_path / "file" / "soak"),
    ):
        pass


def test_two_that_begin_in_one_second_have_folders_of_their_own(tmp_path: Path) -> None:
    names = {new_directory(tmp_path, "soak-").name for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("soak-2") for name in names)
