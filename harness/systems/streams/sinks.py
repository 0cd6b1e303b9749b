"""Find records that an application still has in its store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.systems.kafka.authorities import text_of

if TYPE_CHECKING:
    from harness.systems.kafka.scene import Scene

CHANGELOG: Final = "-state-changelog"
"""The suffix that Kafka Streams adds to an application's name for the changelog of its
only store.
"""


def kept(scene: Scene) -> str | None:
    """Say which record an application still has in its store, according to the changelog; ``None``
    if it has none.

    A task sends its records in the order in which they came. A record that is older than one that
    was sent does not count: whatever the changelog says, it is no longer in the store and will
    never be sent.
    """
    changes = scene.observer.copies(f"{scene.group}{CHANGELOG}")
    waiting: dict[int, dict[bytes | None, int]] = {}
    sent: dict[int, int] = {}
    for copy in sorted(changes, key=lambda copy: (copy.partition, copy.offset)):
        if copy.visible and copy.value is not None:
            waiting.setdefault(copy.partition, {})[copy.key] = copy.offset
        elif (
            copy.visible
            and (put := waiting.get(copy.partition, {}).pop(copy.key, None)) is not None
        ):
            sent[copy.partition] = max(put, sent.get(copy.partition, put))
    here = (
        key for at, keys in waiting.items() for key, put in keys.items() if put > sent.get(at, -1)
    )
    found = next(here, None)
    return None if found is None else f"{text_of(found)} is in the store and was not sent yet"
