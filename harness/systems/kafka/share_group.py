"""A share group and its queue: what it is told, what is left to it, and what has become of each record.

The authority is the share coordinator's own log, ``__share_group_state``, read at rest: it says of each offset whether it was
acknowledged or archived, or is available again, and after how many deliveries. It knows no locks: whether what is not done is
ready, or in flight at somebody, is in no log. The broker's own count of what is left (DescribeShareGroupOffsets) is held
against it.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

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

    from harness.systems.kafka.observer import LogCopy, WholeLog
    from harness.systems.kafka.scene import Scene

_KINDS: Final = {0: messages.ShareSnapshotValue, 1: messages.ShareUpdateValue}
"""What a record of the log says, by the number that its key begins with."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What was written down last of an offset: its state, and how often it had been delivered."""

    state: int
    deliveries: int


DONE: Final = frozenset({ACKNOWLEDGED, ARCHIVED})
NEW: Final = Fate(AVAILABLE, 0)


def fates(journal: Iterable[LogCopy], group: str) -> dict[tuple[int, int], Fate]:
    """Return what the share coordinator's log says of a group, by partition and offset. A group reads one topic."""
    found: dict[tuple[int, int], Fate] = {}
    for copy in journal:
        if copy.key is None or copy.value is None:
            continue
        key = messages.ShareUpdateKey.decode(io.BytesIO(copy.key[2:]), version=0, header=False)
        if key.group_id != group:
            continue
        said = _KINDS[int.from_bytes(copy.key[:2], "big")].decode(copy.value)
        for batch in said.state_batches:
            for offset in range(batch.first_offset, batch.last_offset + 1):
                found[key.partition, offset] = Fate(batch.delivery_state, batch.delivery_count)
    return found


class ShareGroup:
    """The share group of a cell."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._settings = scene.settings.consumer

    def trouble(self) -> str | None:
        """Say how many records the group has not acknowledged, or return ``None``.

        A marker may be left to it: the Java client 4.3.0 forgets to acknowledge one that has come behind a record, when the poll
        before had just given up. It is given it again when the lock is over, and no reader ever sees that.
        """
        observer, group, source = self._scene.observer, self._scene.group, self._scene.source
        left = observer.left_to(group, source)
        ends = observer.ends(source)
        if unknown := [partition for partition, each in ends.items() if each.end > each.start and partition not in left]:
            return f"partition {unknown[0]}: nobody knows how many records are left to the group"
        if not any(left.values()):
            return None
        known = fates(observer.copies(SHARE_STATE), group)
        undone = [
            c for c in observer.log(source).copies if c.visible and known.get((c.partition, c.offset), NEW).state not in DONE
        ]
        return f"{len(undone)} records are left to the group, the first at {undone[0].offset}" if undone else None

    def observe(self, observe_sink: Callable[[], None]) -> None:
        """Write the results, every copy, and what has become of it."""
        observe_sink()
        observer, group, source = self._scene.observer, self._scene.group, self._scene.source
        left = observer.left_to(group, source)
        known = fates(observer.copies(SHARE_STATE), group)
        log = observer.log(source)
        waiting = [self._tell(copy, log, known.get((copy.partition, copy.offset))) for copy in log.copies]
        offsets = ((partition, at) for partition, ends in log.ends.items() for at in range(ends.start, ends.end))
        undone = sum(known.get(offset, NEW).state not in DONE for offset in offsets)
        ready = waiting.count(Waiting.READY)
        # the broker counts offsets: markers, and what was aborted, among them
        self._scene.history.write(kinds.COUNTED, hop=Hop.TOPIC, queue=source, ready=sum(left.values()) - undone + ready,
                                  in_flight=0, scheduled=0)  # fmt: skip

    def _tell(self, copy: LogCopy, log: WholeLog, fate: Fate | None) -> Waiting | None:
        """Write a copy, and why it is gone; return what it waits for."""
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
        write: Any = self._scene.history.write
        intact = bool(payload and ours and payload.intact)
        write(kinds.STORED, hop=Hop.TOPIC, queue=self._scene.source, place=place, waiting=waiting, visible=copy.visible,
              record=record, key=text_of(copy.key), intact=intact, attempt=copy.attempt)  # fmt: skip
        if why is not None:
            write(kinds.REMOVED, place=place, record=record, why=why)
        return waiting

    def _why(self, fate: Fate | None) -> Removal | None:
        """Return why a record is delivered no more: what was rejected at its last delivery had reached its limit, too."""
        if fate is None or fate.state not in DONE:
            return None
        if fate.state == ACKNOWLEDGED:
            return Removal.ACK
        return Removal.LIMIT if fate.deliveries >= self._settings.share.limit else Removal.REJECT
