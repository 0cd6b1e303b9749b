"""Ids in JSON: the texts that Spark's ``get_json_object`` finds at a path of names, for many values
at once.

This module reads only values that have one meaning: valid JSON in which each name of the path
occurs once. Java reads other values by rules of its own (a name twice, text after the object,
single quotes): those values are left to Spark.
"""

from __future__ import annotations

import json
import operator
import re
import struct
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.audit.failures import NotOursToReadError
from harness.audit.pages import arrow_ints

if TYPE_CHECKING:
    from collections.abc import Callable

PATH: Final = re.compile(r"\$((?:\.[A-Za-z_][A-Za-z0-9_]*)+)")
ESCAPED_ASCII: Final = re.compile(rb"\\u00[2-7]")
"""An escape that may spell a letter of a name."""
AT: Final = operator.attrgetter("at")
MINUS_ZERO: Final = re.compile(rb"-0(?![0-9.])")


def json_reader(path: str) -> Callable[[pa.Array], pa.Array] | None:
    """Return a function that finds the texts at a path, or ``None`` for a path that has more than
    names.

    It returns whole numbers if all values have one there. For a value that it cannot read it ends
    with NotOursToReadError.

    >>> values = pa.array(['{"order":{"seq":7}}', '{"order":{"seq":"07"}}', "{}"])
    >>> json_reader("$.order.seq")(values).to_pylist()
    ['7', '07', None]
    >>> json_reader("$.orders[0]") is None
    True
    """
    match = PATH.fullmatch(path)
    return None if match is None else _Finder(match[1][1:].split("."))


class _Finder:
    """Finds the value at a path of names."""

    def __init__(self, names: list[str]) -> None:
        self._names = names
        self._quoted = [json.dumps(name).encode() for name in names]
        self._numbers, self._raw = (_decoder(names, kind) for kind in (int, msgspec.Raw))

    def __call__(self, values: pa.Array) -> pa.Array:
        """Return the texts, or whole numbers where all are that. Raises NotOursToReadError."""
        numbers = self._all_at_once(values) if len(values) and not values.null_count else None
        if numbers is not None:
            return numbers
        return pa.array(
            [self._id_of(value) for value in values.view(pa.binary()).to_pylist()], pa.string()
        )

    def _all_at_once(self, values: pa.Array) -> pa.Array | None:
        """Return the numbers; None where one value is not as plain as that."""
        try:
            values.validate(full=True)
            text = _lines(values)
            if any(
                text.count(each) != len(values) for each in (b"\n", *self._quoted)
            ) or _escapes_letters(text):
                return None
            found = _inside(self._numbers.decode_lines(text), self._names)
            numbers = arrow_ints(np.array(found, dtype=np.int64))
        except (msgspec.MsgspecError, OverflowError, pa.ArrowInvalid):
            return None
        return None if 0 in found and MINUS_ZERO.search(text) else numbers

    def _id_of(self, value: bytes | None) -> str | None:
        if value is None:
            return None
        escapes = _escapes_letters(value)
        if not escapes and any(name not in value for name in self._quoted):
            return None  # wherever it leads, that name is not there
        try:
            value.decode()
            sure = not escapes and all(value.count(name) == 1 for name in self._quoted)
            text = bytes(_inside([self._raw.decode(value)], self._names)[0]) if sure else None
        except (msgspec.MsgspecError, UnicodeDecodeError):
            text = None
        if text is None:
            raise NotOursToReadError("a value is not valid JSON, but Java may read it")
        if text.startswith(b'"'):
            return str(json.loads(text))
        return None if text == b"null" else text.decode()


def _lines(values: pa.Array) -> bytes:
    """Return texts with the end of a line behind each."""
    lines = pc.binary_join_element_wise(values, "", "\n")
    _, offsets, data = lines.buffers()
    (first,), (last,) = (
        struct.unpack_from("=i", offsets, 4 * at)
        for at in (lines.offset, lines.offset + len(lines))
    )
    return bytes(data.slice(first, last - first))


def _escapes_letters(text: bytes) -> bool:
    return b"\\" in text and ESCAPED_ASCII.search(text) is not None


def _decoder(names: list[str], kind: object) -> msgspec.json.Decoder[Any]:
    """Return what decodes objects in objects, of each nothing but the field ``at``."""
    for name in reversed(names):
        kind = msgspec.defstruct("At", [("at", kind)], rename={"at": name})
    return msgspec.json.Decoder(kind)


def _inside(objects: list[Any], names: list[str]) -> list[Any]:
    for _ in names:
        objects = list(map(AT, objects))
    return objects
