"""Proof of a container's fault: what the container engine said."""

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
    """The engine's word, as it stands in an ``engine`` event."""

    OOM_KILLED = "oom-killed"
    """``limit`` (bytes): the kernel ended the container when it hit this limit of its memory."""
    NEW_CONTAINER = "new-container"
    """``before, after`` (ids), ``volume``: another container took the place of the dead one, on the same folder of the host."""
    VOLUME_EMPTIED = "volume-emptied"
    """``volume, bytes``: what it held is gone. Not the engine's word but the file system's, while no container had it."""
    DISCONNECTED = "disconnected"
    """``address``: the container has none in the network of the run any more; this is the one it had."""
    CONNECTED = "connected"
    """``address``: it has one again, which may be the same."""

    DISK_FULL = "disk-full"
    """``volume, size, free`` (bytes), ``status, because``: nothing more fitted on the container's disk, says its file system,
    and then it ended by itself, with this status; ``because``: what it said of that, where its image writes a log."""
    DISK_EMPTIED = "disk-emptied"
    """``volume, size, free``: the disk has room again."""


@dataclass(frozen=True, slots=True)
class EngineSaid:
    """The engine said each of these words (values of :class:`Said`) after the fault had fired."""

    name: ClassVar[str] = "engine-said"

    words: Sequence[str]

    def trouble(self, course: Course) -> str | None:
        """Say which word is missing, or was said of another node."""
        since = course.fired_at or 0
        return trouble(self.words, (e for e in course.history.of(kinds.ENGINE) if e["t"] >= since))


def trouble(wanted: Iterable[str], events: Iterable[Event]) -> str | None:
    """Say what the ``engine`` events do not show, or ``None``.

    >>> trouble(["oom-killed"], [])
    'the container engine did not say: oom-killed'
    >>> trouble(["new-container"], [{"said": "new-container", "before": "a", "after": "a"}])
    'the same container came back: a'
    >>> trouble(["new-container"], [{"said": "new-container", "before": "a", "after": "b"}]) is None
    True
    >>> trouble(["disk-full"], [{"said": "disk-full", "volume": "v", "size": 4096, "free": 512}])
    'the disk v was not full: 512 of 4096 bytes were free'
    """
    seen = {str(event.get("said")): event for event in events}
    for word in wanted:
        if word not in seen:
            return f"the container engine did not say: {word}"
        event = seen[word]
        if word == Said.NEW_CONTAINER and event.get("before") == event.get("after"):
            return f"the same container came back: {event.get('after')}"
        if word == Said.DISK_FULL and (event.get("free") != 0 or not event.get("size")):
            return f"the disk {event.get('volume')} was not full: {event.get('free')} of {event.get('size')} bytes were free"
        if word == Said.VOLUME_EMPTIED and not event.get("bytes"):
            return f"the volume held nothing that could be lost: {event.get('volume')}"
    return None
