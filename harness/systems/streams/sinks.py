"""What an application still has in its store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.systems.kafka.authorities import text_of

if TYPE_CHECKING:
    from harness.systems.kafka.scene import Scene

CHANGELOG: Final = "-state-changelog"
"""What Kafka Streams puts behind the name of an application to name the changelog of its one store."""


def kept(scene: Scene) -> str | None:
    """Return which record an application still has in its store, by its changelog, to be sent later; or ``None``.

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
