"""Read a pipeline's results at rest: every row as text, in order. A reader never changes what it
reads.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import re
import sqlite3
import subprocess
import threading
from pathlib import Path
from stat import S_ISREG
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

from harness.model.failures import CellFailure
from harness.pipelines.braces import fill
from harness.pipelines.outputs import OutputKind
from harness.pipelines.refusing import DeclarationError
from harness.tables.delta import DeltaTable
from harness.tables.errors import TableError
from harness.tables.iceberg import IcebergTable
from harness.tables.parquet import read_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from harness.pipelines.outputs import Output

COMMAND_S = 60.0
TABLES: Final[Mapping[OutputKind, Callable[[Path], DeltaTable | IcebergTable]]] = {
    OutputKind.DELTA: DeltaTable,
    OutputKind.ICEBERG: IcebergTable,
}
RENAMED = 5
"""How often all files are read at most, if one of them is gone each time."""
BESIDE = 3
"""How many names a message shows of what is there where no file matches."""
ESCAPED = re.compile(r"\[([*?[])\]")
"""A character that :func:`glob.escape` has escaped."""
LINE_END = 0
"""Stands among the numbers of a row's empty columns for the end of its line."""
LAST = 3
"""How many of a failed command's last lines a message shows."""


class OutputError(CellFailure):
    """An output cannot be read; the text is one line."""


class Row(str):
    """A row of an output: its columns as text, joined by blanks, or a line. ``columns``: the values
    by the names that a table gives them; none for a row of a query, which selects what has the id.
    ``empty``: the numbers of its null columns, from 1, if the row may be there before all of it is
    written, or :data:`LINE_END`. ``place``: what has its own order, such as a file; "": unknown.
    """

    __slots__ = ("columns", "empty", "place")
    columns: Mapping[str, Any]
    empty: frozenset[int]
    place: str

    @classmethod
    def _of(
        cls,
        text: str,
        columns: Mapping[str, Any] = MappingProxyType({}),
        empty: Iterable[int] = (),
        place: str = "",
    ) -> Row:
        found = cls(text)
        found.columns, found.empty, found.place = columns, frozenset(empty), place
        return found

    @classmethod
    def of(cls, columns: Mapping[str, Any]) -> Row:
        """Make a row of a table, which is there whole or not at all."""
        return cls._of(" ".join(map(_text, columns.values())), columns)

    @classmethod
    def of_query(cls, values: Sequence[Any]) -> Row:
        """Make a row of a query's values."""
        empty = (number for number, value in enumerate(values, start=1) if value is None)
        return cls._of(" ".join(map(_text, values)), empty=empty)

    @classmethod
    def of_line(cls, line: str, place: str, *, ends: bool = True) -> Row:
        """Make a line of a file, or a copy of a topic's partition. ``ends``: whether something ends
        the line.
        """
        return cls._of(line, empty=() if ends else (LINE_END,), place=place)

    @property
    def json(self) -> str:
        """The row as JSON: its values by the names of their columns."""
        return json.dumps(self.columns, default=_text)


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


class Columns:
    """Remembers which columns of a pipeline's output were empty in a run without a fault. Safe to
    use from several threads.

    If a column was never empty in that run, a row in which it is empty is unfinished: a program is
    still writing the row, or died before it finished.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._empty: dict[str, frozenset[int]] = {}

    def learn(self, pipeline: str, rows: Iterable[str]) -> None:
        """Learn from the results of a run without a fault."""
        empty = frozenset(number for row in rows for number in empty_in(row))
        with self._lock:
            self._empty[pipeline] = empty | self._empty.get(pipeline, frozenset())

    def lacking(self, pipeline: str, row: str) -> frozenset[int]:
        """Return the columns that are empty in a row and never were without a fault; nothing if no
        such run is known.
        """
        with self._lock:
            known = self._empty.get(pipeline)
        return frozenset() if known is None else empty_in(row) - known


def empty_in(row: str) -> frozenset[int]:
    """Return the numbers of a row's empty columns; nothing for a text without columns."""
    return row.empty if isinstance(row, Row) else frozenset()


class Results(Protocol):
    """The interface of a reader of a pipeline's results."""

    def size(self) -> Any:
        """Return a value that changes while results arrive.

        Raises:
            OutputError: the output cannot be read.
        """

    def rows(self) -> Sequence[str]:
        """Return every result as text.

        Raises:
            OutputError: the output cannot be read.
        """


def results_of(output: Output, values: Mapping[str, object], directory: Path, log: Path) -> Results:
    """Return the reader of an output. ``log``: the file of what the last stage prints.

    Raises:
        DeclarationError: the output is a topic, which the observer reads.
    """
    path = directory / fill(output.file, values)
    literal = {name: glob.escape(str(value)) for name, value in values.items()}
    pattern = str(Path(glob.escape(str(directory))) / fill(output.file, literal))
    match output.kind:
        case OutputKind.SQLITE:
            return Sqlite(path, output.query)
        case OutputKind.LINES:
            return Lines(pattern)
        case OutputKind.PARQUET:
            return Parquet(pattern)
        case OutputKind.DELTA | OutputKind.ICEBERG:
            return Table(TABLES[output.kind](path))
        case OutputKind.STDOUT:
            return Lines(glob.escape(str(log)))
        case OutputKind.COMMAND:
            return Command(tuple(fill(word, values) for word in output.command), directory)
        case OutputKind.TOPIC:
            raise DeclarationError("a topic is read by the observer")


@contextlib.contextmanager
def _reading(file: str) -> Iterator[None]:
    """Raise an :class:`OutputError` if a file that is there cannot be read."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise OutputError(
            f"cannot read {file}: {error.strerror}; lostack must be able to read every file of the "
            "output"
        ) from error


class Files:
    """The files that match a glob."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern

    def files(self) -> list[Path]:
        """Return the files, in the order of their names; a file that has several, such as a link to
        the newest one, by its first.

        Raises:
            OutputError: a file cannot be read.
        """
        return [*self._found()]

    def size(self) -> Any:
        """Return the names, sizes and modification times of the files.

        Raises:
            OutputError: a file cannot be read.
        """
        return tuple(
            (str(file), stat.st_size, stat.st_mtime_ns) for file, stat in self._found().items()
        )

    def why_empty(self) -> str:
        """Say why there is no row: no file matches, or what does is empty."""
        if self.files():
            return "it is empty"
        beside = sorted(Path(name).name for name in glob.glob(f"{Path(self._pattern).parent}/*"))  # noqa: PTH207
        names = ", ".join(map(repr, beside[:BESIDE])) + (", …" if len(beside) > BESIDE else "")
        return f"no file matches {self._told}{f'; its folder has {names}' if names else ''}"

    @property
    def _told(self) -> str:
        """The pattern without escapes, for messages."""
        return ESCAPED.sub(r"\1", self._pattern)

    def _found(self) -> dict[Path, os.stat_result]:
        found: dict[str, tuple[Path, os.stat_result]] = {}  # a link shows what is there anyway
        for name in sorted(glob.glob(self._pattern, recursive=True)):  # noqa: PTH207
            # a journal, or a temporary file that was just renamed, may be gone
            with contextlib.suppress(FileNotFoundError), _reading(name):
                stat = Path(name).stat()
                if S_ISREG(stat.st_mode):
                    found.setdefault(os.path.realpath(name), (Path(name), stat))
        return dict(found.values())


def _lines_of(data: bytes) -> list[str]:
    """Return the lines of a text. Only a line feed ends one: JSON may hold other separators."""
    lines = data.decode("utf-8-sig", "replace").split("\n")
    if not lines[-1]:
        del lines[-1]
    return [line.removesuffix("\r") for line in lines]


class Lines(Files):
    """The lines of text files."""

    def rows(self) -> Sequence[str]:
        """Return every line of every file.

        Raises:
            OutputError: a file cannot be read, or there is always one that has just gone.
        """
        for _ in range(RENAMED):
            with contextlib.suppress(FileNotFoundError):
                return [line for file in self.files() for line in self._lines_in(file)]
        raise OutputError(
            f"cannot read {self._told}: while lostack reads its files, one is always renamed or "
            "removed"
        )

    def _lines_in(self, file: Path) -> list[Row]:
        with _reading(str(file)):
            data = file.read_bytes()
        place, ended = str(file), data.endswith(b"\n")
        lines = [Row.of_line(line, place) for line in _lines_of(data)]
        if lines and not ended:
            lines[-1] = Row.of_line(lines[-1], place, ends=False)
        return lines


class Parquet(Files):
    """The rows of Parquet files."""

    def rows(self) -> Sequence[str]:
        """Return every row of every file, its columns joined.

        Raises:
            OutputError: a file cannot be read.
        """
        try:
            return [
                Row.of(row) for file in self.files() for row in read_rows(file, "the output")[1]
            ]
        except TableError as error:
            raise OutputError(str(error)) from error


class Table:
    """The rows of a table, as its log or its metadata say."""

    def __init__(self, table: DeltaTable | IcebergTable) -> None:
        self._table = table
        self._newest: object = ()
        self._contents: object = ()
        """What the version ``_newest`` has."""

    def size(self) -> object:
        """Return the table's columns and data files. A version with the same ones brings no row,
        such as those that Flink's sink commits now and then while nothing arrives. Of a table that
        cannot be read, return its newest version.
        """
        newest = self._table.newest()
        if newest != self._newest:
            try:
                self._contents = self._table.contents()
            except TableError:
                self._contents = newest
            self._newest = newest
        return self._contents

    def rows(self) -> Sequence[str]:
        """Return every row, its columns joined.

        Raises:
            OutputError: there is no table, or it cannot be read.
        """
        try:
            return [Row.of(row) for row in self._table.rows()]
        except TableError as error:
            raise OutputError(str(error)) from error

    def why_missing(self) -> str:
        """Say why a table that was written to lacks rows; "" if that is not known."""
        return self._table.why_missing() if isinstance(self._table, IcebergTable) else ""


class Sqlite:
    """The rows of a SQLite query, over a read-only connection."""

    def __init__(self, file: Path, query: str) -> None:
        self._file = file
        self._query = query

    def size(self) -> Any:
        """Return the sizes and modification times of the database and its journals."""
        return Files(f"{glob.escape(str(self._file))}*").size()

    def rows(self) -> Sequence[str]:
        """Return the columns of each row, joined.

        Raises:
            OutputError: the file does not exist, or the query fails.
        """
        if not self._file.exists():
            raise OutputError(f"the output {self._file} does not exist: no program made it")
        try:
            connection = sqlite3.connect(f"{self._file.as_uri()}?mode=ro", uri=True)
            try:
                return [Row.of_query(row) for row in connection.execute(self._query)]
            finally:
                connection.close()
        except sqlite3.Error as error:
            raise OutputError(
                f"cannot read {self._file}: {error}; the query is: {self._query}"
            ) from error


class Command:
    """The lines that a command prints."""

    def __init__(self, argv: tuple[str, ...], directory: Path) -> None:
        self._argv = argv
        self._directory = directory

    def size(self) -> Any:
        """Return what the command prints: another value means that results arrived."""
        return tuple(self.rows())

    def rows(self) -> Sequence[str]:
        """Return the lines that the command prints.

        Raises:
            OutputError: the command cannot be run, fails, or does not end.
        """
        try:
            done = subprocess.run(
                self._argv,
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=COMMAND_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise OutputError(
                f"the output's command {self._argv[0]!r} did not end in {COMMAND_S:g} s"
            ) from error
        except OSError as error:
            raise OutputError(
                f"the output's command {self._argv[0]!r} did not run: {error}"
            ) from error
        if done.returncode:
            told = (done.stderr or done.stdout).decode("utf-8", "replace").splitlines()
            said = [line.strip() for line in told if line.strip()][-LAST:]
            raise OutputError(
                f"the output's command {self._argv[0]!r} ended with status {done.returncode}: "
                f"{' | '.join(said)}"
            )
        return _lines_of(done.stdout)
