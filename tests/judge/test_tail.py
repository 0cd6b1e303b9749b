"""A history that is being written is read on: each event once, each byte once, and what is no more
is said to be so.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.model import events as kinds
from harness.model.history import read_history
from harness.model.tail import HistoryChangedError, SoFar, Tail
from harness.model.waiting import wait_until
from harness.model.writing import LedgerWriter
from tests.events import plain
from tests.judge.test_history import WITHIN_S, WRITE_FOREVER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from harness.model.history import Event

NAMES = ("runner", "wire", "producer-1")


def line(number: int, *, t: int | None = None, by: str = "w", **fields: object) -> bytes:
    """Return a line, the ``number``-th of its writer."""
    told = {
        "line": number,
        "t": number if t is None else t,
        "w": 0,
        "cell": "c",
        "by": by,
        "event": kinds.FAULT,
        "phase": "armed",
        "number": number,
    }
    return json.dumps({**told, **fields}, ensure_ascii=False).encode() + b"\n"


def append(file: Path, data: bytes) -> None:
    """Write at the end of a file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab") as out:
        out.write(data)


def numbers(events: Sequence[Event]) -> list[int]:
    """Return what they are called by."""
    return [event.line for event in events]


def content_of(name: str) -> st.SearchStrategy[bytes]:
    """Some lines of one writer: whole ones, with times that may go back; missing, damaged, empty
    and repeated ones.
    """
    whole = st.integers(1, 9).flatmap(
        lambda n: st.integers(0, 5).map(lambda t: line(n, t=t, by=name, file="é\n{"))
    )
    odd = st.sampled_from(
        [b"\n", b"nonsense\n", b'{"t": 1\n', b"\xff\xfe\n", b'{"t": 1, "event": null}\n']
    )
    return st.lists(st.one_of(whole, whole, odd), max_size=12).map(b"".join)


@given(contents=st.tuples(*map(content_of, NAMES)), cuts=st.randoms(use_true_random=False))
def test_however_it_is_written_each_event_is_told_once(
    tmp_path_factory: pytest.TempPathFactory, contents: tuple[bytes, ...], cuts: random.Random
) -> None:
    """Chunks of several files, cut at any byte, in any order, read between any two: in the end as
    if it were read at once.
    """
    folder = tmp_path_factory.mktemp("tail")
    got: list[Event] = []
    left, tail = dict(zip(NAMES, contents, strict=True)), Tail(folder)
    append(folder / f"{NAMES[0]}.jsonl", b"")
    while any(left.values()):
        name = cuts.choice([each for each in NAMES if left[each]])
        size = cuts.randint(1, 200)
        append(folder / f"{name}.jsonl", left[name][:size])
        left[name] = left[name][size:]
        if cuts.random() < 0.5:
            new = tail.read()
            assert [e.t for e in new] == sorted(e.t for e in new)
            got += new
    got += tail.read()
    assert tail.read() == []
    want = read_history(folder)
    assert sorted(map(json.dumps, plain(got))) == sorted(map(json.dumps, plain(want.events)))
    assert sorted(tail.damage) == sorted(want.damage)


def test_a_line_is_there_when_it_was_written(tmp_path: Path) -> None:
    """Whoever waits for it needs no second look."""
    tail = Tail(tmp_path)
    with LedgerWriter(tmp_path / "a.jsonl", cell="c", by="w") as history:
        for number in range(1, 301):
            history.write("number", number=number, filler="x" * (number * 97 % 9000))
            assert numbers(tail.read()) == [number]


def test_half_a_line_is_kept_back(tmp_path: Path) -> None:
    """Until its newline comes, though it could be read without it; then it is told once."""
    tail, file = Tail(tmp_path), tmp_path / "a.jsonl"
    append(file, line(1) + line(2)[:30])
    assert numbers(tail.read()) == [1]
    append(file, line(2)[30:-1])
    assert tail.read() == []
    append(file, b"\n" + line(3))
    assert numbers(tail.read()) == [2, 3]
    assert tail.read() == []
    assert tail.damage == ()


def test_what_follows_half_a_line_is_damage(tmp_path: Path) -> None:
    """A writer that goes on where another was killed: as read_history finds it."""
    tail, file = Tail(tmp_path), tmp_path / "a.jsonl"
    append(file, line(1) + line(2)[:30])
    tail.read()
    append(file, line(1) + line(2, t=7))
    assert numbers(tail.read()) == [2]
    assert tail.damage == read_history(tmp_path).damage == ("a.jsonl:2",)


def test_files_and_folders_may_appear_late(tmp_path: Path) -> None:
    """The folder of the history itself, a new writer, one in a folder of its own; what is no
    history is not read.
    """
    folder = tmp_path / "history"
    tail = Tail(folder)
    assert tail.read() == []
    append(folder / "a.jsonl", line(1))
    assert numbers(tail.read()) == [1]
    append(folder / "b.jsonl", b"")
    append(folder / "notes.txt", line(2, by="notes"))
    assert tail.read() == []
    append(folder / "deep" / "er" / "c.jsonl", line(3, by="c"))
    append(folder / "b.jsonl", line(4, by="b"))
    assert numbers(tail.read()) == [3, 4]


def test_what_is_read_together_is_told_in_order_of_time(tmp_path: Path) -> None:
    """Of all files; of one time in the order of paths, as read_history has it. What is told is not
    told again for its order.
    """
    tail = Tail(tmp_path)
    append(tmp_path / "b.jsonl", line(1, t=5, by="b") + line(2, t=9, by="b"))
    append(tmp_path / "a.jsonl", line(3, t=7, by="a") + line(4, t=9, by="a"))
    assert numbers(tail.read()) == [1, 3, 4, 2] == numbers(list(read_history(tmp_path).events))
    append(tmp_path / "c.jsonl", line(5, t=1, by="c"))
    assert numbers(tail.read()) == [5]


def test_a_line_told_twice_is_told_once(tmp_path: Path) -> None:
    """A copied file would double what is waited for."""
    tail = Tail(tmp_path)
    append(tmp_path / "a.jsonl", line(1) + line(2))
    assert numbers(tail.read()) == [1, 2]
    append(tmp_path / "copy of a.jsonl", line(1) + line(2))
    assert tail.read() == []
    assert tail.damage == ("copy of a.jsonl:1 (told twice)", "copy of a.jsonl:2 (told twice)")


def replaced(file: Path) -> None:
    """Put another file in its place, that has all it had, and more."""
    copy = file.with_name("copy")
    copy.write_bytes(file.read_bytes() + line(3))
    copy.rename(file)


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (lambda file: os.truncate(file, file.stat().st_size - 1), "was cut short: it has"),
        (lambda file: file.write_bytes(b""), "was cut short: it has 0 bytes"),
        (replaced, "is another file than the one that was read"),
        (lambda file: file.unlink(), "is gone, after it was read"),
    ],
)
def test_a_file_that_is_not_what_it_was_is_an_error(
    tmp_path: Path, what: Callable[[Path], object], said: str
) -> None:
    """What was told is no more in the history: it is said each time, though the file may grow
    again.
    """
    tail, file = Tail(tmp_path), tmp_path / "a.jsonl"
    append(file, line(1) + line(2))
    tail.read()
    what(file)
    with pytest.raises(HistoryChangedError, match=said):
        tail.read()
    append(file, line(3) * 9)
    with pytest.raises(HistoryChangedError, match=said):
        tail.read()


def test_a_file_that_nobody_has_read_may_be_another(tmp_path: Path) -> None:
    tail, file = Tail(tmp_path), tmp_path / "a.jsonl"
    append(file, b"")
    assert tail.read() == []
    file.unlink()
    assert tail.read() == []
    append(file, line(1))
    assert numbers(tail.read()) == [1]


class Counted:
    """The bytes that are read of files, and how often one is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes = self.opened = 0
        pread, opens = os.pread, os.open

        def counting(fd: int, size: int, offset: int) -> bytes:
            data = pread(fd, size, offset)
            self.bytes += len(data)
            return data

        def opening(*args: Any) -> int:
            self.opened += 1
            return opens(*args)

        monkeypatch.setattr(os, "pread", counting)
        monkeypatch.setattr(os, "open", opening)


def test_nothing_is_read_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many bytes are read as were written, with all halves of lines; and where nothing is new,
    no file is opened.
    """
    files = [tmp_path / f"{name}.jsonl" for name in NAMES]
    counted, tail, dice, told = Counted(monkeypatch), Tail(tmp_path), random.Random(5), 0
    for file in files:
        data = b"".join(line(n, by=file.stem) for n in range(1, 200))
        while data:
            size = dice.randint(1, 400)
            append(file, data[:size])
            data = data[size:]
            told += len(tail.read())
    assert told == 3 * 199
    assert counted.bytes == sum(file.stat().st_size for file in files)
    opened = counted.opened
    for _ in range(50):
        assert tail.read() == []
    assert (counted.bytes, counted.opened) == (sum(file.stat().st_size for file in files), opened)
    append(files[1], line(200, by="wire"))
    tail.read()
    assert counted.opened == opened + 1, "the others have nothing new"


def test_readers_do_not_disturb_each_other(tmp_path: Path) -> None:
    often, seldom = Tail(tmp_path), Tail(tmp_path)
    got: list[int] = []
    for number in range(1, 20):
        append(tmp_path / "a.jsonl", line(number))
        got += numbers(often.read())
    assert got == numbers(seldom.read()) == list(range(1, 20))


def test_a_killed_writer_is_read_along(tmp_path: Path) -> None:
    """While another process writes as fast as it can, and is killed: no line is missed, doubled or
    damaged.
    """
    file, tail, got = tmp_path / "victim.jsonl", Tail(tmp_path), list[int]()

    def enough() -> bool:
        got.extend(numbers(tail.read()))
        return len(got) > 2000

    victim = subprocess.Popen([sys.executable, "-c", WRITE_FOREVER, str(file)])
    try:
        wait_until(enough, within_s=WITHIN_S, because="lines", poll_s=0.0002)
    finally:
        victim.kill()
        victim.wait(WITHIN_S)
    got += numbers(tail.read())
    assert got == list(range(1, len(got) + 1))
    last = read_history(tmp_path)
    assert len(last.events) - len(got) in (0, 1), "one that lacks but its newline"
    assert tail.damage == last.damage == ()


# --- all that was told so far ---------------------------------------------------------------------


def test_what_was_told_so_far_is_asked_by_kind_by_place_and_by_writer(tmp_path: Path) -> None:
    """By kind in order of time, all in the order in which it was read, and counted."""
    so_far = SoFar(tmp_path)
    assert (so_far.events(), so_far.of(kinds.Fault), so_far.lines()) == ([], [], {})
    append(
        tmp_path / "a.jsonl",
        line(1, t=5, by="a") + line(2, t=6, by="a", event=kinds.UNGOVERNED, record="a-1"),
    )
    assert numbers(so_far.of(kinds.Fault)) == [1]
    append(tmp_path / "b.jsonl", line(3, t=2, by="b"))
    assert numbers(so_far.of(kinds.Fault)) == [3, 1]
    assert numbers(so_far.of(kinds.Ungoverned, kinds.Fault)) == [3, 1, 2]
    assert numbers(so_far.events()) == [1, 2, 3]
    assert numbers(so_far.events(2)) == [3]
    assert so_far.events(3) == []
    assert so_far.lines() == {"a": 2, "b": 1}
    so_far.of(kinds.Fault).clear()
    so_far.events().clear()
    assert len(so_far.of(kinds.Fault)) == 2


def test_what_is_looked_for_is_looked_at_once(tmp_path: Path) -> None:
    """However often it is asked, and whoever else asks: all that was found is told each time."""
    so_far, seen = SoFar(tmp_path), list[int]()

    def even(event: Event) -> bool:
        seen.append(event.line)
        return event.line % 2 == 0

    append(tmp_path / "a.jsonl", line(1) + line(2) + line(3, event=kinds.UNGOVERNED, record="a-1"))
    find, other = so_far.finder(kinds.Fault, even), so_far.finder(kinds.Ungoverned, lambda _: True)
    assert numbers(find()) == numbers(find()) == [2]
    append(tmp_path / "a.jsonl", line(4))
    assert numbers(other()) == [3]
    assert numbers(find()) == [2, 4]
    assert seen == [1, 2, 4]


def test_threads_may_ask_at_once(tmp_path: Path) -> None:
    so_far, wrong = SoFar(tmp_path), list[object]()

    def ask() -> None:
        at, got = 0, list[int]()
        while len(got) < 2000:
            new = so_far.events(at)
            at += len(new)
            got += numbers(new)
        if got != list(range(1, 2001)):
            wrong.append(got)

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(1, 2001):
        append(tmp_path / "a.jsonl", line(number))
    for thread in threads:
        thread.join(WITHIN_S)
    assert not any(thread.is_alive() for thread in threads)
    assert wrong == []
    assert so_far.lines() == {"w": 2000}
