"""What is found in the output and in the logs of a declared pipeline, and which record each of it is a result of."""

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
from harness.pipelines.declaration import InputKind, OutputKind
from harness.systems.declared.nodes import StageError
from harness.systems.declared.outputs import OutputError, results_of
from harness.systems.declared.silence import name_of
from harness.systems.declared.totals import Totals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.systems.declared.outputs import Results
    from harness.systems.declared.scene import Scene
    from harness.systems.kafka.observer import LogCopy

UNPRINTED = (
    "what a program prints into a pipe or a file stands in a buffer of its own until that is full, and a crash loses it: let it "
    "flush behind each result, as print(…, flush=True) does, or say in its environment what your production says, as "
    'PYTHONUNBUFFERED = "1"'
)
"""What is said where nothing was printed."""
FREE_TEXT = (OutputKind.LINES, OutputKind.STDOUT, OutputKind.COMMAND)
"""Outputs that hold other lines than results: those without an id are none."""
MOST_SHOWN = 120
"""Characters of a row, or of a record, that are shown."""


@dataclass(frozen=True, slots=True)
class Result:
    """What was found at the end in an output or a log: the ids in it, and where it stands. It counts for the first of them."""

    ids: Sequence[str]
    order: int
    text: str
    lacks: frozenset[int] = frozenset()
    """The columns in which it has nothing, and every result had something without a fault."""

    @property
    def record(self) -> str | None:
        """The record that it is a result of, or a copy of; ``None``: of none."""
        return next(iter(self.ids), None)

    @property
    def shown(self) -> str:
        """Its beginning."""
        return self.text[:MOST_SHOWN]


def unfilled(results: Sequence[Result]) -> list[Result]:
    """Return the incomplete rows of records that have no complete row."""
    whole = {result.record for result in results if not result.lacks}
    return [result for result in results if result.lacks and result.record is not None and result.record not in whole]


class Found:
    """Reads the output of a cell, and finds ids in it and in logs."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.results: Results | None = self._reader()
        """What reads the output, where that is no topic."""
        aggregate = scene.pipeline.aggregate
        self.totals = None if aggregate is None else Totals(scene, aggregate)
        """What reads totals in its rows, where these are no records."""

    def _reader(self) -> Results | None:
        pipeline = self._scene.pipeline
        if pipeline.output.kind is OutputKind.TOPIC:
            return None
        last = pipeline.stages[-1].known
        return results_of(pipeline.output, self._scene.values(last), pipeline.directory, self._scene.logs / f"{last}.log")

    def size(self) -> Any:
        """Return a value that changes while results arrive."""
        if self.results is not None:
            return self.results.size()
        return tuple(self._scene.kafka.observer.ends(self._scene.pipeline.output.topic).items())

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

    def rows(self) -> Sequence[str]:
        """Return the rows of the output that can be results.

        Raises:
            OutputError: the output cannot be read.
        """
        if self.results is None:
            return () if self.totals is None else self._rows_of_topic()
        rows = [row for row in self.results.rows() if not row.startswith(NOTICE)]
        if self.totals is not None:
            return [row for row in rows if self.totals.is_one(row)]
        free = self._scene.pipeline.output.kind in FREE_TEXT
        return [row for row in rows if self._ids_in(row)] if free else rows

    def _rows_of_topic(self) -> Sequence[str]:
        """Return key and value of each visible copy in the output's topic, as text, in the order of its partitions."""
        copies = self._scene.kafka.observer.copies(self._scene.pipeline.output.topic)
        return [
            f"{(copy.key or b'').decode('utf-8', 'replace')} {copy.value.decode('utf-8', 'replace')}"
            for copy in sorted(copies, key=lambda copy: copy.offset) if copy.visible and copy.value is not None
        ]  # fmt: skip

    def results_in(self, rows: Sequence[str]) -> list[Result]:
        """Return what rows of the output are results of, and what they lack."""
        lacking = partial(self._scene.learnt.columns.lacking, name_of(self._scene.pipeline))
        return [Result(self._ids_in(row), order, row, lacking(row)) for order, row in enumerate(rows, start=1)]

    def in_copy(self, copy: LogCopy) -> Result:
        """Return what a copy in a log is a result of.

        Raises:
            StageError: its value names a schema that nobody has.
        """
        ids = self._ids_of(copy.key, copy.value, copy.headers)
        return Result(ids, copy.offset, (copy.value or b"").decode("utf-8", "replace"))

    def in_message(self, value: bytes) -> Result:
        """Return what a message of a queue is a result of."""
        return Result(self._ids_of(None, value, ()), 0, value.decode("utf-8", "replace"))

    def _ids_of(
        self, key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]
    ) -> Sequence[str]:  # fmt: skip
        identity = self._scene.identity
        found = identity.find_every(key, value, headers)
        if not found and (why := identity.why_unread(value)):
            raise StageError(f"a value cannot be read: {why}")
        return found

    def id_of(self, copy: LogCopy) -> str | None:
        """Return the id that a copy in a log carries."""
        return self._scene.identity.find(copy.key, copy.value, copy.headers)

    def _ids_in(self, text: str) -> Sequence[str]:
        """Every id in a row, or in the value of a record."""
        identity = self._scene.cell.identity
        found = identity.every(text)
        if not found and self._scene.pipeline.output.kind not in FREE_TEXT:
            return dataclasses.replace(identity, json="").every(text)
        return found

    # --- what cannot be counted --------------------------------------------------------------------------------------

    def check_ids(self, what: str, found: Sequence[Result]) -> None:
        """Raise StageError where nothing of what was found carries an id that was offered, or something carries several."""
        known, load, named = self._scene.known, self._scene.load, self._scene.pipeline.id
        for result in found:
            held = [record for record in result.ids if record in known]
            if len(held) > 1:
                raise StageError(
                    f"a {what} holds the ids of {len(held)} records ({', '.join(map(repr, held[:3]))}): {result.shown!r}; it "
                    "counts for one: let each have one of its own, or let the pattern in [id] find the one that is meant"
                )
        if not found or any(result.record in known for result in found):
            return
        first = load.records[0]
        if named is None:
            raise StageError(
                f"no {what} carries the id of a record: {found[0].shown!r} has nothing of the token that {{id}} stood for "
                f"({self._scene.cell.in_hand(first)!r} in the first); let the programs pass it on, or say in [id] where an id is"
            )
        raise StageError(
            f"no {what} carries the id of a record: the pattern {named.pattern!r}"
            f"{f' at {named.json}' if named.json else ''} in {named.where} finds {found[0].record!r} in "
            f"{found[0].shown!r}, and what was offered is {first.id!r}; say in [id] where it is{self._unframed(found[0])}"
        )

    def _unframed(self, result: Result) -> str:
        """Say that a value was read as text although a registry has the schemas."""
        schema = self._scene.cell.identity.schema
        if schema is None or schema.kind != REGISTRY or result.text.startswith("\0"):
            return ""
        return "; it does not begin with a zero byte and a schema's id, as a registry's clients write them, and was read as text"

    def check_output_is_fresh(self) -> None:
        """Raise StageError where the output has results before anything was started: they would count as duplicates."""
        with contextlib.suppress(OutputError):  # it is not there yet
            if left := next((row for row in self.rows() if self._is_ours(row)), None):
                raise StageError(
                    f"the output ({self._scene.pipeline.output.kind}) has records of this run before it has begun, as "
                    f"{left[:120]!r}: let it be a place below {{work}}, which is new for every run, or empty it before each"
                )

    def _is_ours(self, row: str) -> bool:
        if self.totals is not None:
            return self.totals.is_known(row)
        return next(iter(self._ids_in(row)), None) in self._scene.known

    def check_input(self, found: Sequence[str | None]) -> None:
        """Raise StageError where, without any fault, the input is not what the declaration says: nothing can be told of it.

        ``found``: the ids in the topic. What lostack has offered it knows; of what a producer makes itself, the topic tells.
        """
        own, known = self._scene.pipeline.input.kind is InputKind.OWN, self._scene.known
        counts = Counter(record for record in found if record is not None)
        for record, count in counts.items():
            if count > 1 and (own or record not in known):
                raise StageError(
                    f"the input has the id {record!r} {count} times: without a fault the producer has sent it as often; give "
                    "each record an id of its own, and let [id] find it"
                )
            if own and record not in known:
                ids = list(known)
                raise StageError(
                    f"the producer made a record {record!r}, and what the input's line says are {ids[0]!r} to {ids[-1]!r}: let "
                    f"it make those (records = {len(ids)}), or correct the line"
                )

    def nothing_arrived(self) -> str:
        """Say that not one record is in the output although nothing was done to any, and what is there instead."""
        output, rows = self._scene.pipeline.output, self.results.rows() if self.results else ()
        values = self._scene.values(self._scene.pipeline.stages[-1].known)
        where = output.topic or fill(output.file, values) or " ".join(output.command)
        held = f"of its {len(rows)} lines none has an id, as {rows[-1][:120]!r}" if rows else "it holds nothing"
        if output.kind is OutputKind.STDOUT:
            held += f" ({UNPRINTED})"
        return f"not one record is in the output ({output.kind}{f' {where}' if where else ''}), without any fault: {held}"
