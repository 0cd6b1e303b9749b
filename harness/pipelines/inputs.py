"""The input of a declared pipeline: how the records are offered to it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final
from urllib.parse import urlsplit

from harness.pipelines.braces import LINES, PLACES, check_places, fill, places
from harness.pipelines.refusing import DeclarationError

DEFAULT_LINE = '{"id": "{id}", "key": "{key}", "position": {position}}'
"""The line that offers a record if the declaration has no ``line``."""
URL = re.compile(r"http://(127\.0\.0\.1|localhost|\[::1\]):(\{port\}|[0-9]{1,5})([/?].*)?")
"""The form of an input's url: on this machine, with a port."""
TABLE: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?")
"""The form of a table's name."""
MOST_TOPICS: Final = 4
"""As many keys as a load has at least: each topic gets the records of some."""
MOST_WRITERS: Final = 16
TABLES_WRITERS: Final = 4
"""How many transactions are open at once by default."""


class InputKind(StrEnum):
    """How the records are offered."""

    STDIN = "stdin"
    """Lines, one a record, to the producer's standard input, at a steady rate."""
    FILE = "file"
    """A file of lines, whole from the start, whose path is ``{input}``."""
    HTTP = "http"
    """One POST a record to the producer's ``url``. An answer of 2xx means that the producer has
    taken the record over.
    """
    TABLE = "table"
    """lostack inserts them as rows into a ``table`` of PostgreSQL, from which the producer reads:
    an outbox. Its transactions overlap.
    """
    TOPIC = "topic"
    """lostack produces them into a topic: for a pipeline that begins with a consumer."""
    OWN = "own"
    """The producer makes the ``records`` itself. ``line`` says what the id of each looks like."""


DRAFTED: Final = tuple(kind for kind in InputKind if kind is not InputKind.TABLE)
"""The kinds that ``lostack init`` proposes: it knows no table."""


class Resend(StrEnum):
    """What a restarted producer is offered again, by standard input or HTTP."""

    UNACKNOWLEDGED = "unacknowledged"
    """Every line that the producer was given and that is not acknowledged (by the broker; for HTTP,
    by itself), then the rest.
    """
    NONE = "none"
    """Only the lines that the producer was not given yet. Lines that it had when it
    died are gone.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """How the records are offered."""

    kind: InputKind = InputKind.STDIN
    """How the records reach the producer."""
    line: str = DEFAULT_LINE
    """One record as text, with ``{id}``, ``{key}``, ``{position}``, and ``{amount}``: what an
    ``[aggregate]`` sums up.
    """
    rate: float | None = None
    """Records a second, of kinds stdin, http, table and topic. By default 50, or more where there
    are many records.
    """
    resend: Resend | None = None
    """Which records a restarted producer is given again. By default ``unacknowledged``, but
    ``none`` for at-most-once.
    """
    topic: str = ""
    """For kind topic: the topic into which lostack produces the records."""
    topics: tuple[str, ...] = ()
    """For kind topic, instead of ``topic``: several topics, 2 to 4, that share the records by their
    keys. Each failure point is then tried with a record of each.
    """
    writers: int | None = None
    """For kinds http and table: how many records are under way at once, each in a POST or a
    transaction of its own: 1 to 16. By default 1 for http, and 4 for table.
    """
    database: str = ""
    """For kind table: the database, as ``postgresql://shop@127.0.0.1:{db.port}/shop``."""
    table: str = ""
    """For kind table: the table's name, or ``schema.name``. ``line`` is a JSON object then, whose
    members are the columns that lostack fills.
    """
    url: str = ""
    """For kind http: where the producer listens, on this machine. ``{port}``, here and in its
    command, is a free port.
    """
    header: str = ""
    """A first line that is not a record, as in a CSV file. A restarted producer gets it again on
    standard input.
    """

    def __post_init__(self) -> None:
        if self.header and self.kind not in {InputKind.FILE, InputKind.STDIN}:
            raise DeclarationError(
                f"input: header has no meaning for kind {self.kind}: leave it out (it is the "
                "first line of kinds file and stdin)"
            )
        if "\n" in self.header:
            raise DeclarationError("input: header must be one line, without a line break")
        check_places("input: line", self.line, LINES)
        check_places("input: url", self.url, PLACES)
        if self.rate is not None and self.rate <= 0:
            raise DeclarationError("input: rate must be above 0 (records a second)")
        if self.rate is not None and self.kind in {InputKind.FILE, InputKind.OWN}:
            raise DeclarationError(
                f"input: rate has no meaning for kind {self.kind}, which has no pace: leave it out"
            )
        if bool(self.url) != (self.kind is InputKind.HTTP):
            raise DeclarationError("input: kind http needs url, and other kinds must not have it")
        self._check_topics()
        self._check_table()
        self._check_writers()
        if self.url and not URL.fullmatch(self.url):
            raise DeclarationError(
                f"input: url {self.url!r} is not on this machine: write "
                f"http://127.0.0.1:{{port}}/..."
            )
        if self.kind is InputKind.OWN and self.line == DEFAULT_LINE:
            raise DeclarationError(
                "input: kind own needs line: what the id of a record looks like, e.g. "
                "order-{position}"
            )
        if "\n" in self.line or not {"id", "position"} & set(places(self.line)):
            raise DeclarationError(
                "input: line must hold {id} or {position}, so that records can be told apart, "
                "and no line break"
            )

    @property
    def into(self) -> tuple[str, ...]:
        """For kind topic: the topics into which lostack produces the records."""
        return self.topics or ((self.topic,) if self.topic else ())

    @property
    def at_once(self) -> int:
        """How many records are under way at once, at most."""
        return self.writers or (TABLES_WRITERS if self.kind is InputKind.TABLE else 1)

    @property
    def columns(self) -> tuple[str, ...]:
        """For kind table: the columns that lostack fills."""
        found: Any = json.loads(fill(self.line, dict.fromkeys(LINES, 1)))
        return tuple(found) if isinstance(found, dict) else ()

    def _check_topics(self) -> None:
        if self.kind is not InputKind.TOPIC:
            if name := next((n for n in ("topic", "topics") if getattr(self, n)), None):
                raise DeclarationError(
                    f"input: {name} has no meaning for kind {self.kind}: leave it out"
                )
            return
        if self.topic and self.topics:
            raise DeclarationError("input: topic and topics: write one of the two")
        if self.topics and not 1 < len(self.topics) <= MOST_TOPICS:
            raise DeclarationError(
                f"input: topics names {len(self.topics)}: write 2 to {MOST_TOPICS}, or topic for "
                "one alone"
            )
        if twice := next((each for each in self.topics if self.topics.count(each) > 1), None):
            raise DeclarationError(f"input: topics: {twice} is named twice: name each topic once")

    def _check_table(self) -> None:
        if self.kind is not InputKind.TABLE:
            if self.database or self.table:
                raise DeclarationError(
                    f"input: database and table have no meaning for kind {self.kind}: leave them "
                    "out"
                )
            return
        check_places("input: database", self.database, PLACES)
        at = urlsplit(self.database)
        if at.scheme not in {"postgresql", "postgres"}:
            raise DeclarationError(
                "input: kind table needs database, as postgresql://user@127.0.0.1:{db.port}/name"
            )
        if "@" in at.netloc and ":" in at.netloc.rpartition("@")[0]:
            raise DeclarationError(
                "input: database has a password: put it into PGPASSWORD, or into ~/.pgpass"
            )
        if not TABLE.fullmatch(self.table):
            raise DeclarationError(
                f"input: kind table needs table, a name or schema.name, not {self.table!r}"
            )
        try:
            columns = self.columns
        except ValueError:
            columns = ()
        if not columns:
            raise DeclarationError(
                f"input: kind table: line must be a JSON object whose members are columns of "
                f"{self.table}, not {self.line!r}"
            )

    def _check_writers(self) -> None:
        if self.writers is None:
            return
        if self.kind not in {InputKind.HTTP, InputKind.TABLE}:
            raise DeclarationError(
                f"input: writers has no meaning for kind {self.kind}: leave it out"
            )
        if not 1 <= self.writers <= MOST_WRITERS:
            raise DeclarationError(
                f"input: writers: {self.writers}; write a number from 1 to {MOST_WRITERS}"
            )
