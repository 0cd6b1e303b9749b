"""Rows that lostack inserts in transactions that overlap: which readers see all of them, and what
becomes of them where the writers wait for each other, or the server dies.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import psycopg
import pytest

from harness.model import events as kinds
from harness.model.history import HistoryWriter, read_history
from harness.model.waiting import wait_until
from harness.systems.declared.feed.table import TableFeeder
from harness.systems.declared.feed.waves import Waves

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.services.postgres.server import PostgresServer

pytestmark = pytest.mark.postgres
WITHIN_S = 60.0
LINES = {f"r-{number}": f'{{"number": "r-{number}"}}' for number in range(12)}
OUTBOX = (
    "CREATE TABLE outbox (position bigserial PRIMARY KEY, number text NOT NULL UNIQUE, "
    "transaction xid8 DEFAULT pg_current_xact_id())"
)
ONE_BY_ONE = """
CREATE FUNCTION one_by_one() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NEW; END $$;
CREATE TRIGGER one_by_one BEFORE INSERT ON outbox FOR EACH ROW EXECUTE FUNCTION one_by_one()
"""
"""The other cure: whoever writes waits for whoever wrote before."""
DATABASES = (f"rows{number}" for number in itertools.count(1))


class Outbox:
    """A database with an outbox, a feeder of it, and a reader of it."""

    def __init__(self, server: PostgresServer, history: HistoryWriter, how: str) -> None:
        """``how``: the reader goes by the highest number (``last``), behind no open transaction
        (``xmin``), or stops behind the first row (``none``).
        """
        name = next(DATABASES)
        server.create(name)
        self.address = server.address(name)
        self._how = how
        self._behind: tuple[int, int] = (0, 0)
        self.seen: set[str] = set()
        self.ask(OUTBOX)
        self.feeder = TableFeeder(
            self.address,
            "public.outbox",
            ["number"],
            LINES,
            rate=1000,
            history=history,
            waves=Waves(len(LINES), seen=lambda: True, moves=lambda: 0, fired=lambda: False),
            writers=4,
            sent=self._sent,
        )

    def ask(self, query: str) -> list[tuple[str, ...]]:
        """Return the rows of a query, as text."""
        with psycopg.connect(self.address, connect_timeout=5) as database:
            cursor = database.execute(query)
            return [tuple(map(str, row)) for row in cursor.fetchall()] if cursor.description else []

    def _sent(self) -> set[str]:
        if self._how == "none":
            return {"r-0"}
        transaction, position = self._behind
        news = (
            f"position > {position} ORDER BY position"
            if self._how == "last"
            else f"(transaction, position) > ('{transaction}'::xid8, {position}) AND "
            "transaction < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY transaction, position"
        )
        query = f"SELECT number, transaction, position FROM outbox WHERE {news}"  # noqa: S608
        for number, at, last in self.ask(query):
            self.seen.add(number)
            self._behind = (int(at), int(last))
        return self.seen

    def feed(self) -> None:
        """Insert all rows, and let the reader look once more."""
        self.feeder.start()
        try:
            wait_until(
                lambda: self.feeder.exhausted() or self.feeder.trouble(),
                within_s=WITHIN_S,
                because="the rows",
            )
        finally:
            self.feeder.close()
        self._sent()

    def there(self) -> list[str]:
        """Return the records that have a row, as often as they have one."""
        return sorted(number for (number,) in self.ask("SELECT number FROM outbox"))


@pytest.fixture
def history(tmp_path: Path) -> Iterator[HistoryWriter]:
    """Return where it is written down."""
    with HistoryWriter(tmp_path / "runner.jsonl", cell="c", by="runner") as made:
        yield made


def passed(folder: Path) -> dict[str, tuple[str, ...]]:
    """Return what the history says of each record: which were committed before it, and began
    later.
    """
    told = [(e.record, e.passed) for e in read_history(folder).of(kinds.Taken)]
    assert sorted(record for record, _ in told) == sorted(LINES), "each is told of once"
    return dict(told)


@pytest.mark.parametrize("how", ["last", "xmin"])
def test_only_who_goes_by_the_highest_number_misses_rows(
    server: PostgresServer, history: HistoryWriter, tmp_path: Path, how: str
) -> None:
    outbox = Outbox(server, history, how)
    outbox.feed()
    assert outbox.feeder.trouble() is None
    assert outbox.there() == sorted(LINES)
    last = {record for record, others in passed(tmp_path).items() if len(others) == 3}
    assert last, "of four that were open together"
    missed = {*LINES} - outbox.seen
    assert bool(missed) is (how == "last")
    assert missed <= {record for record, others in passed(tmp_path).items() if others}
    assert last & missed == (last if how == "last" else set())


def test_writers_that_wait_for_each_other_come_one_by_one(
    server: PostgresServer, history: HistoryWriter, tmp_path: Path
) -> None:
    """And nobody waits for ever; then the highest number is enough."""
    outbox = Outbox(server, history, "last")
    outbox.ask(ONE_BY_ONE)
    outbox.feed()
    assert outbox.feeder.trouble() is None
    assert (outbox.there(), outbox.seen) == (sorted(LINES), {*LINES})
    assert not any(passed(tmp_path).values())


def test_a_server_that_dies_has_each_row_once(
    server: PostgresServer, history: HistoryWriter, tmp_path: Path
) -> None:
    """Whatever was answered: it is asked what became of the transactions."""
    outbox = Outbox(server, history, "none")
    outbox.feeder.start()
    try:
        wait_until(lambda: outbox.feeder.offered > 3, within_s=WITHIN_S, because="some rows")
        server.kill()
        server.start()
        wait_until(outbox.feeder.exhausted, within_s=WITHIN_S, because="the other rows")
    finally:
        outbox.feeder.close()
    assert outbox.feeder.trouble() is None
    assert outbox.there() == sorted(LINES)
    assert passed(tmp_path)


def test_a_table_that_is_not_there_is_told(server: PostgresServer, history: HistoryWriter) -> None:
    outbox = Outbox(server, history, "none")
    outbox.ask("DROP TABLE outbox")
    outbox.feed()
    assert outbox.feeder.trouble() == (
        'a row could not be inserted: relation "public.outbox" does not exist'
    )
