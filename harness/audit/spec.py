r"""SPECs: the texts by which a command line names the sides of an audit.

::

    range:1-1000000                     numbers 1 to 1000000
    range:a=1-500,b=1-300               numbers per key
    kafka:localhost:9092/orders         a topic whose messages are lostack's
    kafka:…/orders#id=json:$.seq&key=key             the number in the JSON value, the key is the
        message key
    kafka:…/orders#id=header:seq                      … in a header;  id=value, id=key: the text is
        the number
    kafka:…/orders#id=value&pattern=^(\w+)-(\d+)$     a regular expression: one group is the number,
        two are key and number
    parquet:/data/out#id=seq&key=user                a file, a folder or a glob
    jdbc:postgresql://host/db#table=results&id=seq&user=me&password_from=DB_PASSWORD

An id is read from a column of whole numbers, or from a text of the digits 0 to 9. Zeros in front of
the number say nothing, however many there are (007 is 7), nor does one line's end behind it; the
number is at most 2⁴⁰ - 1. A text with a sign (+7, -0), white space, a fraction, an exponent, digits
of other scripts, or with nothing in it, a null, and a number beyond the limit are no ids: they can
be read by a ``pattern``, or not at all. In JSON a number and a text of digits are the same. A row
without a key (null) has the empty one; a key that is not UTF-8 makes the row unreadable, for two of
them could not be told apart.

Rows that cannot be read as an id are counted as that, and as nothing else: they make the verdict
void, and the first three texts are shown. A few that are known of can be stated (``unreadable=3``):
up to so many of that side are then left aside. A message of lostack's (its first word says so) with
a wrong checksum is *damaged*, and that is a phantom; one that was offered is unreadable.

Behind ``#`` stand options: ``id``, ``key``, ``pattern``, ``unreadable``, and

- ``order``: a column that says in which order rows were recorded; without it ``reordered`` is not
  counted (a topic's offsets say it);
- ``partition``, ``offset``: columns with the log copy that a row was made from; without them nobody
  can say whether a duplicate was stored twice or recorded twice (in a topic, every copy was
  stored);
- ``kafka.*``: settings of Spark's Kafka reader, such as ``kafka.security.protocol``; with one of
  them the topic is read by that reader on Spark, and so are our payloads, paths in JSON beyond
  names, and patterns beyond plain ones (look-around, flags): slower;
- ``table``, ``user``, ``password_from``, ``driver``, ``readers`` (parallel connections, by ranges
  of a numeric ``id``): JDBC's. ``password_from`` is the name of an environment variable, or a file
  with a / in it (``./password``), whose first line is the password. ``password=`` itself works too,
  but every user of the machine can read a command line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import parse_qsl

from harness.audit.findings import Span
from harness.audit.pages import NUMBERS
from harness.model.failures import UsageError
from harness.values.secret import SecretError, place_of_secret, read_secret

if TYPE_CHECKING:
    from collections.abc import Mapping

COMMON: Final = ("id", "key", "pattern", "unreadable", "order", "partition", "offset")
OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "kafka": ("id", "key", "pattern", "unreadable"),
    "parquet": COMMON,
    "jdbc": (*COMMON, "table", "user", "password", "password_from", "driver", "readers"),
}
OURS: Final = "lostack"
RANGE: Final = re.compile(r"(?:([^=,]+)=)?([0-9]+)-([0-9]+)")
SECRETS: Final = re.compile(
    r"(?i)((?:password|secret|jaas\.config)=)[^&;#]*|(//[^/:@]+:)[^@/]+(?=@)"
)


class SpecError(UsageError):
    """A SPEC has a wrong form; the message says why, and what a right one looks like."""


@dataclass(frozen=True, slots=True)
class NumberedRange:
    """The numbers that were offered, by key."""

    text: str
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """A topic, Parquet files or a table. ``kind``: kafka, parquet or jdbc; ``at``: servers, path or
    URL.

    ``id`` and ``key`` name the fields of the number and the key; ``id`` is ``lostack`` (or
    ``lostack:COLUMN``) for payloads of :mod:`harness.model.record`. ``unreadable``: how many rows
    without a readable id are permitted. ``more``: settings for Spark's reader.
    """

    text: str
    kind: str
    at: str
    id: str
    topic: str = ""
    key: str | None = None
    pattern: str | None = None
    order: str | None = None
    partition: str | None = None
    offset: str | None = None
    table: str = ""
    readers: int = 1
    unreadable: int = 0
    more: Mapping[str, str] = field(default_factory=dict)

    @property
    def with_origin(self) -> bool:
        """Whether each row names the log copy from which it was made."""
        return self.partition is not None and self.offset is not None

    @property
    def ordered(self) -> bool:
        """Whether the order in which rows were recorded is known."""
        return self.kind == "kafka" or self.order is not None


Side: TypeAlias = NumberedRange | Rows


def parse(text: str) -> Side:
    """Read a SPEC.

    >>> parse("range:a=1-5").spans
    (Span(key='a', first=1, last=5),)
    >>> parse("kafka:localhost:9092/orders#id=header:seq").id
    'header:seq'

    Raises:
        SpecError: it is none.
    """
    kind, _, rest = text.partition(":")
    if kind == "range":
        return _range(text, rest)
    if kind not in OPTIONS:
        raise SpecError(
            f"{shown(text)!r} is no SPEC: it must begin with range:, kafka:, parquet: or jdbc: "
            "(lostack audit --help)"
        )
    at, _, tail = rest.partition("#")
    pairs = parse_qsl(tail.replace("+", "%2B"), keep_blank_values=True, strict_parsing=False)
    options = dict(pairs)
    more = (
        {name: value for name, value in options.items() if name.startswith("kafka.")}
        if kind == "kafka"
        else {}
    )
    unknown = [name for name in options if name not in OPTIONS[kind] and name not in more]
    if unknown or len(options) != len(pairs):
        raise SpecError(
            f"{shown(text)!r}: {', '.join(unknown) or 'an option twice'}; {kind} has: "
            f"{', '.join(OPTIONS[kind])}"
        )
    if options.get("pattern"):
        _check_pattern(text, options["pattern"])
    if ("partition" in options) != ("offset" in options):
        raise SpecError(f"{shown(text)!r}: give both partition= and offset=, or neither")
    given: dict[str, Any] = {
        name: options.get(name) or None
        for name in ("key", "pattern", "order", "partition", "offset")
    }
    given["unreadable"] = _number(text, options, "unreadable", 0, NUMBERS)
    if kind == "kafka":
        servers, slash, topic = at.rpartition("/")
        if not slash or not topic or not re.fullmatch(r"[^,/]+:\d+(,[^,/]+:\d+)*", servers):
            raise SpecError(f"{shown(text)!r}: the form of a topic is kafka:HOST:PORT/TOPIC")
        return Rows(text, kind, servers, options.get("id", OURS), topic=topic, more=more, **given)
    if kind == "parquet":
        if not at:
            raise SpecError(f"{shown(text)!r}: the path is missing; example: parquet:/data/out")
        return Rows(text, kind, at, options.get("id", "id"), **given)
    return _table(text, at, options, given)


def _table(text: str, at: str, options: Mapping[str, str], given: Mapping[str, Any]) -> Rows:
    if not options.get("table"):
        raise SpecError(
            f"{shown(text)!r}: the table is missing; example: jdbc:URL#table=results&id=seq"
        )
    readers = _number(text, options, "readers", 1, 1000)  # more connections serve nobody
    more = {name: options[name] for name in ("user", "password", "driver") if name in options}
    if place := options.get("password_from"):
        more["password"] = _secret(text, place, options)
    return Rows(
        text,
        "jdbc",
        f"jdbc:{at}",
        options.get("id", "id"),
        table=options["table"],
        readers=readers,
        more=more,
        **given,
    )


def _secret(text: str, place: str, options: Mapping[str, str]) -> str:
    """Return the password from its place. Raises :class:`SpecError` if it cannot be read."""
    if "password" in options:
        raise SpecError(f"{shown(text)!r}: give password_from= or password=, not both")
    try:
        return read_secret(place_of_secret(place, Path()))
    except SecretError as error:
        raise SpecError(f"password_from: {error}") from error


def _number(text: str, options: Mapping[str, str], name: str, least: int, most: int) -> int:
    """Return the number that an option is; the least one where it is not given."""
    given = options.get(name, str(least))
    if not re.fullmatch("[0-9]{1,18}", given) or not least <= int(given) <= most:
        raise SpecError(f"{shown(text)!r}: {name} must be a number from {least} to {most}")
    return int(given)


def _range(text: str, rest: str) -> NumberedRange:
    spans = []
    for word in rest.split(","):
        match = RANGE.fullmatch(word)
        if match is None:
            raise SpecError(
                f"{text!r}: the form of a range is range:1-1000 or range:a=1-500,b=1-300"
            )
        key, first, last = match.group(1) or "", int(match.group(2)), int(match.group(3))
        if first > last or last >= NUMBERS:
            raise SpecError(f"{text!r}: {word} must go upwards, within 0 to {NUMBERS - 1}")
        spans.append(Span(key, first, last))
    by_key = sorted(spans, key=lambda span: (span.key, span.first))
    for one, other in pairwise(by_key):
        if one.key == other.key and one.last >= other.first:
            raise SpecError(f"{text!r}: {one} and {other} overlap")
    return NumberedRange(text, tuple(by_key))


def _check_pattern(text: str, pattern: str) -> None:
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        raise SpecError(f"{shown(text)!r}: the pattern is no regular expression: {error}") from None
    if groups not in {1, 2}:
        raise SpecError(
            f"{shown(text)!r}: the pattern needs one group (the number) or two (key, number), "
            f"not {groups}"
        )


def shown(text: str) -> str:
    """Return a SPEC with its passwords replaced by ``***``.

    >>> shown("jdbc:postgresql://me:pw@host/db#table=t&password=pw")
    'jdbc:postgresql://me:***@host/db#table=t&password=***'
    """
    return SECRETS.sub(lambda match: f"{match.group(1) or match.group(2)}***", text)
