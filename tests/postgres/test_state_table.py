"""The state of a topology of Trident in a database: read as its rows say, past every program."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import psycopg
import pytest

from harness.model.failures import EnvironmentFailure
from harness.model.record import Record
from harness.run.sinks import Database
from harness.systems.storm.table import StateTable
from tests.events import told as line_told

if TYPE_CHECKING:
    from harness.run.database import DatabaseServer
    from harness.services.postgres.server import PostgresServer
    from harness.systems.kafka.scene import Scene

pytestmark = pytest.mark.postgres
CELL = "c0ffee"


class TableServer:
    """A server whose databases are reached directly, and the history of a cell that
    writes there.
    """

    def __init__(self, server: PostgresServer) -> None:
        self.events: list[dict[str, Any]] = []
        self.server = server
        history = SimpleNamespace(write=lambda event: self.events.append(line_told(event)))
        self.scene = cast("Scene", SimpleNamespace(cell=SimpleNamespace(key=CELL), history=history))
        direct = SimpleNamespace(create=server.create, direct=server.address)
        self.database = Database(self.scene, cast("DatabaseServer", direct))
        self.database.open()
        self.table = StateTable(self.scene, self.database)
        self.table.open()

    def write(self, key: str, value: bytes, transaction: int) -> None:
        """Write a version, as a worker does."""
        with psycopg.connect(self.server.address(CELL)) as worker:
            worker.execute(
                "INSERT INTO state VALUES (%s, %s, %s, NULL) ON CONFLICT (key) DO UPDATE "
                "SET value = excluded.value, transaction = excluded.transaction",
                (key, value, transaction),
            )

    def seen(self, kind: str) -> list[dict[str, Any]]:
        """Return what the table says at the end."""
        self.events.clear()
        self.table.observe()
        return [
            {name: value for name, value in event.items() if name != "event"}
            for event in self.events
            if event["event"] == kind
        ]


@pytest.fixture
def told(server: PostgresServer) -> Any:
    """Return it, with nothing written."""
    made = TableServer(server)
    yield made
    made.table.close()
    made.database.close()


def value(number: int, folded: str) -> bytes:
    """Return a value that carries ids, intact."""
    return Record(f"k-{number}", "k", number, folded).encode(CELL)


def test_what_is_folded_into_a_value_is_told_with_its_transaction(told: TableServer) -> None:
    """Of each key its value, and nothing of the one before."""
    assert told.seen("folded") == []
    told.write("k", value(1, "k-1=1 "), 3)
    told.write("k", value(2, "k-1=1 k-2=2 "), 4)
    told.write("j", value(3, "k-3=1 "), 5)
    assert told.seen("folded") == [
        {"key": "j", "version": 5, "record": "k-3", "times": 1},
        {"key": "k", "version": 4, "record": "k-1", "times": 1},
        {"key": "k", "version": 4, "record": "k-2", "times": 2},
    ]
    assert told.seen("recorded") == []
    assert told.seen("settled") == [{"open": 0}, {"open": 0}]


@pytest.mark.parametrize(
    "damaged",
    [b"nothing of ours", value(1, "k-1=1 ")[:-1], Record("k-1", "k", 1).encode("another")],
)
def test_a_value_that_is_none_of_ours_is_told_as_such(told: TableServer, damaged: bytes) -> None:
    told.write("k", damaged, 3)
    [row] = told.seen("recorded")
    assert (row["key"], row["intact"]) == ("k", False)
    assert told.seen("folded") == []


def test_its_size_changes_with_each_version(told: TableServer) -> None:
    sizes = [told.table.size()]
    for transaction in (3, 4):
        told.write("k", value(1, "k-1=1 "), transaction)
        sizes.append(told.table.size())
    assert len(set(sizes)) == len(sizes)
    assert told.table.size() == sizes[-1]


def test_a_transaction_of_a_worker_that_is_open_is_trouble(told: TableServer) -> None:
    """What it writes may yet appear."""
    assert told.database.trouble() is None
    with psycopg.connect(told.server.address(CELL)) as worker:
        worker.execute("SELECT 1")
        assert told.database.trouble() == "1 transactions are open in the database"
    assert told.database.trouble() is None


def test_a_table_that_cannot_be_made_is_told(told: TableServer) -> None:
    with pytest.raises(
        EnvironmentFailure, match=r"cannot create the table of Trident's state: .*already exists"
    ):
        StateTable(told.scene, told.database).open()
