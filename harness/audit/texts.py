"""Ids in texts, a column at a time: what Spark's functions and Java's regular expressions find, found by Arrow and RE2.

A pattern that the two might read differently is not translated: then the id is Spark's work.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.audit.batches import Records
    from harness.audit.spec import Rows

DIGITS: Final = 13
LINE_ENDS: Final = r"\n\r\x{85}\x{2028}\x{2029}"
AT_THE_END: Final = rf"(?:\r\n|[{LINE_ENDS}])?\z"
"""Java's dollar: the end of the text, or of its last line."""
CLASS: Final = r"\[\^?(?:[A-Za-z0-9 _.,:;/#@+=-]|\\[dw.\-])+\]"
ATOM: Final = rf"(?:{CLASS}|[A-Za-z0-9 _,:;/#@=\"'<>%&~`!-]|\\[dw.\-\[\](){{}}|+*?^$/]|\.)"
TIMES: Final = r"(?:[+*?]\??|\{\d{1,3}(?:,\d{0,3})?\})?"
TOKEN: Final = re.compile(rf"(?P<open>\((?:\?:)?)|(?P<close>\){TIMES})|(?P<bar>\|)|(?P<atom>{ATOM}{TIMES})")


class Columns(NamedTuple):
    """What a side says of its rows: the keys (None: it has none), and the numbers; null is a row without a usable id."""

    keys: pa.Array | None
    numbers: pa.Array


def translated(pattern: str) -> str | None:
    r"""Return a pattern in RE2's words, its groups named g1 and g2; None where that might be another pattern.

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
    """Return what reads the ids of a topic's records, or None where that is Spark's work (JSON, our payloads, a pattern)."""
    picks = [_picked(name) for name in (side.id, side.key) if name is not None]
    if None in picks:
        return None
    value = picks[0]
    keyed = picks[1] if side.key is not None else None
    pattern = None if side.pattern is None else translated(side.pattern)
    groups = 0 if side.pattern is None else re.compile(side.pattern).groups
    if side.pattern is not None and pattern is None:
        return None

    def columns(records: Records) -> Columns:
        text = tidy(value(records))  # type: ignore[misc]
        keys = None if keyed is None else tidy(keyed(records))
        if pattern is not None:
            found = pc.extract_regex(text, pattern)
            if groups > 1:
                keys = pc.struct_field(found, "g1")
            text = pc.struct_field(found, f"g{groups}")
        return Columns(keys, whole(text))

    return columns


def _picked(name: str) -> Callable[[Records], pa.Array] | None:
    word, _, rest = name.partition(":")
    if word == "header" and rest:
        return lambda records: records.header(rest)
    if name == "value":
        return lambda records: records.value()
    if name == "key":
        return lambda records: records.key()
    return None


def tidy(texts: pa.Array) -> pa.Array:
    """Return texts as UTF-8: what is none becomes U+FFFD, as in Java."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        raw = texts.view(pa.binary()).to_pylist()
        return pa.array([None if one is None else one.decode(errors="replace") for one in raw], pa.string())
    return texts


def whole(texts: pa.Array) -> pa.Array:
    """Return the whole numbers of 1 to DIGITS digits that texts are (a line's end behind them is none of it), or null."""
    fits = pc.and_(pc.ascii_is_decimal(texts), pc.less_equal(pc.binary_length(texts), DIGITS))
    if not pc.all(fits, min_count=0).as_py() or texts.null_count:
        texts = pc.struct_field(pc.extract_regex(texts, f"^(?P<n>[0-9]{{1,{DIGITS}}}){AT_THE_END}"), "n")
    return pc.cast(texts, pa.int64())
