"""What the two ends of a declared pipeline say at the end: what was offered to it, and what is in its output.

What its programs were told is what the wire saw.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.model import events as kinds
from harness.model.states import Hop
from harness.pipelines.declaration import Output, OutputKind
from harness.systems.declared.found import MOST_SHOWN, unfilled
from harness.systems.declared.nodes import StageError
from harness.systems.declared.outputs import results_of
from harness.systems.declared.silence import name_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.systems.declared.found import Found, Result
    from harness.systems.declared.scene import Scene
    from harness.systems.declared.totals import Totals


class Ends:
    """The source and the output of one cell."""

    def __init__(self, scene: Scene, found: Found) -> None:
        self._scene = scene
        self._found = found

    def observe_source(self) -> None:
        """Write which records were offered, and what the programs were told of them, with the times of that."""
        scene, so_far = self._scene, self._scene.so_far
        for record in scene.load.records:
            scene.history.write(kinds.OFFERED, record=record.id, key=record.key, position=record.position)
        scene.history.write(kinds.CURSOR, position=len(scene.load.records) + 1, where=str(scene.pipeline.input.kind))
        sent = {(e["request"], e["record"]): e for e in so_far.of(kinds.SENT)}
        for event in so_far.of(kinds.PRODUCE_ANSWER):
            of = sent.get((event["request"], event["record"]))
            if of and event["error"] == 0 and event["reached"]:
                scene.history.write(
                    kinds.ACKED, t=event["t"], w=event["w"], record=event["record"], attempt=None,
                    hop=Hop.TOPIC if of["topic"] == scene.brokers.destination(scene.pipeline.topic) else Hop.SINK,
                    partition=of.get("partition"), offset=event.get("offset"),
                )  # fmt: skip

    def observe_totals(self, totals: Totals, rows: Sequence[str], *, stored: bool) -> None:
        """Write what totals say of their records.

        Raises:
            StageError: without a fault there is not one.
        """
        if self._scene.faultless and stored and not rows:
            raise StageError(self._found.nothing_arrived())
        totals.tell(rows)

    def observe_invariants(self) -> None:
        """Write what is found of what must hold.

        Raises:
            OutputError: nobody can be asked.
        """
        scene, pipeline = self._scene, self._scene.pipeline
        values = scene.values(pipeline.stages[-1].known)
        for invariant in pipeline.invariants:
            output = (
                replace(pipeline.output, query=invariant.query) if invariant.query
                else Output(kind=OutputKind.COMMAND, command=invariant.command)
            )  # fmt: skip
            rows = results_of(output, values, pipeline.directory, scene.logs).rows()
            found = rows[0] if len(rows) == 1 else f"{len(rows)} rows"
            scene.history.write(kinds.INVARIANT, asked=invariant.told, equals=invariant.equals, found=found[:MOST_SHOWN],
                                holds=len(rows) == 1 and invariant.holds(rows[0]))  # fmt: skip

    def learn(self, found: Sequence[Result], *, stored: bool) -> None:
        """Take in what an output without a fault looks like.

        Raises:
            StageError: nothing of what was stored has arrived.
        """
        arrived = [result.text for result in found if result.record in self._scene.known]
        if stored and not arrived:
            raise StageError(self._found.nothing_arrived())
        self._scene.learnt.columns.learn(name_of(self._scene.pipeline), arrived)

    def observe_results(
        self, found: Sequence[Result], origins: Mapping[str | None, Sequence[Mapping[str, Any]]], nowhere: Mapping[str, Any]
    ) -> None:
        """Write every result. An output does not say which copy it is made of: the n-th is taken to be of the n-th.

        ``origins``: the places of the visible copies of each record, in order; ``nowhere``: that of none. What has no id, as a
        header or a footer, is no result; where it was one, and has lost its id, its record is missing. Nor is one that was
        begun and not filled in.
        """
        known, history = self._scene.known, self._scene.history
        seen: Counter[str] = Counter()
        if unnamed := [result for result in found if result.record is None]:
            history.write(kinds.UNNAMED, count=len(unnamed), text=unnamed[0].shown)
        if left := unfilled(found):
            columns = sorted({number for result in left for number in result.lacks})
            history.write(kinds.UNFILLED, count=len(left), text=left[0].shown, columns=columns)
        for result in found:
            record = result.record
            if record is None or result in left:
                continue
            of = origins.get(record, ())
            origin = of[min(seen[record], len(of) - 1)] if of else nowhere
            seen[record] += 1
            history.write(
                kinds.RECORDED, record=record, key=known[record].key if record in known else None, order=result.order,
                intact=True, attempt=None, **self.shown(result), **origin,
            )  # fmt: skip

    def shown(self, result: Result) -> dict[str, str]:
        """Return what is written down of something that was never offered."""
        return {} if result.record in self._scene.known else {"text": result.shown}
