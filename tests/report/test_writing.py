"""Writing reports: whole files, one clear line where that cannot be, and a pointer that only moves
forward.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import harness.report.writing
from harness.latest import LATEST, MARK, is_newest, mark, run_directory
from harness.report.as_html import INDEX
from harness.report.renderers import RENDERERS, write_reports
from harness.report.writing import ReportError, append_step_summary, point_latest
from harness.saved import SavedRun, SavedRunError
from tests.report.hostile import green_run, hostile_run

if TYPE_CHECKING:
    from pathlib import Path

FILES = ["report.json", "report.md", "junit.xml", "report.html", "anomalies.jsonl"]


def saved(reports: Path, name: str, started: str = "2026-11-21T12:00:00+00:00") -> SavedRun:
    """Save a run's ``run.json`` below ``reports``, a folder of runs; cells are not needed to write
    reports.
    """
    run = green_run()
    run = replace(run, directory=reports / name, info=replace(run.info, id=name, started=started))
    run.directory.mkdir(parents=True)
    mark(reports)
    run.info.save(run.directory)
    return run


def test_every_report_is_written_whole(tmp_path: Path) -> None:
    """All forms lie in the run's folder, as rendered, and nothing half written lies beside them."""
    run = saved(tmp_path, "one")
    point_latest(run)  # as from the moment that its cells begin
    files = write_reports(run)
    assert files == tuple(run.directory / name for name in FILES)
    for file, renderer in zip(files, RENDERERS.values(), strict=True):
        assert file.read_text(encoding="utf-8") == renderer.render(run)
    assert sorted(file.name for file in run.directory.iterdir()) == sorted([*FILES, "run.json"])


def test_hostile_text_can_be_written(tmp_path: Path) -> None:
    """No record id and no log line, lone surrogates among them, keeps a report from
    being written.
    """
    run = replace(hostile_run(), directory=tmp_path)
    assert all(file.stat().st_size for file in write_reports(run) if file.name != "anomalies.jsonl")
    assert append_step_summary(run, {"GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}) is None
    assert (tmp_path / "summary.md").read_text(encoding="utf-8") == RENDERERS["markdown"].render(
        run
    )


def test_latest_moves_forward_only(tmp_path: Path) -> None:
    """``latest`` is the newest run, though an older one be rendered again; runs of one second are
    told apart.
    """
    second, next_second = "2026-11-21T12:00:00+00:00", "2026-11-21T12:00:01+00:00"
    moments = {"b": second, "b-2": second, "b-10": second, "a": next_second}
    runs = [saved(tmp_path, name, started) for name, started in moments.items()]
    for run in runs:
        write_reports(run)
        assert (tmp_path / LATEST).resolve() == run.directory
    for old in runs[:-1]:
        write_reports(old)
        assert point_latest(old) is None
        assert not is_newest(old.directory, old.info)
        assert (tmp_path / LATEST).resolve() == runs[-1].directory
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [*moments, LATEST, INDEX, MARK]
    )


def test_latest_can_be_moved_with_its_folder(tmp_path: Path) -> None:
    """The pointer is relative: reports that are copied elsewhere keep pointing into themselves."""
    write_reports(saved(tmp_path / "here", "one"))
    (tmp_path / "here").rename(tmp_path / "there")
    assert run_directory(tmp_path / "there" / LATEST) == tmp_path / "there" / "one"


@pytest.mark.parametrize("content", [b"20261121-120000\n", b"20261121-120000-12\n", b""])
def test_a_latest_that_names_a_run_that_is_gone_is_replaced(tmp_path: Path, content: bytes) -> None:
    """Neither that, nor a file that a crash has left empty, keeps a run from becoming
    the latest.
    """
    run = saved(tmp_path, "one")
    (tmp_path / LATEST).write_bytes(content)
    write_reports(run)
    assert (tmp_path / LATEST).resolve() == run.directory


@pytest.mark.parametrize(
    "content",
    [b"\xff\xfe", b"a\0b", b"notes of mine", b"/etc", b"..", b"v1.2\n", b"buy milk", b"2026"],
)
def test_a_latest_that_names_no_run_is_left_alone(tmp_path: Path, content: bytes) -> None:
    """It is somebody's own file, and a warning of one line says that ``latest`` was not updated."""
    run = saved(tmp_path, "one")
    (tmp_path / "notes of mine").mkdir()
    (tmp_path / LATEST).write_bytes(content)
    write_reports(run)
    assert (tmp_path / LATEST).read_bytes() == content
    assert "latest was not updated" in str(point_latest(run))


def test_a_link_to_a_run_that_is_gone_is_replaced(tmp_path: Path) -> None:
    """Whatever the run's folder was called: nothing is lost with such a link."""
    run = saved(tmp_path, "one")
    (tmp_path / LATEST).symlink_to("gone")
    write_reports(run)
    assert (tmp_path / LATEST).resolve() == run.directory


def test_without_symbolic_links_latest_is_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the file system has no links, a file holds the folder's name, is understood, and moves
    forward only, too.
    """

    def refuse(*_: object, **__: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr("pathlib.Path.symlink_to", refuse)
    old, new = saved(tmp_path, "one"), saved(tmp_path, "two", "2026-11-21T13:00:00+00:00")
    write_reports(new)
    write_reports(old)
    assert (tmp_path / LATEST).is_file()
    assert run_directory(tmp_path / LATEST) == new.directory


def test_a_folder_in_the_way_of_latest_is_left_alone(tmp_path: Path) -> None:
    """What people keep under that name is theirs; the reports are written all the same, and the
    warning is one line.
    """
    (tmp_path / LATEST / "mine").mkdir(parents=True)
    run = saved(tmp_path, "one")
    assert all(file.exists() for file in write_reports(run))
    assert (tmp_path / LATEST / "mine").is_dir()
    warning = point_latest(run)
    assert warning is not None
    assert "latest was not updated" in warning
    assert "\n" not in warning
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([INDEX, LATEST, MARK, "one"])


def test_a_read_only_folder_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line names the file and the reason; an older report stays whole, and ``latest`` does not
    move.
    """
    run = saved(tmp_path, "one")
    write_reports(run)
    newer = saved(tmp_path, "two", "2026-11-21T13:00:00+00:00")

    def refuse(below: Path, name: str, text: str) -> None:
        raise OSError(30, "Read-only file system", str(below / name))

    monkeypatch.setattr(harness.report.writing, "write_whole", refuse)
    with pytest.raises(
        ReportError,
        match=r"^cannot write .*report\.json: Read-only file system; is the folder writable\?$",
    ):
        write_reports(newer)
    assert (tmp_path / LATEST).resolve() == run.directory


def test_a_step_summary_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    """Without the variable nothing is done; where the file cannot be written, a warning says so."""
    assert append_step_summary(green_run(), {}) is None
    warning = append_step_summary(
        green_run(), {"GITHUB_STEP_SUMMARY": str(tmp_path / "no" / "summary.md")}
    )
    assert warning == "cannot append to GITHUB_STEP_SUMMARY: No such file or directory"


def test_a_folder_that_is_no_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(SavedRunError, match=r"^there is no saved run at .*nothing$"):
        run_directory(tmp_path / "nothing")
