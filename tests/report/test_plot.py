"""The plot's dots are the account's records; the page opens with what was seen, in words."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.judge.verdict import Kind, Verdict
from harness.model.history import HISTORY, read_history
from harness.model.states import LastHop, State
from harness.report.page.opening import _WENT, never_reached, not_applicable, proved, story
from harness.report.page.plot import PlotRow, drawn_plot, plot_of
from harness.report.renderers import RENDERERS
from harness.saved import CellResult, judge_cell
from tests.judge.growing import end
from tests.report.hostile import (
    ACK_LOST,
    ALO,
    AMO,
    EOS,
    NONE,
    green_run,
    result,
    run_of,
)
from tests.report.lively import golden, lively

GOLDEN = Path(__file__).parents[1] / "judge" / "golden"


def planted(directory: Path) -> tuple[CellResult, str]:
    """Write a cell whose target is duplicated, and from whose output one other record is missing;
    return it, and the name of that record.
    """
    plan = lively(directory).plan
    history = directory / HISTORY / "all.jsonl"
    lines = [json.loads(line) for line in history.read_text().splitlines()]
    lost = next(
        line["record"]
        for line in lines
        if line["event"] == "recorded" and line["record"] != plan.target
    )
    kept = [line for line in lines if line["event"] != "recorded" or line["record"] != lost]
    history.write_text("".join(f"{json.dumps(line)}\n" for line in kept))
    end(history.parent)
    return judge_cell(directory), lost


def test_a_planted_loss_and_a_planted_duplicate_are_dots(tmp_path: Path) -> None:
    """Exactly these two records stand in the rows *lost* and *duplicated*, at their first send."""
    cell, lost = planted(tmp_path / "cell")
    events = read_history(cell.directory / HISTORY).events
    plot = plot_of(cell.judgement.account, events)
    assert [dot.record for dot in plot.rows[PlotRow.LOST]] == [lost]
    assert [dot.record for dot in plot.rows[PlotRow.DUPLICATED]] == [cell.plan.target]
    assert len(plot.rows[PlotRow.RECORDED]) == cell.plan.offered - 2
    assert plot.rows[PlotRow.LOST][0].note == "delivered, not recorded"
    first: dict[str, int] = {}
    for event in events:
        if event.event in ("sent", "unsent"):
            first.setdefault(event.record, (event.t - events[0].t) // 100_000)  # type: ignore[attr-defined]
    dots = [dot for dots in plot.rows.values() for dot in dots]
    assert {dot.record: dot.t for dot in dots} == first


@pytest.mark.parametrize("name", sorted(path.parent.name for path in GOLDEN.glob("*/cell.json")))
def test_each_row_has_as_many_dots_as_the_account_counts(name: str) -> None:
    """One dot for each offered record; what only totals tell stands beside."""
    cell = golden(name)
    account, events = cell.judgement.account, read_history(cell.directory / HISTORY).events
    plot, counts = plot_of(account, events), account.counts
    dots = {fate: len(found) for fate, found in plot.rows.items()}
    assert sum(dots.values()) == counts["offered"]
    assert dots[PlotRow.LOST] + plot.lost == counts["lost"]
    assert {dot.record for dot in plot.rows[PlotRow.DUPLICATED]} == account.duplicated
    assert dots[PlotRow.ASIDE] == counts["set_aside"]
    assert dots[PlotRow.UNSURE] + dots[PlotRow.DOUBT] == len(account.left | account.stalled)


def test_a_large_cell_has_some_of_its_dots_and_all_of_its_counts(tmp_path: Path) -> None:
    """The dots that are drawn are spread over the run; the row says how many there are."""
    cell, lost = planted(tmp_path / "cell")
    plot = plot_of(cell.judgement.account, read_history(cell.directory / HISTORY).events)
    rows, more_lost, extra = drawn_plot(plot, 5)
    assert isinstance(rows, list)
    assert (more_lost, extra) == (0, 0)
    assert [(row[0], row[1], len(row[2])) for row in rows[:3]] == [
        ("recorded", 22, 5),
        ("duplicated", 1, 1),
        ("lost", 1, 1),
    ]
    assert rows[2][3] == [[lost, "delivered, not recorded"]]


def test_the_page_opens_with_where_the_record_went(tmp_path: Path) -> None:
    """In words, for each last hop; of a promise that permits it, nothing."""
    assert set(_WENT) == set(LastHop)
    cell, lost = planted(tmp_path / "cell")
    assert story(cell) == [
        f"{lost} was lost: a reader was given it, and the output does not have it."
    ]
    exactly = replace(cell.plan, semantic=EOS)
    both = replace(cell, judgement=replace(cell.judgement, plan=exactly))
    assert story(both)[1:] == [
        f"{cell.plan.target} was recorded more than once: the log or queue has further copies."
    ]
    page = RENDERERS["html"].render(run_of(both))
    assert page.index("was recorded more than once") < page.index('id="matrix"')


def test_several_losses_of_one_kind_are_one_sentence(tmp_path: Path) -> None:
    cell, _ = planted(tmp_path / "cell")
    account = cell.judgement.account
    gone = {"state": State.LOST, "last_hop": LastHop.ACKED, "recordings": 0}
    rows: Any = (*({**row, **gone} for row in account.rows[:3]), *account.rows[3:])
    more = replace(cell, judgement=replace(cell.judgement, account=replace(account, rows=rows)))
    assert any(
        said.endswith(
            "and 1 more were lost, each in the same way: the broker acknowledged it, and does not "
            "have it."
        )
        for said in story(more)
    )


def test_a_fault_that_never_struck_is_told_as_never_reached() -> None:
    """On the page it is listed and in a colour of its own; a cell without a fault, and one whose
    history cannot be read, are not.
    """
    void = Verdict(Kind.VOID, "the fault did not fire")
    missed = result(ACK_LOST, ALO, void)
    assert never_reached(missed)
    assert story(missed) == ["This cell proves nothing: its fault never struck."]
    assert not never_reached(result(ACK_LOST, ALO, replace(void, fired=1)))
    assert not never_reached(result(NONE, ALO, void))
    assert not never_reached(result(ACK_LOST, ALO, void, readable=False))
    page = RENDERERS["html"].render(run_of(missed))
    assert "1 never reached" in page
    assert 'class="void never"' in page
    assert "never reached" not in RENDERERS["html"].render(green_run())


def test_a_stuck_cell_says_where_its_records_rest() -> None:
    cell = result(ACK_LOST, AMO, Verdict(Kind.STUCK, "no progress", fired=1))
    counts = cell.judgement.account.counts | {"recorded": 20, "left_in_topic": 3, "stalled": 1}
    account = replace(cell.judgement.account, counts=counts)
    cell = replace(cell, judgement=replace(cell.judgement, account=account))
    assert story(cell) == [
        (
            "All was healed, and nothing moved until the deadline: 20 of 24 records are in the "
            "output; left are 3 in the log or queue, 1 behind an open transaction."
        )
    ]


def test_a_green_run_says_what_was_proved_and_what_does_not_apply() -> None:
    run = green_run()
    assert proved(run) == [
        "In 1 cell the fault struck, and the promise held.",
        "In 1 cell without a fault the promise held.",
        "1 control broke its promise, as a control must: losses and duplicates are seen here.",
        (
            "72 records offered in these cells: 0 lost, 2 duplicated. Each is one that the claim "
            "permits, or that a control must show."
        ),
    ]
    quiet = result(ACK_LOST, ALO, Verdict(Kind.KEPT, "24 of 24 recorded", fired=1, effect=False))
    assert proved(run_of(quiet))[1] == (
        "In 1 of them the fault left no trace on its record: it shows little."
    )
    [(name, because)] = not_applicable(run)
    assert name == run.info.not_applicable[0].scenario
    assert because.startswith("there is no transaction")


def test_the_page_counts_what_does_not_apply_as_its_first_line_does() -> None:
    run = green_run()
    [row] = run.info.not_applicable
    rows = (row, replace(row, semantic=ALO if row.semantic is not ALO else AMO))
    both = replace(run, info=replace(run.info, not_applicable=rows))
    assert len(not_applicable(both)) == 1
    page = RENDERERS["html"].render(both)
    assert "; 2 not applicable</p>" in page
    assert "<summary>2 not applicable</summary>" in page
