"""How rows are run: once each, whole or not at all; and what a saved run says of a row."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness import cli
from harness.judge.verdict import Kind
from harness.model.failures import EnvironmentFailure, UsageError
from harness.pipelines import read_pipeline
from harness.pipelines.failure_points import NO_FAULT, failure_points
from harness.provision.node import Node
from harness.saved import judge_cell, load_run
from harness.scoreboard import board as boards
from harness.scoreboard import building
from harness.scoreboard.board import LACKING, NO_CONTROL, RAN, ROWS, read_outcomes, with_run
from harness.scoreboard.building import BuiltClient, LackingError, built
from harness.scoreboard.declaring import declaration
from harness.scoreboard.table import TWO_MEMBERS, Client, Row, read_clients, rows_of
from tests.gate.saved import HERE, unpack
from tests.scoreboard.rows import cell, outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.matrix.listener import Progress
    from harness.scoreboard.board import Board, Outcome

ALL = tuple(rows_of(read_clients()))
ONLY = ["scoreboard", "--only", "kafkajs/consumer/a", "--board", "board"]
"""Three rows."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test works in a folder of its own."""
    monkeypatch.chdir(tmp_path)


def played(monkeypatch: pytest.MonkeyPatch, act: Callable[[Row], None]) -> list[str]:
    """Rows are played: return the list of those that were run."""
    ran: list[str] = []

    def play(_: Board, row: Row, __: Progress) -> Outcome:
        act(row)
        ran.append(row.id)
        found = outcome(row.client.name, f"{row.role}/{row.mode}", cell("none"))
        return replace(found, sources=row.sources)

    monkeypatch.setattr(boards.Board, "_run", play)
    return ran


def test_a_board_that_was_killed_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the row under way nothing stays; those before it are not run again."""

    def die(row: Row) -> None:
        if row.mode == "at-most-once":
            raise KeyboardInterrupt

    first = played(monkeypatch, die)
    assert cli.main(ONLY) == 130
    assert [row.rpartition("/")[2] for row in first] == ["as-it-comes"]
    second = played(monkeypatch, lambda _: None)
    assert cli.main(ONLY) == 4  # the other clients are not there: partial
    assert [row.rpartition("/")[2] for row in second] == ["at-most-once", "at-least-once"]
    third = played(monkeypatch, lambda _: None)
    cli.main(ONLY)
    assert third == []
    cli.main([*ONLY, "--again"])
    assert len(third) == 3


def test_a_row_of_other_programs_is_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found of a program is not true of the program that it has become."""
    played(monkeypatch, lambda _: None)
    cli.main(ONLY)
    monkeypatch.setattr(Row, "sources", "changed")
    again = played(monkeypatch, lambda _: None)
    cli.main(ONLY)
    assert len(again) == 3


def test_a_row_that_could_not_be_run_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network that is down is no property of a client: its row is neither kept nor n/a."""

    def fail(row: Row) -> None:
        if row.mode == "as-it-comes":
            raise EnvironmentFailure("npm ci failed: no network")

    played(monkeypatch, fail)
    assert cli.main(ONLY) == 3
    assert {one.mode for one in read_outcomes(Path("board"))} == {"at-most-once", "at-least-once"}


def test_a_damaged_row_is_told(tmp_path: Path) -> None:
    (tmp_path / ROWS).mkdir()
    (tmp_path / ROWS / "x.json").write_text('{"row": 1}')
    with pytest.raises(UsageError, match=r"x\.json is no row of a scoreboard"):
        read_outcomes(tmp_path)


@pytest.mark.parametrize("row", ALL[:9], ids=lambda row: row.id)
def test_each_declaration_is_one(row: Row, tmp_path: Path) -> None:
    """What a board writes, ``lostack check`` reads."""
    file = tmp_path / "row.toml"
    file.write_text(declaration(row, BuiltClient({str(row.role): ("program", 'it\'s "quoted"')})))
    pipeline = read_pipeline(file)
    [stage] = pipeline.stages
    assert (stage.role, pipeline.claims) == (row.role, row.claims)
    assert stage.scale == (2 if row.mode == TWO_MEMBERS else 1)
    assert stage.command[-1] == row.program_mode != TWO_MEMBERS
    assert {*row.points} <= {point.id for point in failure_points(pipeline)}


def test_a_toolchain_that_is_missing_makes_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """*Not applicable*, with what is missing; one that is too old, too."""
    node = Node(Path("/bin/node"), ("npm",))
    monkeypatch.setattr(building, "find_node", lambda *_: node)
    monkeypatch.setattr(building, "version_of", lambda _: (20, 20, 2))
    newer = Client("kafkajs", "JavaScript", "node", ("2.2.4",), needs={"2.2.4": "22.1.0"})
    with pytest.raises(LackingError, match=r"there is no Node 22\.1\.0 or newer"):
        built(newer, "2.2.4", print)
    rust = next(each for each in read_clients() if each.kind == "rust")
    monkeypatch.setattr("harness.scoreboard.building.shutil.which", lambda *_, **__: None)
    with pytest.raises(LackingError, match="there is no cargo"):
        built(rust, rust.versions[0], print)


def test_a_run_is_a_row(tmp_path: Path) -> None:
    """Each cell of a saved run with its outcome; a broken one with the way of a record."""
    unpack(HERE / "declared.tar.xz", tmp_path)
    saved = load_run(tmp_path / "run-5")
    asked = outcome("confluent-kafka", "processor/exactly-once", state=LACKING)
    found = with_run(asked, saved, "runs/one")
    assert (found.state, found.run, len(found.cells)) == (RAN, "runs/one", len(saved.results))
    assert {each.point for each in found.cells if each.outcome == "stuck"} == {
        "ack-lost",
        "broker-crash-before-ack",
        "broker-crash-before-append",
    }
    longer = {each.point: each.times_as_long for each in found.cells}
    assert (longer[NO_FAULT], longer["producer-crash-before-send"]) == (1.0, 1.1)
    assert longer["ack-lost"] is None, "what is stuck has not recovered"
    demo = [judge_cell(folder) for folder in unpack(HERE / "demo.tar.xz", tmp_path / "demo")]
    lost = next(one for one in demo if one.verdict.kind is Kind.BROKEN)
    worse = with_run(asked, replace(saved, results=(*saved.results, lost)), "runs/one").cells[-1]
    assert (worse.outcome, worse.lost) == ("broken", lost.judgement.account.counts["lost"])
    assert worse.way[0].startswith("the path of ")


def test_a_run_whose_control_failed_is_none(tmp_path: Path) -> None:
    """Without a cell that is kept without a fault, no conviction and no acquittal counts."""
    unpack(HERE / "declared.tar.xz", tmp_path)
    saved = load_run(tmp_path / "run-5")
    asked = outcome("confluent-kafka", "processor/exactly-once", state=LACKING)
    rest = tuple(one for one in saved.results if one.plan.scenario != NO_FAULT)
    found = with_run(asked, replace(saved, results=rest), "runs/one")
    assert (found.state, found.cells) == (NO_CONTROL, ())
