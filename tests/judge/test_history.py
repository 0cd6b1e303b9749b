"""The history survives what happens to its writers, and says so where it does not."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from harness.model import events as kinds
from harness.model.events import CLASSES, Event
from harness.model.history import (
    HistoryError,
    HistoryWriter,
    Line,
    encoded,
    event_of,
    line_of,
    read_history,
)
from harness.model.waiting import wait_until
from harness.model.writing import LedgerWriter
from tests.events import plain, typed, whole

FULL = Path("/dev/full")
KILLS = 12
WITHIN_S = 10

WRITE_FOREVER = """
import sys
from pathlib import Path
from harness.model.writing import LedgerWriter
with LedgerWriter(Path(sys.argv[1]), cell="c", by="victim") as history:
    number = 0
    while True:
        number += 1
        history.write("number", number=number, filler="x" * (number * 37 % 9000))
"""

WRITE_UNTIL_FULL = """
import resource, sys
from pathlib import Path
from harness.model.writing import HistoryError, LedgerWriter
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
history = LedgerWriter(Path(sys.argv[1]), cell="c", by="full")
try:
    for number in range(100):
        history.write("number", number=number)
except HistoryError as error:
    print(error)
    raise SystemExit(3)
"""


def write(path: Path, *lines: object, end: bytes = b"") -> None:
    """Write a history file by hand; a line that is no text is encoded as an event."""
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_bytes("".join(f"{text}\n" for text in texts).encode() + end)


def event(t: int, **fields: object) -> dict[str, object]:
    """Return one event of time ``t``."""
    return {"t": t, "w": t, "cell": "c", "by": "w", "event": "number", **fields}


def reached(file: Path, size: int) -> bool:
    """Whether a file has at least ``size`` bytes."""
    return file.exists() and file.stat().st_size >= size


# --- crashes of the writer ------------------------------------------------------------------------


def test_a_killed_writer_leaves_a_readable_history(tmp_path: Path) -> None:
    """SIGKILL at a random moment: every line but a cut last one is there, in order, without a gap,
    without damage.
    """
    dice = random.Random(17)
    file = tmp_path / "victim.jsonl"
    for _ in range(KILLS):
        file.unlink(missing_ok=True)
        least = dice.randint(1, 400_000)
        victim = subprocess.Popen([sys.executable, "-c", WRITE_FOREVER, str(file)])
        try:
            wait_until(
                partial(reached, file, least),
                within_s=WITHIN_S,
                because="the victim to write",
                poll_s=0.0005,
            )
        finally:
            victim.kill()
            status = victim.wait(WITHIN_S)
        assert status == -signal.SIGKILL
        history = read_history(tmp_path)
        assert history.damage == ()
        numbers = [row["number"] for row in plain(history.events)]
        assert numbers == list(range(1, len(numbers) + 1))
        assert numbers


@given(cut=st.integers(0, 10_000))
def test_a_line_may_be_cut_anywhere(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    """Wherever the last line is cut: all before it is read, and never a wrong event,
    never damage.
    """
    folder = tmp_path_factory.mktemp("cut")
    write(folder / "a.jsonl", event(1), event(2, text="\u00e9{}\n\\", deep={"a": [1, {"b": None}]}))
    whole = (folder / "a.jsonl").read_bytes()
    first = whole.index(b"\n") + 1
    kept = first + cut % (len(whole) - first)
    (folder / "a.jsonl").write_bytes(whole[:kept])
    history = read_history(folder)
    complete = kept >= len(whole) - 1  # only the newline is missing: the line is whole
    assert [row.t for row in history.events] == ([1, 2] if complete else [1])
    assert history.cut_lines == (() if complete or kept == first else ("a.jsonl",))
    assert history.damage == ()


# --- damage ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    [
        '{"t": 5, "event": "num',
        "nonsense",
        "[1, 2]",
        "7",
        '{"t": 5}',
        '{"event": "number"}',
        '{"t": "5", "event": "number"}',
        '{"t": null, "event": "number"}',
        '{"t": 1, "event": "a"}{"t": 2, "event": "b"}',
        "\x00\x00\x00\x00",
    ],
)
def test_damage_in_the_middle_is_reported(tmp_path: Path, bad: str) -> None:
    """A line that is no event, with others behind it, is named by file and line; the other lines
    are read.
    """
    write(tmp_path / "a.jsonl", event(1), bad, event(3))
    history = read_history(tmp_path)
    (damage,) = history.damage
    assert damage.partition(" ")[0] == "a.jsonl:2"
    assert history.cut_lines == ()
    assert [row.t for row in history.events] == [1, 3]


def test_a_whole_line_that_is_no_event_was_not_cut(tmp_path: Path) -> None:
    """A crash cuts a line anywhere; it makes no number of a name."""
    wrong = json.dumps({"t": 2, "event": "acked", "record": 7}).encode()
    write(tmp_path / "a.jsonl", event(1), end=wrong)
    history = read_history(tmp_path)
    assert history.cut_lines == ()
    (damage,) = history.damage
    assert damage.startswith("a.jsonl:2 (acked: Expected `str")


def test_bytes_that_are_no_text_are_damage(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"\xff\xfe\n" + json.dumps(event(2)).encode() + b"\n")
    assert read_history(tmp_path).damage == ("a.jsonl:1",)


def test_a_damaged_last_line_with_its_newline_is_damage(tmp_path: Path) -> None:
    """Only a line without its newline can have been cut by a crash; one that was written whole and
    is wrong was not.
    """
    write(tmp_path / "a.jsonl", event(1), '{"t": 2, "ev')
    history = read_history(tmp_path)
    assert history.damage == ("a.jsonl:2",)
    assert history.cut_lines == ()


@pytest.mark.parametrize("name", ["runner.jsonl", "wire.jsonl"])
@pytest.mark.parametrize(
    "end", [b'{"t": 2, "eve', json.dumps({"t": 2, "event": "number"}).encode()]
)
def test_who_is_never_killed_ends_no_file_inside_a_line(
    tmp_path: Path, name: str, end: bytes
) -> None:
    """Of a program a cut last line is what a crash leaves; of runner and wire it is damage, whole
    but for its newline or not.
    """
    for file in (tmp_path / name, tmp_path / "producer-1.jsonl"):
        write(file, event(1, by=file.stem), end=end)
    found = read_history(tmp_path)
    assert f"{name}:2 (it ends inside a line)" in found.damage
    assert not any("producer-1" in line and "inside" in line for line in found.damage)


def test_a_file_shared_after_a_crash_is_damage(tmp_path: Path) -> None:
    """Going on in a file whose last line was cut is found out: the two half lines are damage, not
    an event.
    """
    write(tmp_path / "a.jsonl", event(1), end=b'{"t": 2, "eve')
    with LedgerWriter(tmp_path / "a.jsonl", cell="c", by="again") as history:
        history.write("number", number=3)
        history.write("number", number=4)
    found = read_history(tmp_path)
    assert found.damage == ("a.jsonl:2",)
    assert [row.get("number") for row in plain(found.events)] == [None, 4]


# --- several writers ------------------------------------------------------------------------------


def test_events_of_several_writers_merge_by_time(tmp_path: Path) -> None:
    """Files are merged by monotonic time, wherever below the directory they lie; lines of one time
    keep their order.
    """
    (tmp_path / "deep" / "er").mkdir(parents=True)
    write(tmp_path / "b.jsonl", event(2, mark=1), event(2, mark=2), event(9))
    write(tmp_path / "deep" / "er" / "a.jsonl", event(5), event(1))
    write(tmp_path / "notes.txt", "not a history")
    history = read_history(tmp_path)
    assert [row.t for row in history.events] == [1, 2, 2, 5, 9]
    assert [row["mark"] for row in plain(history.events) if "mark" in row] == [1, 2]
    assert history.damage == ()


def test_a_line_told_twice_counts_once_and_is_damage(tmp_path: Path) -> None:
    """A file copied within the folder, or a line copied within a file, would double every count: it
    is damage, and told once.
    """
    write(tmp_path / "a.jsonl", event(1, mark=1), event(2, mark=2))
    write(tmp_path / "copy of a.jsonl", event(1, mark=1), event(3, mark=3), event(3, mark=3))
    history = read_history(tmp_path)
    assert [row["mark"] for row in plain(history.events)] == [1, 2, 3]
    assert history.damage == ("copy of a.jsonl:1 (told twice)", "copy of a.jsonl:3 (told twice)")


@given(lines=st.integers(3, 30), taken=st.integers(0, 28))
def test_a_line_taken_out_of_the_middle_is_missed(
    tmp_path_factory: pytest.TempPathFactory, lines: int, taken: int
) -> None:
    """Wherever a line was taken out, but at the end, where a crash may have been before it: the
    line behind it says so.
    """
    folder = tmp_path_factory.mktemp("taken")
    with LedgerWriter(folder / "a.jsonl", cell="c", by="w") as history:
        for number in range(lines):
            history.write("number", number=number)
    whole = (folder / "a.jsonl").read_bytes().splitlines(keepends=True)
    taken %= lines - 1
    (folder / "a.jsonl").write_bytes(b"".join(whole[:taken] + whole[taken + 1 :]))
    found = read_history(folder)
    assert found.damage == (f"a.jsonl:{taken + 1} (lines before it are missing)",)
    assert len(found.events) == lines - 1


def test_a_writer_that_goes_on_in_a_file_numbers_from_one(tmp_path: Path) -> None:
    """A program started again may write on in the file of the one before: nothing is missing."""
    for _ in range(3):
        with LedgerWriter(tmp_path / "a.jsonl", cell="c", by="w") as history:
            history.write("number")
            history.write("number")
    found = read_history(tmp_path)
    assert found.damage == ()
    assert [row.line for row in found.events] == [1, 2, 1, 2, 1, 2]


def test_a_line_of_another_cell_is_damage(tmp_path: Path) -> None:
    """What was seen of another cell is no evidence about this one; without a cell to ask for, all
    is read.
    """
    write(tmp_path / "a.jsonl", event(1), event(2, cell="d"), {"t": 3, "event": "number"})
    history = read_history(tmp_path, "c")
    assert [row.t for row in history.events] == [1]
    assert history.damage == ("a.jsonl:2 (of another cell)", "a.jsonl:3 (of another cell)")
    assert len(read_history(tmp_path).events) == 3


@pytest.mark.parametrize(
    "odd", [{"t": True}, {"t": 1.5}, {"t": "1"}, {"event": None}, {"event": ["number"]}]
)
def test_a_line_without_time_or_kind_is_damage(tmp_path: Path, odd: dict[str, object]) -> None:
    """A time is a whole number and a kind is a word; what else a line says is for the kinds to
    judge.
    """
    write(tmp_path / "a.jsonl", event(1) | odd, event(2))
    (damage,) = read_history(tmp_path).damage
    assert damage.partition(" ")[0] == "a.jsonl:1"


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    """Every field comes back as it was; time, cell, writer and kind are added, and times never run
    backwards.
    """
    text = "line\nbreak \u00e9 \u4e2d \x00"
    fields: dict[str, object] = {
        "text": text,
        "none": None,
        "number": 2**53,
        "list": [1, "a"],
        "flag": True,
    }
    with LedgerWriter(tmp_path / "a.jsonl", cell="c", by="w") as history:
        history.write("first", **fields)
        history.write("second")
    first, second = read_history(tmp_path).events
    assert isinstance(first, kinds.OfUnknownKind)
    assert first.fields == fields
    assert (first.cell, first.by, first.event) == ("c", "w", "first")
    assert first.t <= second.t
    assert abs(first.w - second.w) < 60 * 10**9


@pytest.mark.parametrize("kind", sorted(CLASSES))
def test_an_event_is_what_its_line_says(kind: str) -> None:
    event = typed({"event": kind, "t": 1, "cell": "c", "by": "x"})
    assert event_of(json.loads(json.dumps(line_of(event)))) == event
    assert event_of(json.loads(json.dumps(line_of(event, defaults=False)))) == event


@pytest.mark.parametrize("kind", ["frame", "rule", "undecodable", "fault", "of another version"])
def test_what_lostack_does_not_know_of_a_line_is_kept(tmp_path: Path, kind: str) -> None:
    line = {"line": 1, "t": 1, "w": 2, "cell": "c", "by": "wire", "event": kind}
    line |= {"rule": "fault", "phase": "hit"} if kind == "rule" else {}
    line |= {"fault": "mine", "phase": "mine"} if kind == "fault" else {"api": "PUB"}
    line |= {"subject": {"name": "orders.new"}, "max-bytes": (1 << 64) - 1}
    write(tmp_path / "wire.jsonl", line)
    history = read_history(tmp_path)
    assert not history.damage
    (event,) = history.events
    assert line_of(event, defaults=False) == line


@pytest.mark.parametrize("kind", ["fault", "batch"])
def test_a_phase_of_somebody_else_is_kept(tmp_path: Path, kind: str) -> None:
    """A fault, or an engine, that is not lostack's own may say what none of lostack's says."""
    write(tmp_path / "runner.jsonl", whole({"event": kind, "t": 1, "phase": "rewound"}))
    history = read_history(tmp_path)
    assert not history.damage
    (event,) = history.of(kinds.Fault, kinds.Batch)
    assert event.phase == "rewound"


def test_threads_may_share_a_writer(tmp_path: Path) -> None:
    with LedgerWriter(tmp_path / "a.jsonl", cell="c", by="w") as history:

        def hundred(n: int) -> None:
            for i in range(100):
                history.write("x", n=n, filler="y" * i * 50)

        threads = [threading.Thread(target=hundred, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WITHIN_S)
    found = read_history(tmp_path)
    assert (len(found.events), found.damage, found.cut_lines) == (400, (), ())


def test_a_writer_goes_on_where_the_file_ends(tmp_path: Path) -> None:
    """Opening a file again appends; nothing that was written is ever overwritten."""
    for number in range(3):
        with LedgerWriter(tmp_path / "new" / "a.jsonl", cell="c", by="w") as history:
            history.write("number", number=number)
    assert [row["number"] for row in plain(read_history(tmp_path).events)] == [0, 1, 2]


def test_of_selects_kinds_in_order(tmp_path: Path) -> None:
    """``of`` yields exactly the kinds asked for, by time."""
    told = [
        {"event": kinds.TAKEN, "t": 3, "record": "a"},
        {"event": kinds.ACKED, "t": 1},
        {"event": kinds.SAVED, "t": 2},
        {"event": "of somebody else", "t": 0},
    ]
    write(tmp_path / "a.jsonl", *map(whole, told))
    history = read_history(tmp_path)
    assert [row.t for row in history.of(kinds.Taken, kinds.Saved)] == [2, 3]
    assert [row.t for row in history.of(kinds.OfUnknownKind)] == [0]
    assert not list(history.of(kinds.Delivered))


# --- what cannot be written or read ---------------------------------------------------------------


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_clear_line() -> None:
    """A write that does not fit raises HistoryError with one line that names the file and the
    cause.
    """
    with LedgerWriter(FULL, cell="c", by="w") as history, pytest.raises(HistoryError) as caught:
        history.write("number", number=1)
    assert str(caught.value) == "cannot write the history /dev/full: No space left on device"


def test_a_line_that_fits_only_in_part_is_an_error(tmp_path: Path) -> None:
    """Where the disk fills within a line the writer is told, and what is on the disk is a cut last
    line, no damage.
    """
    file = tmp_path / "a.jsonl"
    ran = subprocess.run(
        [sys.executable, "-c", WRITE_UNTIL_FULL, str(file)],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert ran.returncode == 3, ran.stderr
    lines = ran.stdout.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith(f"cannot write the history {file}: only ")
    assert file.stat().st_size == 1000
    found = read_history(tmp_path)
    assert [row["number"] for row in plain(found.events)] == list(range(len(found.events)))
    assert found.events
    assert (found.cut_lines, found.damage) == (("a.jsonl",), ())


def test_a_folder_that_cannot_be_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        HistoryError, match=r"^cannot write the history .*: (Not a directory|File exists)$"
    ):
        LedgerWriter(tmp_path / "file" / "a.jsonl", cell="c", by="w")


def test_no_history_is_an_error(tmp_path: Path) -> None:
    """A directory without a history is no empty history: a run that wrote nothing
    proves nothing.
    """
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(HistoryError, match=r"^no history in "):
        read_history(tmp_path)


def test_a_closed_writer_never_writes_into_another_file(tmp_path: Path) -> None:
    """After ``close`` a write fails, even if the descriptor's number belongs to somebody else by
    then.
    """
    history = LedgerWriter(tmp_path / "a.jsonl", cell="c", by="w")
    history.close()
    with (tmp_path / "other").open("wb", buffering=0), pytest.raises(HistoryError):
        history.write("number", number=1)
    assert (tmp_path / "other").read_bytes() == b""


def test_closing_twice_closes_nothing_else(tmp_path: Path) -> None:
    """A second ``close`` does nothing; in particular it closes no file opened since."""
    history = LedgerWriter(tmp_path / "a.jsonl", cell="c", by="w")
    history.close()
    with (tmp_path / "other").open("wb", buffering=0) as other:
        history.close()
        other.write(b"still open")


def test_lines_of_one_moment_are_numbered_and_whole(tmp_path: Path) -> None:
    """Written by one call: what is read is what was given, whoever makes JSON of it; nothing is
    written of no line.
    """
    given_lines: list[Event | Line] = [
        kinds.Sent(record="a-1", request="1:1", base=-1),
        Line("frame", {"client": "\ud800 é", "records": ("b",)}),
        kinds.Absorbed(record="\ud800 é"),
        kinds.Fault(phase="mine", facts={"role": "\ud800", "depth": 3}),
    ]
    with HistoryWriter(tmp_path / "w.jsonl", cell="c", by="w") as history:
        history.write(Line("begun", {}))
        history.write_all(given_lines)
        history.write_all(())
        history.write(Line("ended", {"number": 7}))
    read = read_history(tmp_path)
    assert read.damage == ()
    assert [(e.line, e.event) for e in read.events] == [
        (1, "begun"),
        (2, "sent"),
        (3, "frame"),
        (4, "absorbed"),
        (5, "fault"),
        (6, "ended"),
    ]
    for line, seen in zip(given_lines, read.events[1:-1], strict=True):
        assert (seen.cell, seen.by) == ("c", "w")
        assert [seen.t, seen.w] == [read.events[1].t, read.events[1].w]
        told = encoded(structs.replace(seen, line=1, t=-1, w=0, cell="", by=""))
        assert json.loads(told) == json.loads(encoded(line))
    lines = (tmp_path / "w.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "w.jsonl").write_bytes(b"".join([*lines[:2], lines[2][:-9]]))
    assert read_history(tmp_path).cut_lines == ("w.jsonl",)
    assert len(read_history(tmp_path).events) == 2
