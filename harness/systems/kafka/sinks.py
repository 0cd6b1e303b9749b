"""A topic as the sink of a cell: of results, or of values that carry the ids folded in, of which the last of each key counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.model import events as kinds
from harness.model.record import decode
from harness.model.states import Hop
from harness.run.sinks import NO_ORIGIN, Row, origin_of, recorded
from harness.systems.kafka.authorities import observe_log, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.systems.kafka.scene import Scene


class TopicSink:
    """Results in a topic, which is made with the others."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    def open(self) -> None:
        """Do nothing yet: it is there."""

    def close(self) -> None:
        """Do nothing: it stays."""

    def size(self) -> Any:
        """Return where its partitions end."""
        return tuple(self._scene.observer.ends(self._scene.sink).items())

    def observe(self) -> None:
        """Write its log, and every visible copy as a result."""
        for copy in observe_log(self._scene, Hop.SINK, self._scene.sink):
            if copy.visible:
                row = Row(copy.value, text_of(copy.key), copy.offset, origin_of(copy.origin), copy.attempt)
                recorded(self._scene, row)


class FoldedSink(TopicSink):
    """A topic of values, made with the others."""

    def observe(self) -> None:
        """Write its log, and what is folded into each value that a read-committed reader sees; and what is none.

        A key's values stand in one partition, so their order is that of their offsets.
        """
        scene = self._scene
        for copy in observe_log(scene, Hop.SINK, scene.sink, values=True):
            payload = decode(copy.value)
            if not copy.visible:
                continue
            if payload is None or not payload.intact or payload.cell_key != scene.cell.key:
                recorded(scene, Row(copy.value, text_of(copy.key), copy.offset, NO_ORIGIN, copy.attempt))
                continue
            for record, times in folded(copy.value or b""):
                scene.history.write(kinds.FOLDED, key=text_of(copy.key), version=copy.offset, record=record, times=times)


def folded(value: bytes) -> Iterator[tuple[str, int]]:
    r"""Yield the ids that a value carries, each with how often it is folded in.

    >>> list(folded(b"lostack c0ffee k1-7 7 00000000\nk1-2=1 k1-7=2 "))
    [('k1-2', 1), ('k1-7', 2)]
    """
    for word in value.partition(b"\n")[2].decode("ascii").split():
        record, _, times = word.rpartition("=")
        yield record, int(times)
