"""The columns of a side's rows on Spark: ids, places and keys, in Spark's expressions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from harness.audit.failures import AuditError
from harness.audit.pages import NUMBERS
from harness.audit.spec import OURS, Rows, shown

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


NUMBER: Final = "^0*([0-9]{1,13})$"


def _column(frame: DataFrame, side: Rows, name: str) -> Column:
    """Return a column, or a field of a topic's message, by the word in the SPEC."""
    if side.kind == "kafka":
        word, _, rest = name.partition(":")
        if word == "header" and rest:
            named = f.filter("headers", lambda header: header["key"] == rest)
            return f.try_element_at(named, f.lit(-1))["value"].cast("string")
        if word == "json" and rest:
            return f.get_json_object(f.col("value").cast("string"), rest)
        if name in {"value", "key"}:
            return f.col(name).cast("string")
        raise AuditError(
            f"{shown(side.text)}: {name!r} is no field of a message (value, key, header:NAME, "
            f"json:PATH, {OURS})"
        )
    if name not in frame.columns:
        raise AuditError(
            f"{shown(side.text)} has no column {name!r} (there are: {', '.join(frame.columns)})"
        )
    return f.col(f"`{name}`")


def _text(frame: DataFrame, side: Rows, name: str) -> Column:
    """Return the text that a column is, or that a field of a topic's message is read from."""
    return _column(
        frame, side, "value" if side.kind == "kafka" and name.startswith("json:") else name
    ).cast("string")


def ids_of(frame: DataFrame, side: Rows) -> dict[str, Column]:
    """Return the columns number, key, stream, source, found and damaged, as far as
    there are any.

    Raises:
        AuditError: the column of the ids is neither whole numbers nor text.
    """
    if side.id == OURS or side.id.startswith(f"{OURS}:"):
        return _ours(frame, side)
    value = _column(frame, side, side.id)
    keyed, sound = {}, f.lit(True)  # noqa: FBT003 - a literal of Spark's
    if side.key is not None:
        sound = _is_utf8(_text(frame, side, side.key))
        keyed = {"key": f.when(sound, _column(frame, side, side.key).cast("string"))}
    kind = dict(frame.dtypes).get(side.id, "string") if side.kind != "kafka" else "string"
    if side.pattern is not None:
        groups = re.compile(side.pattern).groups
        text = value.cast("string")
        if groups > 1:
            sound = _is_utf8(_text(frame, side, side.id))
            keyed = {
                "key": f.when(text.rlike(side.pattern), f.regexp_extract(text, side.pattern, 1))
            }
        value = f.regexp_extract(text, side.pattern, groups)
        kind = "string"
    if kind in {"tinyint", "smallint", "int", "bigint"}:
        number = f.when((value >= 0) & (value < NUMBERS), value.cast("long"))
    elif kind.startswith("decimal"):
        number = f.when(
            (value >= 0) & (value < NUMBERS) & (value == f.floor(value)), value.cast("long")
        )
    elif kind in {"string", "binary"} or kind.startswith(("varchar", "char")):
        number = _whole(value.cast("string"))
    else:
        raise AuditError(
            f"{shown(side.text)}: {side.id!r} is {kind}; ids are whole numbers, or text that "
            "holds one"
        )
    source, found = _text(frame, side, side.id).cast("binary"), value.cast("string")
    return {**keyed, "number": f.when(sound, number), "source": source, "found": found}


def _is_utf8(text: Column) -> Column:
    """Whether a text is UTF-8; what is not there is no wrong one."""
    return f.coalesce(f.is_valid_utf8(text), f.lit(True))  # noqa: FBT003 - a literal of Spark's


def _whole(text: Column) -> Column:
    """Return the number that a text is, or null. The text, which may be dear, stands here once."""
    return f.regexp_extract(text, NUMBER, 1).try_cast("long")


def bounded(number: Column) -> Column:
    """Return a number, or null if no side can have one so large."""
    return f.when(number < NUMBERS, number)


def _ours(frame: DataFrame, side: Rows) -> dict[str, Column]:
    """Read payloads of :mod:`harness.model.record`: the cell is the key, the position the number.

    What begins with lostack's own word and is not intact is *damaged*: nobody else writes that, so
    the record is known to have been ours, and is a phantom. All else cannot be read as an id: an
    empty or null value, another format (also one of ours whose first bytes are gone: nothing tells
    it from a stranger's), an intact payload with a position above the limit.
    """
    _, _, name = side.id.partition(":")
    if side.kind != "kafka" and not name:
        raise AuditError(f"{shown(side.text)}: the column is missing: id={OURS}:COLUMN")
    text = (f.col(f"`{name}`") if name else f.col("value")).cast("string")
    line = f.split(f.substring_index(text, "\n", 1), " ")
    words = [f.get(line, f.lit(at)) for at in range(5)]
    head = f.concat(words[1], f.lit(" "), words[2], f.lit(" "), words[3])
    body = f.substring(text, f.instr(text, "\n") + 1, f.length(text))
    checksum = f.lpad(
        f.lower(f.hex(f.crc32(f.concat(head, f.lit("\n"), body).cast("binary")))), 8, "0"
    )
    ours = text.startswith(f"{OURS} ")
    whole = ours & (f.size(line) == 5) & (f.instr(text, "\n") > 0) & (words[4] == checksum)  # noqa: PLR2004
    intact, nothing = f.coalesce(whole, f.lit(False)), f.lit(False)  # noqa: FBT003 - literals of Spark's
    number = f.when(intact, bounded(_whole(words[3])))
    stream = f.substring_index(words[2], "-", 1)
    if "key" in frame.columns:
        key = f.col("key").cast("string")
        stream = f.when(_is_utf8(key), key).otherwise(f.hex(key.cast("binary")))
    return {
        "key": f.when(number.isNotNull(), words[1]),
        "number": number,
        "stream": f.concat_ws(" ", words[1], stream),
        "source": text.cast("binary"),
        "found": f.when(intact, words[3]),
        "damaged": f.coalesce(ours & ~intact, nothing),
    }


def places_of(frame: DataFrame, side: Rows) -> dict[str, Column]:
    """Return where a row stands, in words, and the columns recorded, p and o where
    they are given.
    """
    found: dict[str, Column] = {}
    if side.order is not None:
        found["recorded"] = _column(frame, side, side.order)
    if side.partition is not None and side.offset is not None:
        found["p"], found["o"] = (
            _column(frame, side, side.partition),
            _column(frame, side, side.offset),
        )
    if side.kind == "kafka":
        found["place"], found["stands"] = (
            f.concat_ws("/", "topic", "partition", "offset"),
            f.struct("partition", "offset"),
        )
    elif side.kind == "parquet":
        found["place"] = f.concat_ws(":", "_metadata.file_name", "_metadata.row_index")
        found["stands"] = f.struct("_metadata.file_path", "_metadata.row_index")
    if "p" in found:
        origin = f.concat(
            f.lit("from "), found["p"].cast("string"), f.lit("/"), found["o"].cast("string")
        )
        found["place"] = f.concat_ws(" ", found["place"], origin) if "place" in found else origin
    return found
