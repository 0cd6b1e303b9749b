"""Proof that a container's fault has happened: what the container engine reported."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from harness.model import events as kinds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from harness.judge.proof import Course
    from harness.model.history import Event


class Said(StrEnum):
    """What the container engine reported of a node, as it stands in an ``engine`` event."""

    OOM_KILLED = "oom-killed"
    """``limit`` (bytes): the kernel ended the container when it hit this limit of its memory."""
    NEW_CONTAINER = "new-container"
    """``before, after`` (ids), ``volume``: another container took the place of the dead one, on the
    same folder of the host.
    """
    VOLUME_EMPTIED = "volume-emptied"
    """``volume, bytes``: the volume was emptied of so many bytes. The file system says so, while no
    container used the volume.
    """
    DISCONNECTED = "disconnected"
    """``address``: the container has left the network of the run; this was its address there."""
    CONNECTED = "connected"
    """``address``: the container is in the network again, with this address, which may be the same
    as before.
    """

    DISK_FULL = "disk-full"
    """``volume, size, free`` (bytes), ``status, because``: the file system says that the
    container's disk was full. Then the container ended by itself, with the exit code ``status``.
    ``because``: what its log says of that, if it has one.
    """
    DISK_EMPTIED = "disk-emptied"
    """``volume, size, free``: the disk has room again."""


@dataclass(frozen=True, slots=True)
class EngineSaid:
    """The engine reported each of these ``words`` (values of :class:`Said`) after the fault had
    fired.
    """

    name: ClassVar[str] = "engine-said"

    words: Sequence[str]

    def trouble(self, course: Course) -> str | None:
        """Say which of ``words`` the engine did not report, or what contradicts it."""
        since = course.fired_at or 0
        return trouble(self.words, (e for e in course.history.of(kinds.ENGINE) if e["t"] >= since))


def trouble(wanted: Iterable[str], events: Iterable[Event]) -> str | None:
    """Say which of the ``wanted`` words the ``engine`` events do not prove, or return ``None``.

    >>> trouble(["oom-killed"], [])
    'the container engine did not report: oom-killed'
    >>> trouble(["new-container"], [{"said": "new-container", "before": "a", "after": "a"}])
    'no new container was started: the same one came back, a'
    >>> trouble(["new-container"], [{"said": "new-container", "before": "a", "after": "b"}]) is None
    True
    >>> trouble(["disk-full"], [{"said": "disk-full", "volume": "v", "size": 4096, "free": 512}])
    'the disk v was not full: 512 of 4096 bytes were free'
    """
    seen = {str(event.get("said")): event for event in events}
    for word in wanted:
        if word not in seen:
            return f"the container engine did not report: {word}"
        event = seen[word]
        if word == Said.NEW_CONTAINER and event.get("before") == event.get("after"):
            return f"no new container was started: the same one came back, {event.get('after')}"
        if word == Said.DISK_FULL and (event.get("free") != 0 or not event.get("size")):
            return (
                f"the disk {event.get('volume')} was not full: {event.get('free')} of "
                f"{event.get('size')} bytes were free"
            )
        if word == Said.VOLUME_EMPTIED and not event.get("bytes"):
            return f"the volume was empty, so nothing was lost: {event.get('volume')}"
    return None
