"""Replay what a program has told the kernel about the files of one folder: what they hold, and what
of it had to survive a loss of power at the end. Without I/O.

A flush covers what had ended before the flush *began*: a write that races with it may be on the
disk or not. A write to a file that was opened with O_SYNC or O_DSYNC is its own flush.
sync_file_range flushes nothing for certain: the kernel's manual says so.

This is the worst outcome that is allowed, not every one: the kernel may have written more by
itself.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Final

from harness.runtimes.power.calls import Call, calls_in
from harness.runtimes.power.tree import File, Names, Tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from harness.runtimes.power.calls import Opened

PLACED: Final = ("pwrite64", "pwritev", "pwritev2")
WRITES: Final = ("write", "writev", *PLACED)
OPENS: Final = ("open", "openat", "openat2", "creat")
FLUSHES: Final = ("fsync", "fdatasync", "msync")
WHOLE: Final = ("sync", "syncfs")
SIZES: Final = ("ftruncate", "truncate", "fallocate")
RENAMES: Final = ("rename", "renameat", "renameat2")
MADE: Final = ("mkdir", "mkdirat")
REMOVED: Final = ("unlink", "unlinkat", "rmdir")
LINKS: Final = ("link", "linkat", "symlink", "symlinkat")
COPIES: Final = ("dup", "dup2", "dup3", "fcntl")
UNSEEN: Final = {
    "io_submit": "asynchronous I/O (AIO), whose writes and flushes are not seen",
    "io_uring_enter": "io_uring, whose writes and flushes are not seen",
}
"""Calls after which nothing can be said, and why."""
TRACED: Final = (
    *("execve", "chdir", "lseek", "mmap", "sync_file_range"),
    *(*WRITES, *OPENS, *FLUSHES, *WHOLE, *SIZES, *RENAMES, *MADE, *REMOVED, *LINKS, *COPIES),
    *UNSEEN,
)
"""The calls that the tracer must log."""


class NotSeenError(Exception):
    """What the program did cannot be told from what the tracer saw. The message is one line."""


@dataclass(slots=True)
class _Open:
    """What descriptors of one open file share: its position, and how it was opened."""

    at: int = 0
    appends: bool = False
    flushes: bool = False


@dataclass(slots=True)
class _Begun:
    """A call that has begun, and what was true then. ``covered``: the files that it flushes, each
    with its changes so far; ``folders``: those among them with what they held; ``names``: how many
    changes of names there had been.
    """

    call: Call
    file: File | None = None
    covered: list[tuple[File, int]] = field(default_factory=list)
    folders: list[tuple[File, dict[str, File]]] = field(default_factory=list)
    names: int = 0


class Replay:
    """The files of one folder, replayed call by call."""

    def __init__(self, root: str, base: Mapping[str, bytes | None], *aliases: str) -> None:
        """``base``: what the folder held before the program was started, by relative path
        (``None``: a folder). ``aliases``: other paths of the same folder.
        """
        self._roots = (root, *aliases)
        self._tree = Tree(base)
        self._opens: dict[tuple[int, int], tuple[File, _Open]] = {}
        """By descriptor and file, whichever process has it."""
        self._begun: dict[int, _Begun] = {}
        self._cwd: dict[int, str] = {}
        self._last_cwd = "/"
        self._maps: list[tuple[int, int, File]] = []
        """Shared maps: address, length, file; the newest last."""
        self.calls = 0
        self.flushes = 0
        """How many flushes of files below the folder have ended."""
        self._unseen: list[str] = []
        self._first = ""
        ends: dict[tuple[str, ...], Callable[[_Begun, int], None]] = {
            WRITES: self._write,
            OPENS: self._open,
            SIZES: self._resize,
            (*RENAMES, *MADE, *REMOVED, *LINKS): self._rename,
            COPIES: self._copy,
            ("lseek",): self._seek,
            ("chdir",): self._go,
            ("mmap",): self._map,
            (*FLUSHES, *WHOLE): self._flush,
        }
        self._ends = {name: act for names, act in ends.items() for name in names}

    def read(self, lines: Iterable[bytes], cwd: str = "/", settled: int = 0) -> None:
        """Replay a log. ``cwd``: the folder in which the program was started. ``settled``: how many
        bytes of the log tell of calls whose effects the kernel has written by itself since.
        """
        self._last_cwd = cwd
        for call in calls_in(_with(self._settle, lines, settled)):
            self._first = self._first or call.name
            if not call.ended:
                self.calls += 1
                self._begin(call)
            elif (begun := self._begun.pop(call.thread, None)) is not None:
                result, act = call.result, self._ends.get(call.name)
                if act is not None and result is not None and result != -1:
                    act(begun, result)

    def _settle(self) -> None:
        everything = _Begun(Call(0, "sync", b""), names=self._tree.changes)
        self._cover(everything, self._tree.each())
        self._flush(everything)
        self.flushes -= 1  # the program has not asked for it

    # --- the beginning of a call ------------------------------------------------------------------

    def _begin(self, call: Call) -> None:
        begun = self._begun[call.thread] = _Begun(call, names=self._tree.changes)
        if call.name in UNSEEN:
            self._unseen.append(UNSEEN[call.name])
        opened = call.opened()
        if call.name == "msync":
            begun.file = _mapped(call, self._maps)
        elif opened is not None and self._below(opened.path) is not None:
            begun.file = self._file(opened)
            if begun.file is None and call.name in (*WRITES, *FLUSHES, *SIZES):
                self._unseen.append(f"{call.name} of {opened.path}, which it has not seen made")
        if call.name in WHOLE:
            self._cover(begun, self._tree.each())
        elif begun.file is not None and (call.name in FLUSHES or self._writes_through(begun)):
            self._cover(begun, [begun.file])

    def _cover(self, begun: _Begun, files: Iterable[File]) -> None:
        for each in files:
            begun.covered.append((each, len(each.changes)))
            if each.folder:
                begun.folders.append((each, self._tree.children(each.path)))

    def _writes_through(self, begun: _Begun) -> bool:
        call, file = begun.call, begun.file
        return (
            file is not None
            and call.name in WRITES
            and (self._opening(call, file).flushes or call.says("RWF_SYNC", "RWF_DSYNC"))
        )

    # --- its end ----------------------------------------------------------------------------------

    def _flush(self, begun: _Begun, _: int = 0) -> None:
        for each, changes in begun.covered:
            each.flushed = max(each.flushed, changes)
            each.flushes += 1
        for folder, entries in begun.folders:
            folder.kept = entries
        if begun.covered:
            self._tree.flushed(begun.names)
            self.flushes += 1

    def _write(self, begun: _Begun, count: int) -> None:
        call, file = begun.call, begun.file
        if file is None:
            return
        opening, data = self._opening(call, file), call.data()
        if data is None:
            self._unseen.append(f"a write into {file.path} of which its log has only a part")
            return
        given = call.numbers()[1] if call.name in PLACED else -1
        place = file.size if opening.appends else given if given >= 0 else opening.at
        if given < 0:
            opening.at = place + count
        file.write(place, data[:count])
        begun.covered = [(each, len(each.changes)) for each, _ in begun.covered]
        self._flush(begun)

    def _open(self, begun: _Begun, _: int) -> None:
        call, made = begun.call, begun.call.made()
        path = None if made is None else self._below(made.path)
        if made is None or path is None:
            return
        file = self._tree.files.get(path)
        if file is None:
            if call.name != "creat" and not call.says("O_CREAT"):
                return
            file = File(path)
            self._tree.put(path, file)
        if file.size and (call.name == "creat" or call.says("O_TRUNC")):
            file.resize(0)
        self._opens[made.descriptor, id(file)] = (
            file,
            _Open(appends=call.says("O_APPEND"), flushes=call.says("O_SYNC", "O_DSYNC")),
        )

    def _resize(self, begun: _Begun, _: int) -> None:
        call, file = begun.call, begun.file
        if call.name == "truncate":
            path = self._below(self._path(call, *call.names()[0]))
            file = None if path is None else self._tree.files.get(path)
        if file is None:
            return
        numbers = call.numbers()
        if call.name != "fallocate":
            file.resize(numbers[-1])
        elif call.says(r"FALLOC_FL_(?!KEEP_SIZE)\w+"):
            self._unseen.append(f"a fallocate of {file.path} that does more than make room")
        elif not call.says("FALLOC_FL_KEEP_SIZE") and sum(numbers[-2:]) > file.size:
            file.resize(sum(numbers[-2:]))

    def _rename(self, begun: _Begun, _: int = 0) -> None:
        call, tree = begun.call, self._tree
        paths = [self._below(self._path(call, *each)) for each in call.names()]
        known = [path for path in paths if path is not None]
        if not known:
            return
        if call.name in {"symlink", "symlinkat"} or len(known) < len(paths):
            self._unseen.append(f"{call.name} to or from a place outside of the folder")
        elif call.name in MADE:
            tree.put(known[0], File(known[0], folder=True))
        elif call.name in REMOVED:
            tree.drop(known[0])
        elif call.name in LINKS:
            tree.put(known[1], tree.files[known[0]])
        elif call.says("RENAME_EXCHANGE"):
            tree.swap(*known)
        else:
            tree.move(*known)

    def _copy(self, begun: _Begun, _: int) -> None:
        made = begun.call.made()
        if made is not None and begun.file is not None:
            opening = self._opening(begun.call, begun.file)
            self._opens[made.descriptor, id(begun.file)] = (begun.file, opening)

    def _seek(self, begun: _Begun, place: int) -> None:
        if begun.file is not None:
            self._opening(begun.call, begun.file).at = place

    def _go(self, begun: _Begun, _: int) -> None:
        call = begun.call
        self._last_cwd = self._cwd[call.thread] = self._path(call, *call.names()[0])

    def _map(self, begun: _Begun, address: int) -> None:
        call = begun.call
        if not call.says("MAP_SHARED", "MAP_SHARED_VALIDATE") or not call.says("PROT_WRITE"):
            return
        for opened in call.descriptors():
            if self._below(opened.path) is not None and (file := self._file(opened)) is not None:
                if not file.mapped:
                    file.mapped, file.flushes = True, 0
                self._maps.append((address, int(call.words.split(b", ")[1]), file))

    # --- which file a call means ------------------------------------------------------------------

    def _below(self, path: str) -> str | None:
        """Return a path relative to the folder; ``None`` if it is not below it."""
        for root in self._roots:
            if path == root:
                return ""
            if path.startswith(f"{root}/"):
                return path[len(root) + 1 :]
        return None

    def _path(self, call: Call, base: str | None, name: str) -> str:
        where = base if base is not None else self._cwd.get(call.thread, self._last_cwd)
        return posixpath.normpath(posixpath.join(where, name))

    def _file(self, opened: Opened) -> File | None:
        """Return the file of a descriptor. Its path is the one that it had when the call began."""
        path, files = self._below(opened.path), self._tree.files
        if not opened.deleted and path is not None:
            if path in files:
                return files[path]
            for begun in self._begun.values():  # it has its new name already
                if begun.call.name in RENAMES:
                    old, new = (
                        self._below(self._path(begun.call, *each)) for each in begun.call.names()
                    )
                    if new == path and old is not None:
                        return files.get(old)
        mine = (
            file for (number, _), (file, _) in self._opens.items() if number == opened.descriptor
        )
        gone = [each for each in mine if each.path == path and files.get(path) is not each]
        return gone[-1] if gone else None

    def _opening(self, call: Call, file: File) -> _Open:
        opened = call.opened()
        number = -1 if opened is None else opened.descriptor
        return self._opens.setdefault((number, id(file)), (file, _Open()))[1]

    # --- what is left -----------------------------------------------------------------------------

    def check(self, now: Mapping[str, bytes | None], rebuilt: Sequence[str] = ()) -> None:
        """Hold the replay against the folder as it is now, the program being dead.

        ``rebuilt``: patterns of mapped files that the program makes again from others.

        Raises:
            NotSeenError: the folder is not what the replayed calls have made.
        """
        if self._first != "execve":
            raise NotSeenError(
                "the tracer was not there when the program was started: it may have missed writes "
                "and flushes"
            )
        if self._unseen:
            raise NotSeenError(f"the tracer saw {self._unseen[0]}")
        for begun in tuple(self._begun.values()):
            self._cut_off(begun, now)
        files = self._tree.files
        for path in sorted(files.keys() ^ (now.keys() | {""})):
            there = "is there" if path in now else "is not there"
            raise NotSeenError(f"{path} {there}, and the tracer has not seen why")
        for path, content in now.items():
            file = files[path]
            if file.mapped and not any(fnmatch(path, each) for each in rebuilt):
                raise NotSeenError(
                    f"{path} is mapped into memory: what was written to it is not seen"
                )
            if not file.mapped and content is not None and content != file.holds():
                raise NotSeenError(
                    f"{path} does not hold what the tracer saw written into it ({len(content)} "
                    f"bytes, {file.size} seen)"
                )

    def _cut_off(self, begun: _Begun, now: Mapping[str, bytes | None]) -> None:
        """Do what a call has done whose end the tracer has not seen, if the folder shows it."""
        call, file, names = begun.call, begun.file, self._tree.files
        paths = [self._below(self._path(call, *each)) for each in call.names()]
        first, last = (paths[0], paths[-1]) if paths else (None, None)
        if file is not None and call.name in WRITES:
            data = call.data()
            if data is not None and file.path in now and now[file.path] != file.holds():
                begun.covered = []
                self._write(begun, len(data))
        elif first is None or last is None:
            return
        elif call.name in OPENS:
            if call.says("O_CREAT") and first not in names and now.get(first) == b"":
                self._tree.put(first, File(first))
        elif (call.name in (*RENAMES, *REMOVED) and first in names and first not in now) or (
            call.name in (*MADE, *LINKS) and last not in names and last in now
        ):
            self._rename(begun)

    def left(self, names: Names, now: Mapping[str, bytes | None]) -> dict[str, bytes | None]:
        """Return what a loss of power leaves: the files by relative path (``None``: a folder).

        ``now``: what the folder holds. A file that was flushed while it was mapped is left as it is
        now: which of its pages were written after the flush is not known.
        """
        return {
            path: None
            if file.folder
            else now.get(file.path) or b""
            if file.mapped and file.flushes
            else file.holds(file.flushed)
            for path, file in self._tree.left(names).items()
        }


def _mapped(call: Call, maps: Sequence[tuple[int, int, File]]) -> File | None:
    """Return the file that is mapped at a call's address."""
    address = int(call.words.split(b",", 1)[0], 0)
    return next((file for at, size, file in reversed(maps) if at <= address < at + size), None)


def _with(act: Callable[[], None], lines: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Yield lines, and act when so many bytes of them have been dealt with."""
    read = 0
    for line in lines:
        yield line
        if read < size <= read + len(line):
            act()
        read += len(line)
