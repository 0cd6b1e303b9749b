"""What is told of a sweep: JSON with a published form, a page, parts as one."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from importlib import resources
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from harness.faults import Drop
from harness.model.exits import ExitCode
from harness.model.failures import CellFailure, UsageError
from harness.sweep import telling
from harness.sweep.classes import Earlier
from harness.sweep.lessons import Lessons
from harness.sweep.page import NEVER, PAGE_FILE, SweepReport, table_of, timeline_of
from harness.sweep.planning import RESULT_FILE
from harness.sweep.reached import Reach, reached
from harness.sweep.shrinking import shrink_all
from harness.sweep.signature import errors_of
from harness.sweep.telling import plan_lines, report_of, summary_of, write_sweep
from tests.events import a_history
from tests.memory.plants import Plant
from tests.sweep.stepping import RIGHT, Quiet, sweep

if TYPE_CHECKING:
    from pathlib import Path

    from harness.model.cell import Cell
    from harness.sweep.settings import SweepSettings
    from harness.sweep.sweeping import Sweep


def wrong(cell: Cell) -> Plant:
    """Lose a record wherever anything is lost."""
    return Plant(lose=1) if isinstance(cell.scenario.fault, Drop) else RIGHT


def test_json_and_page(tmp_path: Path) -> None:
    """The form of the JSON is published, and allows nothing it does not name; the page has every
    step, in its colour.
    """
    one, progress = sweep(tmp_path / "one", wrong, acts=("lose", "kill-b")), Quiet()
    one.dry_run(progress)
    planned = one.plan()
    said = [*plan_lines(one, planned, 60.0)]
    assert any("have the same name in all three runs" in line for line in said)
    one.run(planned, progress)
    outcomes = one.outcomes(planned)
    shrink_all(one, outcomes, planned.usual, progress, until=0.0)
    told = summary_of(one, planned, outcomes)
    write_sweep(one, planned, outcomes, told)
    result = json.loads((one.directory / RESULT_FILE).read_text())
    jsonschema.validate(
        result,
        json.loads(resources.files("harness.sweep").joinpath("schema.json").read_text("utf-8")),
    )
    assert len(result["findings"]) == 1
    compared = result["findings"][0]["counterfactual"]
    assert compared["parted"]["nearest"] in {"dry-1", "dry-2", "dry-3"}
    assert compared["parted"]["partings"]
    assert compared["neighbours"]["later"]["broke"] > 0
    assert (one.directory / result["findings"][0]["scenario"]).exists()
    assert all((one.directory / each["cell"] / "cell.json").exists() for each in result["outcomes"])
    assert any("again: lostack run --scenario" in line for line in told.lines)
    swept = SweepReport(
        planned.steps,
        outcomes,
        reached(planned.steps, outcomes, (point for point, _ in planned.chosen)),
    )
    timeline, table = timeline_of(swept), table_of(swept)
    assert len(timeline.marks) == len(planned.steps.found)
    assert {mark.verdict for mark in timeline.marks if mark.run} == {"broken", "kept"}
    assert {cell.verdict for _, cells in table.rows for cell in cells if cell} == {"broken", "kept"}
    assert sum(cell.of for _, cells in table.rows for cell in cells if cell) == planned.points
    page = (one.directory / PAGE_FILE).read_text()
    assert page.count("<rect ") == len(timeline.marks)
    assert "script" not in page.partition("<style>")[0]
    assert "finding 1 · broken" in page
    assert "neighbours that broke or stood still: 0 of 0 earlier" in page
    for parting in compared["parted"]["partings"]:
        assert parting["words"].replace("'", "&#39;") in page


def test_a_partial_sweep_claims_nothing_of_what_it_never_reached(tmp_path: Path) -> None:
    """One point of hundreds: PARTIAL everywhere, exit code 4, and one step in the colour of an
    outcome.
    """
    one, progress = sweep(tmp_path / "one", jobs=1), Quiet()
    one.dry_run(progress)
    planned = one.plan()
    first = replace(planned, chosen=planned.chosen[:1])
    one.run(first, progress)
    outcomes = one.outcomes(planned)
    assert len(outcomes.all) == 1
    told = summary_of(one, planned, outcomes)
    assert told.exit_code == ExitCode.VOID
    assert any("PARTIAL" in line for line in told.lines)
    far = reached(planned.steps, outcomes, (point for point, _ in planned.chosen))
    assert [*far.points.values()].count(Reach.RUN) == 1
    assert [*far.points.values()].count(Reach.NEVER) == planned.points - 1
    timeline = timeline_of(SweepReport(planned.steps, outcomes, far))
    assert [mark.verdict for mark in timeline.marks if mark.verdict != NEVER] == ["kept"]
    write_sweep(one, planned, outcomes, told)
    result = json.loads((one.directory / RESULT_FILE).read_text())
    assert result["exit_code"] == 4
    assert result["reached"]["partial"] is True
    assert result["reached"]["points"] == {
        "run": 1,
        "sampled": 0,
        "by_its_class": 0,
        "never_reached": planned.points - 1,
    }
    assert [step["reached"] for step in result["steps"]].count("run") == 1
    states = {str(each.state) for each in planned.classes}
    [one_point] = outcomes.all
    struck = str(one_point.where.state)
    assert result["reached"]["states"]["struck"] == [struck]
    assert set(result["reached"]["states"]["never_reached"]) == states - {struck}
    assert f"1 of {len(states | {struck})} protocol states struck" in far.sentence
    page = (one.directory / PAGE_FILE).read_text()
    assert "<title>lostack: PARTIAL sweep of " in page
    assert page.count('<rect class="kept"') == 1
    assert page.count('<rect class="never"') == len(timeline.marks) - 1
    assert "never reached</small>" in page
    missed = f"{len(states - {struck})} of {len(states | {struck})} protocol states never struck"
    assert missed in page
    assert f"1 of {len(states | {struck})} protocol states struck by a fault" in page
    [line] = [line for line in told.lines if "protocol states never struck: " in line]
    assert set(line.partition(": ")[2].split("; ")) == states - {struck}
    assert "None so far" in page


def test_the_next_sweep_is_told_only_what_was_proved(tmp_path: Path) -> None:
    """By the state in which it was hit. A sweep of another client or system is told nothing."""

    def failing(cell: Cell) -> Plant:
        if "OffsetCommit" in cell.scenario.id:
            raise CellFailure("the fault did not fire")
        return wrong(cell)

    one = sweep(tmp_path / "1", failing, jobs=1)
    one.dry_run(Quiet())
    planned = one.plan()
    one.run(planned, Quiet())
    calm = next(each for each in planned.classes if "Produce" in each.api and each.act == "lose")
    hit = replace(calm, phase="elsewhere")
    outcomes = one.outcomes(planned)
    moved = replace(
        outcomes,
        all=tuple(
            replace(each, where=hit) if each.planned == calm else each for each in outcomes.all
        ),
    )
    write_sweep(one, planned, moved, summary_of(one, planned, moved))
    earlier = sweep(tmp_path / "2").planner._earlier()
    assert earlier.states == {str(each.where.state) for each in moved.all if each.proved}
    assert earlier.classes >= {str(hit), str(calm)}
    assert earlier.classes.isdisjoint(str(each.planned) for each in moved.unproved)
    assert str(hit.state) in earlier.broken
    assert str(calm.state) not in earlier.broken
    others: list[dict[str, Any]] = [{"client": "java"}, {"system": "kafka"}]
    for other in others:
        apart = sweep(tmp_path / "3")
        apart.base = replace(apart.base, **other)
        assert apart.planner._earlier() == Earlier()


def test_a_whole_sweep_speaks_for_what_is_between(tmp_path: Path) -> None:
    """What lies between two points that came out alike is reached by its class; nothing of the
    chosen points is left.
    """
    one, progress = sweep(tmp_path / "one", acts=("lose",)), Quiet()
    one.dry_run(progress)
    planned = one.plan()
    one.run(planned, progress)
    outcomes = one.outcomes(planned)
    far = reached(planned.steps, outcomes, (point for point, _ in planned.chosen))
    assert not far.partial
    assert Reach.NEVER not in far.points.values()
    assert {Reach.RUN, Reach.SAMPLED, Reach.BY_CLASS} == {*far.points.values()}
    assert summary_of(one, planned, outcomes).exit_code == ExitCode.KEPT
    cut = {point.id for each in planned.classes.values() for point in each[1:-1]}
    ends = reached(
        planned.steps,
        replace(outcomes, all=tuple(o for o in outcomes.all if o.point.id not in cut)),
        (),
    )
    assert Reach.NEVER not in ends.points.values()
    last = {each[-1].id for each in planned.classes.values()}
    only = reached(
        planned.steps,
        replace(outcomes, all=tuple(o for o in outcomes.all if o.point.id not in cut | last)),
        (),
    )
    assert Reach.BY_CLASS not in only.points.values(), (
        "one side alone does not speak for what is behind it"
    )


def test_parts_are_told_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All points of all parts, the findings of all of them, and one exit code; a part of another
    sweep is none.
    """
    parts = [
        sweep(tmp_path / f"part-{part}", wrong, acts=("lose",), shard=(part, 2)) for part in (1, 2)
    ]
    for one in parts:
        one.dry_run(Quiet())
        one.run(one.plan(), Quiet())

    def same(asked: SweepSettings, directory: Path) -> Sweep:
        return sweep(directory, wrong, acts=asked.acts, shard=asked.shard, seed=asked.seed)

    monkeypatch.setattr(telling, "sweep_of", same)
    told = report_of([one.directory for one in parts])
    assert told.exit_code == 1
    result = json.loads((parts[0].directory / RESULT_FILE).read_text())
    each = [{one.point.id for one in part.outcomes(part.plan()).all} for part in parts]
    assert {one["point"] for one in result["outcomes"]} == each[0] | each[1]
    assert len(result["outcomes"]) == len(each[0] | each[1])
    assert not any("PARTIAL" in line for line in told.lines)
    assert any("PARTIAL" not in line and "finding 1" in line for line in told.lines)
    plans = [part.plan().chosen for part in parts]
    by_id = {one.point.id: one for part in parts for one in part.outcomes(part.plan()).all}
    turns = [one[0].id for turn in itertools.zip_longest(*plans) for one in turn if one]
    turns += [name for name in by_id if name not in turns]
    dry = Lessons.of(by_id[name] for name in turns).dry
    assert result["reached"]["dry"] == dry != Lessons.of(by_id.values()).dry
    other = sweep(tmp_path / "other", acts=("lose",), seed=2)
    with pytest.raises(UsageError, match="not a part of the sweep"):
        report_of([parts[0].directory, other.directory])


def test_a_signature_has_no_text_of_one_run() -> None:
    """Errors by their names, behind the fault alone; a program that is done has been
    told nothing.
    """
    lines = [
        {"event": "acked", "t": 1},
        {"event": "unknown", "t": 2, "error": "Early: not of this fault"},
        {"event": "fault", "t": 3, "phase": "fired"},
        {"event": "unknown", "t": 4, "error": "TimedOut: c0ffee.in-0 has expired"},
        {"event": "stopped", "t": 5, "kind": "done", "because": "the source is exhausted"},
        {"event": "stopped", "t": 6, "kind": "error", "because": "Fenced: epoch 3"},
        {"event": "saved", "t": 7, "error": None},
    ]
    assert errors_of(a_history(tuple(lines)), 3) == {"TimedOut", "Fenced"}


def test_what_is_inside_programs_is_told_before_it_is_run(tmp_path: Path) -> None:
    """Which failpoints there are, by their names: nobody sees them on the wire."""
    one = sweep(tmp_path / "one", acts=("kill",))
    one.failpoints = (("consumer", "before-database-commit"),)
    one.dry_run(Quiet())
    assert "  failpoints: consumer before-database-commit" in plan_lines(one, one.plan(), None)
