"""Proof that a container's fault has happened: what the container engine reported."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from harness.model import events as kinds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from harness.judge.proof import ProofContext


class EngineReport(StrEnum):
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
    """The engine reported each of these ``words`` (values of :class:`EngineReport`) after the fault
    had fired.
    """

    name: ClassVar[str] = "engine-said"

    words: Sequence[str]

    def trouble(self, course: ProofContext) -> str | None:
        """Say which of ``words`` the engine did not report, or what contradicts it."""
        since = course.fired_at or 0
        return trouble(self.words, (e for e in course.history.of(kinds.Engine) if e.t >= since))


def trouble(wanted: Iterable[str], events: Iterable[kinds.Engine]) -> str | None:
    """Say which of the ``wanted`` words the ``engine`` events do not prove, or return ``None``.

    >>> trouble(["oom-killed"], [])
    'the container engine did not report: oom-killed'
    >>> again = kinds.Engine(t=0, said="new-container", before="a", after="a")
    >>> trouble(["new-container"], [again])
    'no new container was started: the same one came back, a'
    >>> other = kinds.Engine(t=0, said="new-container", before="a", after="b")
    >>> trouble(["new-container"], [other]) is None
    True
    >>> full = kinds.Engine(t=0, said="disk-full", volume="v", size=4096, free=512)
    >>> trouble(["disk-full"], [full])
    'the disk v was not full: 512 of 4096 bytes were free'
    """
    seen = {event.said: event for event in events}
    for word in wanted:
        if word not in seen:
            return f"the container engine did not report: {word}"
        event = seen[word]
        if word == EngineReport.NEW_CONTAINER and event.before == event.after:
            return f"no new container was started: the same one came back, {event.after}"
        if word == EngineReport.DISK_FULL and (event.free != 0 or not event.size):
            return (
                f"the disk {event.volume} was not full: {event.free} of "
                f"{event.size} bytes were free"
            )
        if word == EngineReport.VOLUME_EMPTIED and not event.bytes:
            return f"the volume was empty, so nothing was lost: {event.volume}"
    return None
