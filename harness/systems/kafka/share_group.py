"""Read a share group at rest: how many records it has not finished, and what happened to each
record.

The authority is the share coordinator's log, ``__share_group_state``. It says for each offset
whether it was acknowledged, archived, or is available again, and after how many deliveries. It does
not contain locks, so no log says whether an unfinished record is ready or in flight. The result is
compared with the broker's own count (DescribeShareGroupOffsets).
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness.model import events as kinds
from harness.model.places import Removal, Waiting, in_log
from harness.model.record import decode
from harness.model.states import Hop
from harness.protocols.kafka import messages
from harness.protocols.kafka.sharing import ACKNOWLEDGED, ARCHIVED, AVAILABLE
from harness.systems.kafka.authorities import text_of
from harness.systems.kafka.broker import SHARE_STATE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from harness.systems.kafka.log_copies import LogCopy, WholeLog
    from harness.systems.kafka.scene import Scene

_KINDS: Final = {0: messages.ShareSnapshotValue, 1: messages.ShareUpdateValue}
"""The message type of a record's value, by the number with which the record's key begins."""


@dataclass(frozen=True, slots=True)
class OffsetState:
    """The last logged state of an offset, and how often it had been delivered."""

    state: int
    deliveries: int


DONE: Final = frozenset({ACKNOWLEDGED, ARCHIVED})
NEW: Final = OffsetState(AVAILABLE, 0)


def fates(journal: Iterable[LogCopy], group: str) -> dict[tuple[int, int], OffsetState]:
    """Return a group's last logged states, by partition and offset. A group reads one topic."""
    found: dict[tuple[int, int], OffsetState] = {}
    for copy in journal:
        if copy.key is None or copy.value is None:
            continue
        key = messages.ShareUpdateKey.decode(io.BytesIO(copy.key[2:]), version=0, header=False)
        if key.group_id != group:
            continue
        said = _KINDS[int.from_bytes(copy.key[:2], "big")].decode(copy.value)
        for batch in said.state_batches:
            for offset in range(batch.first_offset, batch.last_offset + 1):
                found[key.partition, offset] = OffsetState(
                    batch.delivery_state, batch.delivery_count
                )
    return found


class ShareGroup:
    """Observes the share group of a cell."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._settings = scene.settings.consumer

    def trouble(self) -> str | None:
        """Say how many records the group has not acknowledged, or return ``None``.

        An unacknowledged transaction marker does not count: the Java client 4.3.0 may forget to
        acknowledge a marker that comes after a record, if the poll before had just timed out. The
        broker delivers the marker again when its lock is over, and no reader sees that.
        """
        observer, group, source = self._scene.observer, self._scene.group, self._scene.source
        left = observer.left_to(group, source)
        ends = observer.ends(source)
        if unknown := [
            partition
            for partition, each in ends.items()
            if each.end > each.start and partition not in left
        ]:
            return (
                f"partition {unknown[0]}: the broker does not know how many records the group "
                "has left"
            )
        if not any(left.values()):
            return None
        known = fates(observer.copies(SHARE_STATE), group)
        undone = [
            c
            for c in observer.log(source).copies
            if c.visible and known.get((c.partition, c.offset), NEW).state not in DONE
        ]
        return (
            f"{len(undone)} records are left to the group, the first at {undone[0].offset}"
            if undone
            else None
        )

    def observe(self, observe_sink: Callable[[], None]) -> None:
        """Write the results, and every copy with what happened to it."""
        observe_sink()
        observer, group, source = self._scene.observer, self._scene.group, self._scene.source
        left = observer.left_to(group, source)
        known = fates(observer.copies(SHARE_STATE), group)
        log = observer.log(source)
        waiting = [
            self._tell(copy, log, known.get((copy.partition, copy.offset))) for copy in log.copies
        ]
        offsets = (
            (partition, at)
            for partition, ends in log.ends.items()
            for at in range(ends.start, ends.end)
        )
        undone = sum(known.get(offset, NEW).state not in DONE for offset in offsets)
        ready = waiting.count(Waiting.READY)
        # the broker counts offsets, including markers and aborted records
        self._scene.history.write(
            kinds.Counted(
                hop=Hop.TOPIC,
                queue=source,
                ready=sum(left.values()) - undone + ready,
                in_flight=0,
                scheduled=0,
            )
        )

    def _tell(self, copy: LogCopy, log: WholeLog, fate: OffsetState | None) -> Waiting | None:
        """Write a copy, and why it was removed, if it was; return what it waits for."""
        payload = decode(copy.value)
        ours = payload is not None and payload.cell_key == self._scene.cell.key
        record = payload.record if payload and ours else None
        place = in_log(copy.partition, copy.epoch, copy.offset)
        why = self._why(fate) if copy.visible else None
        waiting: Waiting | None = None
        if not copy.visible:
            waiting = Waiting.OPEN if copy.offset >= log.ends[copy.partition].stable else None
        elif why is None:
            waiting = Waiting.READY
        write: Callable[..., None] = self._scene.history.write
        intact = bool(payload and ours and payload.intact)
        write(
            kinds.Stored(
                hop=Hop.TOPIC,
                queue=self._scene.source,
                place=place,
                waiting=waiting,
                visible=copy.visible,
                record=record,
                key=text_of(copy.key),
                intact=intact,
                attempt=copy.attempt,
            )
        )
        if why is not None:
            write(kinds.Removed(place=place, record=record, why=why))
        return waiting

    def _why(self, fate: OffsetState | None) -> Removal | None:
        """Return why a record is not delivered again, or ``None``. A reject at the last allowed
        delivery counts as the limit.
        """
        if fate is None or fate.state not in DONE:
            return None
        if fate.state == ACKNOWLEDGED:
            return Removal.ACK
        return Removal.LIMIT if fate.deliveries >= self._settings.share.limit else Removal.REJECT
