"""What a run has seen at all, and what it never has: counted by cells, and named."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from harness.protocols.kafka.steps import STEPS
from harness.report.coverage import Goal, Group, coverage, groups
from harness.report.renderers import RENDERERS
from harness.saved import judge_cell
from harness.wire.rules import Direction
from tests.report.hostile import run_of
from tests.report.lively import lively

if TYPE_CHECKING:
    from pathlib import Path

    from harness.saved import SavedRun


def goals(run: SavedRun) -> dict[str, Goal]:
    """Return the goals of a run by their names; signs as ``sign NAME``, for some are called like
    what happened.
    """
    return {
        f"sign {goal.name}" if goal.group is Group.SIGN else goal.name: goal
        for goal in coverage(run)
    }


def with_lines(directory: Path, *lines: dict[str, Any]) -> SavedRun:
    """Make a run of one cell whose history also has these lines, in the middle of it."""
    cell = lively(directory)
    file = cell.directory / "history" / "all.jsonl"
    told = [json.loads(line) for line in file.read_text().splitlines()]
    at = next(number for number, line in enumerate(told) if line["event"] == "drain")
    more = [
        {"t": told[at]["t"], "w": 0, "cell": cell.plan.id, "by": "runner"} | line for line in lines
    ]
    file.write_text("\n".join(map(json.dumps, [*told[:at], *more, *told[at:]])) + "\n")
    return run_of(judge_cell(cell.directory))


def test_what_was_seen_is_counted_by_cells(tmp_path: Path) -> None:
    """Two cells in which a frame was dropped and a record sent again, whatever else: each counts
    once, and nobody was killed.
    """
    run = run_of(lively(tmp_path / "a"), lively(tmp_path / "b", seed=2))
    found = goals(run)
    ids = tuple(result.plan.id for result in run.results)
    for name in (
        "dropped frame",
        "cut connection",
        "retry",
        "stored twice",
        "sign repeated-request",
    ):
        assert found[name].cells == ids, name
    for name in (
        "kill",
        "pause",
        "fence",
        "abort",
        "rebalance",
        "loss",
        "sign aborted",
        "PRODUCER_FENCED",
    ):
        assert found.get(name, Goal(Group.COURSE, name, "")).cells == (), name


FENCED = {
    "event": "frame",
    "by": "wire",
    "conn": 1,
    "role": "producer",
    "node": "broker-1",
    "client": "c",
    "dir": "response",
    "api": "EndTxn",
    "version": 3,
    "corr": 9999,
    "size": 20,
    "error": 90,
}
ANSWERED = {
    "event": "rule",
    "by": "wire",
    "rule": "fault",
    "phase": "answered",
    "api": "Heartbeat",
    "error": "REBALANCE_IN_PROGRESS",
}
JOINED = FENCED | {"api": "JoinGroup", "dir": "request", "error": 0}


@pytest.mark.parametrize(
    ("line", "reached"),
    [
        (
            {
                "event": "node",
                "node": "producer",
                "role": "producer",
                "incarnation": 1,
                "phase": "exited",
                "signal": 9,
            },
            {"kill"},
        ),
        (
            {
                "event": "node",
                "node": "producer",
                "role": "producer",
                "incarnation": 1,
                "phase": "paused",
            },
            {"pause"},
        ),
        (
            {
                "event": "node",
                "node": "producer",
                "role": "producer",
                "incarnation": 2,
                "phase": "started",
            },
            {"restart"},
        ),
        (FENCED, {"fence", "PRODUCER_FENCED"}),
        (ANSWERED, {"refusal", "REBALANCE_IN_PROGRESS"}),
        ({"event": "transaction", "transaction": "p-1.1", "outcome": "aborted"}, {"abort"}),
        ({"event": "transaction", "transaction": "p-1.1", "outcome": "fenced"}, {"fence"}),
        (
            {
                "event": "network",
                "phase": "on",
                "role": "producer",
                "node": "broker-1",
                "toxics": [],
            },
            {"bad network"},
        ),
        (
            {"event": "rule", "by": "wire", "rule": "last-wave", "phase": "held"},
            set(),
        ),  # no part of any fault
    ],
)
def test_a_line_of_a_history_reaches_its_goal_and_no_other(
    tmp_path: Path, line: dict[str, Any], reached: set[str]
) -> None:
    """Beside those that the cell reaches without it; and what it reaches is never seen
    without it.
    """
    before = {
        name for name, goal in goals(run_of(lively(tmp_path / "before"))).items() if goal.cells
    }
    after = {
        name for name, goal in goals(with_lines(tmp_path / "after", line)).items() if goal.cells
    }
    assert {name for name in after - before if not name.startswith("sign ")} == reached


def test_who_joins_while_records_flow_rebalances(tmp_path: Path) -> None:
    """A member that joins before anything has reached anybody is no rebalance; one
    behind that is.
    """
    cell = lively(tmp_path / "x")
    file = cell.directory / "history" / "all.jsonl"
    told = [json.loads(line) for line in file.read_text().splitlines()]
    for at, want in (
        (1, ()),
        (next(n for n, line in enumerate(told) if line["event"] == "fetched") + 1, (cell.plan.id,)),
    ):
        joined = JOINED | {"t": told[at]["t"], "w": 0, "cell": cell.plan.id}
        file.write_text("\n".join(map(json.dumps, [*told[:at], joined, *told[at:]])) + "\n")
        assert goals(run_of(judge_cell(cell.directory)))["rebalance"].cells == want


def test_who_ends_behind_the_drain_was_not_killed_by_a_fault(tmp_path: Path) -> None:
    """The harness ends what is left with SIGKILL: that is no goal."""
    cell = lively(tmp_path / "x")
    file = cell.directory / "history" / "all.jsonl"
    last = json.loads(file.read_text().splitlines()[-1])
    end = last | {
        "event": "node",
        "node": "consumer",
        "role": "consumer",
        "incarnation": 1,
        "phase": "exited",
        "signal": 9,
    }
    file.write_text(f"{file.read_text()}{json.dumps(end)}\n")
    assert goals(run_of(judge_cell(cell.directory)))["kill"].cells == ()


def test_errors_are_those_that_a_seen_request_may_be_answered_by(tmp_path: Path) -> None:
    """Nobody misses the refusal of a request that nobody sent; of one that was read,
    each is named.
    """
    plain = {
        goal.name for goal in coverage(run_of(lively(tmp_path / "a"))) if goal.group is Group.ERROR
    }
    assert plain == set()  # no answer of it was read
    found = {
        goal.name
        for goal in coverage(with_lines(tmp_path / "b", FENCED))
        if goal.group is Group.ERROR
    }
    assert found == set(STEPS["EndTxn", Direction.REQUEST].errors)


def test_every_report_names_what_was_never_seen(tmp_path: Path) -> None:
    """The page, the Markdown and the JSON have the same goals, and each stands on one side only."""
    run = run_of(lively(tmp_path / "a"))
    told = json.loads(RENDERERS["json"].render(run))["coverage"]
    assert [(row["name"], row["cells"]) for row in told] == [
        (goal.name, len(goal.cells)) for goal in coverage(run)
    ]
    page, text = RENDERERS["html"].render(run), RENDERERS["markdown"].render(run)
    for group, seen, never in groups(coverage(run)):
        assert not {goal.name for goal in seen} & {goal.name for goal in never}
        assert f"<h3>{group}</h3>" in page
        assert all(f"{goal.name} <b>{len(goal.cells)}</b>" in page for goal in seen)
        assert all(f"<dt>{goal.name}</dt>" in page for goal in never)
        assert all(goal.name.replace("-", r"\-") in text or goal.name in text for goal in never)
    assert "## What was seen, and what never was" in text


def test_another_run_has_its_own(tmp_path: Path) -> None:
    """What is kept for the renderers of one run is never told of the next."""
    first, second = run_of(lively(tmp_path / "a")), run_of()
    assert coverage(first)
    assert coverage(second) == ()
    assert coverage(first)
