"""Ids in texts, a column at a time: Arrow and RE2 find what Spark's functions and Java's regular
expressions would find.

A pattern that RE2 and Java might read differently is not translated, and is left to Spark.
:mod:`~harness.audit.spec` says what an id is; :func:`unread` says why a text is none.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.audit.findings import Unread
from harness.audit.pages import NUMBERS, arrow_ints
from harness.audit.spec import OURS

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.audit.batches import Records
    from harness.audit.pages import Ints
    from harness.audit.places import Octets
    from harness.audit.spec import Rows

DIGITS: Final = 13
"""Of the greatest number, 2⁴⁰ - 1; zeros may stand in front of them."""
AS_THEY_STAND: Final = 18
"""Digits that a signed number of 64 bits holds, whatever they are: no need to look at each."""
WIDEST: Final = 64
"""Digits of a number, zeros in front among them, that are read at once."""
LINE_ENDS: Final = r"\n\r\x{85}\x{2028}\x{2029}"
AT_THE_END: Final = rf"(?:\r\n|[{LINE_ENDS}])?\z"
"""Java's dollar: the end of the text, or of its last line."""
CLASS: Final = r"\[\^?(?:[A-Za-z0-9 _.,:;/#@+=-]|\\[dw.\-])+\]"
ATOM: Final = rf"(?:{CLASS}|[A-Za-z0-9 _,:;/#@=\"'<>%&~`!-]|\\[dw.\-\[\](){{}}|+*?^$/]|\.)"
TIMES: Final = r"(?:[+*?]\??|\{\d{1,3}(?:,\d{0,3})?\})?"
TOKEN: Final = re.compile(
    rf"(?P<open>\((?:\?:)?)|(?P<close>\){TIMES})|(?P<bar>\|)|(?P<atom>{ATOM}{TIMES})"
)


ID: Final = re.compile(rf"0*([0-9]{{1,{DIGITS}}})(?:\r\n|[\n\r\x85\u2028\u2029])?")
TOO_GREAT: Final = re.compile(r"[0-9]+(?:\r\n|[\n\r\x85\u2028\u2029])?")
SHOWN_CHARACTERS: Final = 40


class Columns(NamedTuple):
    """The keys of some rows (``None``: the side has none) and their numbers; null is a row without
    a usable id.

    ``source``: the whole texts, which may not be UTF-8; ``found``: the parts of them that should be
    the ids.
    """

    keys: pa.Array | None
    numbers: pa.Array
    source: pa.Array
    found: pa.Array


def translated(pattern: str) -> str | None:
    r"""Return a pattern in RE2's syntax, its groups named g1 and g2; ``None`` if RE2 might read it
    differently.

    >>> translated(r"^(\d+) ")
    '^(?P<g1>\\d+) '
    >>> translated(r"(?<=a)(\d+)") is None
    True
    """
    body, anchored = (pattern[1:], "^") if pattern.startswith("^") else (pattern, "")
    end = ""
    if body.endswith("$") and not body.endswith("\\$"):
        body, end = body[:-1], AT_THE_END
    parts, at, groups = [anchored], 0, 0
    while at < len(body):
        token = TOKEN.match(body, at)
        if token is None or (token["bar"] and (anchored or end)):
            return None
        text = token[0]
        if token["open"] == "(":
            groups += 1
            text = f"(?P<g{groups}>"
        elif token["atom"] and text.startswith("."):
            text = f"[^{LINE_ENDS}]{text[1:]}"
        parts.append(text)
        at = token.end()
    try:
        pc.extract_regex(pa.array([""]), "".join([*parts, end]))
    except pa.ArrowInvalid:
        return None
    return "".join([*parts, end])


def reader_of(side: Rows) -> Callable[[Records], Columns] | None:
    """Return a function that reads the ids of a topic's records; ``None`` if only Spark can (own
    payloads, odd patterns).
    """
    word, _, path = side.id.partition(":")
    if word == "json":
        return _json_reader_of(side, path)
    picks = [_picked(name) for name in (side.id, side.key) if name is not None]
    reading = reading_of(side)
    if None in picks or reading is None:
        return None
    value = picks[0]
    keyed = picks[1] if side.key is not None else None

    def columns(records: Records) -> Columns:
        return reading(value(records), None if keyed is None else keyed(records))  # type: ignore[misc]

    return columns


def reading_of(side: Rows) -> Callable[[pa.Array, pa.Array | None], Columns] | None:
    """Return a function that reads the ids in texts (and the keys beside them); ``None`` for a
    pattern that only Spark reads.

    A row whose key is not UTF-8 (or whose text is not, if a pattern finds the key in it) has no
    usable id: U+FFFD replaces all bad bytes alike, so two keys could become one.
    """
    pattern = None if side.pattern is None else translated(side.pattern)
    groups = 0 if side.pattern is None else re.compile(side.pattern).groups
    if side.pattern is not None and pattern is None:
        return None

    def columns(source: pa.Array, keys: pa.Array | None) -> Columns:
        text, sound = tidy(source)
        if pattern is not None:
            found = pc.extract_regex(text, pattern)
            text = pc.struct_field(found, f"g{groups}")
            if groups > 1:
                keys = pc.struct_field(found, "g1")
                return Columns(keys, _where(whole(text), sound), source, text)
        keys, sound = (None, None) if keys is None else tidy(keys)
        return Columns(keys, _where(whole(text), sound), source, text)

    return columns


def numbered(numbers: pa.Array, keys: pa.Array | None) -> Columns:
    """Return the ids in a column of whole numbers, with the keys beside them."""
    tidied, sound = (None, None) if keys is None else tidy(keys)
    return Columns(tidied, _where(bounded(numbers), sound), numbers, numbers)


def _where(numbers: pa.Array, sound: pa.Array | None) -> pa.Array:
    return numbers if sound is None else pc.if_else(sound, numbers, pa.scalar(None, pa.int64()))


def _json_reader_of(side: Rows, path: str) -> Callable[[Records], Columns] | None:
    """Return a function that reads ids in JSON values; the key is the record's, or in a header."""
    from harness.audit.json_ids import json_reader  # noqa: PLC0415 - for JSON only

    find = json_reader(path)
    keyed = None if side.key is None else _picked(side.key)
    if find is None or side.pattern is not None or (side.key is not None and keyed is None):
        return None

    def columns(records: Records) -> Columns:
        source = records.value()
        found = find(source)
        keys, sound = (None, None) if keyed is None else tidy(keyed(records))
        numbers = bounded(found) if pa.types.is_integer(found.type) else whole(found)
        return Columns(keys, _where(numbers, sound), source, found)

    return columns


def plain_reader_of(side: Rows) -> Callable[[Records], pa.Array | None] | None:
    """Return a fast function for ids that are whole keys or values, without a pattern or a key
    beside them; else ``None``.

    It returns the same numbers as :func:`reader_of`, five times as fast, or ``None`` if one value
    is no plain number.
    """
    if side.id not in {"key", "value"} or side.key is not None or side.pattern is not None:
        return None

    def numbers(records: Records) -> pa.Array | None:
        found = plain_numbers(records.data, *records.column(side.id))
        return None if found is None else arrow_ints(found)

    return numbers


def plain_numbers(data: Octets, at: Ints, length: Ints) -> Ints | None:
    """Read slices of ``data`` as whole numbers, all at once; ``None`` if one of them has not only
    digits, or is above the limit.

    >>> plain_numbers(b"xx0000000000000000000742", np.array([2, 22]), np.array([22, 2])).tolist()
    [742, 42]
    """
    if not len(at):
        return np.zeros(0, dtype=np.int64)
    view, least, width = np.frombuffer(data, dtype=np.uint8), int(length.min()), int(length.max())
    begin = at + (length - width)
    if least < 1 or width > WIDEST or int(begin.min()) < 0:
        return None
    windows = np.lib.stride_tricks.as_strided(
        view, (len(view) - width + 1, width), (1, 1), writeable=False
    )
    digits = windows[begin] - ord("0")
    if least != width:
        digits[np.arange(width) < (width - length)[:, None]] = 0
    if int(digits.max()) > 9:  # noqa: PLR2004 - what is below "0" has become a great number
        return None
    used = np.flatnonzero(digits.any(axis=0))
    first = int(used[0]) if len(used) else width - 1
    if width - first > DIGITS:
        return None
    numbers = digits[:, first].astype(np.int64)
    for column in range(first + 1, width):
        numbers *= 10
        numbers += digits[:, column]
    return numbers if int(numbers.max()) < NUMBERS else None


def _picked(name: str) -> Callable[[Records], pa.Array] | None:
    word, _, rest = name.partition(":")
    if word == "header" and rest:
        return lambda records: records.header(rest)
    if name == "value":
        return lambda records: records.value()
    if name == "key":
        return lambda records: records.key()
    return None


def tidy(texts: pa.Array) -> tuple[pa.Array, pa.Array | None]:
    """Return texts as UTF-8, and which of them were UTF-8 (``None``: all). Bad bytes become U+FFFD,
    as in Java.
    """
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        raw = as_bytes(texts)
    else:
        return texts, None
    tidied = [None if one is None else one.decode(errors="replace") for one in raw]
    return pa.array(tidied, pa.string()), pa.array([one is None or _is_utf8(one) for one in raw])


def _is_utf8(data: bytes) -> bool:
    return data.decode(errors="ignore").encode() == data


def as_bytes(texts: pa.Array) -> list[bytes | None]:
    """Return texts, or numbers as texts, as bytes."""
    if isinstance(texts, pa.DictionaryArray):
        texts = texts.dictionary_decode()
    if not pa.types.is_string(texts.type) and not pa.types.is_large_string(texts.type):
        texts = pc.cast(texts, pa.string())
    kind = pa.binary() if pa.types.is_string(texts.type) else pa.large_binary()
    return list(texts.view(kind).to_pylist())


def whole(texts: pa.Array) -> pa.Array:
    """Return the ids in texts: digits, with zeros before and a line's end after them permitted;
    null for any other text.
    """
    plain = pc.and_(
        pc.ascii_is_decimal(texts), pc.less_equal(pc.binary_length(texts), AS_THEY_STAND)
    )
    if not pc.all(plain, min_count=0).as_py() or texts.null_count:
        texts = pc.struct_field(
            pc.extract_regex(texts, f"^0*(?P<n>[0-9]{{1,{DIGITS}}}){AT_THE_END}"), "n"
        )
    return bounded(pc.cast(texts, pa.int64()))


def bounded(numbers: pa.Array) -> pa.Array:
    """Return whole numbers of any type as int64; null for one that is out of range."""
    above = pa.scalar(NUMBERS, pa.uint64() if numbers.type == pa.uint64() else pa.int64())
    fits = pc.and_(pc.greater_equal(numbers, pa.scalar(0, above.type)), pc.less(numbers, above))
    if not pc.all(fits, min_count=0).as_py() or numbers.null_count:
        numbers = pc.if_else(fits, numbers, pa.scalar(None, numbers.type))
    return pc.cast(numbers, pa.int64())


# --- what is no id --------------------------------------------------------------------------------


def unread(side: Rows, source: bytes | None, found: str | None, place: str = "") -> Unread:
    """Say why a row has no usable id, and what its text is. ``found``: the text in the place of the
    id.

    >>> from harness.audit.spec import parse
    >>> print(unread(parse("parquet:out"), b"+7", "+7", "a.parquet:3"))
    '+7' (it has a sign, at a.parquet:3)
    """
    return Unread(quoted(source), _why(side, source, found), place)


def quoted(data: bytes | None) -> str:
    r"""Return some bytes for a report: quoted, escaped, shortened; as a bytes literal if they are
    not UTF-8.

    >>> print(quoted(b"a\n"), quoted("\uff17".encode()), quoted(b"\xff"), quoted(None))
    'a\n' '\uff17' b'\xff' null
    >>> quoted(b"x" * 41)[-20:]
    "xxxx'... of 41 bytes"
    """
    if data is None:
        return "null"
    try:
        text: str | bytes = data.decode()
    except UnicodeDecodeError:
        text = data
    some = ascii(text[:SHOWN_CHARACTERS])
    return some if len(text) <= SHOWN_CHARACTERS else f"{some}... of {len(data)} bytes"


def _why(side: Rows, source: bytes | None, found: str | None) -> str:
    if source is None:
        return "the value is missing"
    if side.id.split(":")[0] == OURS:
        if not source.startswith(f"{OURS} ".encode()):
            return "it is not one of lostack's messages"
        if found is None:
            return "it is one of lostack's messages, but damaged"
    if side.pattern is not None and not found:
        return "the pattern finds no number in it"
    if found is None:
        return f"there is no value at {side.id.partition(':')[2]}"
    return _why_no_id(found, utf8=_is_utf8(source))


def _why_no_id(text: str, *, utf8: bool) -> str:
    number = ID.fullmatch(text)
    if number is not None and int(number[1]) < NUMBERS:
        return "its key is not UTF-8"
    if TOO_GREAT.fullmatch(text):
        return f"it is above {NUMBERS - 1}"
    bare = text.strip()
    reasons = {
        "it is empty": not text,
        "it has a sign": re.fullmatch("[+-][0-9]+", text),
        "it has white space around it": bare != text and re.fullmatch("[+-]?[0-9]*", bare),
        "its digits are not 0 to 9": bare.isdecimal(),
        "it is not UTF-8": not utf8,
    }
    return next((why for why, holds in reasons.items() if holds), "it is no whole number")
