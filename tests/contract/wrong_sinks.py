"""Sinks that do one thing wrong each. The suite must be red with every one of them."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from harness.model.failures import EnvironmentFailure
from harness.stages.sinks.database import DatabaseSink
from harness.stages.sinks.interface import Copy

if TYPE_CHECKING:
    from collections.abc import Iterator


class Wrong(DatabaseSink):
    """A sink in the file ``where``."""

    def __init__(self, where: str) -> None:
        super().__init__(Path(where))


class LosesARow(Wrong):
    """Every third result is not written."""

    _count = 0

    def record(self, value: bytes, key: str | None, copy: Copy) -> None:
        """Write a result, or not."""
        self._count += 1
        if self._count % 3:
            super().record(value, key, copy)


class ReadsNewestFirst(Wrong):
    """The results come in another order than they were recorded in."""

    def results(self) -> Iterator[tuple[int, bytes, str | None, Copy]]:
        """Yield them backwards."""
        yield from reversed(list(super().results()))


class ReadsText(Wrong):
    """A value is taken for text."""

    def results(self) -> Iterator[tuple[int, bytes, str | None, Copy]]:
        """Yield what is left of each."""
        for order, value, key, copy in super().results():
            yield order, value.decode("ascii", "ignore").encode(), key, copy


class HasARow(Wrong):
    """Something is in it that nobody has written."""

    def results(self) -> Iterator[tuple[int, bytes, str | None, Copy]]:
        """Yield one more."""
        yield 0, b"mine", None, Copy(0, 0, 0)
        yield from super().results()


class TellsOfNothingAbsorbed(Wrong):
    """What was turned away is forgotten."""

    def absorb_copy(self, record: str, copy: Copy) -> None:
        """Forget it."""


class KnowsIdsOfItsOwnOnly(Wrong):
    """An id that another connection has processed is unknown to this one."""

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self._known: set[str] = set()

    def absorb(self, record: str, copy: Copy) -> bool:
        """Look into one's own memory."""
        if record in self._known:
            self.absorb_copy(record, copy)
            return True
        self._known.add(record)
        return False


class TakesABatchForEverybodysBatch(Wrong):
    """Batches of different queries are the same one."""

    def absorb_batch(self, query: str, batch: int) -> bool:
        """Forget whose it is."""
        del query
        return super().absorb_batch("", batch)


class CommitsEachRow(Wrong):
    """There are no transactions."""

    def begin(self) -> None:
        """Begin nothing."""

    def commit(self) -> None:
        """End nothing."""


class SavesPositionsApart(Wrong):
    """A position is saved at once, whatever becomes of the transaction."""

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self._apart = sqlite3.connect(f"{where}.positions", isolation_level=None)
        self._apart.execute(
            "CREATE TABLE IF NOT EXISTS positions (partition INTEGER PRIMARY KEY, offset INT)"
        )

    def save_position(self, partition: int, offset: int) -> None:
        """Save it in a file of its own."""
        self._apart.execute("INSERT OR REPLACE INTO positions VALUES (?, ?)", (partition, offset))

    def positions(self) -> dict[int, int]:
        """Read that file."""
        return dict(self._apart.execute("SELECT partition, offset FROM positions").fetchall())

    def close(self) -> None:
        """Close both."""
        self._apart.close()
        super().close()


class KeepsTheFirstPosition(Wrong):
    """A position that was saved is not saved again."""

    def save_position(self, partition: int, offset: int) -> None:
        """Save it, where there is none."""
        self._db.execute("INSERT OR IGNORE INTO positions VALUES (?, ?)", (partition, offset))


class CommitsWhenItIsClosed(Wrong):
    """Whatever is called committed is so at the end."""

    def begin(self) -> None:
        """Begin the one transaction there is."""
        if not self._db.in_transaction:
            super().begin()

    def commit(self) -> None:
        """Put it off."""

    def close(self) -> None:
        """Commit, and close it."""
        if self._db.in_transaction:
            super().commit()
        super().close()


class SeesNothingOpen(Wrong):
    """Whoever else writes is not noticed."""

    def unsettled(self) -> int:
        """Say that nobody does."""
        return 0


class CountsResultsOnly(Wrong):
    """What is absorbed does not change its size."""

    def size(self) -> tuple[int, int]:
        """Return half of it."""
        return super().size()[0], 0


class ClosesOnce(Wrong):
    """To close it again is an error."""

    _closed = False

    def close(self) -> None:
        """Close it, the first time."""
        if self._closed:
            raise RuntimeError("it is closed")
        self._closed = True
        super().close()


class MakesWhatIsNotThere(Wrong):
    """To look for a sink makes an empty file."""

    def __init__(self, where: str) -> None:
        self._db = sqlite3.connect(where, isolation_level=None)


class ForgetsAllKeys(Wrong):
    """To forget one key is to forget them all."""

    def forget_key(self, key: str) -> None:
        """Forget them."""
        del key
        self._db.execute("DELETE FROM results")


class HasItForItself(Wrong):
    """What another writer has written goes."""

    def record(self, value: bytes, key: str | None, copy: Copy) -> None:
        """Write a result over those of others."""
        self._db.execute("DELETE FROM results WHERE key <> ?", (key,))
        super().record(value, key, copy)


class TellsOfSqlite(Wrong):
    """What cannot be opened is told in the words of the library."""

    def __init__(self, where: str) -> None:
        if not Path(where).exists():
            raise sqlite3.OperationalError("unable to open database file")
        super().__init__(where)


def make_over(where: str) -> None:
    """Make a sink in the place of another one."""
    Path(where).unlink(missing_ok=True)
    DatabaseSink.create(Path(where))


def make_or_not(where: str) -> None:
    """Make a sink, or say nothing."""
    with contextlib.suppress(EnvironmentFailure):
        DatabaseSink.create(Path(where))
