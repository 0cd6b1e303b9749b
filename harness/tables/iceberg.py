"""Read an Iceberg table of a Hadoop catalog at rest: metadata, manifests, Parquet.

A commit to such a table is the rename of ``metadata/vN.metadata.json``, so the highest N is the
table. The other catalogs (JDBC, REST, Hive) keep the name of the present metadata file to
themselves: a file of a higher number may be of a writer that died before its commit. Tables of
theirs are refused.
"""

from __future__ import annotations

import gzip
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import urlparse

import msgspec

from harness.model.conversion import convert, decoder
from harness.tables.errors import TableError
from harness.tables.parquet import read_rows
from harness.tables.versions import newest_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Kind = TypeVar("Kind", bound=msgspec.Struct)
METADATA: Final = re.compile(r"v(\d+)(?:\.gz)?\.metadata\.json(?:\.gz)?")
"""The name of a version's metadata in a Hadoop catalog, also compressed
(``write.metadata.compression-codec``), in its present and its former form.
"""
NEWEST: Final = 3
"""The newest format version."""
DATA: Final = 0
"""The content of a manifest, or of a file, that has rows; other contents delete rows."""
DELETED: Final = 2
"""The status of an entry whose file is no longer in the table."""
FIELD_ID: Final = b"PARQUET:field_id"


class _Field(msgspec.Struct):
    id: int
    name: str


class _Schema(msgspec.Struct, rename="kebab"):
    fields: list[_Field]
    schema_id: int = 0


class _Snapshot(msgspec.Struct, rename="kebab"):
    snapshot_id: int
    manifest_list: str
    timestamp_ms: int = 0


class _Ref(msgspec.Struct, rename="kebab"):
    type: str
    snapshot_id: int


class _Metadata(msgspec.Struct, rename="kebab"):
    format_version: int
    location: str
    schemas: list[_Schema]
    current_schema_id: int
    current_snapshot_id: int | None = None
    snapshots: list[_Snapshot] = []
    refs: dict[str, _Ref] | None = None


class _Manifest(msgspec.Struct):
    manifest_path: str
    content: int = DATA
    sequence_number: int = 0


class _File(msgspec.Struct):
    file_path: str
    file_format: str
    content: int = DATA


class _Entry(msgspec.Struct):
    status: int
    data_file: _File
    sequence_number: int | None = None


PRESENT: Final = decoder(_Metadata)


@dataclass(frozen=True, slots=True)
class IcebergTable:
    """An Iceberg table of a Hadoop catalog, in a folder of this machine."""

    folder: Path

    def version(self) -> int:
        """Return the newest version; -1 if there is no table yet."""
        return max(self._versions(), default=-1)

    def newest(self) -> object:
        """Return what tells the newest version from any other, also of a table that was dropped
        and made again.
        """
        return newest_of(self._versions())

    def contents(self) -> object:
        """Return the number of the newest version's columns and its data files, in the order of
        their commits.

        Raises:
            TableError: there is no table, it is damaged, or it uses what is not known here.
        """
        told = self._present()
        return told.current_schema_id, tuple(self._files(told))

    def rows(self) -> Iterator[Mapping[str, object]]:
        """Yield every row of the newest version, in the order of the commits; a column that a file
        does not have is ``None``.

        Raises:
            TableError: there is no table, it is damaged, or it uses what is not known here.
        """
        told = self._present()
        [columns] = [
            each.fields for each in told.schemas if each.schema_id == told.current_schema_id
        ] or [[]]
        for path in self._files(told):
            yield from _rows_of(path, columns)

    def why_missing(self) -> str:
        """Say why the table lacks rows although it was written to; "" if that is not known.

        Raises:
            TableError: as :meth:`rows`.
        """
        told = self._present()
        made = {each.snapshot_id: each.timestamp_ms for each in told.snapshots}
        of_main = made.get(told.current_snapshot_id or 0, -1)
        newer = [
            name
            for name, ref in (told.refs or {}).items()
            if ref.type == "branch" and made.get(ref.snapshot_id, 0) > of_main
        ]
        if newer:
            return f"the newest rows are in the branch {', '.join(newer)}, and lostack reads main"
        if told.current_snapshot_id not in {None, -1}:
            return ""
        if told.snapshots:
            return f"it has snapshots ({len(told.snapshots)}), and none of them is that of main"
        return (
            "nothing was committed to the table; sinks commit at intervals: Flink's at a "
            "checkpoint (execution.checkpointing.interval, which has no default), Kafka Connect's "
            "after iceberg.control.commit.interval-ms"
        )

    def _present(self) -> _Metadata:
        versions = self._versions()
        if not versions:
            raise TableError(
                f"{self.folder} is no Iceberg table of a Hadoop catalog: it has no "
                "metadata/vN.metadata.json (of other catalogs' tables let a command print the "
                'rows: kind = "command")'
            )
        newest = versions[max(versions)]
        try:
            text = newest.read_bytes()
            told = PRESENT.decode(gzip.decompress(text) if ".gz" in newest.suffixes else text)
        except (OSError, EOFError, zlib.error, msgspec.MsgspecError) as error:
            raise TableError(f"the metadata {newest} cannot be read: {error}") from error
        if told.format_version > NEWEST:
            raise self._refused(f"has format version {told.format_version}")
        return told

    def _versions(self) -> Mapping[int, Path]:
        found = ((METADATA.fullmatch(file.name), file) for file in self.folder.glob("metadata/*"))
        return {int(name[1]): file for name, file in found if name}

    def _files(self, told: _Metadata) -> list[Path]:
        """Return the data files of the present snapshot, in the order of their commits."""
        lists = {each.snapshot_id: each.manifest_list for each in told.snapshots}
        if told.current_snapshot_id in {None, -1}:
            return []
        present = lists.get(told.current_snapshot_id or 0)
        if present is None:
            raise self._refused(f"has no list of manifests for snapshot {told.current_snapshot_id}")
        found: list[tuple[int, Path]] = []
        for manifest in _avro(self._path(told, present), _Manifest):
            for entry in _avro(self._path(told, manifest.manifest_path), _Entry):
                file = entry.data_file
                if entry.status == DELETED:
                    continue
                if (manifest.content, file.content) != (DATA, DATA):
                    raise self._refused("has delete files (rewrite it: rewrite_data_files)")
                if file.file_format.upper() != "PARQUET":
                    raise self._refused(f"has files of format {file.file_format}")
                since = entry.sequence_number
                found.append(
                    (
                        manifest.sequence_number if since is None else since,
                        self._path(told, file.file_path),
                    )
                )
        return [path for _, path in sorted(found, key=lambda each: each[0])]

    def _path(self, told: _Metadata, name: str) -> Path:
        """Return where a file is, also if the table was moved since it was written."""
        if name.startswith(f"{told.location}/"):
            return self.folder / name.removeprefix(f"{told.location}/")
        where = urlparse(name)
        if where.scheme not in {"", "file"}:
            raise self._refused(f"has files elsewhere ({where.scheme})")
        return Path(where.path)

    def _refused(self, what: str) -> TableError:
        return TableError(
            f"the Iceberg table {self.folder} {what}, which lostack cannot read: let a command "
            'print its rows (kind = "command")'
        )


def _avro(path: Path, kind: type[Kind]) -> Iterator[Kind]:
    """Yield the records of an Avro file."""
    import fastavro  # noqa: PLC0415 - an extra

    try:
        with path.open("rb") as file:
            for record in fastavro.reader(file):
                yield convert(record, kind)
    except (
        OSError,
        ValueError,
        EOFError,
        IndexError,
        MemoryError,
        zlib.error,
        msgspec.MsgspecError,
    ) as error:  # whatever a damaged file makes of the library
        raise TableError(f"the manifest {path} cannot be read: {error}") from error


def _rows_of(path: Path, columns: list[_Field]) -> Iterator[Mapping[str, object]]:
    """Yield the rows of a data file, whose columns are found by the numbers of their fields."""
    schema, rows = read_rows(path, "the table")
    names = {
        int(field.metadata[FIELD_ID]): field.name
        for field in schema
        if field.metadata and FIELD_ID in field.metadata
    }
    if len(names) < len(schema):
        raise TableError(f"the columns of {path} have no field ids, which lostack cannot read")
    for row in rows:
        yield {column.name: row.get(names.get(column.id, "")) for column in columns}
