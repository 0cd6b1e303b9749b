"""Proves with real workers what ``lostack check`` says of declared connectors: what a sink cannot
convert is lost without dead letters, and what a killed worker does again is counted.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

OWN = Path(__file__).parents[1] / "examples"
EXAMPLES = Path(__file__).parents[3] / "examples"
MISTAKES = [
    pytest.param("slot-dropped", "told-to-end-while-sending", False, marks=pytest.mark.postgres),
    pytest.param("copied-rows", "mark-overtakes-acknowledgement", True, marks=pytest.mark.postgres),
    pytest.param("iceberg-first-commit", "consumer-first-commit-answer-lost", True),
    pytest.param("key-change-split", "producer-crash-before-ack", True, marks=pytest.mark.postgres),
]
"""The folder of each, the point that shows it, and whether the record that is struck is lost."""
TWICE = pytest.param(
    "copied-row-twice", "producer-crash-before-ack", False, marks=pytest.mark.postgres
)
AGAIN = pytest.param(
    "snapshot-again", "producer-crash-before-first-ack", False, marks=pytest.mark.postgres
)
WITHIN_S = 600.0
pytestmark = [pytest.mark.kafka, pytest.mark.rest, pytest.mark.timeout(900)]


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that others may enter: a database server of root's is another user."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o711)
        yield Path(made)


def check(folder: Path, file: Path, *only: str) -> tuple[str, list[dict[str, Any]]]:
    """Check an example at some points, or without a fault if none is named; return what was said,
    and what the report says of each.
    """
    points = [word for each in only for word in ("--only", each)]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "harness.cli", "check", str(file), "--jobs", "1"),
            *(points or ["--explain"]),
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN_S,
    )
    report = folder / "reports" / "latest" / "report.json"
    cells = json.loads(report.read_text(encoding="utf-8"))["cells"] if report.exists() else []
    return done.stdout + done.stderr, cells


def test_what_cannot_be_converted_is_lost_without_dead_letters(tmp_path: Path) -> None:
    """The dry run alone says so; all states are RUNNING."""
    said, _ = check(tmp_path, OWN / "letters" / "mistake.toml")
    assert "broken without a fault: at-least-once forbids loss: 21 lost" in said


def test_a_killed_transaction_is_not_awaited_for_a_minute(tmp_path: Path) -> None:
    """Its successor would not be ready in time: nothing could be said of it."""
    said, [cell] = check(tmp_path, OWN / "files" / "pipeline.toml", "producer-crash-before-ack")
    assert (cell["outcome"], cell["lost_ids"], cell["duplicated_ids"]) == ("kept", [], []), said


@pytest.mark.postgres
def test_what_debezium_has_not_confirmed_is_sent_again(folder: Path) -> None:
    """Of made, changed, renumbered and deleted rows alike, also where its first requests go to
    topics of the worker's own. Right before a confirmation the offset of what it covers is saved,
    so what comes again there is what was sent since: that may be nothing.
    """
    stored = "producer-crash-before-ack"
    points = {stored, "producer-crash-at-db-1", "mark-overtakes-acknowledgement"}
    said, cells = check(folder, EXAMPLES / "debezium" / "pipeline.toml", *points)
    assert {cell["scenario"] for cell in cells} == points
    assert all((cell["outcome"], cell["lost_ids"]) == ("kept", []) for cell in cells), said
    crashed = next(cell for cell in cells if cell["scenario"] == stored)
    assert crashed["target"] in crashed["duplicated_ids"], said


@pytest.mark.parametrize(("mistake", "point", "is_target"), MISTAKES)
def test_a_mistake_loses_what_was_under_way(
    folder: Path, mistake: str, point: str, is_target: bool
) -> None:
    """The changes of a table that has no slot meanwhile; the rest of a COPY, whose first rows are
    sent; the second event of a new key, whose first is; what files have that a coordinator of
    Iceberg's never hears of.
    """
    said, [cell] = check(folder, EXAMPLES / "mistakes" / mistake / "pipeline.toml", point)
    assert cell["outcome"] == "broken", said
    assert cell["lost_ids"]
    assert (cell["target"] in cell["lost_ids"]) is is_target


@pytest.mark.postgres
def test_the_last_row_of_a_copy_comes_twice(folder: Path) -> None:
    """It was committed, and no fault touched it: who goes on behind a COPY begins a row early."""
    file = EXAMPLES / "mistakes" / "copied-row-twice" / "pipeline.toml"
    said, [cell] = check(folder, file, "producer-crash-before-ack")
    assert (cell["outcome"], cell["lost_ids"]) == ("broken", []), said
    [twice] = cell["duplicated_ids"]
    assert int(twice) < int(cell["target"])


@pytest.mark.postgres
def test_a_snapshot_that_begins_again_shows_what_the_log_brings_too(folder: Path) -> None:
    """What is committed between two statements: some orders in turn."""
    file = EXAMPLES / "mistakes" / "snapshot-again" / "pipeline.toml"
    said, [cell] = check(folder, file, "producer-crash-before-first-ack")
    assert (cell["outcome"], cell["lost_ids"]) == ("broken", []), said
    twice = sorted(map(int, cell["duplicated_ids"]))
    assert twice == list(range(twice[0], twice[-1] + 1))


@pytest.mark.parametrize(("mistake", "point", "is_target"), [*MISTAKES, TWICE, AGAIN])
def test_its_twin_keeps_it(folder: Path, mistake: str, point: str, is_target: bool) -> None:
    """With its slot; in a release that counts the changes of one position; in batches that do not
    end between two events of one change; with rows that come one by one; with an offset that is
    saved before they come; or with a coordinator that begins at the start.
    """
    del is_target
    said, [cell] = check(folder, EXAMPLES / "mistakes" / mistake / "right.toml", point)
    assert (cell["outcome"], cell["lost_ids"]) == ("kept", []), said
