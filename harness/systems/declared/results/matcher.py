"""Read the output and the logs of a declared pipeline, and find for each row or copy the record
that it belongs to.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from harness.model.identity import REGISTRY, UnreadValueError
from harness.model.logs import NOTICE
from harness.pipelines.braces import fill
from harness.pipelines.inputs import InputKind
from harness.pipelines.outputs import OutputKind
from harness.systems.declared.learnt.silence import name_of
from harness.systems.declared.outputs import (
    LINE_END,
    Files,
    OutputError,
    Row,
    Table,
    results_of,
)
from harness.systems.declared.programs.errors import StageError
from harness.systems.declared.results.dead_letters import DeadLetters, DeadMessages
from harness.systems.declared.results.totals import Totals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.systems.declared.outputs import Results
    from harness.systems.declared.scene import Scene
    from harness.systems.kafka.log_copies import LogCopy

UNPRINTED = (
    "a program buffers what it prints into a pipe or a file, and a crash loses the buffer: flush after "  # noqa: E501
    "each result, as print(…, flush=True) does, or set in its environment what your production sets, for example "  # noqa: E501
    'PYTHONUNBUFFERED = "1"'
)
"""The advice if an output of kind stdout holds no record."""
FREE_TEXT = (OutputKind.LINES, OutputKind.STDOUT, OutputKind.COMMAND)
"""Outputs in which a line without an id is not a result."""
UNTIL_LINE_ENDS = (OutputKind.LINES, OutputKind.STDOUT)
"""Outputs in which a program may die inside a line."""
ROW = "row of the output"
"""What :meth:`RecordMatcher.check_ids` calls a result that is in no topic."""
MOST_SHOWN = 120
"""How many characters of a row or record a message shows."""


@dataclass(frozen=True, slots=True)
class Result:
    """A row of an output, or a copy in a log, with the ids in it and its place in the order. It
    counts for the first id.
    """

    ids: Sequence[str]
    order: int
    text: str
    lacks: frozenset[int] = frozenset()
    """The numbers of columns that are empty here, and were never empty in the run
    without a fault.
    """

    @property
    def record(self) -> str | None:
        """The id of the record that this is a result or a copy of; ``None`` if it has no id."""
        return next(iter(self.ids), None)

    @property
    def shown(self) -> str:
        """The beginning of its text, for messages."""
        return self.text[:MOST_SHOWN]


def unfilled(results: Sequence[Result]) -> list[Result]:
    """Return the incomplete rows of records that have no complete row."""
    whole = {result.record for result in results if not result.lacks}
    return [
        result
        for result in results
        if result.lacks and result.record is not None and result.record not in whole
    ]


class RecordMatcher:
    """Reads the output of a cell, and finds record ids in it and in logs."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.results: Results | None = self._reader()
        """The reader of the output; ``None`` if the output is a topic."""
        aggregate = scene.pipeline.aggregate
        self.totals = None if aggregate is None else Totals(scene, aggregate)
        """The reader of totals, if the output's rows are totals and not records."""
        self.letters = DeadLetters(scene, lambda copy: self.in_copy(copy).ids)
        """The reader of dead letters in topics."""
        self.seen = 0
        """How many rows the output had when it was last read, with those that are no results."""
        self._aside: DeadLetters | DeadMessages = (
            self.letters
            if scene.pipeline.dialect.logs
            else DeadMessages(scene, lambda value: self.in_message(value).ids)
        )

    def _reader(self) -> Results | None:
        pipeline = self._scene.pipeline
        if pipeline.output.kind is OutputKind.TOPIC:
            return None
        last = pipeline.stages[-1].known
        return results_of(
            pipeline.output,
            self._scene.values_at_rest(),
            pipeline.directory,
            self._scene.logs / f"{last}.log",
        )

    def size(self) -> Any:
        """Return a value that changes while results, or dead letters, arrive."""
        if self.results is not None:
            return self.results.size(), self._aside.ends()
        ends = self._scene.kafka.observer.ends(self._scene.pipeline.output.topic)
        return tuple(ends.items()), self._aside.ends()

    def glance(self) -> object:
        """Return a value that changes while results arrive in an output that is no topic; ``None``
        while it cannot be read: a program may not have made it yet, or may be writing it. No broker
        is asked.
        """
        try:
            return self.results.size() if self.results else None
        except OutputError:
            return None

    def ids(self) -> Sequence[str | None]:
        """Return the id of every result that is in the output now.

        Raises:
            OutputError: the output cannot be read.
        """
        if self.totals is not None:
            return self.totals.ids(self.rows())
        if self.results is None:
            copies = self._scene.kafka.observer.copies(self._scene.pipeline.output.topic)
            try:
                return [self.id_of(copy) for copy in copies if copy.visible]
            except UnreadValueError as error:
                raise OutputError(str(error)) from error
        found = self.results_in(self.rows())
        left = {result.order for result in unfilled(found)}
        return [None if result.order in left else result.record for result in found]

    def set_aside(self) -> set[str | None]:
        """Return the id of every record that rests where the declaration says that one may end.

        Raises:
            OutputError: a value there cannot be read.
        """
        return self._aside.ids()

    def rows(self) -> Sequence[str]:
        """Return the rows of the output that can be results; none for an output of records in a
        topic.

        Raises:
            OutputError: the output cannot be read.
        """
        if self.results is None:
            return () if self.totals is None else self._rows_of_topic()
        rows = [row for row in self.results.rows() if not row.startswith(NOTICE)]
        self.seen = len(rows)
        if self.totals is not None:
            return [row for row in rows if self.totals.is_one(row)]
        free = self._scene.pipeline.output.kind in FREE_TEXT
        return [row for row in rows if self._ids_in(row)] if free else rows

    def _rows_of_topic(self) -> Sequence[str]:
        """Return key and value of each visible copy in the output's topic, as text, in the order of
        its partitions.
        """
        copies = self._scene.kafka.observer.copies(self._scene.pipeline.output.topic)
        return [
            Row.of_line(
                f"{(copy.key or b'').decode('utf-8', 'replace')} "
                f"{copy.value.decode('utf-8', 'replace')}",
                str(copy.partition),
            )
            for copy in sorted(copies, key=lambda copy: copy.offset)
            if copy.visible and copy.value is not None
        ]

    def results_in(self, rows: Sequence[str]) -> list[Result]:
        """Return the result that each row of the output is, with its ids and empty columns."""
        lacking = partial(self._scene.learnt.columns.lacking, name_of(self._scene.pipeline))
        return [
            Result(self._whole_ids_in(row, lacks), order, row, lacks - {LINE_END})
            for order, row in enumerate(rows, start=1)
            for lacks in (lacking(row),)
        ]

    def _whole_ids_in(self, row: str, lacks: frozenset[int]) -> Sequence[str]:
        """Return every id in a row of the output. If the end of its line is missing, an id there
        may be the beginning of a longer one: then it is not returned.
        """
        ids = self._ids_in(row)
        if LINE_END not in lacks:
            return ids
        return [one for one in ids if not (row.endswith(one) and self._begins_another(one))]

    def _begins_another(self, record: str) -> bool:
        return any(other != record and other.startswith(record) for other in self._scene.known)

    def in_copy(self, copy: LogCopy) -> Result:
        """Return a copy in a log as a result.

        Raises:
            StageError: the copy's value cannot be decoded, for example because its schema is
                unknown.
        """
        ids = self._ids_of(copy.key, copy.value, copy.headers)
        return Result(ids, copy.offset, (copy.value or b"").decode("utf-8", "replace"))

    def in_message(self, value: bytes) -> Result:
        """Return a message of a queue as a result."""
        return Result(self._ids_of(None, value, ()), 0, value.decode("utf-8", "replace"))

    def _ids_of(
        self, key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]
    ) -> Sequence[str]:
        identity = self._scene.identity
        found = identity.find_every(key, value, headers)
        if not found and (why := identity.why_unread(value)):
            raise StageError(f"a value cannot be read: {why}")
        return found

    def id_of(self, copy: LogCopy) -> str | None:
        """Return the record id that a copy in a log carries, or ``None``."""
        return self._scene.identity.find(copy.key, copy.value, copy.headers)

    def _ids_in(self, row: str) -> Sequence[str]:
        """Return every id in a row of the output. A path of JSON is looked for in the row's text,
        then in the columns of a table; if neither has an id there, the pattern is looked for in the
        text.
        """
        identity = self._scene.cell.identity
        found = identity.every(row)
        if found or not identity.json or self._scene.pipeline.output.kind in FREE_TEXT:
            return found
        in_columns = identity.every(row.json) if isinstance(row, Row) else ()
        return in_columns or dataclasses.replace(identity, json="").every(row)

    # --- what cannot be counted -------------------------------------------------------------------

    def check_ids(self, what: str, found: Sequence[Result]) -> None:
        """Raise StageError if nothing that was found has the id of an offered record, or if one
        thing has several such ids.
        """
        known, load, named = self._scene.known, self._scene.load, self._scene.pipeline.id
        for result in found:
            held = [record for record in result.ids if record in known]
            if len(held) > 1:
                raise StageError(
                    f"a {what} holds the ids of {len(held)} records "
                    f"({', '.join(map(repr, held[:3]))}): {result.shown!r}; it can count for "
                    "only one record: write one for each record, or let the pattern in [id] "
                    f"find the right id{self._cut_off(what)}"
                )
        if not found or any(result.record in known for result in found):
            return
        first = load.records[0]
        missing = self._why_missing() if what == ROW else ""
        if named is None:
            raise StageError(
                f"no {what} carries the id of a record: {found[0].shown!r} does not contain the "
                f"token that lostack put in place of {{id}} ({self._scene.cell.in_hand(first)!r} "
                "in the first record); let the programs pass it on, or say in [id] where an id "
                f"is{missing}"
            )
        raise StageError(
            f"no {what} carries the id of a record: the pattern "
            f"{named.pattern!r}{f' at {named.json}' if named.json else ''} in {named.where} "
            f"finds {found[0].record!r} in {found[0].shown!r}, but the first record offered is "
            f"{first.id!r}; correct [id]{self._unframed(found[0])}{missing}"
        )

    def _cut_off(self, what: str) -> str:
        """Return another reason for two ids in one line, for an output of lines."""
        if what != ROW or self._scene.pipeline.output.kind not in UNTIL_LINE_ENDS:
            return ""
        return "; or a program died inside a line: write each line whole, or begin on a new one"

    def _why_missing(self) -> str:
        """Return, in brackets, why the output's table lacks rows; "" if that is not known."""
        why = self.results.why_missing() if isinstance(self.results, Table) else ""
        return f" ({why})" if why else ""

    def _unframed(self, result: Result) -> str:
        """Return a hint if a value was read as text although the declaration names a schema
        registry.
        """
        schema = self._scene.cell.identity.schema
        if schema is None or schema.kind != REGISTRY or result.text.startswith("\0"):
            return ""
        return (
            "; the value was read as text: it does not begin with a zero byte and a schema id, "
            "as a registry's clients write"
        )

    def check_output_is_fresh(self) -> None:
        """Raise StageError if the output has results before anything was started: they would count
        as duplicates.
        """
        with contextlib.suppress(OutputError):  # it is not there yet
            if left := next((row for row in self.rows() if self._is_ours(row)), None):
                raise StageError(
                    f"the output ({self._scene.pipeline.output.kind}) has records of this run "
                    f"before the run has begun, such as {left[:120]!r}: put it below {{work}}, "
                    "which is new for every run, or empty it before each run"
                )

    def _is_ours(self, row: str) -> bool:
        if self.totals is not None:
            return self.totals.is_known(row)
        return next(iter(self._ids_in(row)), None) in self._scene.known

    def check_input(self, found: Sequence[str | None]) -> None:
        """Raise StageError if the input of a run without a fault is not what the declaration says:
        then nothing can be counted.

        ``found``: the ids in the topic. They are the only evidence of what a producer that makes
        its records has made.
        """
        own, known = self._scene.pipeline.input.kind is InputKind.OWN, self._scene.known
        counts = Counter(record for record in found if record is not None)
        for record, count in counts.items():
            if count > 1 and (own or record not in known):
                raise StageError(
                    f"the input has the id {record!r} {count} times in a run without a fault: "
                    "give each record its own id, and let [id] find it"
                )
            if own and record not in known:
                ids = list(known)
                raise StageError(
                    f"the producer made a record {record!r}, but the line in [input] says "
                    f"{ids[0]!r} to {ids[-1]!r}: let it make those (records = {len(ids)}), or "
                    "correct the line"
                )

    def nothing_arrived(self) -> str:
        """Return the message for an output that has no record after a run without a fault, with
        what it holds instead.
        """
        output = self._scene.pipeline.output
        values = self._scene.values_at_rest()
        where = output.topic or fill(output.file, values) or " ".join(output.command)
        held = self._held() + self._why_missing()
        if output.kind is OutputKind.STDOUT:
            held += f" ({UNPRINTED})"
        return (
            f"no record is in the output ({output.kind}{f' {where}' if where else ''}) after a "
            f"run without a fault: {held}"
        )

    def _held(self) -> str:
        """Say what an output without a record holds instead."""
        aggregate = self._scene.pipeline.aggregate
        rows = self.results.rows() if self.results else self._rows_of_topic() if aggregate else ()
        if not rows:
            return self.results.why_empty() if isinstance(self.results, Files) else "it is empty"
        last = f"the last is {rows[-1][:MOST_SHOWN]!r}"
        if aggregate is None:
            return f"none of its {len(rows)} lines has an id; {last}"
        return (
            f"none of its {len(rows)} rows holds a total: the pattern {aggregate.pattern!r} in "
            f"[aggregate] finds none; {last}"
        )
