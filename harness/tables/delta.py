"""Read a Delta table at rest: its log says which data files are in it, and they are Parquet.

The table is what the log says. Files that the log does not name (of a writer that died before its
commit) are no part of it, and neither are files that a later version removed. What this reader
does not know of the format (the table's protocol names it) is refused, never passed over.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlparse

import msgspec

from harness.model.conversion import decoder
from harness.tables.errors import TableError
from harness.tables.parquet import read_rows
from harness.tables.versions import newest_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

ENTRY: Final = re.compile(r"(\d{20})\.json")
"""The name of a version in the log."""
BY_NAME: Final = 3
"""The newest reader version, with which the protocol names each feature."""
KNOWN: Final = frozenset(
    {"columnMapping", "deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}
)
"""The features that change nothing here: columns are found by their physical names, a file with a
deletion vector is refused, and checkpoints of the log are not read.
"""
PHYSICAL: Final = "delta.columnMapping.physicalName"


TEXT: Final = decoder(str)


class _Protocol(msgspec.Struct, rename="camel"):
    min_reader_version: int
    reader_features: list[str] = []


class _MetaData(msgspec.Struct, rename="camel"):
    schema_string: str
    configuration: dict[str, str] = {}


class _Add(msgspec.Struct, rename="camel"):
    path: str
    partition_values: dict[str, str | None] = {}
    deletion_vector: dict[str, str | int] | None = None


class _Remove(msgspec.Struct):
    path: str


class _Action(msgspec.Struct, rename="camel"):
    """A line of the log. It has one of these, or something that changes no row."""

    protocol: _Protocol | None = None
    meta_data: _MetaData | None = None
    remove: _Remove | None = None
    add: _Add | None = None


class _Column(msgspec.Struct):
    name: str
    metadata: dict[str, msgspec.Raw] = {}

    @property
    def physical(self) -> str:
        """The name that the data files use."""
        raw = self.metadata.get(PHYSICAL)
        return self.name if raw is None else TEXT.decode(raw)


class _Schema(msgspec.Struct):
    fields: list[_Column]


ACTION: Final = decoder(_Action)
SCHEMA: Final = decoder(_Schema)


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file of a table. ``version``: the table's version that it came with; ``partition``:
    the values of the partition columns, as text, by their physical names.
    """

    path: Path
    version: int
    partition: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A version of a table: its data files in the order of their commits, and the name of each of
    its columns with the physical name that the files use.
    """

    version: int
    columns: tuple[tuple[str, str], ...]
    files: tuple[DataFile, ...]

    def rows(self) -> Iterator[Mapping[str, object]]:
        """Yield every row, each column by its name; a column that a file does not have is ``None``.

        Raises:
            TableError: a data file is missing or damaged, or has a value that cannot be read.
        """
        for file in self.files:
            _, found = read_rows(file.path, f"version {file.version} of the table")
            for row in found:
                yield {
                    name: row.get(physical, file.partition.get(physical))
                    for name, physical in self.columns
                }


@dataclass(frozen=True, slots=True)
class DeltaTable:
    """A Delta table in a folder of this machine."""

    folder: Path

    def version(self) -> int:
        """Return the newest version; -1 if there is no table yet."""
        return max(self._entries(), default=-1)

    def newest(self) -> object:
        """Return what tells the newest version from any other, also of a table that was dropped
        and made again.
        """
        return newest_of(self._entries())

    def contents(self) -> object:
        """Return the columns and data files of the newest version, in the order of their commits.

        Raises:
            TableError: there is no table, its log is not whole, or it uses what is not known here.
        """
        snapshot = self.snapshot()
        return snapshot.columns, tuple(file.path for file in snapshot.files)

    def rows(self) -> Iterator[Mapping[str, object]]:
        """Return the rows of the newest version.

        Raises:
            TableError: the table, or a data file, cannot be read.
        """
        return self.snapshot().rows()

    def snapshot(self) -> Snapshot:
        """Return the newest version of the table.

        Raises:
            TableError: there is no table, its log is not whole, or it uses what is not known here.
        """
        entries = self._entries()
        versions = sorted(entries)
        if not versions:
            raise TableError(f"{self.folder} is no Delta table: it has no version in _delta_log")
        if versions[0] and any(self.folder.glob("_delta_log/*.checkpoint*")):
            raise _refused(
                self.folder,
                f"has the versions before {versions[0]} only in a checkpoint (its log keeps them "
                "for delta.logRetentionDuration)",
            )
        if versions != list(range(len(versions))):
            raise TableError(
                f"the log of {self.folder} is not whole: it has {len(versions)} versions, "
                f"{versions[0]} to {versions[-1]}; lostack reads a log from version 0"
            )
        replay = _Replay(self.folder)
        for version in versions:
            replay.take(version, entries[version])
        return replay.snapshot()

    def _entries(self) -> Mapping[int, Path]:
        """Return the files of the log, by version."""
        found = ((ENTRY.fullmatch(file.name), file) for file in self.folder.glob("_delta_log/*"))
        return {int(name[1]): file for name, file in found if name}


class _Replay:
    """Takes the actions of a log in the order of its versions."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._version = -1
        self._files: dict[str, DataFile] = {}
        self._punctured: set[str] = set()
        """The files of which a deletion vector takes rows away."""
        self._columns: tuple[tuple[str, str], ...] | None = None

    def take(self, version: int, entry: Path) -> None:
        """Take every action of a version: what it removes, before what it adds."""
        self._version = version
        try:
            actions = ACTION.decode_lines(entry.read_bytes())
            for action in actions:
                self._take_words(action)
        except (OSError, msgspec.MsgspecError) as error:
            raise TableError(f"the log of a Delta table is damaged: {entry}: {error}") from error
        for action in actions:
            if action.remove is not None:
                self._files.pop(action.remove.path, None)
                self._punctured.discard(action.remove.path)
        for action in actions:
            if action.add is not None:
                self._add(action.add)

    def snapshot(self) -> Snapshot:
        """Return what the log says so far."""
        if self._columns is None:
            raise TableError(f"the log of {self._folder} does not say which columns there are")
        if self._punctured:
            raise self._refused("has deletion vectors (rewrite it: REORG TABLE … APPLY (PURGE))")
        files = tuple(self._files.values())
        return Snapshot(self._version, self._columns, files)

    def _take_words(self, action: _Action) -> None:
        """Take what an action says of the table, and not of its files."""
        if (protocol := action.protocol) is not None:
            unknown = sorted({*protocol.reader_features} - KNOWN)
            if unknown:
                raise self._refused(f"asks its readers for features {', '.join(unknown)}")
            if protocol.min_reader_version > BY_NAME:
                raise self._refused(
                    f"asks its readers for reader version {protocol.min_reader_version}"
                )
        if (told := action.meta_data) is not None:
            if told.configuration.get("delta.columnMapping.mode") == "id":
                raise self._refused("maps its columns by number")
            columns = SCHEMA.decode(told.schema_string).fields
            self._columns = tuple((column.name, column.physical) for column in columns)

    def _add(self, add: _Add) -> None:
        if add.deletion_vector is not None:
            self._punctured.add(add.path)
        where = urlparse(add.path)
        if where.scheme not in {"", "file"}:
            raise self._refused(f"has files elsewhere ({where.scheme})")
        path = self._folder / unquote(where.path)
        self._files[add.path] = DataFile(path, self._version, add.partition_values)

    def _refused(self, what: str) -> TableError:
        return _refused(self._folder, what)


def _refused(folder: Path, what: str) -> TableError:
    return TableError(
        f"the Delta table {folder} {what}, which lostack cannot read: let a command print its "
        'rows (kind = "command")'
    )
