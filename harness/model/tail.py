"""A history that is still being written, read on: the one way to learn what wire, programs and runner have said so far.

What a history says is there as soon as the ``write(2)`` of its writer has returned, and a poll with nothing new costs a look at
the folder, however much is in it. So who waits for something waits for its line, with :func:`~harness.model.waiting.wait_until`.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from harness.model.history import SUFFIX, Lines, Mark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from harness.model.history import Event


class HistoryChangedError(Exception):
    """What was read of a history is there no more, or cannot be read: its cell proves nothing, whatever the others do."""


@dataclass(slots=True)
class _Read:
    """How far one file was read, and which file that was."""

    place: Mark
    file: tuple[int, int]
    """Device and inode."""
    offset: int = 0
    """How many bytes were read, those of ``rest`` among them."""
    rest: bytes = b""
    """The beginning of a line that is not whole yet."""


class Tail:
    """Reads on in every ``*.jsonl`` below a folder, which need not be there yet. For one reader: another has a tail of its own.

    Each byte is read once. What is an event and what is damage is decided as :func:`~harness.model.history.read_history` does,
    so that all that was handed out in the end is what that finds; but for a last line without its newline, which is kept back: it
    may not be whole yet. (Of a writer that was killed inside it, it never will be.)
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lines = Lines()
        self._files: dict[str, _Read] = {}
        self._broken: str | None = None

    @property
    def damage(self) -> tuple[str, ...]:
        """``file:line`` of lines that are not handed out, or not without doubt, so far; see :attr:`History.damage`."""
        return tuple(self._lines.damage)

    def read(self) -> list[Event]:
        """Return what was written since the last call, in the order of its times.

        Lines of one time are in the order of their files' paths. What comes in a later call may be older than what came in an
        earlier one, where it is another writer's: nothing is kept back for the sake of an order.

        Raises:
            HistoryChangedError: a file that was read is gone, shorter, or another one (told by its inode; where that is the
                same, by the numbers of its lines). From then on it is raised each time, for what was returned before is no
                longer true.
        """
        if self._broken is not None:
            raise HistoryChangedError(self._broken)
        try:
            return sorted(self._new(), key=lambda event: event["t"])
        except HistoryChangedError as error:
            self._broken = str(error)
            raise

    def _new(self) -> Iterator[Event]:
        found = dict(_files(str(self._directory)))
        for path in self._files.keys() - found.keys():
            found[path] = _known(path)
        for path in sorted(found):
            read = self._files.get(path)
            _check(path, read, found[path])
            if found[path].st_size > (read.offset if read else 0):
                yield from self._new_in(path)

    def _new_in(self, path: str) -> Iterator[Event]:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise HistoryChangedError(f"cannot read the history {path}: {error.strerror}") from error
        try:
            now = os.fstat(fd)
            _check(path, self._files.get(path), now)  # it may have become another one since the folder was looked at
            read = self._files.setdefault(path, _Read(Mark(Path(path).name), (now.st_dev, now.st_ino)))
            data = _bytes(fd, read.offset, now.st_size)
        finally:
            os.close(fd)
        read.offset += len(data)
        *whole, read.rest = (read.rest + data).split(b"\n")
        yield from self._lines.events(whole, read.place)


def _files(directory: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the path and the state of every file of a history."""
    try:
        entries = os.scandir(directory)
    except FileNotFoundError:
        return
    with entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _files(entry.path)
            elif entry.name.endswith(SUFFIX):
                with contextlib.suppress(FileNotFoundError):
                    yield entry.path, entry.stat()


def _known(path: str) -> os.stat_result:
    """Return the state of a file that was read.

    Raises:
        HistoryChangedError: the file is gone.
    """
    try:
        return Path(path).stat()
    except OSError as error:
        raise HistoryChangedError(f"the history {path} is gone, after it was read: {error.strerror}") from error


def _check(path: str, read: _Read | None, now: os.stat_result) -> None:
    """Raise HistoryChangedError where a file cannot be the one that was read."""
    if read is None:
        return
    if (now.st_dev, now.st_ino) != read.file:
        raise HistoryChangedError(f"the history {path} is another file than the one that was read")
    if now.st_size < read.offset:
        raise HistoryChangedError(f"the history {path} was cut short: it has {now.st_size} bytes, and {read.offset} were read")


def _bytes(fd: int, offset: int, end: int) -> bytes:
    """Return the bytes of a file from ``offset`` up to ``end``, or as many of them as there still are."""
    parts = []
    while offset < end and (part := os.pread(fd, end - offset, offset)):
        parts.append(part)
        offset += len(part)
    return b"".join(parts)


class SoFar:
    """All that the history in a folder says so far. Each question reads on first. Safe to use from several threads."""

    def __init__(self, directory: Path) -> None:
        self._tail = Tail(directory)
        self._lock = threading.Lock()
        self._events: list[Event] = []
        self._kinds: defaultdict[str, list[Event]] = defaultdict(list)
        self._lines: Counter[str] = Counter()

    def events(self, since: int = 0) -> list[Event]:
        """Return everything but the first ``since`` events, in the order in which they were read (see :meth:`Tail.read`)."""
        with self._lock:
            self._read_on()
            return self._events[since:]

    def of(self, *kinds: str) -> list[Event]:
        """Return the events of the given kinds, in order of time."""
        with self._lock:
            self._read_on()
            return sorted(chain.from_iterable(self._kinds[kind] for kind in kinds), key=lambda event: event["t"])

    def finder(self, kind: str, wanted: Callable[[Event], bool]) -> Callable[[], list[Event]]:
        """Return a function that returns the ``wanted`` events of a kind so far. Each event is looked at once."""
        found: list[Event] = []
        seen = 0

        def find() -> list[Event]:
            nonlocal seen
            with self._lock:
                self._read_on()
                new = self._kinds[kind][seen:]
            seen += len(new)
            found.extend(event for event in new if wanted(event))
            return found

        return find

    def lines(self) -> dict[str, int]:
        """Return how many lines each writer has written."""
        with self._lock:
            self._read_on()
            return dict(self._lines)

    def _read_on(self) -> None:
        for event in self._tail.read():
            self._events.append(event)
            self._kinds[event["event"]].append(event)
            self._lines[event.get("by", "")] += 1
