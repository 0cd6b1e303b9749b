"""Reads a history while it is being written: the one way to learn what wire, programs and runner
have written so far.

A line can be read as soon as the ``write(2)`` of its writer has returned. A poll that finds nothing
new only lists the folder and its files' sizes, however large the files are. So to wait for
something is to wait for its line, with :func:`~harness.model.waiting.wait_until`.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, overload

from harness.model.history import SUFFIX, Lines, Mark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from harness.model.events import Event

    A = TypeVar("A", bound=Event)
    B = TypeVar("B", bound=Event)


class HistoryChangedError(Exception):
    """Lines of a history that were read before are gone, or a file cannot be read: its cell proves
    nothing. Other cells go on.
    """


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
    """Reads the new lines in every ``*.jsonl`` below a folder, which need not exist yet. Each
    reader needs a tail of its own.

    A tail reads each byte once. It tells events from damage as
    :func:`~harness.model.history.read_history` does, so in the end both have found the same events.
    Only a last line without its newline is kept back, because it may not be whole yet. (If the
    writer was killed inside that line, it never will be.)
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lines = Lines()
        self._files: dict[str, _Read] = {}
        self._broken: str | None = None

    @property
    def damage(self) -> tuple[str, ...]:
        """``file:line`` of all damage so far, as :attr:`~harness.model.history.History.damage` has
        it.
        """
        return tuple(self._lines.damage)

    def read(self) -> list[Event]:
        """Return the events written since the last call, in order of time.

        Events of the same time are in the order of their files' paths. A later call may return an
        event of one writer that is older than events of other writers which an earlier call
        returned: no event is kept back to keep the order.

        Raises:
            HistoryChangedError: a file that was read before is gone, is shorter now, or is another
                file (it has another inode). Each further call raises it too, because events that
                were returned before are no longer true.
        """
        if self._broken is not None:
            raise HistoryChangedError(self._broken)
        try:
            return sorted(self._new(), key=lambda event: event.t)
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
            raise HistoryChangedError(
                f"cannot read the history {path}: {error.strerror}"
            ) from error
        try:
            now = os.fstat(fd)
            _check(
                path, self._files.get(path), now
            )  # it may have become another one since the folder was looked at
            read = self._files.setdefault(
                path, _Read(Mark(Path(path).name), (now.st_dev, now.st_ino))
            )
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
        raise HistoryChangedError(
            f"the history {path} is gone, after it was read: {error.strerror}"
        ) from error


def _check(path: str, read: _Read | None, now: os.stat_result) -> None:
    """Raise HistoryChangedError where a file cannot be the one that was read."""
    if read is None:
        return
    if (now.st_dev, now.st_ino) != read.file:
        raise HistoryChangedError(f"the history {path} is another file than the one that was read")
    if now.st_size < read.offset:
        raise HistoryChangedError(
            f"the history {path} was cut short: it has {now.st_size} bytes, and {read.offset} "
            "were read"
        )


def _bytes(fd: int, offset: int, end: int) -> bytes:
    """Return the bytes of a file from ``offset`` up to ``end``, or as many of them as there still
    are.
    """
    parts = []
    while offset < end and (part := os.pread(fd, end - offset, offset)):
        parts.append(part)
        offset += len(part)
    return b"".join(parts)


class SoFar:
    """All events of the history in a folder so far. Each method first reads what is new. Safe to
    use from several threads.
    """

    def __init__(self, directory: Path) -> None:
        self._tail = Tail(directory)
        self._lock = threading.Lock()
        self._events: list[Event] = []
        self._kinds: defaultdict[type[Event], list[Event]] = defaultdict(list)
        self._lines: Counter[str] = Counter()

    def events(self, since: int = 0) -> list[Event]:
        """Return all events after the first ``since``, in the order in which they were read (see
        :meth:`Tail.read`).
        """
        with self._lock:
            self._read_on()
            return self._events[since:]

    @overload
    def of(self, kind: type[A], /) -> list[A]: ...
    @overload
    def of(self, a: type[A], b: type[B], /) -> list[A | B]: ...
    @overload
    def of(self, *kinds: type[Event]) -> list[Event]: ...

    def of(self, *kinds: type[Event]) -> Sequence[Event]:
        """Return the events of the given kinds, in order of time."""
        with self._lock:
            self._read_on()
            return sorted(
                chain.from_iterable(self._kinds[kind] for kind in kinds),
                key=lambda event: event.t,
            )

    def finder(self, kind: type[A], wanted: Callable[[A], bool]) -> Callable[[], list[A]]:
        """Return a function that returns the events so far of a kind for which ``wanted`` is true.
        Each event is tested once.
        """
        found: list[A] = []
        seen = 0

        def find() -> list[A]:
            nonlocal seen
            with self._lock:
                self._read_on()
                new = self._kinds[kind][seen:]
            seen += len(new)
            found.extend(event for event in new if isinstance(event, kind) and wanted(event))
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
            self._kinds[type(event)].append(event)
            self._lines[event.by] += 1
