"""The declared output of a pipeline: where its results land."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from harness.pipelines.braces import (
    PLACES,
    check_places,
)
from harness.pipelines.refusing import DeclarationError, check_home, check_reads


class OutputKind(StrEnum):
    """Where the results land."""

    TOPIC = "topic"
    """A ``topic``, read with isolation level read_committed; every record is a result."""
    SQLITE = "sqlite"
    """A SQLite ``file`` and a ``query``; every row is a result."""
    LINES = "lines"
    """Text files by a glob in ``file`` (JSON lines, CSV, a log); every line that has an id is a
    result.
    """
    PARQUET = "parquet"
    """Parquet files by a glob in ``file``; every row is a result."""
    DELTA = "delta"
    """A Delta table in the folder ``file``, read by its log; every row is a result."""
    ICEBERG = "iceberg"
    """An Iceberg table of a Hadoop catalog in the folder ``file``, read by its metadata; every row
    is a result.
    """
    STDOUT = "stdout"
    """What the last stage prints; every line that has an id is a result."""
    COMMAND = "command"
    """What a ``command`` prints (psql, mongoexport, …); every line that has an id is a result."""


NEEDS: Final = {
    OutputKind.TOPIC: ("topic",),
    OutputKind.SQLITE: ("file", "query"),
    OutputKind.LINES: ("file",),
    OutputKind.PARQUET: ("file",),
    OutputKind.DELTA: ("file",),
    OutputKind.ICEBERG: ("file",),
    OutputKind.STDOUT: (),
    OutputKind.COMMAND: ("command",),
}
"""The options that each kind of output needs."""
EXTRAS: Final = {
    OutputKind.PARQUET: ("audit",),
    OutputKind.DELTA: ("audit",),
    OutputKind.ICEBERG: ("audit", "values"),
}
"""The extras whose libraries read an output; other kinds need none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Where the results land."""

    kind: OutputKind
    """The kind of the output."""
    topic: str = ""
    """For kind topic: its name, which must be among ``topics``."""
    file: str = ""
    """For kinds sqlite, lines and parquet: the file, or a glob of files; for kinds delta and
    iceberg: the table's folder.
    """
    query: str = ""
    """For kind sqlite: the query whose rows are the results."""
    command: tuple[str, ...] = ()
    """For kind command: the command that prints the results."""
    quiet_s: float = 1.0
    """For how many seconds the output must stay unchanged before a run is over."""

    def __post_init__(self) -> None:
        needs = NEEDS[self.kind]
        for name in needs:
            if not getattr(self, name):
                raise DeclarationError(f"output: kind {self.kind} needs {name}")
        for name, word in (("file", self.file), *(("command", word) for word in self.command)):
            check_places(f"output: {name}", word, PLACES)
        for name in ("topic", "file", "query", "command"):
            if getattr(self, name) and name not in needs:
                raise DeclarationError(
                    f"output: {name} has no meaning for kind {self.kind}: leave it out"
                )
        check_home("output: file", self.file)
        check_reads("output: query", self.query)
