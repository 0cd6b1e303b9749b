"""The results of a count: values that carry the ids folded in, of which the last one of each key counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.model import events as kinds
from harness.model.record import decode
from harness.model.states import Hop
from harness.run.sinks import NO_ORIGIN, Row, recorded
from harness.systems.kafka.authorities import observe_log, text_of
from harness.systems.kafka.sinks import TopicSink

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.systems.kafka.scene import Scene

CHANGELOG: Final = "-state-changelog"
"""What Kafka Streams puts behind the name of an application to name the changelog of its one store."""


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


def kept(scene: Scene) -> str | None:
    """Which record an application still has in its store, by its changelog, to be sent later; or ``None``.

    What a task keeps it sends in the order in which it came. One that is older than what was sent is not in the store any more,
    whatever the changelog says: it was never sent, and never will be.
    """
    changes = scene.observer.copies(f"{scene.group}{CHANGELOG}")
    waiting: dict[int, dict[bytes | None, int]] = {}
    sent: dict[int, int] = {}
    for copy in sorted(changes, key=lambda copy: (copy.partition, copy.offset)):
        if copy.visible and copy.value is not None:
            waiting.setdefault(copy.partition, {})[copy.key] = copy.offset
        elif copy.visible and (put := waiting.get(copy.partition, {}).pop(copy.key, None)) is not None:
            sent[copy.partition] = max(put, sent.get(copy.partition, put))
    here = (key for at, keys in waiting.items() for key, put in keys.items() if put > sent.get(at, -1))
    found = next(here, None)
    return None if found is None else f"{text_of(found)} is in the store, and was not sent"


def folded(value: bytes) -> Iterator[tuple[str, int]]:
    r"""Yield the ids that a value carries, each with how often it is folded in.

    >>> list(folded(b"lostack c0ffee k1-7 7 00000000\nk1-2=1 k1-7=2 "))
    [('k1-2', 1), ('k1-7', 2)]
    """
    for word in value.partition(b"\n")[2].decode("ascii").split():
        record, _, times = word.rpartition("=")
        yield record, int(times)
