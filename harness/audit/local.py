"""The audit in this process: numbered ranges and Parquet files, in chunks, with bounded memory."""

from __future__ import annotations

import glob
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.audit.findings import UNREAD, Example, Findings, Gathering, Unread, Unreadable, compare
from harness.audit.pages import PAGE, PAGE_BITS, Keys, Order, Tally, TooManyKeysError, decode, pack, packed
from harness.audit.spec import OURS, NumberedRange, Rows, shown
from harness.audit.texts import Columns, as_bytes, numbered, reading_of, unread
from harness.model.failures import EnvironmentFailure
from harness.model.semantics import Anomaly

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from harness.audit.pages import Copies, Ints
    from harness.audit.spec import Side

CHUNK_ROWS: Final = 1 << 19
AT_REST_BYTES: Final = 400_000_000
"""Compressed pages kept; with the living ones, a chunk and the libraries, this stays below 1 GB."""
SORTED_IN_MEMORY: Final = 10_000_000
"""Rows that are sorted here where they do not stand in order; more is Spark's work."""
ELSEWHERE: Final = "use --engine spark"


class AuditError(EnvironmentFailure):
    """A side cannot be read, or cannot be read here: one line that says which, why, and what helps."""


class Chunk(NamedTuple):
    """Rows of a side. A null among the numbers is a row without a usable id."""

    columns: Columns
    order: pa.Array | None
    partition: pa.Array | None
    offset: pa.Array | None
    file: str
    first_row: int


def can_read(side: Side) -> bool:
    """Whether this process can read a side by itself."""
    if isinstance(side, NumberedRange):
        return True
    plain = not side.id.startswith(OURS) and reading_of(side) is not None
    return side.kind == "parquet" and "://" not in side.at and plain and not _has_sink_log(side)


def _has_sink_log(side: Rows) -> bool:
    """Whether Spark's file sink wrote it: its log, and not the folder, says which files count."""
    return any((path / "_spark_metadata").exists() for path in _places(side))


def audit_here(offered: Side, arrived: Rows) -> Findings:
    """Compare two sides. Raises AuditError where one of them cannot be read whole."""
    keys = Keys()
    try:
        right, order, unreadable = _tally(arrived, keys)
        gathering = Gathering(reordered=order.reordered)
        wants_ids = arrived.with_origin
        twice: list[tuple[str, Ints]] = []
        there = {(code, page): data for code, page, data in right.pages()}
        left_pages, unknown = _offered_pages(offered, keys)
    except TooManyKeysError as error:
        raise AuditError(f"{error}: {ELSEWHERE}") from None

    def look(key: str, page: int, left: Copies | None, data: bytes | None) -> None:
        copies = None if data is None else decode(data)
        found = compare(key, page, left, copies)
        gathering.pages.append(found)
        if wants_ids and found.duplicated and left is not None and copies is not None:
            again = np.flatnonzero((left > 0) & (copies > 1)) + (page << PAGE_BITS)
            twice.append((key, again))

    for key, page, left in left_pages:
        look(key, page, left, there.pop((keys.code(key), page), None))
    for (code, page), data in there.items():
        look(keys.names[code], page, None, data)
    if arrived.order is not None and (phantoms := gathering.phantoms()):
        gathering.reordered = _tally(arrived, Keys(), phantoms)[1].reordered
    found = gathering.findings(ordered=arrived.ordered)
    found = _with_origins(found, arrived, twice)
    found = replace(found, unread_offered=_unread(offered, unknown), unread_arrived=_unread(arrived, unreadable))
    return replace(found, examples=_examples(gathering, arrived))


def _offered_pages(side: Side, keys: Keys) -> tuple[Iterator[tuple[str, int, Copies]], int]:
    """Return the pages of what was offered, and how many rows have no usable id."""
    if isinstance(side, NumberedRange):
        return range_pages(side), 0
    tally, _, unreadable = _tally(side, keys)
    return ((keys.names[code], page, decode(data)) for code, page, data in tally.pages()), unreadable


def range_pages(side: NumberedRange) -> Iterator[tuple[str, int, Copies]]:
    """Give the pages of a numbered range: every id once."""
    full = np.ones(PAGE, dtype=np.uint32)
    partial: dict[tuple[str, int], Copies] = {}
    for span in side.spans:
        for page in range(span.first >> PAGE_BITS, (span.last >> PAGE_BITS) + 1):
            base = page << PAGE_BITS
            low, high = max(span.first - base, 0), min(span.last - base, PAGE - 1)
            if high - low == PAGE - 1:
                yield span.key, page, full
            else:
                partial.setdefault((span.key, page), np.zeros(PAGE, dtype=np.uint32))[low : high + 1] = 1
    for (key, page), copies in partial.items():
        yield key, page, copies


def _tally(side: Rows, keys: Keys, phantoms: Mapping[str, Ints] | None = None) -> tuple[Tally, Order, int]:
    """Count a side: its tally, its order (but for phantoms, where they are known), and how many rows have no usable id."""
    tally, order, unknown = Tally(), Order(), packed(phantoms or {}, keys)
    unreadable = 0
    for chunk in _in_order(side):
        codes, numbers, good = usable(chunk.columns.keys, chunk.columns.numbers, keys)
        unreadable += len(good) - int(good.sum())
        ids = pack(codes, numbers)
        if side.order is None:
            tally.add(ids)
        else:
            fresh = tally.add_in_order(ids) & ~np.isin(ids, unknown)
            order.add(None if isinstance(codes, int) else codes[fresh], numbers[fresh])
        if tally.compressed_bytes > AT_REST_BYTES:
            raise AuditError(f"{shown(side.text)}: too many ids for one process (or too far apart): {ELSEWHERE}")
    return tally, order, unreadable


def usable(names: pa.Array | None, numbers: pa.Array, keys: Keys) -> tuple[Ints | int, Ints, Any]:
    """Return codes and numbers of the rows with a usable id, and which rows these are."""
    good = pc.is_valid(numbers).to_numpy(zero_copy_only=False)
    whole = bool(good.all())
    values = (numbers if whole else numbers.drop_null()).to_numpy(zero_copy_only=False)
    if names is None:
        return keys.code(""), values, good
    codes = keys.codes(names)
    return (codes if whole else codes[good]), values, good


# --- Parquet -----------------------------------------------------------------------------------------------------


def _places(side: Rows) -> list[Path]:
    if not glob.has_magic(side.at):
        return [Path(side.at)]
    return sorted(Path(place) for place in glob.glob(side.at))  # noqa: PTH207 - Path.glob takes no absolute pattern


def _files(side: Rows) -> list[Path]:
    """Return the files of a side, in order of name. Raises AuditError where there is nothing of that name."""
    found: list[Path] = []
    for path in _places(side):
        try:
            inside = sorted(path.rglob("*")) if path.is_dir() else [path]
        except OSError as error:
            raise AuditError(f"cannot read {path}: {error.strerror}") from error
        found += [file for file in inside if file.is_file() and not _hidden(file, path)] if path.is_dir() else inside
    if not found:
        raise AuditError(f"{shown(side.text)}: there is no file of that name, or in it")
    return found


def _hidden(file: Path, root: Path) -> bool:
    return any(part.startswith((".", "_")) for part in file.relative_to(root).parts)


def _chunks(side: Rows) -> Iterator[Chunk]:
    """Read a side file by file."""
    for file in _files(side):
        try:
            with pq.ParquetFile(file) as parquet:
                yield from _file_chunks(side, file, parquet)
        except AuditError:
            raise
        except (pa.ArrowException, OSError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error).splitlines()[0]
            raise AuditError(f"cannot read {file}: {why}") from error


def _file_chunks(side: Rows, file: Path, parquet: pq.ParquetFile) -> Iterator[Chunk]:
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
        yield Chunk(columns, parts.get("order"), parts.get("partition"), parts.get("offset"), str(file), row)
        row += len(batch)


def _ids(side: Rows, ids: pa.Array, keys: pa.Array | None, file: Path) -> Columns:
    """Return keys and numbers; a number that is none, or out of range, is null."""
    reading = reading_of(side)
    if reading is None:
        raise AuditError(f"{shown(side.text)}: the pattern is none of the plain ones that this process reads: {ELSEWHERE}")
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
        raise AuditError(f"{file}: {side.id!r} is {ids.type}; ids are whole numbers, or text that holds one")
    return numbered(ids, keys)


def _text(column: pa.Array) -> pa.Array:
    """Return a column as it is, a dictionary only where it is one of text; bytes are text, which may not be UTF-8."""
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
    """Read a side in its order of recording, where it has one: as it stands, or sorted where it stands otherwise."""
    if side.order is None or _stands_in_order(side):
        yield from _chunks(side)
        return
    parts, rows = [], 0
    for chunk in _chunks(side):
        rows += len(chunk.columns.numbers)
        if rows > SORTED_IN_MEMORY:
            raise AuditError(f"{shown(side.text)}: over {SORTED_IN_MEMORY} rows that do not stand in their order: {ELSEWHERE}")
        keys, numbers, *_ = chunk.columns
        names = pa.nulls(len(numbers), pa.string()) if keys is None else pc.cast(keys, pa.string())
        parts.append(pa.table({"key": names, "number": numbers, "order": chunk.order}))
    table = pa.concat_tables(parts).sort_by("order").combine_chunks()
    keys = None if side.key is None and side.pattern is None else table["key"].combine_chunks()
    numbers = table["number"].combine_chunks()
    yield Chunk(Columns(keys, numbers, numbers, numbers), table["order"].combine_chunks(), None, None, "", 0)


def _stands_in_order(side: Rows) -> bool:
    """Whether rows stand in the order of their order column. Raises AuditError where it has nulls: then nobody knows."""
    last: Any = None
    for chunk in _chunks(replace(side, key=None, partition=None, offset=None)):
        order = chunk.order
        if order is None or order.null_count:
            raise AuditError(f"{chunk.file}: {side.order!r} has nulls, so that the order of recording is not known")
        if not len(order):
            continue
        climbs = len(order) == 1 or pc.all(pc.less_equal(order[:-1], order[1:])).as_py()
        if not climbs or (last is not None and order[0].as_py() < last):
            return False
        last = order[-1].as_py()
    return True


# --- the second look ---------------------------------------------------------------------------------------------


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
            raise AuditError(f"{shown(side.text)}: over {SORTED_IN_MEMORY} copies of duplicated ids: {ELSEWHERE}")
        places = pa.table({"p": chunk.partition, "o": chunk.offset}).to_pandas()[good][hit]
        parts.append(places.assign(id=ids[hit]))
    copies = pd.concat(parts)
    stored = len(copies.drop_duplicates(["id", "p", "o"])) - copies["id"].nunique()
    return replace(found, stored_twice=stored, recorded_twice=found.duplicated - stored)


def _unread(side: Side, rows: int) -> Unreadable:
    """Read the side again for the first of so many rows without a usable id."""
    if isinstance(side, NumberedRange):
        return Unreadable()
    first: list[Unread] = []
    for chunk in _chunks(side) if rows else ():
        _, numbers, source, found = chunk.columns
        at = pc.indices_nonzero(numbers.is_null())[: UNREAD - len(first)]
        texts = zip(as_bytes(source.take(at)), pc.cast(found.take(at), pa.string()).to_pylist(), at.to_pylist(), strict=True)
        first += [unread(side, text, said, _place(chunk, row)) for text, said, row in texts]
        if len(first) == UNREAD:
            break
    return Unreadable(rows, side.unreadable, tuple(first))


def _examples(gathering: Gathering, side: Rows) -> tuple[Example, ...]:
    """Read the side again for the places of some duplicated and phantom ids, where there are any."""
    wanted = gathering.wanted()
    if not wanted:
        return ()
    keys = Keys()
    ids = {int(pack(keys.code(key), np.array([number]))[0]): (key, number) for key, number in wanted}
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
    wanted: dict[tuple[str, int], tuple[Anomaly, int]], places: dict[tuple[str, int], list[str]], damaged: Sequence[str] = ()
) -> tuple[Example, ...]:
    """Put examples together: duplicated, phantom, then damaged messages of lostack's."""
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
