"""Where a run with a fault parts from those without it: what is planted in a real run is found, to
the frame, and nothing where nothing is planted.
"""

from __future__ import annotations

import json
import tarfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from harness.cli.check import Compared
from harness.faults import Drop
from harness.judge.verdict import Kind
from harness.model.history import HISTORY, History, parse_history
from harness.pipelines.cells import DeclaredCell, cells_of
from harness.pipelines.failure_points import NO_FAULT, failure_points
from harness.pipelines.reading import read_pipeline
from harness.saved import RunInfo
from harness.sweep.acts import ACTS, KILL_BROKER, LOSE, severity
from harness.sweep.cells import at_point
from harness.sweep.parting import (
    Difference,
    RunDivergence,
    Without,
    counterfactual,
    neighbours,
    parted,
)
from harness.sweep.telling import summary_of
from harness.wire.rules import Direction
from tests.memory.plants import Plant
from tests.report.hostile import run_of
from tests.sweep.stepping import RIGHT, Quiet, sweep

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.model.cell import Cell

SAVED = Path(__file__).with_name("dry.tar.xz")
EXAMPLES = Path(__file__).parents[2] / "examples"
Line = dict[str, Any]
T = TypeVar("T")


def there(found: T | None) -> T:
    """Return what is there."""
    assert found is not None
    return found


def saved(semantic: str) -> list[tuple[str, list[Line]]]:
    """Return the lines of three real runs without a fault, each with the key of its cell."""
    found = []
    with tarfile.open(SAVED) as tar:
        for member in tar.getmembers():
            if member.name.startswith(f"{semantic}/") and member.isfile():
                text = there(tar.extractfile(member)).read().decode()
                lines = [json.loads(line) for line in text.splitlines()]
                found.append((Path(member.name).stem, lines))
    return found


RUNS = {semantic: saved(semantic) for semantic in ("at-least-once", "exactly-once")}
RECORDS = len({r for line in RUNS["at-least-once"][0][1] for r in line.get("records") or ()})


def history(lines: Sequence[Line]) -> History:
    """Return the history of lines, numbered anew."""
    numbered = [line | {"line": number} for number, line in enumerate(lines, 1)]
    text = "".join(json.dumps(line) + "\n" for line in numbered)
    return parse_history([("wire.jsonl", [text.encode()])])


def is_frame(line: Line, api: str = "", way: str = "") -> bool:
    """Say whether a line is of a frame about a record."""
    named = line["event"] == "frame" and bool(line.get("records"))
    return named and api in ("", line["api"]) and way in ("", line["dir"])


def number_of(lines: Sequence[Line], at: int) -> int:
    """Return the number, among all frames, of the frame in a line."""
    return sum(line["event"] == "frame" for line in lines[: at + 1])


def struck(lines: list[Line], at: int) -> list[Line]:
    """Return the lines with the hit of a fault behind the frame in line ``at``."""
    frame = lines[at]
    of = {name: frame[name] for name in ("t", "w", "cell", "by", "conn", "corr", "dir", "api")}
    hit = of | {"event": "rule", "phase": "hit", "rule": "fault", "hit": 1, "role": frame["role"]}
    return [*lines[: at + 1], hit, *lines[at + 1 :]]


def keys(lines: Sequence[Line]) -> dict[str, str]:
    """Return the key of each record: its name begins with it."""
    records = {record for line in lines if is_frame(line) for record in line["records"]}
    return {record: record.partition("-")[0] for record in records}


def compared(semantic: str, lines: Sequence[Line]) -> RunDivergence:
    """Compare the third run, changed, with the first two."""
    runs = RUNS[semantic]
    dry = {
        f"dry-{number}": Without(history(runs[number - 1][1]), runs[number - 1][0])
        for number in (1, 2)
    }
    return there(parted(history(lines), runs[2][0], dry, keys(lines)))


def places(semantic: str, api: str, way: str) -> list[int]:
    """Return the lines of such frames in the third run."""
    return [at for at, line in enumerate(RUNS[semantic][2][1]) if is_frame(line, api, way)]


@pytest.mark.parametrize("semantic", RUNS)
def test_a_run_that_is_like_the_others_does_not_part(semantic: str) -> None:
    lines = RUNS[semantic][2][1]
    for at in places(semantic, "", "")[::25]:
        found = compared(semantic, struck(lines, at))
        assert found.partings == ()
        assert found.struck == number_of(lines, at)


def fired(lines: list[Line], at: int) -> list[Line]:
    """Return the lines with a fault that strikes at no frame, behind line ``at``."""
    near = lines[max(at, 0)]
    of = {name: near[name] for name in ("t", "w", "cell", "by")}
    return [*lines[: at + 1], of | {"event": "fault", "phase": "fired"}, *lines[at + 1 :]]


def test_a_fault_at_no_frame_is_behind_one() -> None:
    """As at a failpoint, or at a durable write. What the frame before it tells is no effect."""
    lines = RUNS["at-least-once"][2][1]
    sent = places("at-least-once", "Produce", "request")
    at = sent[9]
    found = compared("at-least-once", fired(lines, at))
    number = number_of(lines, at)
    assert (found.struck, found.at_frame, found.partings) == (number, False, ())
    assert next(found.lines()).startswith(f"the fault struck behind frame {number} of ")
    again = [
        *lines[: at + 1],
        lines[sent[2]] | {"t": lines[at]["t"], "corr": 999},
        *lines[at + 1 :],
    ]
    assert compared("at-least-once", fired(again, at + 1)).partings == ()
    first = compared("at-least-once", fired(lines, -1))
    assert (first.struck, first.at_frame) == (0, False)
    assert next(first.lines()).startswith("the fault struck before the first frame of ")
    nothing = compared("at-least-once", fired([line for line in lines if not is_frame(line)], -1))
    assert "before the first frame there is not" in nothing.partings[0].sentence


@pytest.mark.parametrize("nth", [0, 7, 20])
@pytest.mark.parametrize("semantic", RUNS)
def test_a_frame_that_is_sent_again_is_found(semantic: str, nth: int) -> None:
    """A record is sent a second time three frames behind the fault: there they part."""
    lines = RUNS[semantic][2][1]
    at = places(semantic, "Produce", "request")[nth]
    behind = [place for place in places(semantic, "", "") if place > at][2]
    again = struck(lines, at)
    again.insert(behind + 2, lines[at] | {"t": lines[behind]["t"], "corr": 999})
    found = compared(semantic, again)
    [parting] = found.partings
    assert (parting.how, parting.frame) == (Difference.ADDED, number_of(lines, behind) + 1)
    step = parting.step
    assert (step.role, step.api, step.direction, step.ordinal, step.record) == (
        "producer",
        "Produce",
        Direction.REQUEST,
        2,
        lines[at]["records"][0],
    )
    assert "(number 2), as in none of them" in parting.sentence
    assert found.struck < parting.frame


@pytest.mark.parametrize("nth", [1, 8])
@pytest.mark.parametrize("semantic", RUNS)
def test_a_frame_that_never_comes_is_found(semantic: str, nth: int) -> None:
    """It is missing behind the frame about its record that comes before it: its delivery."""
    lines = RUNS[semantic][2][1]
    commits = places(semantic, "OffsetCommit", "request")
    at, gone = commits[nth], lines[commits[nth + 1]]
    of = gone["conn"], gone["corr"]
    left = [line for line in lines if not (is_frame(line) and (line["conn"], line["corr"]) == of)]
    here = left.index(lines[at])
    found = compared(semantic, struck(left, here))
    [parting] = found.partings
    assert (parting.how, parting.step.api) == (Difference.MISSING, "OffsetCommit")
    assert (parting.step.direction, parting.step.record) == (
        Direction.REQUEST,
        gone["records"][0],
    )
    before = max(
        place
        for place, line in enumerate(left)
        if is_frame(line)
        and line["role"] == "consumer"
        and line["records"] == gone["records"]
        and line["t"] < gone["t"]
    )
    assert parting.frame == number_of(left, before)
    assert "there is not the consumer's OffsetCommit request" in parting.sentence


def test_a_refusal_is_found_by_its_error() -> None:
    """An answer that is refused has no name of its own, and tells the runs apart all the same."""
    lines = RUNS["at-least-once"][2][1]
    at = places("at-least-once", "OffsetCommit", "response")[5]
    refused = [*lines]
    refused[at] = lines[at] | {"error": 27}
    refused.insert(at + 1, lines[at] | {"corr": 999})
    asked = places("at-least-once", "OffsetCommit", "request")[5]
    [parting] = compared("at-least-once", struck(refused, asked)).partings
    assert (parting.how, parting.error, parting.step.api) == (
        Difference.REFUSED,
        "27",
        "OffsetCommit",
    )
    assert parting.frame == number_of(lines, at)


def test_each_role_parts_at_a_frame_of_its_own_and_the_first_comes_first() -> None:
    lines = RUNS["at-least-once"][2][1]
    sent = places("at-least-once", "Produce", "request")[4]
    given = places("at-least-once", "Fetch", "response")[9]
    changed = [*lines]
    changed.insert(given + 1, lines[given] | {"corr": 998})
    changed.insert(sent + 1, lines[sent] | {"corr": 999})
    found = compared("at-least-once", struck(changed, sent)).partings
    assert [(each.step.role, each.how) for each in found] == [
        ("producer", Difference.ADDED),
        ("consumer", Difference.ADDED),
    ]
    assert found[0].frame < found[1].frame


def test_what_differs_before_the_fault_is_none_of_its_effects() -> None:
    lines = RUNS["at-least-once"][2][1]
    sent = places("at-least-once", "Produce", "request")
    more = [*lines]
    more.insert(sent[2] + 1, lines[sent[2]] | {"corr": 999})
    asked = lines.index(lines[sent[9]])
    assert compared("at-least-once", struck(more, asked + 1)).partings == ()
    less = [line for line in lines if line is not lines[sent[2]]]
    assert compared("at-least-once", struck(less, asked - 1)).partings == ()


@pytest.mark.parametrize("semantic", RUNS)
def test_runs_whose_records_have_other_names_are_compared_by_their_places(semantic: str) -> None:
    runs, lines = RUNS[semantic], RUNS[semantic][2][1]
    called = {f"theirs-{record}": record for record in keys(lines)}
    theirs = [
        line | {"records": [f"theirs-{record}" for record in line["records"]]}
        if is_frame(line)
        else line
        for line in runs[0][1]
    ]
    sent = places(semantic, "Produce", "request")[7]
    again = [*struck(lines, sent), lines[sent] | {"corr": 999}]

    def told(run: Without) -> RunDivergence:
        return there(parted(history(again), runs[2][0], {"dry": run}, keys(lines)))

    usual = told(Without(history(runs[0][1]), runs[0][0]))
    assert [each.step.ordinal for each in usual.partings] == [2]
    assert told(Without(history(theirs), runs[0][0], called)) == usual
    strange = told(Without(history(theirs), runs[0][0])).partings
    assert strange[0].frame < usual.partings[0].frame, "by their own names they have nothing alike"


def checked_cell(scenario: str) -> DeclaredCell:
    """Return a cell of a check, with as many records as the real runs have."""
    pipeline = read_pipeline(EXAMPLES / "orders" / "pipeline.toml")
    [point] = [each for each in failure_points(pipeline) if each.id == scenario]
    [cell] = cells_of(pipeline, [point], seed=1, records=RECORDS)
    return cell


def saved_as(cell: DeclaredCell, folder: Path, run: int, lines: Sequence[Line]) -> Any:
    """Save a run as that of a cell of a check: the names of its records are that one's."""
    names = {each.position: each.id for each in cell.load().records}
    key = RUNS["at-least-once"][run][0]
    written = []
    for number, line in enumerate(lines, 1):
        mine = line | {"line": number, "cell": cell.id}
        if is_frame(line):
            places = [int(record.partition("-")[2]) for record in line["records"]]
            mine["records"] = [names[place] for place in places]
        if "client" in line:
            mine["client"] = str(line["client"]).replace(key, cell.key)
        written.append(json.dumps(mine) + "\n")
    (folder / HISTORY).mkdir(parents=True)
    (folder / HISTORY / "wire.jsonl").write_text("".join(written), encoding="utf-8")
    plan = SimpleNamespace(id=cell.id, key=cell.key, scenario=cell.scenario.id)
    verdict = SimpleNamespace(kind=Kind.KEPT if cell.scenario.id == NO_FAULT else Kind.BROKEN)
    return SimpleNamespace(directory=folder, plan=plan, verdict=verdict)


def test_a_check_says_where_a_broken_point_parts_from_its_dry_runs(tmp_path: Path) -> None:
    """Each cell of a check has a load of its own, whose keys and names differ."""
    lines = RUNS["at-least-once"][2][1]
    sent = places("at-least-once", "Produce", "request")[7]
    again = [*struck(lines, sent), lines[sent] | {"corr": 999}]
    dry, point = checked_cell(NO_FAULT), checked_cell("ack-lost")
    ours, theirs = point.load().records, dry.load().records
    assert [each.key for each in ours] != [each.key for each in theirs]
    broken = saved_as(point, tmp_path / "broken", 2, again)
    runs = [
        (saved_as(dry, tmp_path / f"dry-{run}", run, RUNS["at-least-once"][run][1]), dry)
        for run in (0, 1)
    ]
    more = replace(dry, records=2 * RECORDS)
    rest: Any = SimpleNamespace(results=[])
    said = list(Compared([dry, point], rest, [*runs, (runs[0][0], more)]).lines(broken))
    record = ours[int(lines[sent]["records"][0].partition("-")[2]) - 1].id
    at = number_of(lines, sent)
    frames = number_of(again, len(again) - 1)
    assert said == [
        f"the fault struck at frame {at} of {frames}; the nearest run without it is dry-1",
        (
            f"the producer parts from the runs without it: at frame {at + 1} there is the "
            f"producer's Produce request about {record} (number 2), as in none of them"
        ),
    ]
    one = [runs[0], (runs[1][0], more)]
    assert list(Compared([dry, point], rest, one).lines(broken)) == [], "one run tells nothing"
    assert list(Compared([dry, point], rest, runs).lines(runs[0][0])) == [], "it has no fault"
    saved: Any = replace(run_of(), directory=tmp_path, results=(runs[0][0], broken))
    noted = Compared([dry, point], rest, runs).noted(saved)
    assert noted.info.compared == {point.id: tuple(said)}
    assert RunInfo.load(tmp_path) == noted.info


def test_the_nearest_run_is_the_one_that_is_left_the_latest() -> None:
    """A frame that one run without the fault lacks, too, tells nothing; runs are told by name."""
    runs = RUNS["at-least-once"]
    lines = runs[2][1]
    sent = places("at-least-once", "Produce", "request")
    again = [*lines]
    again.insert(sent[5] + 1, lines[sent[5]] | {"corr": 999})
    twin = Without(history(again), runs[2][0])
    dry = {"dry-1": Without(history(runs[0][1]), runs[0][0]), "dry-2": twin}
    twice = history(struck(again, sent[1]))
    found = there(parted(twice, runs[2][0], dry, keys(lines)))
    assert found.partings == (), "one run without the fault sends it twice as well"
    assert parted(history(lines), runs[2][0], dry, {}) is None, "no fault struck"
    assert parted(history(struck(lines, sent[1])), runs[2][0], {}, {}) is None


def test_acts_have_an_order() -> None:
    assert {act: severity(act) for act in ACTS}[KILL_BROKER] == 3
    assert severity(LOSE) < severity(KILL_BROKER)


def loses_late(cell: Cell) -> Plant:
    """Lose a record where the answer to a Produce about one of the later records is lost."""
    fault = cell.scenario.fault
    wrong = (
        isinstance(fault, Drop)
        and (fault.at.api, fault.at.direction) == ("Produce", "response")
        and cell.load().target.position > 4
    )
    return Plant(lose=1) if wrong else RIGHT


def test_a_finding_says_what_it_is_compared_with(tmp_path: Path) -> None:
    one, progress = sweep(tmp_path / "one", loses_late, acts=("lose", "kill-b")), Quiet()
    one.dry_run(progress)
    planned = one.plan()
    one.run(planned, progress)
    outcomes = one.outcomes(planned)
    [finding] = outcomes.findings()
    found = neighbours(finding, outcomes.all)
    assert found.earlier.ran > 0
    assert found.earlier.broke == 0
    assert found.later.broke == found.later.ran > 0
    assert found.weaker.ran == 0, "nothing that is tried here does less than to lose a frame"
    kill = replace(finding.first.where, act=KILL_BROKER)
    killed = next(each for each in outcomes.all if each.where == kill)
    assert neighbours(replace(finding, points=(killed,)), outcomes.all).weaker.broke > 0
    lines = summary_of(one, planned, outcomes).lines
    sentence = "    neighbours that broke or stood still: 0 of "
    assert any(line.startswith(sentence) for line in lines)
    assert any("the nearest run without it is dry-" in line for line in lines)
    cell = at_point(one.base, finding.first.point)
    whole = counterfactual(finding, outcomes.all, cell, one.saved.dry_runs())
    assert whole.parted is not None
    (finding.first.directory / "history" / "wire.jsonl").write_text("no line\n")
    cut = counterfactual(finding, outcomes.all, cell, one.saved.dry_runs())
    assert cut.parted is None, "what cannot be read is compared with nothing"
    assert cut.neighbours == whole.neighbours
