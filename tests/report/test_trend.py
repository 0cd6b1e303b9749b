"""The trend over runs: what broke when, and since which commit, from the lines of ``history.jsonl``
and nothing else.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from harness.cli import main
from harness.judge.verdict import Kind, Verdict
from harness.report.as_html import TREND
from harness.report.breaks import HISTORY_FILE, breaks_of, seedless
from harness.report.commit import VARIABLES, commit_of
from harness.report.trend import append_run, breaks_of_cell, read_past, strips
from harness.saved import SWEEP_FILE
from tests.report.hostile import ACK_LOST, ALO, EOS, NASTY_ID, NONE, result, run_of

if TYPE_CHECKING:
    from pathlib import Path

KEPT, BROKEN = Verdict(Kind.KEPT, "kept", fired=1), Verdict(Kind.BROKEN, "lost", fired=1)
CELL, OTHER = seedless(result(ACK_LOST, EOS, KEPT)), seedless(result(NONE, ALO, KEPT))
COMMITS = ["a" * 40, "b" * 40, "c" * 40, "d" * 40]


def line(day: int, outcomes: dict[str, str], **more: Any) -> str:
    """Return the line of a run, a day after the other."""
    cells = {name: {outcome: 1} for name, outcome in outcomes.items()}
    return json.dumps(
        {
            "run": f"r{day}",
            "started": f"2026-11-{day:02d}T12:00:00+00:00",
            "complete": True,
            "cells": cells,
            **more,
        }
    )


def history(folder: Path, *lines: str) -> Path:
    """Write a history, and return its folder."""
    (folder / HISTORY_FILE).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def test_what_broke_says_since_which_commit(tmp_path: Path) -> None:
    """From the first red run behind a green one, with the commits of both; until it is
    green again.
    """
    outcomes = ["kept", "broken", "stuck", "kept", "broken"]
    lines = [
        line(day, {CELL: each, OTHER: "kept"}, commit=f"{day}" * 40)
        for day, each in enumerate(outcomes, start=1)
    ]
    past, damaged = read_past(history(tmp_path, *lines))
    now, then = breaks_of_cell(past)
    assert damaged == []
    assert now.sentence == "since r5 (5555555555); it was green in r4 (4444444444)"
    assert (
        then.sentence
        == "since r2 (2222222222); it was green in r1 (1111111111); green again in r4 (4444444444)"
    )
    assert (now.outcome, then.outcome) == ("broken", "broken")
    assert {now.cell, then.cell} == {CELL}


def test_a_run_that_did_not_have_a_cell_says_nothing_of_it(tmp_path: Path) -> None:
    """It neither mends nor breaks it, whatever else was run; the order is that of time, not that of
    the lines.
    """
    lines = [
        line(3, {CELL: "broken"}),
        line(1, {CELL: "kept"}),
        line(2, {OTHER: "kept"}),
        line(4, {OTHER: "kept"}),
    ]
    [broke] = breaks_of_cell(read_past(history(tmp_path, *lines))[0])
    assert broke.mended is None
    assert broke.sentence == "since r3; it was green in r1"
    first, *_ = strips(read_past(tmp_path)[0])
    assert [colour for _, colour, _ in first.squares] == ["kept", "none", "broken", "none"]


def test_the_worst_seed_counts_and_a_control_that_is_convicted_is_green(tmp_path: Path) -> None:
    mixed = json.loads(line(1, {}))
    mixed["cells"] = {CELL: {"kept": 9, "broken": 1}, OTHER: {"convicted": 10}}
    [broke] = breaks_of_cell(read_past(history(tmp_path, json.dumps(mixed)))[0])
    assert broke.cell == CELL
    assert broke.sentence == "since r1, the first run that has it"


@pytest.mark.parametrize(
    "odd",
    [
        '{"run": ',
        "[]",
        '{"run": "x"}',
        line(2, {CELL: "wonderful"}),
        line(2, {}, cells={CELL: {}}),
        "7",
    ],
)
def test_a_line_that_cannot_be_read_is_left_out_and_counted(tmp_path: Path, odd: str) -> None:
    """A line that was cut, or of something else, hides none of the others."""
    past, damaged = read_past(history(tmp_path, line(1, {CELL: "kept"}), odd))
    assert ([one.run for one in past], damaged) == (["r1"], [2])


def test_a_run_is_remembered_with_its_commit_its_seconds_and_its_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a command appends is what the page shows; counts of all seeds, the seconds of one."""
    monkeypatch.setenv("GITHUB_SHA", COMMITS[0])
    seeds = [
        result(ACK_LOST, EOS, KEPT, seed=1, seconds=2.0),
        result(ACK_LOST, EOS, BROKEN, seed=2, lost=2, seconds=4.0),
    ]
    run = replace(
        run_of(*seeds, result(NONE, EOS, KEPT, readable=False)), directory=tmp_path / "r1"
    )
    assert append_run(run, breaks_of(run, ())) is None
    [past] = read_past(tmp_path)[0]
    assert past.commit == COMMITS[0]
    assert past.figures[CELL] == {"lost": 2, "duplicated": 0, "seconds": 3.0}
    assert past.figures[seedless(result(NONE, EOS, KEPT))]["lost"] is None
    assert past.text(CELL) == f"{run.info.id} (aaaaaaaaaa): broken, 2 lost, 0 duplicated, 3.0 s"
    assert "2 lost, 0 duplicated, 3.0 s" in (tmp_path / TREND).read_text()


def test_the_command_names_what_is_broken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each with its commit, and the page; without a history it is wrong use, in one line."""
    history(
        tmp_path,
        line(1, {CELL: "kept"}, commit=COMMITS[0]),
        line(2, {CELL: "broken"}, commit=COMMITS[1]),
        "cut",
        line(3, {CELL: "kept"}).replace("2026-11-03T12:00:00+00:00", "yesterday"),
    )
    assert main(["trend", str(tmp_path)]) == 0
    told = capsys.readouterr()
    assert f"broken  {CELL}  since r2 (bbbbbbbbbb); it was green in r1 (aaaaaaaaaa)" in told.out
    assert (
        told.err
        == f"lostack: lines 3, 4 of {tmp_path / HISTORY_FILE} cannot be read, and are left out\n"
    )
    assert main(["trend", str(tmp_path / "none")]) == 2
    assert "has no runs" in capsys.readouterr().err


def test_a_history_without_a_line_that_can_be_read_is_damaged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And not without runs: the file and the lines are named. Nor is one that nobody can open."""
    history(tmp_path, "cut", "", *["[]"] * 6)
    assert main(["trend", str(tmp_path)]) == 2
    file = tmp_path / HISTORY_FILE
    told = (
        "lines 1, 3, 4, 5, 6 and 2 more cannot be read, and it has no other lines; repair the "
        "file, or move it away"
    )
    assert capsys.readouterr().err == f"lostack: {file} is damaged: {told}\n"
    file.unlink()
    file.mkdir()
    assert main(["trend", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"lostack: cannot read {file}: it is a folder\n"


def test_a_line_that_was_cut_spoils_no_other(tmp_path: Path) -> None:
    (tmp_path / HISTORY_FILE).write_text('{"run": "r0", "sta', encoding="utf-8")
    run = replace(run_of(result(ACK_LOST, EOS, KEPT)), directory=tmp_path / "r1")
    assert append_run(run, breaks_of(run, ())) is None
    past, damaged = read_past(tmp_path)
    assert ([one.run for one in past], damaged) == ([run.info.id], [1])


def test_a_sweep_has_no_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is said what shows it; a folder that has sweeps only holds no run."""
    folder = tmp_path / "sweep-1"
    folder.mkdir()
    (folder / SWEEP_FILE).write_text("{}", encoding="utf-8")
    assert main(["trend", str(folder)]) == 2
    assert (
        f"{folder} is a sweep, and a sweep has no history; lostack report shows its findings"
        in capsys.readouterr().err
    )
    assert main(["trend", str(tmp_path)]) == 2
    assert (
        "lostack run, check and regressions write it, a sweep or a soak does not"
        in capsys.readouterr().err
    )


def test_hostile_names_are_text(tmp_path: Path) -> None:
    """Whatever a cell or a run is called, the page has no element of it and leads nowhere else."""
    bad = f"x/{NASTY_ID}/../../etc"
    history(tmp_path, line(1, {bad: "broken"}, run=bad, commit="<b>"), line(2, {bad: "kept"}))
    assert main(["trend", str(tmp_path)]) == 0
    page = (tmp_path / TREND).read_text()
    assert "<img" not in page
    assert "(&lt;b&gt;)" in page
    assert "onmouseover='" not in page
    assert "href" not in page


def git(folder: Path, *words: str) -> str:
    """Run Git in a folder, and return what it says."""
    named = ("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false")
    return subprocess.run(
        ["git", *named, *words], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def test_the_commit_is_what_git_says(tmp_path: Path) -> None:
    """On a branch, packed, detached, in a worktree and in a folder of it; where there is no
    repository, nobody says one.
    """
    assert commit_of({}, tmp_path) is None
    repository = tmp_path / "repository"
    (repository / "deep" / "er").mkdir(parents=True)
    git(repository, "init", "-q")
    assert commit_of({}, repository) is None  # nothing is committed
    git(repository, "commit", "-q", "--allow-empty", "-m", "one")
    want = git(repository, "rev-parse", "HEAD")
    assert commit_of({}, repository) == commit_of({}, repository / "deep" / "er") == want
    git(repository, "pack-refs", "--all")
    assert commit_of({}, repository) == want
    git(repository, "worktree", "add", "-q", "-b", "other", str(tmp_path / "worktree"))
    git(tmp_path / "worktree", "commit", "-q", "--allow-empty", "-m", "two")
    assert (
        commit_of({}, tmp_path / "worktree")
        == git(tmp_path / "worktree", "rev-parse", "HEAD")
        != want
    )
    git(repository, "checkout", "-q", "--detach")
    assert commit_of({}, repository) == want


@pytest.mark.parametrize("name", VARIABLES)
def test_the_commit_is_what_the_ci_says_first(tmp_path: Path, name: str) -> None:
    assert commit_of({name: f" {COMMITS[2]}\n"}, tmp_path) == COMMITS[2]
    assert commit_of({name: "$(touch gone)"}, tmp_path) is None
