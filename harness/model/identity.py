"""Where a foreign record carries its id: how wire, log and sink recognise a record that is not in
lostack's format.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from harness.model.failures import CellFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

ANYWHERE = "anywhere"
"""In the value, else in the key, else in a header."""
WHOLE = "whole"
"""No id is looked for: the record itself, as :func:`whole` tells it, is its id."""
HEADER = "header:"
REGISTRY = "registry"
"""The kind of schema that a schema registry keeps."""


class IdentityError(ValueError):
    """A place or a pattern with which no id can be found. The message is one line."""


class UnreadValueError(CellFailure):
    """A value cannot be read now, so its record's id is unknown. The message, one
    line, says why.
    """


READERS: dict[str, Callable[[ValueSchema], Callable[[bytes], str | None]]] = {}
"""By the kind of schema: a function that makes the reader of such values. :mod:`harness.values`
fills it.
"""
WHY_UNREAD: dict[str, Callable[[ValueSchema, bytes], str | None]] = {}
"""By the kind of schema: a function that says why a value cannot be read. Not every
kind has one.
"""


@dataclass(frozen=True, slots=True)
class ValueSchema:
    """The schema of values that are not plain text.

    ``kind``: ``avro``, ``protobuf`` or ``registry``. ``text``: the schema itself; of a registry,
    its URL. ``message``: the full name of the message type, if the schema has several. ``cell``:
    the cell that asks the registry; in another cell the same ids may mean other schemas.
    ``username``: the user who logs in to the registry. ``password_from``: where
    :func:`harness.values.secret.read_secret` finds the password.
    """

    kind: str
    text: str
    message: str = ""
    cell: str = ""
    username: str = ""
    password_from: str = ""


@dataclass(frozen=True, slots=True)
class Identity:
    """Where a record's id is found."""

    pattern: str = r"[\s\S]+"
    """A regular expression. The id is what its group matches; without a group, what all of it
    matches.
    """
    where: str = ANYWHERE
    """``anywhere`` (in the value, else in the key, else in a header), ``value``, ``key``,
    ``header:NAME`` or ``whole``. The key counts only where there is a value.
    """
    json: str = ""
    """A dotted path into a JSON text. ``pattern`` is then applied to what stands there."""
    schema: ValueSchema | None = None
    """The schema of values that are not plain text, or the registry that has it. Such values are
    first turned into JSON.
    """

    def __post_init__(self) -> None:
        if self.where not in (ANYWHERE, WHOLE, "value", "key") and not self.where.startswith(
            HEADER
        ):
            raise IdentityError(
                f"an id cannot be in {self.where!r}: it is in anywhere, value, key or header:NAME"
            )
        try:
            compiled = _compiled(self.pattern)
        except re.error as error:
            raise IdentityError(
                f"id: pattern: {self.pattern!r} is no regular expression: {error}"
            ) from error
        if compiled.groups > 1:
            raise IdentityError(
                f"{self.pattern!r} has {compiled.groups} groups: the id is the first one; make "
                "the others (?:…)"
            )

    def find(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Iterable[tuple[str, bytes | None]] = (),
    ) -> str | None:
        """Return the id of a record in a log, or ``None`` if it carries none.

        Raises:
            UnreadValueError: the schema of its value is in a registry, which does not answer.
        """
        if self.where == WHOLE:
            return whole(key, value, headers)
        texts = self._places(key, value, headers)
        return next((found for text in texts if (found := self.in_text(text)) is not None), None)

    def find_every(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Iterable[tuple[str, bytes | None]] = (),
    ) -> tuple[str, ...]:
        """Return every id of a record in a log: all ids in the text (value, key or header) in which
        :meth:`find` finds one.
        """
        if self.where == WHOLE:
            return (whole(key, value, headers),)
        return next(
            (found for text in self._places(key, value, headers) if (found := self.every(text))), ()
        )

    def _places(
        self, key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]]
    ) -> Iterator[str | None]:
        """Yield the texts of a record in which its id may be. The key of a record without a value
        is none: that is a tombstone, which deletes what was there under the key.
        """
        if self.where in (ANYWHERE, "value"):
            yield self._of_value(value)
        if self.where in (ANYWHERE, "key") and value is not None:
            yield _text(key)
        yield from (
            _text(data) for name, data in headers if self.where in (ANYWHERE, HEADER + name)
        )

    def _of_value(self, value: bytes | None) -> str | None:
        """Return a value as text. With a schema: as JSON, or ``None`` if the value does not have
        that schema.
        """
        if self.schema is None or value is None:
            return _text(value)
        return _reader(self.schema)(bytes(value))

    def why_unread(self, value: bytes | None) -> str | None:
        """Say why a value cannot be read with the schema whose id it contains, or
        return ``None``.
        """
        told = WHY_UNREAD.get(self.schema.kind) if self.schema else None
        return (
            told(self.schema, bytes(value)) if told and self.schema and value is not None else None
        )

    def check_schema(self) -> None:
        """Raise an error of the schema's reader if the schema itself is wrong."""
        if self.schema is not None:
            _reader(self.schema)

    def in_text(self, text: str | None) -> str | None:
        """Return the id in a text: a value, a key, a row of a sink."""
        if text is None:
            return None
        if self.json:
            text = _at_path(text, self.json)
            if text is None:
                return None
        match = _compiled(self.pattern).search(text)
        return None if match is None else match.group(match.re.groups)

    def every(self, text: str | None) -> tuple[str, ...]:
        r"""Return every id in a text, each once. The first is the id that :meth:`in_text` returns.

        >>> Identity(r"k-\d+").every("k-1, k-2 and k-1 again")
        ('k-1', 'k-2')
        """
        at = _at_path(text, self.json) if self.json and text is not None else text
        found = (
            []
            if at is None
            else [match.group(match.re.groups) for match in _compiled(self.pattern).finditer(at)]
        )
        return tuple(dict.fromkeys(each for each in found if each is not None))

    def to_json(self) -> dict[str, object]:
        """Return plain values."""
        return asdict(self)

    @staticmethod
    def from_json(plain: Mapping[str, Any]) -> Identity:
        """Build an identity from what :meth:`to_json` returned."""
        schema = plain.get("schema")
        return Identity(**{**plain, "schema": None if schema is None else ValueSchema(**schema)})


MOST_WHOLE: Final = 4096
"""Characters of a value that stand in a whole record; of a longer one only its short fields."""
MOST_FIELD: Final = 256


def whole(
    key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]] = ()
) -> str:
    """Return a record as JSON: its key, headers and value, as text. Bytes that are none are
    escaped, so that different records stay different.

    >>> whole(b"k", b"{}")
    '{"key": "k", "headers": {}, "value": "{}"}'
    """
    named = {name: _escaped(data) for name, data in headers}
    parts = {"key": _escaped(key), "headers": named, "value": whole_value(value)}
    return json.dumps(parts, ensure_ascii=False)


def whole_value(value: bytes | None) -> str | None:
    """Return a value as it stands in a whole record."""
    text = _escaped(value)
    return text if text is None or len(text) <= MOST_WHOLE else _shortened(text)


def _escaped(data: bytes | None) -> str | None:
    return None if data is None else bytes(data).decode("utf-8", "backslashreplace")


def _shortened(text: str) -> str:
    digest = hashlib.sha256(text.encode()).hexdigest()
    try:
        fields = json.loads(text)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        return f"{text[:MOST_FIELD]}… sha256 {digest}"
    short = {name: each for name, each in fields.items() if len(json.dumps(each)) <= MOST_FIELD}
    return json.dumps({**short, "sha256": digest}, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class RecordSelector:
    r"""Which whole record is meant: by its ``key``, its ``headers``, ``fields`` of its value (JSON;
    dotted path to value), or ``text`` in its value. All that is named must fit.

    >>> made = whole(b"k", b'{"order": 17}')
    >>> RecordSelector("k", fields={"order": 17}).fits(made), RecordSelector(text="18").fits(made)
    (True, False)
    """

    key: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    fields: dict[str, object] = field(default_factory=dict)
    text: str | None = None

    def fits(self, record: str) -> bool:
        """Say whether a record, as :func:`whole` tells it, is the wanted one."""
        try:
            found = json.loads(record)
            key, headers, value = found["key"], found["headers"], found["value"]
        except (ValueError, KeyError, TypeError):
            return False
        return (
            self.key in (None, key)
            and all(headers.get(name) == text for name, text in self.headers.items())
            and (self.text is None or self.text in (value or ""))
            and all(
                value is not None and _at_path(value, path) == _spelled(each)
                for path, each in self.fields.items()
            )
        )


def _spelled(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


@functools.lru_cache(maxsize=64)
def _reader(schema: ValueSchema) -> Callable[[bytes], str | None]:
    return READERS[schema.kind](schema)


@functools.lru_cache(maxsize=64)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _text(data: bytes | None) -> str | None:
    return None if data is None else bytes(data).decode("utf-8", "replace")


def _at_path(text: str, path: str) -> str | None:
    """Return the value at a dotted path of a JSON text, as text; ``None`` if there is no value.

    >>> _at_path('{"order": {"id": 17}}', "order.id")
    '17'
    """
    try:
        at = json.loads(text)
        for word in path.split("."):
            at = at[int(word)] if isinstance(at, list) else at[word]
    except (ValueError, KeyError, IndexError, TypeError):
        return None
    return _spelled(at)
