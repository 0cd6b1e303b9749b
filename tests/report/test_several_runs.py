"""What is shown of more than one run, and of one record: comparing, the list of runs, a path in a
terminal.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from harness.cli import main
from harness.judge.verdict import Kind, Verdict
from harness.model.prediction import examples
from harness.report.comparing import as_page, as_text, compare
from harness.report.index import listed, write_index
from harness.report.page.detail import broken_rows
from harness.report.page.paths import anomalous
from harness.report.record import NoRecordError, record_text
from harness.report.renderers import write_reports
from harness.saved import NotRun
from tests.report.hostile import (
    ACK_LOST,
    ALO,
    AMO,
    EOS,
    NASTY,
    NASTY_ID,
    NONE,
    green_run,
    hostile_run,
    result,
    run_of,
)
from tests.report.lively import golden, lively

if TYPE_CHECKING:
    from pathlib import Path

    from harness.saved import SavedRun

KEPT = Verdict(Kind.KEPT, "kept", fired=1)
BROKEN = Verdict(Kind.BROKEN, f"lost {NASTY}", fired=1)


def _named(run: SavedRun, name: str, directory: Path | None = None) -> SavedRun:
    return replace(run, info=replace(run.info, id=name), directory=directory or run.directory)


def _pair() -> tuple[SavedRun, SavedRun]:
    before = run_of(
        result(NONE, EOS, KEPT),
        result(ACK_LOST, ALO, KEPT, duplicated=1),
        result(ACK_LOST, EOS, BROKEN, lost=2),
        result(ACK_LOST, AMO, KEPT),
    )
    after = run_of(
        result(NONE, EOS, BROKEN, lost=1),
        result(ACK_LOST, ALO, KEPT, duplicated=2),
        result(ACK_LOST, EOS, KEPT),
        result(ACK_LOST, AMO, KEPT),
        result(NONE, AMO, KEPT),
    )
    return _named(before, "one"), _named(after, "two")


def test_a_comparison_says_what_changed_and_both_counts() -> None:
    """Worse first, then better, then other counts, then what only one run has; what is alike is
    counted and not listed.
    """
    comparison = compare(*_pair())
    assert (
        comparison.sentence
        == "1 worse, 1 better, 1 with other counts, 1 alike; 0 only in one, 1 only in two"
    )
    assert [change.id.split("/")[3:5] for change in comparison.changes] == [
        ["none", "exactly-once"],
        ["ack-lost", "exactly-once"],
        ["ack-lost", "at-least-once"],
        ["none", "at-most-once"],
    ]
    text = as_text(comparison)
    assert "✔ kept 0 / 1" in text
    assert "✔ kept 0 / 2" in text
    assert "WORSE" in text.splitlines()[3]
    assert as_text(compare(*reversed(_pair()))).count("WORSE") == 1


def test_a_run_compared_with_itself_has_no_changes() -> None:
    comparison = compare(hostile_run(), hostile_run())
    assert comparison.changes == ()
    assert "No change: " in as_page(comparison)


def test_a_run_that_is_not_there_is_no_change_for_the_worse() -> None:
    comparison = compare(run_of(result(NONE, EOS, KEPT)), run_of(result(NONE, AMO, BROKEN)))
    assert not any(change.worse or change.better for change in comparison.changes)


def _in(
    runtime: str, run: SavedRun, *, without: int = 0, reasons: tuple[NotRun, ...] = ()
) -> SavedRun:
    """Return a run as another runtime would have it: other ids, the same cells."""
    cells = []
    for each in run.results[without:]:
        plan = replace(
            each.plan, runtime=runtime, id=each.plan.id.replace("/process/", f"/{runtime}/")
        )
        cells.append(replace(each, judgement=replace(each.judgement, plan=plan)))
    return replace(
        run, results=tuple(cells), info=replace(run.info, id=runtime, not_applicable=reasons)
    )


def test_a_verdict_that_differs_between_runtimes_is_red() -> None:
    """Cells are the same but for the runtime; counts may differ where theory permits it, verdicts
    may not.
    """
    process = run_of(result(NONE, EOS, KEPT), result(ACK_LOST, ALO, KEPT, duplicated=1, seconds=2))
    docker = _in(
        "docker",
        run_of(result(NONE, EOS, KEPT), result(ACK_LOST, ALO, KEPT, duplicated=2, seconds=3)),
    )
    alike = compare(process, docker)
    assert not alike.red
    assert (
        alike.judged
        == "every verdict is the same in process and docker; cells of both: process 3 s, docker 4 s"
    )
    broken = compare(
        process,
        _in(
            "docker",
            run_of(result(NONE, EOS, BROKEN, lost=1), result(ACK_LOST, ALO, KEPT, duplicated=1)),
        ),
    )
    assert broken.red
    assert "RED: 1 cell with different verdicts in process and docker" in as_text(broken)
    assert "RED: " in as_page(broken)


def test_a_cell_that_a_runtime_lacks_is_red_unless_it_says_why() -> None:
    """Left out silently, it would look like agreement. Two runs of one runtime are free to have
    other cells.
    """
    process = run_of(result(NONE, EOS, KEPT), result(ACK_LOST, ALO, KEPT))
    lacking = _in("docker", process, without=1)
    assert compare(process, lacking).red
    plan = process.results[0].plan
    why = NotRun(
        plan.id.replace("/process/", "/docker/"),
        plan.scenario,
        plan.failure_point,
        plan.pipeline,
        plan.system,
        plan.client,
        "docker",
        plan.semantic,
        plan.seed,
        "no such thing there",
    )
    assert not compare(process, _in("docker", process, without=1, reasons=(why,))).red
    assert not compare(process, run_of(result(NONE, EOS, KEPT))).red
    assert compare(process, _in("docker", run_of(result(ACK_LOST, EOS, KEPT)))).red


def test_runtimes_that_disagree_have_an_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = {
        "one": run_of(result(NONE, EOS, KEPT)),
        "two": _in("docker", run_of(result(NONE, EOS, BROKEN))),
    }
    found = {name: replace(run, directory=tmp_path / name) for name, run in runs.items()}
    for run in found.values():
        run.directory.mkdir()
        run.info.save(run.directory)
    monkeypatch.setattr("harness.cli.saved.load_run", lambda directory: found[directory.name])
    assert main(["report", "--compare", str(tmp_path / "one"), str(tmp_path / "two")]) == 1


@pytest.mark.parametrize("shown", [as_text, as_page])
def test_a_comparison_is_harmless(shown: object) -> None:
    """Ids and reasons are shown as they are, and do nothing to a terminal or a browser."""
    text = shown(compare(hostile_run(), green_run()))  # type: ignore[operator]
    assert not [char for char in text if char != "\n" and not char.isprintable()]
    if shown is as_page:
        assert "<script" not in text
        assert "<img" not in text


def test_comparing_is_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It prints what changed and writes a page beside the later run; a folder that is no run is one
    clear line.
    """
    for name in ("one", "two"):
        run = _named(green_run(), name, tmp_path / name)
        run.directory.mkdir()
        run.info.save(run.directory)
    assert main(["report", "--compare", str(tmp_path / "one"), str(tmp_path / "two")]) == 0
    assert "0 worse, 0 better" in capsys.readouterr().out
    assert (
        (tmp_path / "two" / "compare-one.html")
        .read_text(encoding="utf-8")
        .startswith("<!doctype html>")
    )
    assert main(["report", "--compare", str(tmp_path / "one"), str(tmp_path)]) == 2
    assert "is not a saved run" in capsys.readouterr().err


def test_the_list_of_runs_has_the_newest_first_and_links_what_is_there(tmp_path: Path) -> None:
    """Runs without a report say so; what is no run is left out; names are no markup and no foreign
    address.
    """
    moments = {
        "a": "2026-11-21T12:00:00+00:00",
        "b": "2026-11-21T12:00:01+00:00",
        "javascript:x<b>": "2026-11-21T11:00:00+00:00",
    }
    for name, started in moments.items():
        run = _named(green_run(), name, tmp_path / name)
        run = replace(run, info=replace(run.info, started=started, command=NASTY))
        run.directory.mkdir()
        run.info.save(run.directory)
        if name != "a":
            write_reports(run)
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "run.json").write_text("{", encoding="utf-8")
    assert [run.info.id for run in listed(tmp_path)] == ["b", "a", "javascript:x<b>"]
    assert [run.verdict for run in listed(tmp_path)] == ["✔ green", "no report", "✔ green"]
    page = write_index(tmp_path).read_text(encoding="utf-8")
    assert 'href="b/report.html"' in page
    assert 'href="javascript%3Ax%3Cb%3E/report.html"' in page
    assert "no report" in page
    assert "<b>" not in page
    assert "<script" not in page


@pytest.mark.parametrize(
    ("counts", "verdict"),
    [
        ({"void": 3}, "∅ proves nothing"),
        ({"void": 3, "broken": 1}, "✘ broken"),
        ({"void": 1, "not_convicted": 1}, "✘ not convicted"),
        ({"stuck": 2}, "◐ stuck"),
        ({"partial": True}, "∅ proves nothing"),
    ],
)
def test_the_list_says_what_the_worst_of_a_run_is(
    tmp_path: Path, counts: dict[str, int], verdict: str
) -> None:
    run = _named(green_run(), "a", tmp_path / "a")
    run.directory.mkdir()
    run.info.save(run.directory)
    write_reports(run)
    report = run.directory / "report.json"
    data = json.loads(report.read_text(encoding="utf-8"))
    data["summary"] |= {"green": False} | counts
    report.write_text(json.dumps(data), encoding="utf-8")
    assert [each.verdict for each in listed(tmp_path)] == [verdict]
    assert verdict in write_index(tmp_path).read_text(encoding="utf-8")


def test_a_record_can_be_followed_in_a_terminal() -> None:
    """Every hop stands on a line of its own, with its time; the sentence on top says what became of
    it.
    """
    found = golden("lost-at-every-hop")
    record = min(found.judgement.account.lost)
    text = record_text([found], record)
    assert f"{record}" in text
    assert "lost: " in text
    assert "offered, position" in text
    assert not [char for char in text if char != "\n" and not char.isprintable()]


def test_a_record_that_is_not_there_is_one_clear_line() -> None:
    found = golden("lost-at-every-hop")
    with pytest.raises(
        NoRecordError,
        match=f"none of 1 cell has a record 'x'; an example of a record is {found.plan.target}",
    ):
        record_text([found], "x")
    with pytest.raises(NoRecordError, match="none of 0 cells"):
        record_text([], NASTY_ID)


def test_following_a_record_is_a_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``--record`` prints its path in the cells that ``--only`` means; what fits nothing exits with
    wrong use.
    """
    found = lively(tmp_path / "one" / "cells" / "x")
    run = _named(run_of(found), "one", tmp_path / "one")
    run.info.save(run.directory)
    words = ["report", str(run.directory), "--record", found.plan.target]
    assert main(words) == 0
    assert found.plan.target in capsys.readouterr().out
    assert main([*words, "--only", "*/nothing/*"]) == 2
    assert "no cell of one matches '*/nothing/*'" in capsys.readouterr().err
    assert json.loads((run.directory / "run.json").read_text(encoding="utf-8"))["id"] == "one"


def test_lost_records_have_one_order_everywhere() -> None:
    """In the reason, in report.json, and on the page: ``a-2`` before ``a-10``, wherever they stood
    in the source.
    """
    found = golden("lost-at-every-hop")
    account = found.judgement.account
    lost = sorted(account.lost)
    names = dict(zip(lost, [f"a-{n}" for n in range(len(lost), 0, -1)], strict=True))
    names[lost[0]] = "a-10"
    rows = tuple(row | {"record": names.get(row["record"], row["record"])} for row in account.rows)
    other = replace(account, rows=rows)
    renamed = replace(found, judgement=replace(found.judgement, account=other))
    wanted = [*(f"a-{n}" for n in range(1, len(lost))), "a-10"]
    assert len(wanted) > 2
    assert renamed.row()["lost_ids"] == wanted
    assert [row["record"] for row in broken_rows(renamed)] == wanted
    assert [row["record"] for row in anomalous(rows) if row["record"] in wanted] == wanted
    assert examples(other.lost, 99) == ", ".join(wanted)
