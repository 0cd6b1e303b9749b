"""Ask the authorities of a declared cell on Kafka at the end of the run: source, logs, positions
and output.
"""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.model.places import Removal, in_log, log_fields
from harness.model.states import Hop
from harness.pipelines.outputs import OutputKind
from harness.systems.declared.compaction import last_of_key
from harness.systems.declared.results.ends import SourceAndOutput
from harness.systems.declared.results.matcher import ROW

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.systems.declared.results.matcher import RecordMatcher, Result
    from harness.systems.declared.scene import Scene
    from harness.systems.declared.transport.positions import Positions
    from harness.systems.kafka.log_copies import LogCopy, WholeLog


class Authorities:
    """Asks the authorities of one cell."""

    def __init__(self, scene: Scene, positions: Positions, matcher: RecordMatcher) -> None:
        self._scene = scene
        self._positions = positions
        self._matcher = matcher
        self._ends = SourceAndOutput(scene, matcher)

    def observe(self) -> None:
        """Write what was offered, acknowledged (as the wire saw it), stored and recorded.

        The saved positions are read first, then the output, and the topic's log last. If something
        still moves, each record in the output is then also found in the log, and no record is
        missing because it was read too early.
        """
        scene, pipeline, observer = self._scene, self._scene.pipeline, self._scene.kafka.observer
        saved = self._positions.observe()
        asked_at = time.monotonic_ns()
        results = (
            observer.log(pipeline.output.topic)
            if pipeline.output.kind is OutputKind.TOPIC
            else None
        )
        letters = pipeline.dead_letters
        taken = self._matcher.letters.read_up_to(letters) if letters else {}
        rows = self._matcher.rows()
        seen = self._matcher.seen if results is None else len(_sorted(results.copies))
        self._ends.observe_read(asked_at, seen)
        logs = {topic: observer.log(topic) for topic in pipeline.between}
        self._ends.observe_source()
        copies: list[tuple[LogCopy, str]] = []
        for topic, log in logs.items():
            read = {partition: offset for (of, partition), offset in saved.items() if of == topic}
            copies += [(copy, topic) for copy in self.observe_log(Hop.TOPIC, topic, log, read)]
        if results is not None:
            self.observe_log(Hop.SINK, pipeline.output.topic, results)
            named = [(copy, self._matcher.in_copy(copy)) for copy in _sorted(results.copies)]
            found = [result for copy, result in named if not _is_tombstone(copy, result)]
        elif self._matcher.totals is None:
            found = self._matcher.results_in(rows)
            self._matcher.check_ids(ROW, found)
        self._ends.observe_invariants()
        if self._matcher.totals is not None:
            self._ends.observe_totals(self._matcher.totals, rows, stored=bool(copies))
            return
        for topic, aside in self._matcher.letters.logs({result.record for result in found}).items():
            self.observe_log(Hop.ASIDE, topic, aside, taken)
        if scene.faultless:
            self._ends.learn(found, stored=bool(copies))
        origins: dict[str | None, list[dict[str, object]]] = defaultdict(list)
        for copy, topic in sorted(copies, key=lambda at: (at[0].offset, at[0].partition, at[1])):
            if copy.visible:
                of = topic if scene.cell.topics else None
                origins[self._matcher.id_of(copy)].append(
                    {**log_fields(copy.partition, copy.epoch, copy.offset, of), "topic": of}
                )
        self._ends.observe_results(found, origins, nowhere=log_fields(-1, -1, -1))

    def observe_log(
        self, hop: Hop, topic: str, log: WholeLog, saved: Mapping[int, int] | None = None
    ) -> Sequence[LogCopy]:
        """Write every copy of a log, and the log's end offsets; return the copies.

        Raises:
            StageError: no copy carries a known id.
        """
        scene, copies = self._scene, log.copies
        results = [self._matcher.in_copy(copy) for copy in copies]
        if hop is Hop.TOPIC or self._matcher.totals is None:
            self._matcher.check_ids(f"record of topic {topic}", results)
        if hop is Hop.TOPIC and scene.faultless:
            self._matcher.check_input(
                [
                    result.record
                    for result, copy in zip(results, copies, strict=True)
                    if copy.visible
                ]
            )
        for result, copy in zip(results, copies, strict=True):
            # a copy without an id is something else that the programs write; if it was a record,
            # that record is missing
            foreign = _is_tombstone(copy, result) or (
                result.record is None and (hop is not Hop.TOPIC or scene.pipeline.id is None)
            )
            scene.history.write(
                kinds.Stored(
                    hop=hop,
                    topic=topic,
                    **log.said_of(copy, saved, topic if scene.cell.topics else None),
                    record=result.record,
                    key=(copy.key or b"").decode("utf-8", "replace"),
                    intact=result.record is not None,
                    attempt=None,
                    foreign=foreign,
                    text=self._ends.shown(result),
                )
            )
        if hop is Hop.TOPIC and topic in scene.uncompacted:
            self.observe_compacted(topic, scene.uncompacted[topic], log)
        for partition, ends in log.ends.items():
            if ends.start and hop is Hop.TOPIC:
                self.observe_deleted(topic, partition, ends.start)
            scene.history.write(
                kinds.Log(
                    hop=hop,
                    topic=topic,
                    partition=partition,
                    start=ends.start,
                    stable=ends.stable,
                    end=ends.end,
                    last_data=log.last_visible(partition),
                )
            )
        return copies

    def observe_compacted(self, topic: str, whole: WholeLog, log: WholeLog) -> None:
        """Write the copies that compaction took. ``whole``: the log before that.

        A later copy whose record has another key of the load took no place of this one, though the
        log's keys are the same. Whether it has is known where the line has ``{key}``.
        """
        several = topic if self._scene.cell.topics else None
        keys = {None: None} | {record: each.key for record, each in self._scene.known.items()}
        told = "{key}" in self._scene.pipeline.input.line
        left = {(copy.partition, copy.offset) for copy in log.copies}
        for copy in whole.copies:
            if (copy.partition, copy.offset) in left or copy.offset < log.ends[
                copy.partition
            ].start:
                continue
            record = self._matcher.id_of(copy)
            of = keys.get(record) if told else None

            def alike(other: LogCopy, of: str | None = of) -> bool:
                return of is None or keys.get(self._matcher.id_of(other)) in (None, of)

            last = last_of_key(whole, copy, alike)
            self._scene.history.write(
                kinds.Removed(
                    why=Removal.COMPACTION,
                    topic=topic,
                    record=record,
                    visible=copy.visible,
                    later=in_log(last.partition, last.epoch, last.offset, several)
                    if last
                    else None,
                    passed=copy.offset < self._scene.passed.get((topic, copy.partition), 0),
                    **log_fields(copy.partition, copy.epoch, copy.offset, several),
                )
            )

    def observe_deleted(self, topic: str, partition: int, start: int) -> None:
        """Write the copies that the wire saw below the start of a log: they were deleted since, by
        retention or by hand.
        """
        so_far, several = self._scene.so_far, bool(self._scene.cell.topics)
        requests = {
            (e.request, e.record)
            for e in so_far.of(kinds.Sent)
            if e.topic == topic and e.partition == partition
        }
        answers = {
            (e.record, e.offset)
            for e in so_far.of(kinds.ProduceAnswer)
            if e.error == 0 and (e.request, e.record) in requests
        }
        fetched = {
            (e.record, e.offset)
            for e in so_far.of(kinds.Fetched)
            if e.topic == topic and e.partition == partition
        }
        placed = [(offset, record) for record, offset in answers | fetched if offset is not None]
        for offset, record in sorted(placed):
            if 0 <= offset < start:
                self._scene.history.write(
                    kinds.Removed(
                        why=Removal.RETENTION,
                        topic=topic,
                        record=record,
                        visible=True,
                        **log_fields(partition, -1, offset, topic if several else None),
                    )
                )


def _is_tombstone(copy: LogCopy, result: Result) -> bool:
    """Say whether a copy has no value from which its id could be read."""
    return copy.value is None and result.record is None


def _sorted(copies: Sequence[LogCopy]) -> list[LogCopy]:
    return sorted(
        (copy for copy in copies if copy.visible), key=lambda copy: (copy.offset, copy.partition)
    )
