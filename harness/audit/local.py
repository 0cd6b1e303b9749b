"""Parquet files as a side of an audit in this process, read in chunks with bounded memory; and the
pages of numbered ranges.
"""

from __future__ import annotations

import glob
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.audit.failures import ELSEWHERE, AuditError, OutgrownError
from harness.audit.findings import UNREAD, Example, Unread, Unreadable
from harness.audit.pages import PAGE, PAGE_BITS, Keys, Order, Tally, pack, packed
from harness.audit.spec import OURS, NumberedRange, Rows, shown
from harness.audit.texts import Columns, as_bytes, numbered, reading_of, unread
from harness.model.semantics import Anomaly

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyarrow.parquet import ParquetFile

    from harness.audit.findings import Findings, Gathering
    from harness.audit.pages import Copies, Flags, Ints

CHUNK_ROWS: Final = 1 << 19
AT_REST_BYTES: Final = 400_000_000
"""Compressed pages kept; with the living ones, a chunk and the libraries, this stays below 1 GB."""
SORTED_IN_MEMORY: Final = 10_000_000
"""Rows that are sorted here where they do not stand in order; more is Spark's work."""


class Counted(NamedTuple):
    """The counts of a side: encoded pages by key and page, and numbers of reordered, unreadable and
    damaged rows.
    """

    pages: dict[tuple[str, int], list[bytes]]
    reordered: int
    unreadable: int
    damaged: int = 0


class Chunk(NamedTuple):
    """Some rows of a side. A null among the numbers is a row without a usable id."""

    columns: Columns
    order: pa.Array | None
    partition: pa.Array | None
    offset: pa.Array | None
    file: str
    first_row: int


def can_read_files(side: Rows) -> bool:
    """Say whether a side is Parquet that this process can read without Spark."""
    plain = not side.id.startswith(OURS) and reading_of(side) is not None
    return side.kind == "parquet" and "://" not in side.at and plain and not _has_sink_log(side)


def _has_sink_log(side: Rows) -> bool:
    """Whether Spark's file sink wrote it: its log, and not the folder, says which files count."""
    return any((path / "_spark_metadata").exists() for path in _places(side))


class Files:
    """Parquet files as a side that this process reads."""

    doubts: tuple[str, ...] = ()

    def __init__(self, side: Rows) -> None:
        self._side = side

    def close(self) -> None:
        """Do nothing: no file is open."""

    def count(self, *, ordered: bool, phantoms: Mapping[str, Ints] | None = None) -> Counted:
        """Count the rows. ``ordered``: check their order, too; ``phantoms`` (by key) are left out
        of the order.
        """
        keys = Keys()
        tally, order, unreadable = _tally(self._side, keys, phantoms, ordered=ordered)
        pages = (((keys.names[code], page), data) for code, page, data in tally.pages())
        return Counted({where: [data] for where, data in pages}, order.reordered, unreadable)

    def unread(self, rows: int) -> Unreadable:
        """Read the files again for the first of ``rows`` rows without a usable id."""
        return _unread(self._side, rows)

    def examples(self, gathering: Gathering) -> tuple[Example, ...]:
        """Read the files again for some duplicated and phantom ids with the places of
        their copies.
        """
        return _examples(gathering, self._side)

    def with_origins(self, found: Findings, twice: list[tuple[str, Ints]]) -> Findings:
        """Split the duplicates into stored twice and recorded twice. ``twice``: by key, the
        duplicated numbers.
        """
        return _with_origins(found, self._side, twice)


def range_pages(side: NumberedRange) -> Iterator[tuple[str, int, Copies]]:
    """Yield the pages of a numbered range, in which every id counts once."""
    full = np.ones(PAGE, dtype=np.uint32)
    partial: dict[tuple[str, int], Copies] = {}
    for span in side.spans:
        for page in range(span.first >> PAGE_BITS, (span.last >> PAGE_BITS) + 1):
            base = page << PAGE_BITS
            low, high = max(span.first - base, 0), min(span.last - base, PAGE - 1)
            if high - low == PAGE - 1:
                yield span.key, page, full
            else:
                partial.setdefault((span.key, page), np.zeros(PAGE, dtype=np.uint32))[
                    low : high + 1
                ] = 1
    for (key, page), copies in partial.items():
        yield key, page, copies


def _tally(
    side: Rows, keys: Keys, phantoms: Mapping[str, Ints] | None, *, ordered: bool
) -> tuple[Tally, Order, int]:
    """Count a side: its tally, its order (but for phantoms, where they are known), and how many
    rows have no usable id.
    """
    tally, order, unknown = Tally(), Order(), packed(phantoms or {}, keys)
    unreadable = 0
    for chunk in _in_order(side) if ordered else _chunks(side):
        codes, numbers, good = usable(chunk.columns.keys, chunk.columns.numbers, keys)
        unreadable += len(good) - int(good.sum())
        ids = pack(codes, numbers)
        if not ordered:
            tally.add(ids)
        else:
            fresh = tally.add_in_order(ids) & ~np.isin(ids, unknown)
            order.add(None if isinstance(codes, int) else codes[fresh], numbers[fresh])
        if tally.compressed_bytes > AT_REST_BYTES:
            raise OutgrownError(
                f"{shown(side.text)}: too many ids, or ids too far apart, for one process: "
                f"{ELSEWHERE}"
            )
    return tally, order, unreadable


def usable(names: pa.Array | None, numbers: pa.Array, keys: Keys) -> tuple[Ints | int, Ints, Flags]:
    """Return the key codes and numbers of the rows with a usable id, and a flag per row that says
    whether it has one.
    """
    good = pc.is_valid(numbers).to_numpy(zero_copy_only=False)
    whole = bool(good.all())
    values = (numbers if whole else numbers.drop_null()).to_numpy(zero_copy_only=False)
    if names is None:
        return keys.code(""), values, good
    codes = keys.codes(names)
    return (codes if whole else codes[good]), values, good


# --- Parquet --------------------------------------------------------------------------------------


def _places(side: Rows) -> list[Path]:
    if not glob.has_magic(side.at):
        return [Path(side.at)]
    return sorted(Path(place) for place in glob.glob(side.at))  # noqa: PTH207 - Path.glob takes no absolute pattern


def _files(side: Rows) -> list[Path]:
    """Return the files of a side, in order of name.

    Raises:
        AuditError: there is no such file, or a folder cannot be read.
    """
    found: list[Path] = []
    for path in _places(side):
        try:
            inside = sorted(path.rglob("*")) if path.is_dir() else [path]
        except OSError as error:
            raise AuditError(f"cannot read {path}: {error.strerror}") from error
        found += (
            [file for file in inside if file.is_file() and not _hidden(file, path)]
            if path.is_dir()
            else inside
        )
    if not found:
        raise AuditError(f"{shown(side.text)}: there is no such file, or the folder has none")
    return found


def _hidden(file: Path, root: Path) -> bool:
    return any(part.startswith((".", "_")) for part in file.relative_to(root).parts)


def _chunks(side: Rows) -> Iterator[Chunk]:
    """Read a side file by file."""
    from pyarrow.parquet import ParquetFile  # noqa: PLC0415 - not for topics

    for file in _files(side):
        try:
            with ParquetFile(file) as parquet:
                yield from _file_chunks(side, file, parquet)
        except AuditError:
            raise
        except (pa.ArrowException, OSError) as error:
            why = (
                error.strerror
                if isinstance(error, OSError) and error.strerror
                else str(error).splitlines()[0]
            )
            raise AuditError(f"cannot read {file}: {why}") from error


def _file_chunks(side: Rows, file: Path, parquet: ParquetFile) -> Iterator[Chunk]:
    roles = {name: getattr(side, name) for name in ("id", "key", "order", "partition", "offset")}
    wanted = {role: column for role, column in roles.items() if column is not None}
    missing = [column for column in wanted.values() if column not in parquet.schema_arrow.names]
    if missing:
        there = ", ".join(parquet.schema_arrow.names)
        raise AuditError(f"{file} has no column {missing[0]!r} (there are: {there})")
    row = 0
    for batch in parquet.iter_batches(CHUNK_ROWS, columns=list(dict.fromkeys(wanted.values()))):
        parts = {role: batch.column(column) for role, column in wanted.items()}
        columns = _ids(side, parts["id"], parts.get("key"), file)
        yield Chunk(
            columns, parts.get("order"), parts.get("partition"), parts.get("offset"), str(file), row
        )
        row += len(batch)


def _ids(side: Rows, ids: pa.Array, keys: pa.Array | None, file: Path) -> Columns:
    """Return keys and numbers; a number that is none, or out of range, is null."""
    reading = reading_of(side)
    if reading is None:
        raise AuditError(f"{shown(side.text)}: this process cannot read this pattern: {ELSEWHERE}")
    if isinstance(ids, pa.DictionaryArray):
        ids = ids.dictionary_decode()
    ids, keys = _text(ids), None if keys is None else _text(keys)
    if keys is not None and not _is_text(getattr(keys.type, "value_type", keys.type)):
        keys = pc.cast(keys, pa.string())
    if _is_text(ids.type):
        return reading(ids, keys)
    if side.pattern is not None:
        raise AuditError(f"{file}: {side.id!r} is {ids.type}; a pattern needs text")
    if not pa.types.is_integer(ids.type):
        raise AuditError(
            f"{file}: {side.id!r} is {ids.type}; ids are whole numbers, or text that holds one"
        )
    return numbered(ids, keys)


def _text(column: pa.Array) -> pa.Array:
    """Return a column as it is, a dictionary only where it is one of text; bytes are text, which
    may not be UTF-8.
    """
    if isinstance(column, pa.DictionaryArray):
        if _is_text(column.type.value_type):
            return column
        column = column.dictionary_decode()
    if pa.types.is_binary(column.type):
        return column.view(pa.string())
    return column.view(pa.large_string()) if pa.types.is_large_binary(column.type) else column


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _in_order(side: Rows) -> Iterator[Chunk]:
    """Read a side in its order of recording, where it has one: as it stands, or sorted where it
    stands otherwise.
    """
    if side.order is None or _stands_in_order(side):
        yield from _chunks(side)
        return
    parts, rows = [], 0
    for chunk in _chunks(side):
        rows += len(chunk.columns.numbers)
        if rows > SORTED_IN_MEMORY:
            raise OutgrownError(
                f"{shown(side.text)}: more than {SORTED_IN_MEMORY} rows that are not in order: "
                f"{ELSEWHERE}"
            )
        keys, numbers, *_ = chunk.columns
        names = pa.nulls(len(numbers), pa.string()) if keys is None else pc.cast(keys, pa.string())
        parts.append(pa.table({"key": names, "number": numbers, "order": chunk.order}))
    table = pa.concat_tables(parts).sort_by("order").combine_chunks()
    keys = None if side.key is None and side.pattern is None else table["key"].combine_chunks()
    numbers = table["number"].combine_chunks()
    yield Chunk(
        Columns(keys, numbers, numbers, numbers), table["order"].combine_chunks(), None, None, "", 0
    )


def _stands_in_order(side: Rows) -> bool:
    """Whether the rows are in the order of their order column.

    Raises:
        AuditError: the order column has nulls.
    """
    last: object = None
    for chunk in _chunks(replace(side, key=None, partition=None, offset=None)):
        order = chunk.order
        if order is None or order.null_count:
            raise AuditError(
                f"{chunk.file}: the order column {side.order!r} has nulls, so the order of "
                "recording is not known"
            )
        if not len(order):
            continue
        climbs = len(order) == 1 or pc.all(pc.less_equal(order[:-1], order[1:])).as_py()
        if not climbs or (last is not None and order[0].as_py() < last):
            return False
        last = order[-1].as_py()
    return True


# --- the second look ------------------------------------------------------------------------------


def _with_origins(found: Findings, side: Rows, twice: list[tuple[str, Ints]]) -> Findings:
    """Split the duplicates by the log copies they were made from."""
    if not side.with_origin:
        return found
    if not found.duplicated:
        return replace(found, stored_twice=0, recorded_twice=0)
    keys = Keys()
    wanted = np.sort(np.concatenate([pack(keys.code(key), numbers) for key, numbers in twice]))
    parts, rows = [], 0
    for chunk in _chunks(side):
        codes, numbers, good = usable(chunk.columns.keys, chunk.columns.numbers, keys)
        ids = pack(codes, numbers)
        hit = np.isin(ids, wanted)
        rows += int(hit.sum())
        if rows > SORTED_IN_MEMORY:
            raise OutgrownError(
                f"{shown(side.text)}: more than {SORTED_IN_MEMORY} copies of duplicated ids: "
                f"{ELSEWHERE}"
            )
        places = pa.table({"p": chunk.partition, "o": chunk.offset}).to_pandas()[good][hit]
        parts.append(places.assign(id=ids[hit]))
    import pandas as pd  # noqa: PLC0415 - half a second

    copies = pd.concat(parts)
    stored = len(copies.drop_duplicates(["id", "p", "o"])) - copies["id"].nunique()
    return replace(found, stored_twice=stored, recorded_twice=found.duplicated - stored)


def _unread(side: Rows, rows: int) -> Unreadable:
    first: list[Unread] = []
    for chunk in _chunks(side) if rows else ():
        _, numbers, source, found = chunk.columns
        at = pc.indices_nonzero(numbers.is_null())[: UNREAD - len(first)]
        texts = zip(
            as_bytes(source.take(at)),
            pc.cast(found.take(at), pa.string()).to_pylist(),
            at.to_pylist(),
            strict=True,
        )
        first += [unread(side, text, said, _place(chunk, row)) for text, said, row in texts]
        if len(first) == UNREAD:
            break
    return Unreadable(rows, side.unreadable, tuple(first))


def _examples(gathering: Gathering, side: Rows) -> tuple[Example, ...]:
    """Read the side again for the places of some duplicated and phantom ids, where
    there are any.
    """
    wanted = gathering.wanted()
    if not wanted:
        return ()
    keys = Keys()
    ids = {
        int(pack(keys.code(key), np.array([number]))[0]): (key, number) for key, number in wanted
    }
    known = np.array(sorted(ids), dtype=np.int64)
    places: dict[tuple[str, int], list[str]] = {}
    for chunk in _chunks(side):
        codes, numbers, good = usable(chunk.columns.keys, chunk.columns.numbers, keys)
        packed = pack(codes, numbers)
        rows = np.flatnonzero(good)
        for at in np.flatnonzero(np.isin(packed, known)).tolist():
            places.setdefault(ids[int(packed[at])], []).append(_place(chunk, int(rows[at])))
    return examples_of(wanted, places)


def examples_of(
    wanted: dict[tuple[str, int], tuple[Anomaly, int]],
    places: dict[tuple[str, int], list[str]],
    damaged: Sequence[str] = (),
) -> tuple[Example, ...]:
    """Return the examples: duplicated and phantom ids, then lostack's own damaged messages."""
    named = [
        Example(anomaly, key, number, copies, tuple(sorted(places.get((key, number), []))[:10]))
        for (key, number), (anomaly, copies) in wanted.items()
    ]
    return (*named, *(Example(Anomaly.PHANTOM, "", None, 1, (place,)) for place in damaged))


def _place(chunk: Chunk, row: int) -> str:
    at = f"{Path(chunk.file).name}:{chunk.first_row + row}"
    if chunk.partition is None or chunk.offset is None:
        return at
    return f"{at} (from {chunk.partition[row]}/{chunk.offset[row]})"
