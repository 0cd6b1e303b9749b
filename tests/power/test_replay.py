"""What a log of calls says of the files: lines as the tracer writes them, outcomes to the byte."""

from __future__ import annotations

import pytest

from harness.runtimes.power.replay import NotSeenError, Replay
from harness.runtimes.power.tree import Names

ROOT = "/w/data"
FIRST = '7 1790000000.000001 execve("/bin/broker", ["broker"], 0x7ffe /* 9 vars */) = 0'
CREATED = 'openat(AT_FDCWD</w>, "/w/data/a", O_RDWR|O_CREAT, 0600) = 3</w/data/a>'


def replayed(
    *calls: str, base: dict[str, bytes | None] | None = None, first: str = FIRST
) -> Replay:
    """Replay calls of thread 7, or of the thread that is named in front."""
    replay = Replay(ROOT, base or {})
    lines = [call if call[0].isdigit() else f"7 1790000000.000002 {call}" for call in calls]
    replay.read([f"{line}\n".encode() for line in (first, *lines)], "/w")
    return replay


def left(replay: Replay, names: Names = Names.EXT4) -> dict[str, bytes | None]:
    """Return what is left, with nothing known of mapped files."""
    return replay.left(names, {})


def test_a_file_is_cut_at_the_beginning_of_its_last_flush() -> None:
    """What is written behind it is gone, what was before it stays."""
    replay = replayed(
        CREATED,
        'write(3</w/data/a>, "one\\n\\0\\377", 6) = 6',
        "fdatasync(3</w/data/a>) = 0",
        'write(3</w/data/a>, "two", 3) = 3',
    )
    replay.check({"a": b"one\n\x00\xfftwo"})
    assert left(replay) == {"a": b"one\n\x00\xff"}
    assert replay.flushes == 1


def test_a_write_that_races_with_a_flush_is_not_covered_by_it() -> None:
    """It had begun before the flush, and ended during it; the next flush covers it."""
    calls = [
        CREATED,
        'write(3</w/data/a>, "one", 3) = 3',
        '7 1790000000.000003 write(3</w/data/a>, "two", 3 <unfinished ...>',
        "8 1790000000.000004 fsync(3</w/data/a> <unfinished ...>",
        "7 1790000000.000005 <... write resumed>) = 3",
        '7 1790000000.000006 write(3</w/data/a>, "three", 5) = 5',
        "8 1790000000.000007 <... fsync resumed>) = 0",
    ]
    assert left(replayed(*calls)) == {"a": b"one"}
    assert left(replayed(*calls, "fsync(3</w/data/a>) = 0")) == {"a": b"onetwothree"}


@pytest.mark.parametrize(
    "end", ["", "fsync(3</w/data/a>) = -1 EIO (Input/output error)", "fsync(3</w/data/a> <unfin"]
)
def test_a_flush_that_failed_or_has_not_ended_covers_nothing(end: str) -> None:
    replay = replayed(CREATED, 'write(3</w/data/a>, "one", 3) = 3', *filter(None, [end]))
    assert left(replay) == {}, "not even its name was flushed"


def test_a_file_that_is_overwritten_is_put_back_as_it_was_flushed() -> None:
    replay = replayed(
        'openat(AT_FDCWD</w>, "/w/data/k", O_RDWR) = 4</w/data/k>',
        'pwrite64(4</w/data/k>, "BB", 2, 1) = 2',
        'pwritev(4</w/data/k>, [{iov_base="C", iov_len=1}, {iov_base="D]", iov_len=2}], 2, 6) = 3',
        "fsync(4</w/data/k>) = 0",
        'pwrite64(4</w/data/k>, "XXXX", 4, 0) = 4',
        "ftruncate(4</w/data/k>, 2) = 0",
        base={"k": b"aaaa"},
    )
    replay.check({"k": b"XX"})
    assert left(replay) == {"k": b"aBBa\0\0CD]"}


def test_positions_are_followed() -> None:
    """Sought, shared by copies of a descriptor, at the end where a file is opened for appending."""
    replay = replayed(
        CREATED,
        'write(3</w/data/a>, "12345", 5) = 5',
        "lseek(3</w/data/a>, 1, SEEK_SET) = 1",
        "dup(3</w/data/a>) = 5</w/data/a>",
        'write(5</w/data/a>, "A", 1) = 1',
        'writev(3</w/data/a>, [{iov_base="B", iov_len=1}], 1) = 1',
        'openat(AT_FDCWD</w>, "data/a", O_WRONLY|O_APPEND) = 6</w/data/a>',
        'write(6</w/data/a>, "end", 3) = 3',
        'pwritev2(3</w/data/a>, [{iov_base="C", iov_len=1}], 1, -1, RWF_HIPRI) = 1',
        "fallocate(3</w/data/a>, 0, 0, 10) = 0",
        "fallocate(3</w/data/a>, FALLOC_FL_KEEP_SIZE, 0, 99) = 0",
    )
    replay.check({"a": b"1ABC5end\0\0"})


@pytest.mark.parametrize("flag", ["O_SYNC", "O_DSYNC"])
def test_a_file_that_is_opened_for_it_is_flushed_by_each_write(flag: str) -> None:
    replay = replayed(
        f'openat(AT_FDCWD</w>, "/w/data/a", O_RDWR|O_CREAT|{flag}, 0600) = 3</w/data/a>',
        'write(3</w/data/a>, "one", 3) = 3',
        'openat(AT_FDCWD</w>, "/w/data/a", O_RDWR|O_APPEND) = 4</w/data/a>',
        'write(4</w/data/a>, "two", 3) = 3',
    )
    assert left(replay) == {"a": b"one"}
    assert replay.flushes == 1


def test_one_write_can_flush_by_itself_and_sync_flushes_all() -> None:
    """By a flag of the call; sync_file_range promises nothing."""
    one = 'pwritev2(3</w/data/a>, [{iov_base="one", iov_len=3}], 1, 0, RWF_DSYNC) = 3'
    assert left(replayed(CREATED, one)) == {"a": b"one"}
    plain = 'write(3</w/data/a>, "one", 3) = 3'
    some = "sync_file_range(3</w/data/a>, 0, 3, SYNC_FILE_RANGE_WRITE) = 0"
    assert left(replayed(CREATED, plain, some)) == {}
    assert left(replayed(CREATED, plain, "sync() = 0")) == {"a": b"one"}


def test_what_the_kernel_has_written_by_itself_stays() -> None:
    """All that was done by then, with its names and folders, and not a call that had only begun."""
    early = [
        FIRST,
        f"7 1790000000.000002 {CREATED}",
        '7 1790000000.000003 write(3</w/data/a>, "one", 3) = 3',
        '7 1790000000.000004 write(3</w/data/a>, "two", 3 <unfinished ...>',
    ]
    late = [
        "7 1790000000.000005 <... write resumed>) = 3",
        '7 1790000000.000006 rename("/w/data/a", "/w/data/b") = 0',
    ]
    lines = [f"{line}\n".encode() for line in (*early, *late)]
    replay = Replay(ROOT, {})
    replay.read(lines, "/w", sum(map(len, lines[: len(early)])))
    replay.check({"b": b"onetwo"})
    assert left(replay) == {"a": b"one"}
    assert left(replay, Names.POSIX) == {"a": b"one"}
    assert replay.flushes == 0, "the program has flushed nothing"


RENAMED = (
    'openat(AT_FDCWD</w>, "/w/data/new", O_WRONLY|O_CREAT|O_TRUNC, 0600) = 3</w/data/new>',
    'write(3</w/data/new>, "new", 3) = 3',
    "fsync(3</w/data/new>) = 0",
    'rename("data/new", "/w/data/old") = 0',
)
FOLDER = "fsync(5</w/data>) = 0"
OTHER = "fsync(6</w/data/other>) = 0"


@pytest.mark.parametrize(
    ("calls", "ext4", "posix"),
    [
        ((), {"new": b"new", "old": b"old"}, {"old": b"old"}),
        ((FOLDER,), {"old": b"new"}, {"old": b"new"}),
        ((OTHER,), {"old": b"new"}, {"old": b"old"}),
    ],
    ids=["nothing", "its folder", "another file"],
)
def test_a_new_name_survives_with_the_next_flush(
    calls: tuple[str, ...], ext4: dict[str, bytes], posix: dict[str, bytes]
) -> None:
    """Of anything on ext4, whose journal has all names in order; of its folder by POSIX."""
    base: dict[str, bytes | None] = {"old": b"old", "other": b"other"}
    replay = replayed(*RENAMED, *calls, base=base)
    replay.check({"old": b"new", "other": b"other"})
    assert left(replay) == {**ext4, "other": b"other"}
    assert left(replay, Names.POSIX) == {**posix, "other": b"other"}


def test_folders_are_renamed_with_all_that_is_in_them() -> None:
    """And removed files come back if nothing was flushed since."""
    replay = replayed(
        'mkdir("/w/data/d", 0700) = 0',
        'openat(AT_FDCWD</w>, "/w/data/d/a", O_RDWR|O_CREAT, 0600) = 3</w/data/d/a>',
        'write(3</w/data/d/a>, "one", 3) = 3',
        "fsync(3</w/data/d/a>) = 0",
        'renameat2(AT_FDCWD</w>, "data/d", AT_FDCWD</w>, "data/e", RENAME_NOREPLACE) = 0',
        'write(3</w/data/e/a>, "two", 3) = 3',
        "fsync(3</w/data/e/a>) = 0",
        'unlinkat(9</w/data/e>, "a", 0) = 0',
        'write(3</w/data/e/a>(deleted), "three", 5) = 5',
        'rmdir("data/e") = 0',
    )
    replay.check({})
    assert left(replay) == {"e": None, "e/a": b"onetwo"}
    assert left(replay, Names.POSIX) == {}, "no folder was ever flushed"


def test_a_descriptor_has_its_new_name_before_the_rename_has_ended() -> None:
    """Another thread writes meanwhile; working directories are followed."""
    replay = replayed(
        'chdir("data") = 0',
        CREATED,
        '7 1790000000.000003 rename("a", "b" <unfinished ...>',
        '8 1790000000.000004 write(3</w/data/b>, "one", 3) = 3',
        "7 1790000000.000005 <... rename resumed>) = 0",
        "fsync(3</w/data/b>) = 0",
    )
    assert left(replay) == {"b": b"one"}


def test_a_call_that_was_cut_off_by_the_end_may_have_been_done() -> None:
    calls = [CREATED, "fsync(3</w/data/a>) = 0", 'write(3</w/data/a>, "one", 3 <unfinished ...>']
    for now in (b"", b"one"):
        replay = replayed(*calls)
        replay.check({"a": now})
        assert left(replay) == {"a": b""}
    named = [CREATED, 'rename("/w/data/a", "/w/data/b" <unfinished ...>']
    for name in ("a", "b"):
        replayed(*named).check({name: b""})


MAP = "mmap(NULL, 10, PROT_READ|PROT_WRITE, MAP_SHARED, 3</w/data/a>, 0) = 0x7f00"
SIZED = "ftruncate(3</w/data/a>, 10) = 0"


def test_a_mapped_file_is_refused_unless_it_is_made_again() -> None:
    """Its content is not seen. One that is made again is as it was, or as it is."""
    now = {"a": b"0123456789"}
    with pytest.raises(NotSeenError, match=r"a is mapped into memory: what was written"):
        replayed(CREATED, SIZED, MAP).check(now)
    read_only = MAP.replace("|PROT_WRITE", "")
    replayed(CREATED, SIZED, read_only).check({"a": bytes(10)})
    replay = replayed(CREATED, "fsync(3</w/data/a>) = 0", SIZED, MAP)
    replay.check(now, ["*.index", "a"])
    assert replay.left(Names.EXT4, now) == {"a": b""}, "it was flushed before it was mapped"
    never = replayed(CREATED, SIZED, MAP, "sync_file_range(3</w/data/a>, 0, 0, 0) = 0")
    never.check(now, ["a"])
    assert never.left(Names.EXT4, now) == {}
    flushed = replayed(CREATED, SIZED, MAP, "msync(0x7f04, 2, MS_SYNC) = 0")
    flushed.check(now, ["a"])
    assert flushed.left(Names.EXT4, now) == now


REFUSED = {
    "late": (
        {"first": '7 1790000000.000001 openat(AT_FDCWD</w>, "/etc/x", O_RDONLY) = 3</etc/x>'},
        [CREATED],
        {"a": b""},
        "not there when the program was started",
    ),
    "aio": ({}, ["io_submit(0x7f, 1, [{data=0}]) = 1"], {}, "asynchronous I/O"),
    "uring": ({}, ["io_uring_enter(4, 1, 0, 0, NULL, 8) = 1"], {}, "io_uring"),
    "a part": (
        {},
        [CREATED, 'write(3</w/data/a>, "one"..., 9) = 9'],
        {"a": b"one"},
        "only a part",
    ),
    "a hole": (
        {},
        [CREATED, "fallocate(3</w/data/a>, FALLOC_FL_KEEP_SIZE|FALLOC_FL_PUNCH_HOLE, 0, 4) = 0"],
        {"a": b""},
        "more than make room",
    ),
    "from outside": ({}, ['rename("/w/x", "/w/data/a") = 0'], {"a": b""}, "outside of the folder"),
    "unknown": ({}, ['write(3</w/data/a>, "x", 1) = 1'], {"a": b"x"}, "not seen made"),
    "more than seen": ({}, [CREATED], {"a": b"x"}, "does not hold what the tracer saw"),
    "a file too many": ({}, [], {"a": b"x"}, "a is there, and the tracer has not seen why"),
    "a file too few": ({}, [CREATED], {}, "a is not there, and the tracer has not seen why"),
}


@pytest.mark.parametrize(("more", "calls", "now", "why"), REFUSED.values(), ids=REFUSED)
def test_what_was_not_seen_is_said(
    more: dict[str, str], calls: list[str], now: dict[str, bytes | None], why: str
) -> None:
    """Never guessed: a wrong cut would convict a broker that has done nothing wrong."""
    with pytest.raises(NotSeenError, match=why) as said:
        replayed(*calls, first=more.get("first", FIRST)).check(now)
    assert "\n" not in str(said.value)
