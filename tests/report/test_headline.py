"""The headline names what broke: records, cell and how; and the counts beside it agree with it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from harness.report.coverage import coverage
from harness.report.headline import headline
from harness.report.page.detail import Shared, detail_of, first_seen
from harness.report.page.model import page_of
from harness.report.renderers import RENDERERS
from harness.report.summary import WORST, Outcome
from harness.saved import CellResult, SavedRun, judge_cell
from tests.judge.growing import end
from tests.report.hostile import green_run, run_of
from tests.report.own import LAST, own_run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> SavedRun:
    """A run of three cells: kept, broken, and void because a stage ended."""
    return own_run(tmp_path_factory.mktemp("reports") / "own")


def test_what_broke_is_named_first(own: SavedRun) -> None:
    """Record, failure point and last hop; how many others are not green; in every form."""
    words = "commit-ack-lost: k3-18 lost (delivered, not recorded); beside it 1 void"
    target = own.results[1].plan.target
    assert headline(own) == words.replace("k3-18", target)
    page = RENDERERS["html"].render(own)
    assert page.count(f"<title>lostack 20261121-120000: commit-ack-lost: {target} lost") == 1
    assert f"</span> commit-ack-lost: {target} lost (delivered, not recorded)" in page
    assert f"commit\\-ack\\-lost: {target}".replace("\\", "") in RENDERERS["markdown"].render(
        own
    ).splitlines()[0].replace("\\", "")
    assert json.loads(RENDERERS["json"].render(own))["summary"]["headline"] == headline(own)


def test_the_broken_row_is_the_first(own: SavedRun) -> None:
    """In the matrix of the page and in Markdown, whatever the order of the run."""
    [sheet] = page_of(own).sheets
    outcomes = [line.squares[0].outcome for line in sheet.lines]
    assert outcomes == ["broken", "void", "kept"]
    rows = [
        each for each in RENDERERS["markdown"].render(own).splitlines() if each.startswith("| ")
    ]
    assert "✘ broken" in rows[1]
    index = json.loads(page_of(own).index)
    assert index["outcomes"] == [str(each) for each in WORST]


def test_the_sign_beside_the_headline_is_that_of_the_worst_cell(own: SavedRun) -> None:
    def sign(run: SavedRun) -> str:
        page = RENDERERS["html"].render(run)
        return page.partition('class="seal" aria-hidden="true">')[2][0]

    kept, broken, void = (replace(own, results=(each,)) for each in own.results)
    assert [sign(run) for run in (own, broken, void)] == ["✘", "✘", "∅"]
    missing = (*kept.info.planned[:1], "another/cell/s1")
    partial = replace(kept, info=replace(kept.info, planned=missing), missing=missing[-1:])
    assert sign(partial) == "∅"
    assert sign(green_run()) == "✔"


def test_a_green_run_and_one_that_is_cut_short() -> None:
    run = green_run()
    assert headline(run) == "every promise kept"
    missing = (*run.info.planned, "another/cell/s1")
    partial = replace(run, info=replace(run.info, planned=missing), missing=missing[-1:])
    assert headline(partial) == (
        "PARTIAL: every promise kept in the cells that ran; 1 planned cell did not run"
    )
    stopped = replace(run, info=replace(run.info, complete=False))
    assert headline(stopped) == (
        "PARTIAL: every promise kept in the cells that ran; the run was cut short"
    )
    beside = replace(run, info=replace(run.info, planned=run.info.planned[:-1]))
    assert headline(beside).endswith("in the cells that ran; the run was cut short")
    untried = replace(run, info=replace(run.info, untried=("the x was not tried",)))
    assert headline(untried) == "every promise kept where it was tried; 1 stage was not tried"
    assert headline(run_of()).endswith("no cell was run")


def test_the_death_of_a_program_is_in_the_verdicts_line(own: SavedRun) -> None:
    """Exit status, moment, and its last log line; a cell in which none died says nothing of it."""
    reason = own.results[2].verdict.reason
    assert "the consumer ended by itself (status 1) at 0.0 s, and was started again: " in reason
    assert reason.endswith(LAST)
    assert not any("ended by itself" in one.verdict.reason for one in own.results[:2])


FATAL = "%0|1764201600.1|FATAL|rdkafka#producer-1| Fatal error: Local: rewound sequence"


def test_a_fatal_error_of_a_client_is_in_the_verdicts_line(tmp_path: Path) -> None:
    """Also where the program lived on, and the promise was kept; a database's word is none."""
    run = own_run(tmp_path / "own")
    kept = run.results[0]
    assert kept.verdict.kind == "kept"
    logs = kept.directory / "logs"
    logs.mkdir()
    noise = "psycopg.OperationalError: FATAL:  the database system is starting up"
    (logs / "producer.log").write_text(f"{noise}\n{noise}\n")
    assert judge_cell(kept.directory).verdict.reason == kept.verdict.reason
    (logs / "producer.log").write_text(f"started\n{FATAL}\nnot taken: x\n")
    again = judge_cell(kept.directory).verdict
    assert again.kind == "kept"
    assert (
        again.reason == f"{kept.verdict.reason}; the producer's client told a fatal error: {FATAL}"
    )


def test_counts_and_verdict_tell_one_story(tmp_path: Path) -> None:
    """A record that is stored twice and recorded once is counted as stored more than once, and was
    seen: no page says *never seen* of it.
    """
    one = _recorded_once(own_run(tmp_path / "own").results[0])
    assert "stored twice and recorded once" in one.verdict.reason
    detail, _ = detail_of(one, Shared())
    assert ("of these stored more than once", 1) in detail["counts"]
    goals = {goal.name: goal.cells for goal in coverage(run_of(one))}
    assert goals["stored twice"] == goals["absorbed copy"] == (one.plan.id,)
    row = one.row()
    assert (row["stored_twice"], row["beside"]["stored_again"]) == (0, 1)
    assert row["beside"]["stored_again_recorded_once"] == 1


def _recorded_once(found: CellResult) -> CellResult:
    """Take the second row of the target out of the output: something absorbed it."""
    file = found.directory / "history" / "all.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    rows = [
        line
        for line in lines
        if line["event"] == "recorded" and line["record"] == found.plan.target
    ]
    left = [line for line in lines if line is not rows[-1]]
    file.write_text("".join(f"{json.dumps(line)}\n" for line in left))
    end(file.parent)
    return judge_cell(found.directory)


def test_the_page_leads_to_logs_and_histories(own: SavedRun) -> None:
    """Of a cell that has logs beside the page; a published page has none, and leads nowhere."""
    detail, _ = detail_of(own.results[2], Shared())
    cell = own.results[2].directory.name
    assert detail["files"] == [
        ("logs/consumer.log", f"cells/{cell}/logs/consumer.log"),
        ("history/all.jsonl", f"cells/{cell}/history/all.jsonl"),
        ("history/runner.jsonl", f"cells/{cell}/history/runner.jsonl"),
    ]
    assert all((own.directory / address).is_file() for _, address in detail["files"])
    assert detail_of(own.results[1], Shared())[0]["files"] == []


def test_what_was_seen_stands_apart_from_what_usually_does_it(own: SavedRun) -> None:
    """Of the first record that broke the promise; of a cell that is not broken there is nothing."""
    [(record, sentence, usually)] = first_seen(own.results[1])
    assert record == own.results[1].plan.target
    assert sentence.startswith("lost: delivered, not recorded; the consumer was given it at ")
    assert "auto-commit" in usually
    assert "auto-commit" not in sentence
    page = RENDERERS["html"].render(own)
    assert "what usually does this (no line of the history shows that it did here): " in page
    assert first_seen(own.results[0]) == []
    assert Outcome.BROKEN in {Outcome(one.verdict.label) for one in own.results}
