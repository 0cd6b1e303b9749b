"""The page of a scoreboard: the worst first, nothing green that did not run, and what contradicts
the predictions.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import jsonschema

from harness.scoreboard.board import LACKING, NO_CONTROL, ROWS, read_outcomes
from harness.scoreboard.page import overview, partial, programs, recoveries, tables, write_page
from harness.scoreboard.predicting import Predicted, differs, read_predictions
from harness.scoreboard.table import HERE, read_clients, rows_of
from tests.scoreboard.rows import cell, outcome

if TYPE_CHECKING:
    from pathlib import Path

    from harness.scoreboard.board import Outcome

BOARD = tuple(rows_of(read_clients()))
GOOD = outcome("good", "consumer/as-it-comes", cell("none"), cell("ack-lost"))
BAD = outcome(
    "bad", "consumer/as-it-comes", cell("none"), cell("ack-lost", "broken", lost=2), cell("more")
)
SLOW = outcome("slow", "consumer/as-it-comes", cell("none"), cell("ack-lost", "stuck"))
COLUMN = programs().index(("consumer", "as-it-comes"))


def texts(*outcomes: Outcome) -> dict[str, str]:
    """Return the field of the consumers that set nothing, by client."""
    return {line.name: line.spots[COLUMN].text for line in overview(outcomes)}


def test_the_worst_client_comes_first() -> None:
    assert texts(GOOD, SLOW, BAD) == {
        "bad 1.0": "✘ broken 1 of 3",
        "slow 1.0": "◐ stuck 1 of 2",
        "good 1.0": "✔ kept 2 of 2",
    }


def test_what_proves_nothing_is_counted() -> None:
    """Beside what broke: a void cell is no acquittal."""
    mixed = outcome("mixed", "consumer/as-it-comes", cell("a", "broken"), cell("b", "void"))
    assert texts(mixed) == {"mixed 1.0": "✘ broken 1 of 2, 1 void"}
    assert texts(outcome("idle", "consumer/as-it-comes", cell("a"), cell("b", "void"))) == {
        "idle 1.0": "○ void 1 of 2"
    }


def test_what_did_not_run_is_not_kept() -> None:
    """A program that does not exist, one that fails without a fault, and one that nobody ran."""
    absent = outcome("a", "consumer/as-it-comes", state=LACKING, because="there is no Go")
    unsound = outcome("b", "consumer/as-it-comes", state=NO_CONTROL, because="1 lost")
    other = outcome("c", "producer/as-it-comes", cell("none"))
    assert texts(absent, unsound, other) == {
        "a 1.0": "n/a: there is no Go",
        "b 1.0": "no control: 1 lost",
        "c 1.0": "not run",
    }
    assert {
        line.name: line.spots[COLUMN].colour for line in overview([absent, unsound, other])
    } == {
        "a 1.0": "na",
        "b 1.0": "void",
        "c 1.0": "never",
    }


def test_a_table_of_points_leads_to_each_cell() -> None:
    """What broke most stands first; a point that one client lacks is empty there."""
    [table] = tables([GOOD, BAD])
    assert table.points == ("ack-lost", "none", "more")
    assert [line.name for line in table.lines] == ["bad 1.0", "good 1.0"]
    assert [spot.text for spot in table.lines[0].spots] == ["✘ 2 lost", "✔ kept", "✔ kept"]
    assert table.lines[1].spots[2].text == ""
    assert table.lines[0].spots[0].anchor == "bad-1.0_consumer_as-it-comes.s1_ack-lost"


def test_a_cell_without_an_effect_is_told_apart() -> None:
    idle = replace(cell("none"), effect=False)
    [table] = tables([outcome("idle", "consumer/as-it-comes", idle)])
    assert table.lines[0].spots[0].text == "✔ no effect seen"


def test_the_longest_recovery_comes_first(tmp_path: Path) -> None:
    """The run without a fault is no recovery; a cell of which the wire saw nothing counts not."""

    def took(client: str, *times: float | None) -> Outcome:
        cells = (
            replace(cell(f"point-{number}"), times_as_long=each)
            for number, each in enumerate(times)
        )
        control = replace(cell("none"), times_as_long=50.0)
        return outcome(client, "consumer/as-it-comes", control, *cells)

    slow, quick = took("slow", 1.0, 9.5, None, 2.0), took("quick", 1.1, 1.3)
    assert list(recoveries([quick, slow, took("blind", None)])) == [
        ("slow-1.0/consumer/as-it-comes", 2.0, 9.5, "point-1"),
        ("quick-1.0/consumer/as-it-comes", 1.2, 1.3, "point-1"),
    ]
    write_page(tmp_path, [quick, slow], BOARD, ())
    told = (tmp_path / "scoreboard.md").read_text(encoding="utf-8")
    assert "| slow-1.0/consumer/as-it-comes | 2 | 9.5 | point-1 |" in told


def test_a_partial_board_says_so(tmp_path: Path) -> None:
    write_page(tmp_path, [GOOD], BOARD, ())
    assert partial([GOOD], BOARD).startswith(f"partial: 0 of {len(BOARD)} rows are there")
    for name in ("scoreboard.md", "scoreboard.json", "scoreboard.html"):
        assert "partial: 0 of" in (tmp_path / name).read_text(encoding="utf-8")
    assert "PARTIAL" in (tmp_path / "scoreboard.html").read_text(encoding="utf-8")
    assert partial([GOOD], ()) == ""


def test_the_page_tells_the_way_of_a_record(tmp_path: Path) -> None:
    write_page(tmp_path, [BAD, GOOD], BOARD, ())
    page = (tmp_path / "scoreboard.html").read_text(encoding="utf-8")
    assert 'href="#bad-1.0_consumer_as-it-comes.s1_ack-lost"' in page
    assert 'id="bad-1.0_consumer_as-it-comes.s1_ack-lost"' in page
    assert "k1-2: acknowledged, not stored" in page


def test_the_json_fits_its_schema(tmp_path: Path) -> None:
    """As does each file of a row; and the schema refuses what is none."""
    write_page(tmp_path, [BAD, GOOD, SLOW], BOARD, ())
    schema = json.loads((HERE / "schema.json").read_text(encoding="utf-8"))
    value = json.loads((tmp_path / "scoreboard.json").read_text(encoding="utf-8"))
    jsonschema.validate(value, schema)
    modes = schema["$defs"]["row"]["properties"]["mode"]["enum"]
    assert {*modes} == {mode for _, mode in programs()}
    value["rows"][0]["cells"][0]["outcome"] = "green"
    assert not jsonschema.Draft202012Validator(schema).is_valid(value)


def test_a_row_is_read_as_it_was_written(tmp_path: Path) -> None:
    (tmp_path / ROWS).mkdir()
    (tmp_path / ROWS / "bad.json").write_text(BAD.to_json(), encoding="utf-8")
    assert read_outcomes(tmp_path) == (BAD,)


def test_what_contradicts_the_predictions_is_told() -> None:
    meant = (Predicted("bad-*/consumer/*", ("ack-*",), "broken", "it commits first"),)
    assert list(differs([GOOD, BAD], meant)) == []
    assert list(differs([BAD, SLOW], ())) == [
        "bad-1.0/consumer/as-it-comes ack-lost: predicted kept, broken: broken because of it",
        "slow-1.0/consumer/as-it-comes ack-lost: predicted kept, stuck: stuck because of it",
    ]
    assert list(differs([GOOD], (Predicted("good*", ("none",), "broken", "never"),))) == [
        "good-1.0/consumer/as-it-comes none: predicted broken, kept"
    ]


def test_each_prediction_means_a_row() -> None:
    """One that means none predicts nothing, and looks as if it did."""
    rows = [outcome(row.client.name, f"{row.role}/{row.mode}") for row in BOARD]
    for each in read_predictions():
        name = re.sub(r"-(\*|[\d.]+)/", "*/", each.rows)
        assert any(differs_of(name, one) for one in rows), each.rows


def differs_of(rows: str, one: Outcome) -> bool:
    """Whether a prediction of broken is heard of this row."""
    meant = (Predicted(rows, ("none",), "broken", ""),)
    seen = outcome(one.client, f"{one.role}/{one.mode}", cell("none"))
    return bool(list(differs([seen], meant)))
