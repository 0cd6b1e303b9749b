"""What is planned where a group shares out anew: where a member's work is held, and which records
are targets.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from harness.matrix.checking import Check
from harness.matrix.seen import shares_in
from harness.model.rhythm import Rhythm
from harness.pipelines import read_pipeline
from harness.pipelines.rebalances import OUTLASTS, WORK_UNDERWAY
from harness.pipelines.shares import Share
from harness.pipelines.writes import Written
from harness.systems.declared.system import DeclaredSystem
from tests.events import a_history
from tests.pipelines.test_declaration import GOOD, declared
from tests.pipelines.test_overtaking_plan import CONSUMER, PRODUCER, reason, work_of

if TYPE_CHECKING:
    from pathlib import Path

    from harness.model.scenario import Scenario
    from harness.pipelines.cells import DeclaredCell
    from harness.pipelines.traffic import StageTraffic

TWO = GOOD.replace("[output]", "scale = 2\n[output]")
MEMBER = replace(
    CONSUMER,
    requests={**CONSUMER.requests, "JoinGroup": 2, "Heartbeat": 9},
    rhythm=Rhythm(0.02, poll_s=6.0),
)
JOINS = "member-joins-with-record-in-hand"
LEAVES = "member-leaves-with-record-in-hand"


def cell(folder: Path, name: str, member: StageTraffic = MEMBER, text: str = TWO) -> DeclaredCell:
    """Return the cell of a point as it is planned when the dry run saw this."""
    check = Check(read_pipeline(declared(folder, text)), DeclaredSystem(), folder, "pytest")
    cells, rest = check.plan({"producer": PRODUCER, "consumer": member}, (name,))
    [found] = (*cells, *rest)
    return found


def scenario(folder: Path, name: str, files: tuple[str, ...], text: str = TWO) -> Scenario:
    """Return a point of a member that writes into these files."""
    written = Written({"fsync": [20], "pwrite64": [20]}, 20, files=files)
    return cell(folder, name, replace(MEMBER, written=written), text).scenario


SQLITE = TWO.replace(
    'kind = "lines"\nfile = "{work}/*.jsonl"',
    'kind = "sqlite"\nfile = "{work}/orders.db"\nquery = "SELECT number FROM orders"',
)


@pytest.mark.parametrize("point", [WORK_UNDERWAY, OUTLASTS])
@pytest.mark.parametrize(
    ("text", "files", "locks"),
    [
        (TWO, ("{work}/out.jsonl",), False),
        (SQLITE, ("{work}/orders.db", "{work}/orders.db-journal"), True),
        (SQLITE, ("{work}/orders.db",), True),
        (TWO, ("{work}/out.jsonl", "{work}/seen.db-wal"), False),
        (TWO, ("{work}/seen.db", "{work}/seen.db-wal"), True),
    ],
    ids=["lines", "journal", "no journal", "beside the output", "write-ahead"],
)
def test_who_books_in_a_database_is_held_before_it_locks_the_file(
    tmp_path: Path, point: str, text: str, files: tuple[str, ...], *, locks: bool
) -> None:
    """Only what goes into the output is held, where that is a file."""
    found = scenario(tmp_path, point, files, text)
    assert reason(found) is None
    writes = work_of(found).writes
    assert writes is not None
    assert writes.locks is locks


@pytest.mark.parametrize(
    ("name", "taken"), [(JOINS, True), (WORK_UNDERWAY, True), (LEAVES, False), (OUTLASTS, False)]
)
def test_the_target_is_of_a_partition_that_a_new_member_takes(
    tmp_path: Path, name: str, *, taken: bool
) -> None:
    """Where a member joins, and a run has shown what it takes. Who leaves gives up all."""
    third = frozenset(range(17, 33))
    share = Share(
        third, frozenset(), 48, {"orders/0": third - {20, 21}, "orders/1": frozenset({20, 21})}
    )
    joins = replace(MEMBER, share=share.with_taken({"orders/1"}))
    assert (cell(tmp_path, name, joins).among == frozenset({20, 21})) is taken
    assert cell(tmp_path, name, replace(MEMBER, share=share.with_taken(()))).among == third


def test_what_was_given_is_known_by_partition() -> None:
    told: list[dict[str, Any]] = [
        {"event": "offered", "record": "a", "position": 1},
        {"event": "offered", "record": "b", "position": 2},
        *(
            {
                "event": "fetched",
                "record": record,
                "conn": 3,
                "reached": True,
                "topic": "orders",
                "partition": partition,
                "offset": 0,
            }
            for record, partition in (("a", 0), ("b", 1))
        ),
    ]
    found = shares_in(a_history(told), {"3": "consumer"})["consumer"]
    assert found.of_log == {"orders/0": {1}, "orders/1": {2}}
