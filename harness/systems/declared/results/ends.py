"""Write what was offered to a declared pipeline, what its programs were told, and what is in its
output.

The wire saw what the programs were told.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.model import events as kinds
from harness.model.secrets import masked
from harness.model.states import Hop
from harness.pipelines.outputs import Output, OutputKind
from harness.systems.declared.learnt.silence import name_of
from harness.systems.declared.outputs import results_of
from harness.systems.declared.programs.errors import StageError
from harness.systems.declared.results.matcher import MOST_SHOWN, unfilled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.systems.declared.results.matcher import RecordMatcher, Result
    from harness.systems.declared.results.totals import Totals
    from harness.systems.declared.scene import Scene


class SourceAndOutput:
    """Asks the source and the output of one cell."""

    def __init__(self, scene: Scene, matcher: RecordMatcher) -> None:
        self._scene = scene
        self._matcher = matcher

    def observe_source(self) -> None:
        """Write which records were offered, and which of them were acknowledged to the programs,
        and when.
        """
        scene, so_far = self._scene, self._scene.so_far
        topics = scene.cell.topic_of() if scene.cell.topics else {}
        between = {scene.brokers.destination(topic) for topic in scene.pipeline.between}
        for record in scene.load.records:
            scene.history.write(
                kinds.Offered(
                    record=record.id,
                    key=record.key,
                    position=record.position,
                    topic=topics.get(record.id),
                )
            )
        scene.history.write(
            kinds.Cursor(position=len(scene.load.records) + 1, where=str(scene.pipeline.input.kind))
        )
        sent = {(e.request, e.record): e for e in so_far.of(kinds.Sent)}
        for event in so_far.of(kinds.ProduceAnswer):
            of = sent.get((event.request, event.record))
            if of and event.error == 0 and event.reached:
                scene.history.write(
                    kinds.Acked(
                        t=event.t,
                        w=event.w,
                        record=event.record,
                        attempt=None,
                        hop=Hop.TOPIC if of.topic in between else Hop.SINK,
                        partition=of.partition,
                        offset=event.offset,
                    )
                )

    def observe_read(self, asked_at: int, rows: int) -> None:
        """Write how and when the output was read, and how many rows it had. ``asked_at``:
        monotonic ns.
        """
        output = self._scene.pipeline.output
        text = output.topic or output.query or " ".join(output.command) or output.file
        self._scene.history.write(
            kinds.OutputRead(
                t=asked_at,
                asked=f"{output.kind} {masked(text)}".rstrip(),
                rows=rows,
            )
        )

    def observe_totals(self, totals: Totals, rows: Sequence[str], *, stored: bool) -> None:
        """Write what totals say of their records.

        Raises:
            StageError: the output of a run without a fault has no total.
        """
        if self._scene.faultless and stored and not rows:
            raise StageError(self._matcher.nothing_arrived())
        totals.tell(rows)

    def observe_invariants(self) -> None:
        """Check the declaration's invariants, and write what was found.

        Raises:
            OutputError: a query or command of an invariant cannot be run.
        """
        scene, pipeline = self._scene, self._scene.pipeline
        values = scene.values_at_rest()
        for invariant in pipeline.invariants:
            output = (
                replace(pipeline.output, query=invariant.query)
                if invariant.query
                else Output(kind=OutputKind.COMMAND, command=invariant.command)
            )
            rows = results_of(output, values, pipeline.directory, scene.logs).rows()
            found = rows[0] if len(rows) == 1 else f"{len(rows)} rows"
            scene.history.write(
                kinds.Invariant(
                    asked=invariant.told,
                    equals=invariant.equals,
                    found=found[:MOST_SHOWN],
                    holds=len(rows) == 1 and invariant.holds(rows[0]),
                )
            )

    def learn(self, found: Sequence[Result], *, stored: bool) -> None:
        """Learn from the output of a run without a fault which columns may be empty.

        Raises:
            StageError: records were stored, but none is in the output.
        """
        arrived = [result.text for result in found if result.record in self._scene.known]
        if stored and not arrived:
            raise StageError(self._matcher.nothing_arrived())
        self._scene.learnt.columns.learn(name_of(self._scene.pipeline), arrived)

    def observe_results(
        self,
        found: Sequence[Result],
        origins: Mapping[str | None, Sequence[Mapping[str, Any]]],
        nowhere: Mapping[str, Any],
    ) -> None:
        """Write every result. A result does not name the copy that it was made from: the n-th
        result counts for the n-th copy.

        ``origins``: the places of the visible copies of each record, in order; ``nowhere``: the
        place of a result without a copy. A row without an id, such as a header, is not a result; if
        it was one and lost its id, its record is missing. A row that was begun and never filled in
        is not a result, either.
        """
        known, history = self._scene.known, self._scene.history
        seen: Counter[str] = Counter()
        if unnamed := [result for result in found if result.record is None]:
            history.write(kinds.Unnamed(count=len(unnamed), text=unnamed[0].shown))
        if left := unfilled(found):
            columns = tuple(sorted({number for result in left for number in result.lacks}))
            history.write(kinds.Unfilled(count=len(left), text=left[0].shown, columns=columns))
        for result in found:
            record = result.record
            if record is None or result in left:
                continue
            of = origins.get(record, ())
            origin = of[min(seen[record], len(of) - 1)] if of else nowhere
            seen[record] += 1
            history.write(
                kinds.Recorded(
                    record=record,
                    key=known[record].key if record in known else None,
                    order=result.order,
                    intact=True,
                    attempt=None,
                    text=self.shown(result),
                    **origin,
                )
            )

    def shown(self, result: Result) -> str | None:
        """Return the text of a result whose record was never offered; ``None`` for others."""
        return None if result.record in self._scene.known else result.shown
