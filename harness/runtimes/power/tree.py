"""The files of one folder and their names: as they are, and as they had to survive."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Names(StrEnum):
    """Which names survive a loss of power.

    - ``ext4``: changes of names go into a journal in their order, and each flush of any file writes
      the journal so far. So a file that was created and flushed has its name. What was renamed or
      removed after the last flush has its old name again.
    - ``posix``: a name survives only if its folder was flushed.
    """

    EXT4 = "ext4"
    POSIX = "posix"


@dataclass(slots=True)
class File:
    """A file or folder, whatever its names. ``flushed``: how many of its changes a flush covers."""

    path: str
    folder: bool = False
    base: bytes = b""
    changes: list[tuple[int, bytes | None]] = field(default_factory=list)
    """Writes with their place; without bytes: cut, or made longer, to this size."""
    size: int = 0
    flushed: int = 0
    flushes: int = 0
    mapped: bool = False
    kept: Mapping[str, File] = field(default_factory=dict)
    """Of a folder: what it held when it was last flushed."""

    def write(self, place: int, data: bytes) -> None:
        """Write data at a place."""
        self.changes.append((place, data))
        self.size = max(self.size, place + len(data))

    def resize(self, size: int) -> None:
        """Cut it, or make it longer with zeros."""
        self.changes.append((size, None))
        self.size = size

    def holds(self, changes: int | None = None) -> bytes:
        """Return its content after so many changes; by default after all."""
        if not self.changes[:changes]:
            return self.base
        content = bytearray(self.base)
        for place, data in self.changes[:changes]:
            if len(content) < place:
                content.extend(bytes(place - len(content)))
            if data is None:
                del content[place:]
            else:
                content[place : place + len(data)] = data
        return bytes(content)


@dataclass(frozen=True, slots=True)
class _Act:
    """A change of names: put, drop, move or swap."""

    what: str
    path: str
    other: str = ""
    file: File | None = None


class Tree:
    """The names below a folder, which itself is the name ``""``."""

    def __init__(self, base: Mapping[str, bytes | None]) -> None:
        """``base``: what the folder holds at first, by relative path (``None``: a folder)."""
        self.files: dict[str, File] = {"": File("", folder=True)}
        for path, content in sorted(base.items()):
            data = content or b""
            self.files[path] = File(path, content is None, data, size=len(data))
        self._base = dict(self.files)
        self._acts: list[_Act] = []
        self._kept = 0
        for path, each in self.files.items():
            each.kept = self.children(path) if each.folder else {}

    @property
    def changes(self) -> int:
        """How many changes of names there have been."""
        return len(self._acts)

    def put(self, path: str, file: File) -> None:
        """Give a file a name."""
        self._do(_Act("put", path, file=file))

    def drop(self, path: str) -> None:
        """Remove a name."""
        self._do(_Act("drop", path))

    def move(self, path: str, other: str) -> None:
        """Rename a file, or a folder with all that is below it."""
        self._do(_Act("move", path, other))

    def swap(self, path: str, other: str) -> None:
        """Exchange two names."""
        self._do(_Act("swap", path, other))

    def flushed(self, changes: int) -> None:
        """Note that so many changes of names are in the file system's journal on the disk."""
        self._kept = max(self._kept, changes)

    def each(self) -> Iterator[File]:
        """Yield every file and folder once."""
        yield from {id(each): each for each in self.files.values()}.values()

    def children(self, folder: str) -> dict[str, File]:
        """Return what a folder holds itself, by name."""
        start = f"{folder}/" if folder else ""
        return {
            path[len(start) :]: each
            for path, each in self.files.items()
            if path and path.startswith(start) and "/" not in path[len(start) :]
        }

    def left(self, names: Names) -> dict[str, File]:
        """Return which names a loss of power leaves."""
        if names is Names.POSIX:
            return dict(sorted(_by_folders("", self._base[""])))
        found = dict(self._base)
        for act in self._acts[: self._kept]:
            _apply(found, act)
        del found[""]
        return dict(sorted(found.items()))

    def _do(self, act: _Act) -> None:
        self._acts.append(act)
        _apply(self.files, act)
        if act.what in {"move", "swap"}:
            for path, each in self.files.items():
                each.path = path


def _by_folders(path: str, folder: File) -> Iterator[tuple[str, File]]:
    for name, file in folder.kept.items():
        below = f"{path}/{name}" if path else name
        yield below, file
        if file.folder:
            yield from _by_folders(below, file)


def _apply(names: dict[str, File], act: _Act) -> None:
    if act.what == "put" and act.file is not None:
        names[act.path] = act.file
    elif act.what == "drop":
        names.pop(act.path, None)
    elif act.what == "swap":
        names[act.path], names[act.other] = names[act.other], names[act.path]
    elif act.what == "move":
        for each in [each for each in names if each == act.path or each.startswith(f"{act.path}/")]:
            names[act.other + each[len(act.path) :]] = names.pop(each)
