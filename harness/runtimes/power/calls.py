"""Read the log of ``strace``: which calls of a program began and ended, and in which order. Without
I/O.

A call is told twice: when it begins, with its arguments, and when it ends, with its result. In the
log that is one line, or two if another thread's call came between.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

UNFINISHED: Final = b" <unfinished ...>"
_LINE: Final = re.compile(rb"(\d+) +\d+\.\d+ (.*)", re.DOTALL)
_CALL: Final = re.compile(rb"(\w+)\((.*)", re.DOTALL)
_RESUMED: Final = re.compile(rb"<\.\.\. \w+ resumed>(.*)", re.DOTALL)
_RESULT: Final = re.compile(rb"\) += (\?|0x[0-9a-f]+|-?\d+)([^\"]*)\Z")
_OPEN: Final = re.compile(rb"(\d+|AT_FDCWD)<((?:[^<>\\]++|\\.)*+)>(\(deleted\))?")
_TEXT: Final = re.compile(rb'"((?:[^"\\]++|\\.)*+)"(\.\.\.)?')
_NUMBER: Final = re.compile(rb"-?\d+")


@dataclass(frozen=True, slots=True)
class Opened:
    """An open file, as the tracer names it: its descriptor (-1: the working directory), its path,
    and whether it has no name any more.
    """

    descriptor: int
    path: str
    deleted: bool = False


@dataclass(slots=True)
class Call:
    """One call. ``words``: its arguments and its result, as far as they are known."""

    thread: int
    name: str
    words: bytes
    ended: bool = False

    @property
    def result(self) -> int | None:
        """Its result; ``None`` if it has not ended or its thread has died in it."""
        found = _RESULT.search(self.words, max(0, len(self.words) - 4096)) if self.ended else None
        if found is None or found[1] == b"?":
            return None
        return int(found[1], 0)

    def opened(self) -> Opened | None:
        """Return the open file that is its first argument."""
        found = _OPEN.match(self.words)
        return None if found is None or found[1] == b"AT_FDCWD" else _opened(found)

    def descriptors(self) -> Iterator[Opened]:
        """Yield every open file among its arguments."""
        return (_opened(found) for found in _OPEN.finditer(self.words))

    def made(self) -> Opened | None:
        """Return the open file that is its result."""
        tail = self.words[self.words.rfind(b") = ") + 4 :]
        found = _OPEN.match(tail)
        return None if found is None else _opened(found)

    def names(self) -> tuple[tuple[str | None, str], ...]:
        """Return the paths that it names, each with the folder that it is relative to (``None``:
        the working directory, whose name is not given).
        """
        found: list[tuple[str | None, str]] = []
        base: str | None = None
        at = 0
        while at < len(self.words):
            if opened := _OPEN.match(self.words, at):
                base, at = text_of(opened[2]), opened.end()
            elif text := _TEXT.match(self.words, at):
                found.append((base, text_of(text[1])))
                base, at = None, text.end()
            elif self.words.startswith(b") = ", at):
                break
            else:
                at += 1
        return tuple(found)

    def data(self) -> bytes | None:
        """Return the bytes that it writes; ``None`` if the log does not have all of them."""
        if self.name in {"write", "pwrite64"}:
            begin, end = self.words.find(b', "') + 3, self.words.rfind(b'"')
            if begin < 3 or end < begin or self.words.startswith(b"...", end + 1):  # noqa: PLR2004
                return None
            return bytes_of(self.words[begin:end])
        parts = list(_TEXT.finditer(self.words))
        if any(part[2] for part in parts) or not parts:
            return None
        return b"".join(bytes_of(part[1]) for part in parts)

    def numbers(self) -> tuple[int, ...]:
        """Return the numbers behind its last string, list or path, without its result."""
        end = self.words.rfind(b") = ") if self.ended else len(self.words)
        begin = max(self.words.rfind(mark, 0, end) for mark in (b'"', b"]", b">", b"}"))
        return tuple(int(each) for each in _NUMBER.findall(self.words, begin + 1, end))

    def says(self, *flags: str) -> bool:
        """Whether one of its flags is among ``flags``."""
        tail = self.words[self.words.rfind(b'"') + 1 :] if b'"' in self.words else self.words
        return any(re.search(rb"\b%s\b" % flag.encode(), tail) for flag in flags)


def _opened(found: re.Match[bytes]) -> Opened:
    number = -1 if found[1] == b"AT_FDCWD" else int(found[1])
    return Opened(number, text_of(found[2]), found[3] is not None)


def bytes_of(quoted: bytes) -> bytes:
    r"""Return the bytes that the tracer has quoted.

    >>> bytes_of(rb"a\n\0\377\"")
    b'a\n\x00\xff"'
    """
    return quoted.decode("unicode_escape").encode("latin-1")


def text_of(quoted: bytes) -> str:
    """Return a path that the tracer has quoted."""
    return bytes_of(quoted).decode("utf-8", "surrogateescape")


def calls_in(lines: Iterable[bytes]) -> Iterator[Call]:
    """Yield each call of a log when it begins, and again when it ends. The last line may be cut.

    A call that ends without having been seen to begin is not yielded.
    """
    begun: dict[int, Call] = {}
    for line in lines:
        told = _LINE.fullmatch(line.removesuffix(b"\n"))
        if told is None:
            continue
        thread, rest = int(told[1]), told[2]
        if resumed := _RESUMED.fullmatch(rest):
            if (call := begun.pop(thread, None)) is not None:
                call.words += resumed[1]
                call.ended = True
                yield call
        elif found := _CALL.fullmatch(rest):
            call = Call(thread, found[1].decode(), found[2].removesuffix(UNFINISHED))
            yield call
            if rest.endswith(UNFINISHED) or not line.endswith(b"\n"):
                begun[thread] = call
            else:
                call.ended = True
                yield call
