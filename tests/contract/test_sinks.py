"""What every caller of a sink relies on, of each that there is. Another one gets all this by its
line in ``sinks.py``.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import os
import pkgutil
import re
import subprocess
import sys
import threading
from contextlib import closing
from inspect import getmembers, isclass
from typing import TYPE_CHECKING

import pytest

from harness.model.failures import EnvironmentFailure
from harness.model.waiting import wait_until
from harness.stages import sinks
from harness.stages.sinks.interface import Copy, Results, Sink, Transactional
from tests.contract.sinks import SINKS
from tests.contract.writer import ROWS
from tests.tiers import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.contract.sinks import SinkKind

WITHIN_S = 20.0
AT = Copy(0, 1, 7)
LATER = Copy(0, 1, 9)
WRITTEN = 5
"""Transactions of a writer that is killed in the next one."""


def test_every_sink_there_is_has_its_line() -> None:
    """Whatever class of ``harness/stages/sinks`` can what a sink must is tried here."""
    parts = (Results, Transactional)
    wanted = {name for part in parts for name in vars(part) if not name.startswith("_")}
    modules = [
        importlib.import_module(f"{sinks.__name__}.{each.name}")
        for each in pkgutil.iter_modules(sinks.__path__)
    ]
    found = {
        one
        for module in modules
        for _, one in getmembers(module, isclass)
        if wanted <= set(dir(one)) and one is not Sink
    }
    assert found == {cls for cls, *_ in SINKS.values()}


# --- what is written is read ----------------------------------------------------------------------


def test_what_was_recorded_is_read_row_by_row(kind: SinkKind) -> None:
    """In the order of recording, twice where it was recorded twice, each with its own place; by
    another connection.
    """
    where = kind.made()
    written = [
        (b"a", "k", Copy(0, 1, 5)),
        (b"b", None, Copy(1, 0, 7)),
        (b"a", "k", Copy(0, 1, 5)),
        (b"a", "k", Copy(0, 2, 6)),
    ]
    with closing(kind.open(where)) as program:
        program.begin()
        for row in written:
            program.record(*row)
        assert not program.absorb("b", Copy(1, 0, 7))
        assert program.absorb("b", Copy(1, 0, 8))
        program.commit()
    with closing(kind.open(where)) as reader:
        assert list(reader.results()) == [(n, *row) for n, row in enumerate(written, start=1)]
        assert list(reader.absorbed()) == [("b", Copy(1, 0, 8))]
        assert reader.size() == (4, 1)


def test_any_bytes_and_any_place_are_read_as_they_were(kind: SinkKind) -> None:
    """A value is nobody's text, an offset may be beyond 32 bits, a result that has no place has -1,
    and one of a queue a name.
    """
    queued = Copy(name="ID:\u00e4-1:2")
    rows = [
        (b"", "", Copy(-1, -1, -1)),
        (bytes(range(256)), "\u00e4\u4e2d", Copy(3, 7, 1 << 40)),
        (b"q", None, queued),
    ]
    with closing(kind.open(kind.made())) as sink:
        sink.begin()
        for row in rows:
            sink.record(*row)
        sink.absorb_copy("k-1", queued)
        sink.commit()
        assert [row[1:] for row in sink.results()] == rows
        assert list(sink.absorbed()) == [("k-1", queued)]


def test_a_new_sink_has_nothing(kind: SinkKind) -> None:
    with closing(kind.open(kind.made())) as sink:
        assert (list(sink.results()), list(sink.absorbed()), sink.positions()) == ([], [], {})
        assert (sink.size(), sink.unsettled()) == ((0, 0), 0)


def test_an_id_and_a_batch_are_known_from_the_first_time_on(kind: SinkKind) -> None:
    """To other connections, too; the later copy of an id is counted as absorbed, and a batch
    belongs to its query.
    """
    where = kind.made()
    with closing(kind.open(where)) as one, closing(kind.open(where)) as other:
        one.begin()
        assert not one.absorb("k-1", AT)
        assert not one.absorb_batch("q", 3)
        one.commit()
        other.begin()
        assert other.absorb("k-1", LATER)
        assert other.absorb_batch("q", 3)
        assert not other.absorb_batch("q", 4)
        assert not other.absorb_batch("another", 3)
        other.absorb_copy("k-2", AT)
        other.commit()
        assert list(one.absorbed()) == [("k-1", LATER), ("k-2", AT)]


def test_a_position_is_the_last_one_that_was_saved(kind: SinkKind) -> None:
    with closing(kind.open(kind.made())) as sink:
        sink.begin()
        for partition, offset in ((2, 5), (0, 1), (2, 1 << 40), (2, 8)):
            sink.save_position(partition, offset)
        sink.commit()
        assert sink.positions() == {0: 1, 2: 8}


def test_a_forgotten_key_has_no_results(kind: SinkKind) -> None:
    """All of them go, and nobody else's."""
    with closing(kind.open(kind.made())) as sink:
        write(sink, (b"1", "k"), (b"2", "other"), (b"3", "k"), (b"4", None))
        sink.begin()
        sink.forget_key("k")
        sink.commit()
        assert [value for _, value, _, _ in sink.results()] == [b"2", b"4"]


def test_whatever_arrives_changes_the_size(kind: SinkKind) -> None:
    """Else a sink that is being written to would be quiet."""
    with closing(kind.open(kind.made())) as sink:
        write(sink, (b"1", "k"))
        assert sink.size() == (1, 0)
        write(sink, (b"1", "k"))
        assert sink.size() == (2, 0)
        sink.begin()
        sink.absorb_copy("r", AT)
        sink.commit()
        assert sink.size() == (2, 1)


def test_several_writers_lose_nothing_of_each_other(kind: SinkKind) -> None:
    """Stages of one cell share a sink: each result is there once, each with an order of its own."""
    where, count = kind.made(), 20

    def work(name: str) -> None:
        with closing(kind.open(where)) as sink:
            for number in range(count):
                write(sink, (f"{name}{number}".encode(), name))

    threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WITHIN_S)
    with closing(kind.open(where)) as reader:
        rows = list(reader.results())
    assert sorted(row[1] for row in rows) == sorted(
        f"{name}{number}".encode() for name in "ab" for number in range(count)
    )
    assert all(one[0] < other[0] for one, other in itertools.pairwise(rows))
    for name in "ab":
        assert [row[1] for row in rows if row[2] == name] == [
            f"{name}{number}".encode() for number in range(count)
        ]


# --- a transaction is whole or not at all ---------------------------------------------------------


def test_nobody_sees_what_is_not_committed(kind: SinkKind) -> None:
    where = kind.made()
    with closing(kind.open(where)) as sink, closing(kind.open(where)) as other:
        sink.begin()
        everything(sink)
        assert seen(other) == NOTHING
        sink.commit()
        assert seen(other) == EVERYTHING


@pytest.mark.parametrize("end", ["reconnect", "close"])
def test_what_is_not_committed_has_never_been(kind: SinkKind, end: str) -> None:
    """Results, absorbed copies, known ids and batches and positions go together, and a forgotten
    key has its results again.
    """
    where = kind.made()
    with closing(kind.open(where)) as before:
        write(before, (b"kept", "kept"))
        before.begin()
        before.save_position(5, 1)
        before.commit()
    with closing(kind.open(where)) as sink:
        sink.begin()
        everything(sink)
        sink.save_position(5, 2)
        sink.forget_key("kept")
        getattr(sink, end)()
    with closing(kind.open(where)) as reader:
        wait_until(
            lambda: reader.unsettled() == 0,
            within_s=WITHIN_S,
            because="what was open to be rolled back",
        )
        assert [value for _, value, _, _ in reader.results()] == [b"kept"]
        assert (list(reader.absorbed()), reader.positions()) == ([], {5: 1})
        reader.begin()
        assert not reader.absorb("known", AT)
        assert not reader.absorb_batch("q", 1)
        reader.commit()


def test_an_open_transaction_is_seen_from_outside(kind: SinkKind) -> None:
    """The drain waits for it: what it has written may yet appear. Who looks disturbs nobody."""
    where = kind.made()
    with closing(kind.open(where)) as sink, closing(kind.open(where)) as observer:
        assert observer.unsettled() == 0
        sink.begin()
        sink.record(b"x", "k", AT)
        assert observer.unsettled() == 1
        assert sink.unsettled() == 0, "its own is no other's"
        sink.commit()
        assert observer.unsettled() == 0
        sink.begin()
        sink.record(b"y", "k", AT)
        sink.close()
        wait_until(
            lambda: observer.unsettled() == 0,
            within_s=WITHIN_S,
            because="the end of a client to be noticed",
        )
        assert observer.size() == (1, 0)


@contextlib.contextmanager
def writer(kind: SinkKind, where: str, count: int) -> Iterator[subprocess.Popen[str]]:
    """Start a program that writes; it is killed at the end."""
    command = [sys.executable, "-m", "tests.contract.writer", kind.opener, where, str(count)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        try:
            yield program
        finally:
            program.kill()


def said(program: subprocess.Popen[str]) -> str:
    """Return the next line of a program."""
    assert program.stdout is not None
    return program.stdout.readline().strip()


def test_of_a_writer_that_was_killed_there_are_whole_transactions(kind: SinkKind) -> None:
    """SIGKILL in the middle of one: all of those before, and nothing of it."""
    where = kind.made()
    with writer(kind, where, WRITTEN) as program:
        assert [said(program) for _ in range(WRITTEN + 1)] == [
            *map(str, range(1, WRITTEN + 1)),
            "open",
        ]
        program.kill()
        program.wait(WITHIN_S)
        assert whole_transactions(kind, where) == WRITTEN


def test_what_was_committed_outlives_its_writer_wherever_it_is_killed(kind: SinkKind) -> None:
    """SIGKILL of one that never rests: whole transactions, and each that it was told of."""
    where = kind.made()
    with writer(kind, where, 0) as program:
        told = [said(program) for _ in range(20)][-1]
        program.kill()
        program.wait(WITHIN_S)
        rest = program.stdout.read().split() if program.stdout else []
        assert whole_transactions(kind, where) >= int([told, *rest][-1])


def whole_transactions(kind: SinkKind, where: str) -> int:
    """Return how many transactions of the writer there are, all of whose parts must be there."""
    with closing(kind.open(where)) as reader:
        wait_until(
            lambda: reader.unsettled() == 0,
            within_s=WITHIN_S,
            because="what was open to be rolled back",
        )
        rows = [(value, copy.offset) for _, value, _, copy in reader.results()]
        count = len(rows) // ROWS
        assert rows == [
            (f"{1 + at // ROWS}.{at % ROWS}".encode(), at) for at in range(count * ROWS)
        ]
        assert reader.positions() == ({0: count * ROWS} if count else {})
        assert [record for record, _ in reader.absorbed()] == [
            f"r-{number}" for number in range(1, count + 1)
        ]
        reader.begin()
        assert not count or reader.absorb(f"r-{count * ROWS - 1}", AT), "the last id is known"
        assert not reader.absorb(f"r-{count * ROWS}", AT), "and no later one"
        reader.reconnect()
    return count


# --- opening and closing --------------------------------------------------------------------------


def test_to_close_twice_is_harmless(kind: SinkKind) -> None:
    """Whoever cleans up need not know what was closed before."""
    where = kind.made()
    sink = kind.open(where)
    write(sink, (b"1", "k"))
    sink.close()
    sink.close()
    with closing(kind.open(where)) as reader:
        assert reader.size() == (1, 0)


def test_a_sink_that_is_not_there_is_one_line(kind: SinkKind) -> None:
    """Which names the place; and none is made by looking for one, which would be an empty one that
    nobody had written to.
    """
    for _ in range(2):
        with pytest.raises(EnvironmentFailure) as failure:
            kind.open(kind.nowhere).close()
        one_line(failure.value, kind.nowhere)


def test_a_sink_that_cannot_be_made_is_one_line(kind: SinkKind) -> None:
    for where in kind.unusable:
        with pytest.raises(EnvironmentFailure) as failure:
            kind.create(where)
        one_line(failure.value, where)


def test_a_sink_is_not_made_over_another_one(kind: SinkKind) -> None:
    where = kind.made()
    with closing(kind.open(where)) as sink:
        write(sink, (b"1", "k"))
        with pytest.raises(EnvironmentFailure) as failure:
            kind.create(where)
        one_line(failure.value, where)
        assert sink.size() == (1, 0)


def one_line(error: Exception, names: str) -> None:
    """An error is one line and names something, a place without its password."""
    assert re.sub(r"(?<=://)(\w+):\w+@", r"\1@", names) in str(error)
    assert "\n" not in str(error)


# --- what is written here -------------------------------------------------------------------------

NOTHING: tuple[object, ...] = ([], [], {}, (0, 0))
EVERYTHING: tuple[object, ...] = ([(b"one", "k"), (b"two", None)], ["known"], {0: 8, 1: 3}, (2, 1))


def everything(sink: Sink) -> None:
    """Write some of all that a transaction can hold."""
    assert not sink.absorb("known", AT)
    assert sink.absorb("known", LATER)
    assert not sink.absorb_batch("q", 1)
    sink.record(b"one", "k", AT)
    sink.record(b"two", None, AT)
    sink.save_position(0, 8)
    sink.save_position(1, 3)


def seen(sink: Sink) -> tuple[object, ...]:
    """Return what a connection sees of it."""
    rows = [(value, key) for _, value, key, _ in sink.results()]
    return rows, [record for record, _ in sink.absorbed()], sink.positions(), sink.size()


def write(sink: Sink, *rows: tuple[bytes, str | None]) -> None:
    """Record results, each in a transaction of its own."""
    for value, key in rows:
        sink.begin()
        sink.record(value, key, AT)
        sink.commit()
