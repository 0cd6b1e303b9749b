"""What the authorities of a declared cell say at the end. What its programs were told is what the wire saw."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.model.places import Removal, log_fields
from harness.model.states import Hop
from harness.pipelines.declaration import OutputKind
from harness.systems.declared.found import unfilled
from harness.systems.declared.nodes import StageError
from harness.systems.declared.silence import name_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.systems.declared.found import Found, Result
    from harness.systems.declared.scene import Scene
    from harness.systems.declared.standing import Standing
    from harness.systems.kafka.observer import LogCopy, WholeLog


class Authorities:
    """The authorities of one cell."""

    def __init__(self, scene: Scene, standing: Standing, found: Found) -> None:
        self._scene = scene
        self._standing = standing
        self._found = found

    def observe(self) -> None:
        """Ask every one: what was offered, acknowledged (by the wire), stored and recorded.

        How far it has got is asked first, then what is there, and the log last: where something still moves, what is past a
        position is found behind it, and what is in the output is in the log.
        """
        scene, pipeline, observer = self._scene, self._scene.pipeline, self._scene.brokers.observer
        self._standing.let_go()
        saved = self._standing.positions.observe()
        results = observer.log(pipeline.output.topic) if pipeline.output.kind is OutputKind.TOPIC else None
        rows = self._found.rows()
        log = observer.log(pipeline.topic)
        for record in scene.load.records:
            scene.history.write(kinds.OFFERED, record=record.id, key=record.key, position=record.position)
        scene.history.write(kinds.CURSOR, position=len(scene.load.records) + 1, where=str(pipeline.input.kind))
        self._observe_acks()
        copies = self.observe_log(Hop.TOPIC, pipeline.topic, log, saved)
        if results is not None:
            self.observe_log(Hop.SINK, pipeline.output.topic, results)
            found = [self._found.in_copy(copy) for copy in _sorted(results.copies)]
        else:
            found = self._found.results_in(rows)
            self._found.check_ids("row of the output", found)
        if scene.faultless:
            self._learn(copies, found)
        self.observe_results(found, copies)

    def _learn(self, copies: Sequence[LogCopy], found: Sequence[Result]) -> None:
        """Take in what an output without a fault looks like. Raises StageError where nothing of what was stored has arrived."""
        arrived = [result.text for result in found if result.record in self._scene.known]
        if copies and not arrived:
            raise StageError(self._found.nothing_arrived())
        self._scene.learnt.columns.learn(name_of(self._scene.pipeline), arrived)

    def _observe_acks(self) -> None:
        """Write what the wire saw as what the programs were told, at the time when it saw it."""
        so_far = self._scene.so_far
        sent = {(e["request"], e["record"]): e for e in so_far.of(kinds.SENT)}
        for event in so_far.of(kinds.PRODUCE_ANSWER):
            of = sent.get((event["request"], event["record"]))
            if of and event["error"] == 0 and event["reached"]:
                hop = "topic" if of["topic"] == self._scene.pipeline.topic else "sink"
                self._scene.history.write(
                    kinds.ACKED, t=event["t"], w=event["w"], hop=hop, record=event["record"], attempt=None,
                    partition=of["partition"], offset=event["offset"],
                )  # fmt: skip

    def observe_log(self, hop: Hop, topic: str, log: WholeLog, saved: Mapping[int, int] | None = None) -> Sequence[LogCopy]:
        """Write every copy of a log, and where it ends; return the copies. Raises StageError where none carries a known id."""
        scene, copies = self._scene, log.copies
        results = [self._found.in_copy(copy) for copy in copies]
        self._found.check_ids(f"record of topic {topic}", results)
        if hop is Hop.TOPIC and scene.faultless:
            self._found.check_input([result.record for result, copy in zip(results, copies, strict=True) if copy.visible])
        for result, copy in zip(results, copies, strict=True):
            # without an id it is something else that its programs write; where that was a record's, the record is missing
            foreign = result.record is None and (hop is Hop.SINK or scene.pipeline.id is None)
            scene.history.write(
                kinds.STORED, hop=hop, topic=topic, **log.said_of(copy, saved),
                record=result.record, key=(copy.key or b"").decode("utf-8", "replace"), intact=result.record is not None,
                attempt=None, foreign=foreign, **self._shown(result),
            )  # fmt: skip
        for partition, ends in log.ends.items():
            if ends.start and topic == scene.pipeline.topic:
                self.observe_deleted(partition, ends.start)
            scene.history.write(kinds.LOG, hop=hop, topic=topic, partition=partition, start=ends.start, stable=ends.stable,
                                end=ends.end, last_data=log.last_visible(partition))  # fmt: skip
        return copies

    def observe_deleted(self, partition: int, start: int) -> None:
        """Write the copies that the wire saw below the start of a log: retention, or somebody, has taken them since."""
        topic, so_far = self._scene.pipeline.topic, self._scene.so_far
        requests = {(e["request"], e["record"]) for e in so_far.of(kinds.SENT) if e["topic"] == topic
                    and e["partition"] == partition}  # fmt: skip
        answers = {(e["record"], e["offset"]) for e in so_far.of(kinds.PRODUCE_ANSWER) if e["error"] == 0
                   and (e["request"], e["record"]) in requests}  # fmt: skip
        fetched = {(e["record"], e["offset"]) for e in so_far.of(kinds.FETCHED) if e["topic"] == topic
                   and e["partition"] == partition}  # fmt: skip
        for record, offset in sorted(answers | fetched, key=lambda seen: seen[1]):
            if 0 <= offset < start:
                self._scene.history.write(kinds.REMOVED, why=Removal.RETENTION, topic=topic, record=record, visible=True,
                                          **log_fields(partition, -1, offset))  # fmt: skip

    def observe_results(self, found: Sequence[Result], copies: Sequence[LogCopy]) -> None:
        """Write every result. An output does not say which log copy it is made of: the n-th is taken to be of the n-th.

        What has no id, as a header or a footer, is no result; where it was one, and has lost its id, its record is missing.
        Nor is one that was begun and not filled in.
        """
        known, history = self._scene.known, self._scene.history
        origins: Mapping[str | None, list[LogCopy]] = defaultdict(list)
        for copy in _sorted(copies):
            origins[self._found.id_of(copy)].append(copy)
        seen: dict[str | None, int] = defaultdict(int)
        if unnamed := [result for result in found if result.record is None]:
            history.write(kinds.UNNAMED, count=len(unnamed), text=unnamed[0].shown)
        if left := unfilled(found):
            columns = sorted({number for result in left for number in result.lacks})
            history.write(kinds.UNFILLED, count=len(left), text=left[0].shown, columns=columns)
        for result in found:
            record = result.record
            if record is None or result in left:
                continue
            of = origins[record]
            origin = of[min(seen[record], len(of) - 1)] if of else None
            seen[record] += 1
            history.write(
                kinds.RECORDED, record=record, key=known[record].key if record in known else None, order=result.order,
                intact=True, attempt=None, **self._shown(result),
                **(log_fields(origin.partition, origin.epoch, origin.offset) if origin else log_fields(-1, -1, -1)),
            )  # fmt: skip

    def _shown(self, result: Result) -> dict[str, str]:
        """What is written down of something that was never offered."""
        return {} if result.record in self._scene.known else {"text": result.shown}


def _sorted(copies: Sequence[LogCopy]) -> list[LogCopy]:
    return sorted((copy for copy in copies if copy.visible), key=lambda copy: (copy.offset, copy.partition))
