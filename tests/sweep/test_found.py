"""Findings as files: shrunk, written, read back, run again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.controls import AtWrite, InProgram, OnWire
from harness.faults import Drop, Twice
from harness.model.cell import LEAST_RECORDS
from harness.model.failures import UsageError
from harness.model.scenario import Role
from harness.model.writes import Point, Side
from harness.protocols.kafka.steps import Api
from harness.sweep.acts import KILL, LATE_NEXT, LATE_NEXT_KILL, LOSE, Happening, trigger
from harness.sweep.found import LONGEST, FoundScenario, slug
from harness.sweep.pipelines import fewest_of, plan_of_files, sweep_of, swept
from harness.sweep.points import Capabilities, points
from harness.sweep.settings import SweepSettings
from harness.sweep.shrinking import file_of, keep_all, shrink_all, smaller
from harness.sweep.steps import Step
from harness.wire.rules import Direction
from tests.memory.plants import Plant
from tests.sweep.stepping import RIGHT, Quiet, asked, sweep
from tests.sweep.test_steps import saved, steps_of

if TYPE_CHECKING:
    from harness.model.cell import Cell

EXAMPLES = Path(__file__).parents[2] / "examples"
END = trigger(Step("producer", "EndTxn", Direction.REQUEST, 2, "k1-3"))
AFTER = replace(END, occurrence=1, since=END)
LATE = FoundScenario(
    name="late-commit",
    because='It says "late".',
    seed=3,
    records=24,
    position=5,
    pipeline="plain/exactly-once",
    client="java",
    fault=Happening(LATE_NEXT_KILL, END, replace(END, offset=1, direction=Direction.RESPONSE)),
    then=Happening(LOSE, AFTER),
)


def test_a_file_says_what_was_found(tmp_path: Path) -> None:
    """Written and read back it is the same; so is its fault."""
    file = LATE.save(tmp_path, "found/late-commit.toml")
    read = FoundScenario.load(file)
    assert read == replace(LATE, file=file)
    assert isinstance(
        read.cell(swept(["plain/exactly-once"], asked(system=""))[0]).scenario.fault, Twice
    )


def test_a_place_in_a_program_is_said_by_its_name(tmp_path: Path) -> None:
    inside = replace(
        LATE, fault=Happening(KILL, InProgram(Role.CONSUMER, "before-commit")), then=None
    )
    assert FoundScenario.load(inside.save(tmp_path, "one.toml")).fault == inside.fault


WRITE = AtWrite(
    Role.CONSUMER,
    Point("pwrite64", 2, Side.AFTER, ('{work}/a "b"',)),
    OnWire(Role.CONSUMER, Api.FETCH, Direction.RESPONSE),
)


def test_a_durable_write_is_said_by_its_call(tmp_path: Path) -> None:
    """Read back it is the same; what no kernel has is none, and neither is one that counts from
    elsewhere.
    """
    at_write = replace(LATE, fault=Happening(KILL, WRITE), then=None)
    file = at_write.save(tmp_path, "one.toml")
    assert FoundScenario.load(file).fault == at_write.fault
    text = file.read_text()
    for wrong, because in (
        (text.replace("pwrite64", "scribble"), "no durable write is called scribble"),
        (text.replace('"Fetch"', '"Fetch", occurrence = 2'), "since must be a frame"),
        (text.replace('"after"', '"beside"'), "beside"),
        (text.replace('act = "kill"', 'act = "lose"'), "act lose is not"),
    ):
        file.write_text(wrong)
        with pytest.raises(UsageError, match=because):
            FoundScenario.load(file)


@pytest.mark.parametrize(
    "at", [WRITE, InProgram(Role.CONSUMER, "before-commit")], ids=["write", "failpoint"]
)
def test_where_there_is_no_frame_none_is_lost(at: AtWrite | InProgram) -> None:
    """A finding inside a program is not shrunk to something that cannot be there."""
    found = replace(LATE, fault=Happening(KILL, at), then=None)
    assert "a frame lost" not in dict(smaller(found, 3, 1))
    assert "a frame lost" in dict(smaller(replace(found, fault=Happening(KILL, END)), 3, 1))
    for _, less in smaller(found, 3, 1):
        less.fault.fault()


@pytest.mark.parametrize("semantic", ["at-least-once", "exactly-once"])
def test_every_point_of_a_real_run_can_be_written(semantic: str, tmp_path: Path) -> None:
    [base] = swept([f"plain/{semantic}"], asked(system="", records=24))
    known = {
        point.happens
        for point in points(
            steps_of(saved(semantic)),
            base.load(),
            Capabilities(terminate=True, members=frozenset({"consumer"})),
        )
    }
    for happens in sorted(known, key=repr)[::40]:
        file = replace(LATE, fault=happens, then=None).save(tmp_path, "one.toml")
        assert FoundScenario.load(file).fault == happens


@pytest.mark.parametrize(
    ("was", "becomes", "because"),
    [
        ("position = 5", "position = 50", "position 50 is outside"),
        ('act = "late-next-kill"', 'act = "x"', "the act x is not"),
        ('api = "EndTxn"', 'api = "EndTx"', "no step is called EndTx"),
        ("records = 24", 'records = "2"', "records must be of type int, not str"),
        ("seed = 3", "sed = 3", "field sed"),
        ("schema = 1", "schema = 2", "newer"),
        ("schema = 1", "schema =", "valid TOML"),
        ("occurrence = 2", 'occurrence = "2"', "occurrence must be of type int, not str"),
        ('pipeline = "plain/exactly-once"', "", "either pipe"),
        ('role = "producer", api = "EndTxn"', 'api = "EndTxn"', "role"),
        ("offset = 1", "ofset = 1", "ofset"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_in_one_line(
    was: str, becomes: str, because: str, tmp_path: Path
) -> None:
    file = LATE.save(tmp_path, "late.toml")
    text = file.read_text()
    assert was in text
    file.write_text(text.replace(was, becomes, 1))
    with pytest.raises(UsageError, match=because) as caught:
        FoundScenario.load(file)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_can_be_left_out() -> None:
    """The second fault, records, partitions, the death of the sender: one at a time."""
    found = dict(smaller(LATE, partitions=3, consumers=2))
    assert list(found) == [
        "one fault",
        "12 records",
        "one partition",
        "one consumer",
        "no process killed",
    ]
    assert found["one fault"].then is None
    assert (
        found["12 records"].records,
        found["one partition"].partitions,
        found["one consumer"].consumers,
    ) == (12, 1, 1)
    assert found["no process killed"].fault.act == LATE_NEXT
    assert "12 records" not in dict(smaller(replace(LATE, position=11), partitions=3, consumers=1))
    assert "12 records" not in dict(smaller(LATE, 3, 1, LATE.records)), "its programs make them"
    assert (
        dict(
            smaller(
                replace(LATE, then=None, records=12, fault=Happening(LOSE, END)),
                partitions=1,
                consumers=1,
            )
        )
        == {}
    )
    refused = replace(LATE, then=None, records=12, fault=Happening("refuse-REQUEST_TIMED_OUT", END))
    assert dict(smaller(refused, partitions=1, consumers=1)) == {}, "a lost frame is another cause"


@pytest.mark.parametrize(("example", "fewest"), [("debezium", 60), ("orders", LEAST_RECORDS)])
def test_what_a_pipelines_own_programs_make_is_not_made_less(
    example: str, fewest: int, tmp_path: Path
) -> None:
    """They make all of it in each run: what is beyond a smaller load would be phantoms."""
    file = EXAMPLES / example / "pipeline.toml"
    told = SweepSettings(str(file), "", 1, 48, 1, (1, 1), "test", declared=True)
    assert fewest_of(sweep_of(told, tmp_path).base) == fewest


def test_a_finding_is_shrunk_to_what_it_needs(tmp_path: Path) -> None:
    """What is wrong at any lost answer needs neither 24 records nor several partitions; its file
    runs it again.
    """

    def wrong(cell: Cell) -> Plant:
        fault = cell.scenario.fault
        lost = isinstance(fault, Drop) and (fault.at.api, fault.at.direction) == (
            "Produce",
            "response",
        )
        return Plant(lose=1) if lost else RIGHT

    one, progress = sweep(tmp_path / "one", wrong, records=24, acts=("lose",)), Quiet()
    one.dry_run(progress)
    planned = one.plan()
    one.run(planned, progress)
    outcomes = one.outcomes(planned)
    [finding] = outcomes.findings()
    shrink_all(one, outcomes, planned.usual, progress, until=None)
    found = FoundScenario.load(file_of(one, finding))
    assert (found.records, found.partitions, found.came_back, found.tried) == (12, 1, 3, 3)
    assert found.without == ("12 records", "one partition")
    ran = len(progress.ran)
    shrink_all(one, outcomes, planned.usual, progress, until=None)
    assert len(progress.ran) == ran, "what has a file is left alone"
    [kept] = keep_all(one, outcomes, tmp_path / "kept")
    assert kept.name.endswith(".lostack.toml")
    assert kept.name.startswith("plain-at-least-once-"), (
        "another pipeline has points of the same names"
    )
    plan = plan_of_files([kept], tmp_path, 1, "test")
    [cell] = plan.cells
    assert cell.scenario.fault == finding.first.point.fault
    assert cell.records == 12
    assert wrong(cell) is not RIGHT


def test_the_time_may_be_over(tmp_path: Path) -> None:
    """Then a finding is written as it was found, and nobody says that it was run again; who goes on
    runs it.
    """
    one = sweep(
        tmp_path / "one",
        lambda cell: Plant(lose=1) if isinstance(cell.scenario.fault, Drop) else RIGHT,
    )
    progress = Quiet()
    one.dry_run(progress)
    planned = one.plan()
    lost = tuple(each for each in planned.chosen if each[0].act == LOSE)
    one.run(replace(planned, chosen=lost[:8]), progress)
    outcomes = one.outcomes(planned)
    ran = len(progress.ran)
    shrink_all(one, outcomes, planned.usual, progress, until=0.0)
    assert len(progress.ran) == ran
    files = [file_of(one, finding) for finding in outcomes.findings()]
    assert files
    assert {FoundScenario.load(file).again for file in files} == {
        "was not run again: the time was over"
    }
    shrink_all(one, outcomes, planned.usual, progress, until=None)
    assert {FoundScenario.load(file).again for file in files} == {"came back 3 of 3 times"}


def test_no_two_names_are_one() -> None:
    long = "producer.AddOffsetsToTxn.request.1-after-Produce.response.k1-3+kill+then+InitProducerId.response.1+"  # noqa: E501
    assert slug(f"{long}lose") != slug(f"{long}kill")
    assert len(slug(f"{long}lose")) == LONGEST
