"""Delete what a dead reader has worked on, so that the log begins behind its saved position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness.abilities import Retention
from harness.controls import NotFiredError, role_of
from harness.model import events as kinds

if TYPE_CHECKING:
    from harness.systems.declared.feed.feed import DeclaredFeed
    from harness.systems.declared.scene import Scene

NEWER_S: Final = 20.0
"""How long a newer record may take to come into the partition; or longer, where the dry run's
silences were longer.
"""


@dataclass
class DeletedRecords(Retention):
    """Deletes records from a topic of the pipeline. Implements
    :class:`harness.abilities.Retention`.
    """

    scene: Scene
    feed: DeclaredFeed

    def expire(self) -> None:
        """Delete the target's partition up to the target, and wait for a newer record there; then
        the history says where the log begins and ends, as the broker answers.

        Raises:
            NotFiredError: the wire did not see where the target is, or no newer record came.
        """
        role = role_of(self.scene.cell.scenario.fault)
        scene, observer = self.scene, self.scene.kafka.observer
        target = scene.load.target.id
        given = [
            e
            for e in scene.so_far.of(kinds.Fetched)
            if e.record == target and e.reached and e.at is not None and e.topic in self._topics
        ]
        if not given or given[-1].at is None:
            raise NotFiredError(f"the wire did not see where {target} is")
        topic, (partition, offset) = str(given[-1].topic), given[-1].at
        observer.delete(topic, {partition: offset + 1})

        def newer() -> bool:
            return observer.ends(topic)[partition].end > offset + 1

        because = f"a newer record in partition {partition} of {topic}"
        # the last wave waits, so that records come when the reader is back: one that begins at the
        # end would otherwise have nothing to read, and save no position
        scene.await_met(lambda: newer() or self.feed.exhausted(), NEWER_S, because)
        if not newer():
            self.feed.release()
            scene.await_met(newer, NEWER_S, because)
        saved = [
            position
            for group in scene.stages_seen.groups(role)
            if (position := observer.positions(group, topic).get(partition)) is not None
        ]
        ends = observer.ends(topic)[partition]
        scene.history.write(
            kinds.Overrun(
                record=target,
                topic=topic,
                partition=partition,
                saved=max(saved, default=None),
                start=ends.start,
                end=ends.end,
            )
        )

    @property
    def _topics(self) -> frozenset[str]:
        return frozenset(self.scene.pipeline.topics)
