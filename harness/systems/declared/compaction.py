"""Compact the log that a dead reader is to read on in."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from harness.abilities import LogCompaction
from harness.controls import NotFiredError
from harness.model import events as kinds
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.pipelines.broker import KEPT_WHOLE, LAG

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from harness.model.history import History
    from harness.model.tail import SoFar
    from harness.systems.declared.feed.feed import DeclaredFeed
    from harness.systems.declared.results.matcher import RecordMatcher
    from harness.systems.declared.scene import Scene
    from harness.systems.kafka.log_copies import LogCopy, WholeLog

T = TypeVar("T")
RECORDED_S: Final = 20.0
"""How long a reader may take to record what it was given; or longer, where the dry run's silences
were longer.
"""
COMES_S: Final = 20.0
"""How long a later record of the key may take, in the same way."""
CLEANED_S: Final = 20.0
"""How long the cleaner may take."""
QUIET_S: Final = 2.0
"""The cleaner is at rest when it has taken nothing for so many seconds: it goes partition by
partition, and looks for more every 0.1 s.
"""
ROLLS: Final = "segment.ms"
"""Kafka never compacts the segment to which it appends. When a record comes, it begins another one
if this one is so old.
"""


@dataclass
class CompactedLog(LogCompaction):
    """Compacts the target's topic. Implements :class:`harness.abilities.LogCompaction`."""

    scene: Scene
    feed: DeclaredFeed
    matcher: RecordMatcher

    def await_recorded(self) -> None:
        """Wait until all that the wire saw reach a reader of the topic is in the output: nobody can
        read it again when compaction has taken it.

        Raises:
            NotFiredError: it is not.
        """
        topics = self.scene.pipeline.between

        def recorded() -> bool:
            given = {
                e.record
                for e in self.scene.so_far.of(kinds.Fetched)
                if e.reached and e.topic in topics
            }
            return given <= {*self.matcher.ids(), *self.matcher.set_aside()}

        self._await(recorded, RECORDED_S, "what the reader was given to be recorded")

    def compact(self) -> None:
        """Let the remaining records come, each into a segment of its own; then let the cleaner take
        what has a later record of its key, until the target is gone. The history says what the log
        has then, as the broker answers.

        Raises:
            NotFiredError: the target is not in a topic that is compacted, or has no later record of
                its key, or the cleaner has not taken it.
        """
        topic, target = self._target()
        try:
            self._compact(topic, target)
        except NotFiredError:
            with contextlib.suppress(NotFiredError):
                self._tell(topic, {ROLLS: None, LAG: KEPT_WHOLE[LAG]})
            raise

    def _compact(self, topic: str, target: LogCopy) -> None:
        self.scene.passed |= how_far(self.scene.so_far, topic)
        self._tell(topic, {ROLLS: "1"})
        ends = self.scene.kafka.observer.ends(topic)
        self.feed.release()

        def follows() -> WholeLog | None:
            if not self.feed.exhausted():
                return None
            log = self.scene.kafka.observer.log(topic)
            behind = log.ends[target.partition].end > ends[target.partition].end
            return log if behind and last_of_key(log, target) is not None else None

        wanted = f"a later record with the key of {self._named(target)}, and one behind it, in "
        wanted += f"partition {target.partition} of {topic}"
        self._await(follows, COMES_S, wanted)
        self._tell(topic, {ROLLS: None})  # what comes from now on is not compacted
        whole = self.scene.uncompacted[topic] = self.scene.kafka.observer.log(topic)
        self._tell(topic, {LAG: "0"})

        cleaned = Cleaned(self.scene, topic, target)
        self._await(cleaned.log, CLEANED_S, f"the cleaner to compact {topic}")
        self._tell(topic, {LAG: KEPT_WHOLE[LAG]})  # a pass that has begun goes on
        log = self._await(
            partial(cleaned.log, QUIET_S), CLEANED_S, f"the cleaner of {topic} to rest"
        )
        left = set(map(_spot, log.copies))
        self.scene.superseded |= {
            record
            for copy in whole.copies
            if _spot(copy) not in left and (record := self.matcher.id_of(copy)) is not None
        }
        later = last_of_key(log, target)
        offsets = [c.offset for c in log.copies if c.visible and c.partition == target.partition]
        self.scene.history.write(
            kinds.Compacted(
                record=self.scene.load.target.id,
                topic=topic,
                partition=target.partition,
                offset=target.offset,
                next=min((each for each in offsets if each >= target.offset), default=None),
                later=None if later is None else later.offset,
            )
        )

    def _target(self) -> tuple[str, LogCopy]:
        """Return the last copy of the target, and its topic."""
        scene, target = self.scene, self.scene.load.target.id
        for topic in scene.pipeline.between:
            if not scene.pipeline.topic_settings.compacts((topic,)):
                continue
            copies = scene.kafka.observer.copies(topic)
            found = [c for c in copies if c.visible and self.matcher.id_of(c) == target]
            if found:
                return topic, max(found, key=lambda copy: copy.offset)
        raise NotFiredError(f"{target} is in no topic that is compacted")

    def _named(self, copy: LogCopy) -> str:
        return f"{self.scene.load.target.id} ({(copy.key or b'').decode('utf-8', 'replace')!r})"

    def _tell(self, topic: str, settings: Mapping[str, str | None]) -> None:
        """Change settings of the topic (``None``: back to what they were), and wait until every
        leader knows them.
        """
        observer, declared = self.scene.kafka.observer, self.scene.pipeline.topic_settings.to(topic)
        told = {
            name: declared.get(name, UNDECLARED.get(name, "")) if value is None else value
            for name, value in settings.items()
        }
        observer.tell_topic(topic, told)
        leaders = {each.leader for each in observer.leaderships(topic).values()}
        for leader in leaders:
            for name, value in told.items():
                knows = partial(_knows, observer.told_to, leader, topic, name, value)
                self._await(knows, CLEANED_S, f"{name} of {topic} to be {value}")

    def _await(self, met: Callable[[], T | None], least_s: float, because: str) -> T:
        within_s = self.scene.learnt.silences.still(self.scene.cell, least_s)
        try:
            return wait_until(met, within_s=within_s, because=because, poll_s=0.2)
        except WaitTimeoutError as error:
            raise NotFiredError(str(error)) from error


class Cleaned:
    """Watches a log until the cleaner has taken a copy from it, and takes no more."""

    def __init__(self, scene: Scene, topic: str, target: LogCopy) -> None:
        self._scene = scene
        self._topic = topic
        self._target = _spot(target)
        self._before: set[tuple[int, int]] = set()
        self._since = time.monotonic()

    def log(self, quiet_s: float = 0.0) -> WholeLog | None:
        """Return the log if it is so, and has been for so many seconds."""
        log = self._scene.kafka.observer.log(self._topic)
        before, self._before = self._before, set(map(_spot, log.copies))
        if before != self._before:
            self._since = time.monotonic()
            return None
        rested = time.monotonic() - self._since >= quiet_s
        return log if self._target not in before and rested else None


UNDECLARED: Final = {ROLLS: "604800000"}
"""Kafka's own defaults."""


def last_of_key(log: WholeLog, of: LogCopy) -> LogCopy | None:
    """Return the last visible copy with a copy's key behind it in its partition; ``None``: none. A
    copy without a value (a tombstone) is one, too.
    """
    later = [
        copy
        for copy in log.copies
        if copy.visible
        and (copy.partition, copy.key) == (of.partition, of.key)
        and copy.offset > of.offset
    ]
    return max(later, key=lambda copy: copy.offset, default=None)


def how_far(seen: History | SoFar, topic: str) -> dict[tuple[str, int], int]:
    """Return how far readers are in each log of a topic: the highest offset that they were given,
    or have saved as their position. They are behind each copy below it.
    """
    lines: list[kinds.Fetched | kinds.Committed]
    lines = [*seen.of(kinds.Fetched), *seen.of(kinds.Committed)]
    found: dict[tuple[str, int], int] = {}
    for line in lines:
        if line.topic == topic and line.reached:
            log = topic, line.partition or 0
            found[log] = max(found.get(log, 0), line.offset or 0)
    return found


def _spot(copy: LogCopy) -> tuple[int, int]:
    return copy.partition, copy.offset


def _knows(
    told_to: Callable[[int, str, str], str | None], leader: int, topic: str, name: str, value: str
) -> bool:
    return told_to(leader, topic, name) == value
