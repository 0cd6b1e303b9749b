"""Delete the topic of a pipeline whose programs are down, and make it anew."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from harness.abilities import NewTopic
from harness.model import events as kinds
from harness.model.former import former
from harness.model.places import Removal, log_fields
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.proofs.made_anew import is_as_long

if TYPE_CHECKING:
    from harness.model.scenario import Role
    from harness.systems.declared.feed.feed import DeclaredFeed
    from harness.systems.declared.late_topic import CreatedLate
    from harness.systems.declared.results.matcher import RecordMatcher
    from harness.systems.declared.scene import Scene
    from harness.systems.declared.transport.interface import Transport

DONE_S: Final = 30.0
"""How long a reader may take to record what is in the topic and to save that: longer than an
auto-commit interval; or longer, where the dry run's silences were longer.
"""
FILLED_S: Final = 20.0
"""How long records may take to come into the new topic; or longer, in the same way."""
GOES_S: Final = 2.0
"""How long the brokers may take to delete the positions that groups had in a deleted topic."""


@dataclass
class RemadeTopic(NewTopic):
    """Makes the topic between the first stages anew."""

    scene: Scene
    feed: DeclaredFeed
    matcher: RecordMatcher
    transport: Transport
    late: CreatedLate
    _ends: dict[int, int] = field(default_factory=dict)
    """Where the logs of the deleted topic ended."""

    def appear(self, role: Role) -> None:
        """Start the reader without its topic; create that, and let it have a record first."""
        self.late.appear(role)

    def await_done(self) -> None:
        """Wait until the readers have recorded everything in the topic, and saved that.

        Raises:
            NotFiredError: they have not.
        """
        topic, known = self.scene.pipeline.topic, self.scene.known.keys()

        def done() -> bool:
            if not self.transport.settled():
                return False
            copies = self.scene.kafka.observer.copies(topic)
            there = {self.matcher.id_of(copy) for copy in copies if copy.visible}
            return (there & known) <= {*self.matcher.ids(), *self.matcher.set_aside()}

        self.scene.await_met(done, DONE_S, f"all of {topic} to be recorded")

    def make_anew(self) -> None:
        """Write which copies go, delete the topic, create it, and forget what the wire saw of it
        before.
        """
        scene, topic = self.scene, self.scene.pipeline.topic
        observer, log = scene.kafka.observer, scene.kafka.observer.log(topic)
        self._ends = {partition: ends.end for partition, ends in log.ends.items()}
        saved = self._saved()
        for copy in log.copies:
            scene.history.write(
                kinds.Removed(
                    why=Removal.DELETED,
                    topic=former(topic),
                    record=self.matcher.id_of(copy),
                    visible=copy.visible,
                    **log_fields(copy.partition, copy.epoch, copy.offset),
                )
            )
        observer.forget([topic], ())
        gone = f"{topic} to be deleted"
        wait_until(lambda: not observer.has(topic), within_s=DONE_S, because=gone, poll_s=0.05)
        with suppress(WaitTimeoutError):  # some brokers keep them: the history says so
            wait_until(lambda: not self._saved(), within_s=GOES_S, because=gone, poll_s=0.05)
        left = self._saved()
        scene.kafka.create(
            {topic: scene.pipeline.partitions},
            scene.pipeline.topic_settings,
            scene.pipeline.broker.copies(scene.pipeline.brokers),
        )
        scene.history.write(
            kinds.Remade(
                topic=topic,
                ends=_told(self._ends),
                saved=_told(saved),
                left=_told(left),
            )
        )
        scene.records_seen.forget(topic)
        scene.topics_seen.forget(topic)

    def await_filled(self, *, longer: bool | None) -> None:
        """Wait until the new topic has a record, or a log that is as long as it must be.

        Raises:
            NotFiredError: it has none.
        """
        topic, observer = self.scene.pipeline.topic, self.scene.kafka.observer
        if longer:
            self.feed.release()

        def filled() -> dict[int, int] | None:
            ends = {partition: each.end for partition, each in observer.ends(topic).items()}
            met = any(
                is_as_long(self._ends.get(p, 0), end, longer=longer) for p, end in ends.items()
            )
            return ends if met else None

        ends = self.scene.await_met(filled, FILLED_S, f"records in {topic}, made anew")
        self.scene.history.write(kinds.Refilled(topic=topic, ends=_told(ends)))

    def _saved(self) -> dict[int, int]:
        """Return the highest position that a group has saved in each partition of the topic."""
        saved: dict[int, int] = defaultdict(int)
        for group in self.scene.groups():
            positions = self.scene.kafka.observer.positions(group, self.scene.pipeline.topic)
            for partition, offset in positions.items():
                saved[partition] = max(offset, saved[partition])
        return dict(saved)


def _told(numbers: dict[int, int]) -> dict[str, int]:
    return {str(partition): number for partition, number in numbers.items()}
