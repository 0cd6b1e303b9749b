"""What a tracer's log says of durable writes: at which a thread is held, and which were made."""

from __future__ import annotations

import itertools
import os
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness.model.writes import CALLS, FEW, LOCKS, WRITES, Point, Side, are_one_each
from harness.runtimes.process.members import read

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path


_LINE: Final = re.compile(r"(?P<tid>\d+) +(?P<at>\d+\.\d+) (?P<rest>.*)")
_CALL: Final = re.compile(r"(?P<call>\w+)\((?P<words>.*)")
_RESUMED: Final = re.compile(r"<\.\.\. \w+ resumed>(?P<rest>.*)")
_RESULT: Final = re.compile(r".*\) += (?P<result>\?|-?\d+)(?P<more>.*)")
_FILE: Final = re.compile(r'<(?P<open>/(?:[^<>\\]|\\.)*)>|"(?P<named>(?:[^"\\]|\\.)*)"')
_ESCAPED: Final = re.compile(r"\\(?:(?P<octal>[0-7]{1,3})|(?P<letter>.))")
_LETTERS: Final = {"n": "\n", "t": "\t", "r": "\r", "v": "\v", "f": "\f"}
_INTO: Final = re.compile(r"\d+</(?!dev/|proc/|sys/)")
"""The descriptor of a file, as a call's first argument."""
_UUID: Final = re.compile(
    r"(?<![0-9a-f])[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-f])", re.IGNORECASE
)
_DELAYED: Final = "(DELAYED)"
_TRACED: Final = "t"
"""The state of a thread that its tracer holds."""


@dataclass(frozen=True, slots=True)
class Write:
    """One durable write, as the tracer saw it begin.

    ``number`` counts all writes of the node from 1; ``occurrence`` counts those of the same thread
    and call. ``files``: the files that it names, with whole paths for descriptors. ``at_ns``: wall
    time. ``result``: the kernel's result; ``?`` if the thread ended during the call, ``None`` if
    the call has not ended. ``delayed``: whether the thread was held after it.
    """

    number: int
    tid: int
    call: str
    occurrence: int
    files: tuple[str, ...]
    at_ns: int
    result: str | None
    delayed: bool

    def __str__(self) -> str:
        return f"{self.call} {self.occurrence} ({' to '.join(self.files)})"

    def is_in(self, folder: str) -> bool:
        """Say whether all files that it names are in a folder, or below it."""
        return bool(self.files) and all(is_below(file, folder) for file in self.files)


@dataclass(frozen=True, slots=True)
class HeldThread:
    """A thread that is held right before a write, and its process."""

    write: Write
    pid: int


@dataclass(frozen=True, slots=True)
class ThreadHold:
    """The proof that a point was hit: the write, its process, and how many calls of each kind all
    threads had begun before.
    """

    point: Point
    write: Write
    pid: int
    made: Mapping[str, int]


def held_in(log: Path, point: Point) -> ThreadHold | None:
    """Return the proof that a thread is held at a point; ``None`` if the point was not hit.

    A thread that is held before a call has begun it, has no result, and is stopped by its tracer,
    or has died there. A thread that is held after a call is marked as delayed in strace's log.
    """
    found = writes_in(log)
    for number, write in enumerate(found):
        if (write.call, write.occurrence) == (point.call, point.occurrence) and stands(
            write, point.side
        ):
            return ThreadHold(
                point, write, process_of(write.tid), Counter(each.call for each in found[:number])
            )
    return None


def stands(write: Write, side: Side) -> bool:
    """Return whether a thread is held at a write, on this side of it."""
    if side is Side.AFTER:
        return write.delayed
    return write.result == "?" or (write.result is None and _state(write.tid) in (_TRACED, ""))


def process_of(tid: int) -> int:
    """Return the process of a thread; 0 if the thread is gone."""
    lines = read(f"/proc/{tid}/status").splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith(b"Tgid:")), 0)


def _state(tid: int) -> str:
    """Return the state of a thread; empty if it is gone."""
    stat = read(f"/proc/{tid}/stat")
    return chr(stat[stat.rfind(b")") + 2]) if stat else ""


def files_since(
    writes: Iterable[Write],
    since_ns: int,
    aside: Collection[str] = (),
    *,
    records: int,
    work: str = "",
    temporary: str = "",
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the files that were written since a wall time, except those in ``aside``: those that
    another run will write, and those whose names no other run has.

    Of no other run are those in the folder ``temporary``. Of the others, those that were written
    before the time, too, are open by then in each run, whatever their names. New ones are of no
    other run with a UUID in their names, or in that of a folder below ``work``; and those that the
    stage was soon done with (:func:`_passing`), if there is about one for each of the ``records``
    that came. Any other new file that was written only once is in neither: it may be of one record.
    """
    into = [write for write in writes if write.call in WRITES]
    kept = {write.files[0] for write in into if write.at_ns < since_ns}
    late = [write.files[0] for write in into if write.at_ns >= since_ns]
    counts = Counter(file for file in late if file not in aside)
    made = [file for file in late if file in counts and file not in kept]
    new = {file for file in _passing(made) if not is_below(file, temporary)}
    if not are_one_each(len(new), records):
        new = set()
    found = sorted(file for file, count in counts.items() if count > 1 or file in new)

    def is_repeated(file: str) -> bool:
        name = file.removeprefix(work) if is_below(file, work) else file.rpartition("/")[2]
        named_again = file in kept or not (file in new or _UUID.search(name))
        return named_again and not is_below(file, temporary)

    return tuple(filter(is_repeated, found)), tuple(itertools.filterfalse(is_repeated, found))


def _passing(made: Sequence[str]) -> set[str]:
    """Return the files between whose first and last write fewer than :data:`FEW` others were
    written: a record's own, unlike a shard or a position, to which a stage comes back.

    >>> sorted(_passing(["a", "b", "a", "s1", "s2", "s3", "s4", "s5", "s6", "s1"]))
    ['a', 'b', 's2', 's3', 's4', 's5', 's6']
    """
    turns = [file for file, _ in itertools.groupby(made)]
    first = {file: at for at, file in reversed([*enumerate(turns)])}
    last = {file: at for at, file in enumerate(turns)}
    return {file for file, at in first.items() if len({*turns[at : last[file]]}) - 1 < FEW}


def is_below(file: str, folder: str) -> bool:
    """Say whether a file is in a folder, or in one below it; no file is below ``""``."""
    return bool(folder) and file.startswith(f"{folder}/")


def made_since(
    writes: Iterable[Write], since_ns: int, files: Collection[str] = (), temporary: str = ""
) -> dict[str, list[int]]:
    """Return how often each thread has made each call since a wall time, the busiest thread first.

    Plain writes are counted only if they go into ``files``. A call that was made in the folder
    ``temporary`` alone is left out; one that was made elsewhere, too, is counted there as well,
    because a tracer counts all of a thread's calls.
    """
    late = [
        write
        for write in writes
        if write.at_ns >= since_ns and (write.call not in WRITES or write.files[0] in files)
    ]
    lasting = {write.call for write in late if not write.is_in(temporary)}
    counts = Counter((write.call, write.tid) for write in late)
    return {
        call: sorted((count for (each, _), count in counts.items() if each == call), reverse=True)
        for call, _ in counts
        if call in lasting
    }


def writes_in(log: Path) -> tuple[Write, ...]:
    """Return all durable writes in a log, in the order in which they began. The log may still be
    growing.
    """
    return tuple(_counted(_calls(read(str(log)).decode("utf-8", "replace").split("\n"))))


@dataclass(slots=True)
class _Call:
    tid: int
    at: str
    call: str
    words: str
    """Its arguments, and its result as soon as it is there."""


def _calls(lines: Iterable[str]) -> list[_Call]:
    """Return the durable writes; of a thread that another one has interrupted, the two halves of a
    line together.
    """
    begun: list[_Call] = []
    latest: dict[str, _Call] = {}
    for told in filter(None, map(_LINE.fullmatch, lines)):
        tid, rest = told["tid"], told["rest"]
        if (resumed := _RESUMED.fullmatch(rest)) and tid in latest:
            latest[tid].words += resumed["rest"]
        elif (found := _CALL.fullmatch(rest)) and (
            found["call"] in CALLS or _is_into(found["call"], found["words"])
        ):
            latest[tid] = _Call(
                int(tid),
                told["at"],
                found["call"],
                found["words"].removesuffix(" <unfinished ...>"),
            )
            begun.append(latest[tid])
    return begun


def _is_into(call: str, words: str) -> bool:
    """Whether it writes into a file, or locks one: the same call is made for sockets, pipes and
    devices.
    """
    return call in WRITES + LOCKS and _INTO.match(words) is not None


def _counted(calls: Iterable[_Call]) -> Iterator[Write]:
    made: Counter[tuple[int, str]] = Counter()
    for number, each in enumerate(calls, start=1):
        made[each.tid, each.call] += 1
        ended = _RESULT.fullmatch(each.words)
        yield Write(
            number=number,
            tid=each.tid,
            call=each.call,
            occurrence=made[each.tid, each.call],
            files=tuple(
                _unescaped(found["open"] or found["named"])
                for found in _FILE.finditer(each.words)
                if found[0] != '""'
            ),
            at_ns=int(each.at.replace(".", "")) * 1000,
            result=ended["result"] if ended else None,
            delayed=ended is not None and _DELAYED in ended["more"],
        )


def _unescaped(text: str) -> str:
    r"""Return a file's name as Python has it; strace writes each byte beyond ASCII in octal.

    >>> _unescaped(r"/w\303\266rk/a\"b\74")
    '/w\xf6rk/a"b<'
    """

    def plain(match: re.Match[str]) -> bytes:
        if match["octal"]:
            return bytes([int(match["octal"], 8)])
        return os.fsencode(_LETTERS.get(match["letter"], match["letter"]))

    if "\\" not in text:
        return text
    parts, at = list[bytes](), 0
    for match in _ESCAPED.finditer(text):
        parts += (os.fsencode(text[at : match.start()]), plain(match))
        at = match.end()
    return os.fsdecode(b"".join((*parts, os.fsencode(text[at:]))))
