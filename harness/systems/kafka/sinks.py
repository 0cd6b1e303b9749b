"""A topic as the sink of a cell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.model.states import Hop
from harness.run.sinks import Row, origin_of, recorded
from harness.systems.kafka.authorities import observe_log, text_of

if TYPE_CHECKING:
    from harness.systems.kafka.scene import Scene


class TopicSink:
    """Results in a topic, which is made with the others."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    def open(self) -> None:
        """It is there."""

    def close(self) -> None:
        """It stays."""

    def size(self) -> Any:
        """Return where its partitions end."""
        return tuple(self._scene.observer.ends(self._scene.sink).items())

    def observe(self) -> None:
        """Write its log, and every visible copy as a result."""
        for copy in observe_log(self._scene, Hop.SINK, self._scene.sink):
            if copy.visible:
                row = Row(copy.value, text_of(copy.key), copy.offset, origin_of(copy.origin), copy.attempt)
                recorded(self._scene, row)
