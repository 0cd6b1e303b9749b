"""The points that every system has: each line is of scenarios that there are, and what is written
of them is what they say.
"""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness import cli, registry
from harness.matrix.points import POINTS, Cell, measured_in, places, symbol, table, vocabulary
from harness.model.prediction import AtLeast, Exactly, Permitted
from harness.model.scenario import NotApplicable, Predicted
from tests import points

if TYPE_CHECKING:
    from pathlib import Path

    from harness.matrix.points import Place


@pytest.mark.parametrize("line", places(), ids=lambda line: line[0].line.title)
def test_every_line_is_of_a_system_that_can_be_run(line: list[Place]) -> None:
    """Its client is one of the system's; most points have a scenario, and a name that is given to
    one is a scenario's.
    """
    first = line[0]
    assert first.line.client in registry.described(first.system).clients
    assert sum(place.scenario is not None for place in line) > len(POINTS) / 2
    for place in line:
        assert place.scenario is not None or place.point not in place.line.scenarios, place.point


def test_the_four_that_there_are_have_their_lines() -> None:
    assert {"kafka", "activemq", "artemis"} <= {line[0].system for line in places()}


def test_what_is_written_is_what_is_predicted_and_was_measured() -> None:
    """Else: ``python -m tests.points``."""
    measured = points.kept()
    assert points.added(measured, {}) == measured, (
        "docs/points.json has cells that the table has not"
    )
    for file, text in points.rewritten(measured).items():
        assert file.read_text(encoding="utf-8") == text, (
            f"{file.name} is not what the scenarios say: python -m tests.points"
        )


@pytest.mark.parametrize(
    ("theory", "want"),
    [
        (Predicted(), "0"),
        (Predicted(lost=Exactly()), "L"),
        (Predicted(lost=AtLeast()), "L+"),
        (Predicted(lost=Permitted(), duplicated=Exactly()), "(L)D"),
        (Predicted(duplicated=Permitted()), "(D)"),
        (Predicted(duplicated=Exactly(), control=True), "D⚖"),
        (Predicted(left=AtLeast(), control=True), "S"),
    ],
)
def test_a_prediction_is_a_letter_or_two(theory: Predicted, want: str) -> None:
    assert symbol(theory) == want


def test_a_void_cell_of_a_report_tells_nothing(tmp_path: Path) -> None:
    """It did not come out otherwise: it proves nothing."""
    cell = {
        "system": "s",
        "client": "c",
        "pipeline": "p",
        "scenario": "x",
        "semantic": "at-most-once",
        "green": False,
    }
    cells = [
        {**cell, "seed": seed, "outcome": outcome} for seed, outcome in ((1, "void"), (2, "broken"))
    ]
    (tmp_path / "report.json").write_text(json.dumps({"cells": cells}), encoding="utf-8")
    assert points.reported(tmp_path / "report.json") == {"s/c/p/x/at-most-once": {2: False}}


def test_a_cell_that_was_cut_short_was_not_run() -> None:
    """Of several runs of one seed each must have come out as predicted."""

    def result(*, green: bool, ended: bool = True) -> Any:
        plan = SimpleNamespace(
            system="s", client="c", pipeline="p", scenario="x", semantic="at-least-once", seed=1
        )
        return SimpleNamespace(plan=plan, verdict=SimpleNamespace(green=green), ended=ended)

    name = "s/c/p/x/at-least-once"
    assert measured_in([result(green=False, ended=False)]) == {}
    assert measured_in([result(green=False, ended=False), result(green=True)]) == {name: {1: True}}
    assert measured_in([result(green=False), result(green=True)]) == {name: {1: False}}


def test_what_was_not_run_or_came_out_otherwise_shows_so() -> None:
    cell = Cell("c", Predicted())
    assert [cell.text({}), cell.text({"c": {1: True}}), cell.text({"c": {1: True, 2: False}})] == [
        "0?",
        "0",
        "0✗",
    ]
    assert [Cell("c", NotApplicable("no")).text({"c": {1: False}}), Cell("c", None).text({})] == [
        "n/a",
        "n/a",
    ]


def test_seeds_are_those_of_every_cell() -> None:
    [line] = [
        line
        for line in places()
        if line[0].line.title.startswith("Artemis") and line[0].line.client == "stomp.py"
    ]
    cells = [
        cell.name for place in line for cell in place.cells() if isinstance(cell.theory, Predicted)
    ]
    everywhere = {name: dict.fromkeys((1, 2, 3), True) for name in cells}
    assert _row(table(everywhere)).endswith("| 1 to 3 |")
    assert _row(table(everywhere | {cells[0]: {1: True, 3: True, 9: True}})).endswith("| 1, 3 |")


def _row(text: str) -> str:
    return next(line for line in text.splitlines() if line.startswith("| Artemis 2.44.0, STOMP"))


def test_the_words_are_the_protocols() -> None:
    assert "| SEND → | ← RECEIPT | ← RECEIPT | ← MESSAGE | ACK → | ← RECEIPT |" in vocabulary()
    assert "| Produce → | ← Produce |" in vocabulary()


def test_the_command_shows_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["points"]) == 0
    assert capsys.readouterr().out.startswith(table({}).splitlines()[0])
    assert cli.main(["points", "--why"]) == 0
    assert "`request-lost`, SEND →" in capsys.readouterr().out


def test_a_report_that_was_kept_says_what_its_run_has_measured(tmp_path: Path) -> None:
    """Of each cell and seed whether it came out as predicted; what broke unpredicted is no less
    measured.
    """
    report = tmp_path / "report.json"
    cell = {
        "system": "kafka",
        "client": "kafka-python",
        "pipeline": "plain",
        "scenario": "ack-lost",
        "seed": 1,
    }
    cells = [
        {**cell, "semantic": "at-least-once", "green": True},
        {**cell, "semantic": "exactly-once", "green": False},
    ]
    report.write_text(json.dumps({"cells": [*cells, {**cells[0], "seed": 2}]}))
    name = "kafka/kafka-python/plain/ack-lost"
    assert points.reported(report) == {
        f"{name}/at-least-once": {1: True, 2: True},
        f"{name}/exactly-once": {1: False},
    }
