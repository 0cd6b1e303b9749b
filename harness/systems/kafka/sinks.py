"""A topic as the sink of a cell: of results, or of aggregates that list the ids folded in (the last
of each key counts).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.model.record import decode
from harness.model.states import Hop
from harness.run.sinks import NO_ORIGIN, Row, origin_of, recorded
from harness.systems.kafka.authorities import observe_log, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.systems.kafka.scene import Scene


class TopicSink:
    """Results in a topic, which is created with the other topics."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    def open(self) -> None:
        """Do nothing: the topic exists."""

    def close(self) -> None:
        """Do nothing: the topic stays."""

    def size(self) -> object:
        """Return the end offsets of its partitions."""
        return tuple(self._scene.observer.ends(self._scene.sink).items())

    def observe(self) -> None:
        """Write the topic's log, and every visible copy as a result."""
        for copy in observe_log(self._scene, Hop.SINK, self._scene.sink):
            if copy.visible:
                row = Row(
                    copy.value, text_of(copy.key), copy.offset, origin_of(copy.origin), copy.attempt
                )
                recorded(self._scene, row)


class FoldedSink(TopicSink):
    """Aggregates in a topic, which is created with the other topics."""

    def observe(self) -> None:
        """Write the topic's log, and the ids folded into each visible value; a value that is
        damaged counts as a result.

        The values of a key are in one partition, so their offsets give their order.
        """
        scene = self._scene
        for copy in observe_log(scene, Hop.SINK, scene.sink, values=True):
            payload = decode(copy.value)
            if not copy.visible:
                continue
            if payload is None or not payload.intact or payload.cell_key != scene.cell.key:
                recorded(
                    scene, Row(copy.value, text_of(copy.key), copy.offset, NO_ORIGIN, copy.attempt)
                )
                continue
            for record, times in folded(copy.value or b""):
                scene.history.write(
                    kinds.Folded(
                        key=text_of(copy.key),
                        version=copy.offset,
                        record=record,
                        times=times,
                    )
                )


def folded(value: bytes) -> Iterator[tuple[str, int]]:
    r"""Yield each record id in a value, with how many times it is folded in.

    >>> list(folded(b"lostack c0ffee k1-7 7 00000000\nk1-2=1 k1-7=2 "))
    [('k1-2', 1), ('k1-7', 2)]
    """
    for word in value.partition(b"\n")[2].decode("ascii").split():
        record, _, times = word.rpartition("=")
        yield record, int(times)
