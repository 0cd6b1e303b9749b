"""Ask Kafka's authorities at the end of a cell: the source, the saved positions, the logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.model.record import decode
from harness.model.states import Hop
from harness.stages.producer_settings import SaveCursor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from harness.systems.kafka.log_copies import LogCopy, WholeLog
    from harness.systems.kafka.scene import Scene


def observe_source(scene: Scene) -> None:
    """Write the offered records and the position of the source's cursor."""
    scene.observe_offered()
    if scene.settings.producer.cursor is SaveCursor.IN_TRANSACTION:
        scene.history.write(kinds.Cursor(position=_cursor_in_topic(scene), where="topic"))
    else:
        scene.observe_cursor()


def _cursor_in_topic(scene: Scene) -> int:
    log = scene.observer.log(scene.cursor)
    _tell_ends(scene, Hop.CURSOR, scene.cursor, log)
    written = [copy for copy in log.copies if copy.visible]
    return int(written[-1].value or b"1") if written else 1


def observe_reading(
    scene: Scene, saved_positions: Callable[[], Mapping[int, int]], observe_sink: Callable[[], None]
) -> None:
    """Write the saved positions, then the results, then the source's log; the positions say which
    of its copies were read.
    """
    saved = saved_positions()
    for partition, offset in saved.items():
        scene.history.write(
            kinds.Position(
                partition=partition,
                offset=offset,
                where=scene.settings.consumer.position,
            )
        )
    observe_sink()
    observe_log(scene, Hop.TOPIC, scene.source, saved)


def observe_log(
    scene: Scene,
    hop: Hop,
    topic: str,
    saved: Mapping[int, int] | None = None,
    *,
    values: bool = False,
) -> tuple[LogCopy, ...]:
    """Write every copy of a log, and the log's end offsets; return the copies.

    ``values``: intact copies are values with ids folded in, not records.
    """
    log = scene.observer.log(topic)
    for copy in log.copies:
        payload = decode(copy.value)
        ours = payload is not None and payload.cell_key == scene.cell.key
        intact = bool(payload and ours and payload.intact)
        scene.history.write(
            kinds.Stored(
                hop=hop,
                topic=topic,
                **log.said_of(copy, saved),
                record=payload.record if payload and ours else None,
                key=text_of(copy.key),
                intact=intact,
                attempt=copy.attempt,
                foreign=values and intact,
            )
        )
    _tell_ends(scene, hop, topic, log)
    return log.copies


def _tell_ends(scene: Scene, hop: Hop, topic: str, log: WholeLog) -> None:
    for partition, ends in log.ends.items():
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


def text_of(data: bytes | None) -> str | None:
    """Return a key as text, ``None`` for no key."""
    return data.decode("ascii", "replace") if data is not None else None
