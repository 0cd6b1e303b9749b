"""Compact the log that a dead reader is to read on in."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from harness.abilities import LogCompaction
from harness.controls import NotFiredError
from harness.model import events as kinds
from harness.model.semantics import Anomaly, forbids
from harness.pipelines.broker import KEPT_WHOLE, LAG
from harness.proofs.compaction import given_by, how_far
from harness.protocols.kafka.steps import Api
from harness.wire.rules import Action, Direction, How, Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from harness.run.controls import WireControls
    from harness.systems.declared.feed.feed import DeclaredFeed
    from harness.systems.declared.results.matcher import RecordMatcher
    from harness.systems.declared.scene import Scene
    from harness.systems.kafka.log_copies import LogCopy, WholeLog

HELD: Final = "given-no-more"
"""The rule that holds all answers to a reader's fetches."""
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
    controls: WireControls
    feed: DeclaredFeed
    matcher: RecordMatcher
    _holds: bool = False

    def await_recorded(self) -> None:
        """Let the reader be given nothing more, and wait until all that it was given is in the
        output: nobody can read it again when compaction has taken it. If the claim permits loss,
        what it was given may be lost with it.

        Raises:
            NotFiredError: it is not. The reader is given the rest then.
        """
        scene = self.scene
        if not forbids(scene.pipeline.claims, Anomaly.LOST):
            return
        rule = Rule(
            HELD,
            Action.HOLD,
            Api.FETCH,
            direction=Direction.RESPONSE,
            role=str(scene.reader),
            limit=None,
        )
        self.controls.wire.arm(scene.cell.id, rule)
        self._holds = True
        before: set[str] | None = None

        def recorded() -> bool:
            nonlocal before
            given, last = self._given(), before
            before = given
            return given == last and given <= {*self.matcher.ids(), *self.matcher.set_aside()}

        try:
            self.scene.await_met(
                recorded, RECORDED_S, f"what the {scene.reader} was given to be recorded"
            )
        except NotFiredError:
            self._let_go(How.RELEASE)
            raise

    def _given(self) -> set[str]:
        """Return the records of compacted topics that the reader was given."""
        scene, settings = self.scene, self.scene.pipeline.topic_settings
        topics = [topic for topic in scene.pipeline.between if settings.compacts((topic,))]
        found = (given_by(scene.so_far, topic)[str(scene.reader)] for topic in topics)
        return {line.record for lines in found for line in lines}

    def _let_go(self, how: How) -> None:
        """Hold no more answers to the reader, and resolve those that are held."""
        if not self._holds:
            return
        wire, cell = self.controls.wire, self.scene.cell.id
        self._holds = False
        wire.disarm(cell, HELD)
        for held in wire.holds():
            if (held.cell, held.rule) == (cell, HELD):
                wire.resolve(held.held, how)

    def compact(self) -> None:
        """Let the remaining records come, each into a segment of its own; then let the cleaner take
        what has a later record of its key, until the target is gone. The history says what the log
        has then, as the broker answers.

        Raises:
            NotFiredError: the target is not in a topic that is compacted, or has no later record of
                its key, or the cleaner has not taken it.
        """
        self._let_go(How.DISCARD)  # whom they were for is dead
        topic, target = self._target()
        try:
            self._compact(topic, target)
        except NotFiredError:
            with contextlib.suppress(NotFiredError):
                self._tell(topic, {ROLLS: None, LAG: KEPT_WHOLE[LAG]})
            raise

    def _compact(self, topic: str, target: LogCopy) -> None:
        self.scene.passed |= how_far(self.scene.so_far, topic, str(self.scene.reader))
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
        self.scene.await_met(follows, COMES_S, wanted)
        self._tell(topic, {ROLLS: None})  # what comes from now on is not compacted
        whole = self.scene.uncompacted[topic] = self.scene.kafka.observer.log(topic)
        self._tell(topic, {LAG: "0"})

        cleaned = Cleaned(self.scene, topic, target)
        self.scene.await_met(cleaned.log, CLEANED_S, f"the cleaner to compact {topic}")
        self._tell(topic, {LAG: KEPT_WHOLE[LAG]})  # a pass that has begun goes on
        log = self.scene.await_met(
            partial(cleaned.log, QUIET_S), CLEANED_S, f"the cleaner of {topic} to rest"
        )
        left = set(map(_spot, log.copies))
        self.scene.superseded |= {
            record
            for copy in whole.copies
            if _spot(copy) not in left and (record := self.matcher.id_of(copy)) is not None
        }
        later = last_of_key(log, target)
        offsets = [
            copy.offset
            for copy in log.copies
            if copy.visible and copy.partition == target.partition
            if self.matcher.id_of(copy) is not None
        ]
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
                self.scene.await_met(knows, CLEANED_S, f"{name} of {topic} to be {value}")


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


def last_of_key(
    log: WholeLog, of: LogCopy, alike: Callable[[LogCopy], bool] = lambda _: True
) -> LogCopy | None:
    """Return the last visible copy with a copy's key behind it in its partition that is ``alike``;
    ``None``: none. A copy without a value (a tombstone) is one, too.
    """
    later = [
        copy
        for copy in log.copies
        if copy.visible
        and (copy.partition, copy.key) == (of.partition, of.key)
        and copy.offset > of.offset
        and alike(copy)
    ]
    return max(later, key=lambda copy: copy.offset, default=None)


def _spot(copy: LogCopy) -> tuple[int, int]:
    return copy.partition, copy.offset


def _knows(
    told_to: Callable[[int, str, str], str | None], leader: int, topic: str, name: str, value: str
) -> bool:
    return told_to(leader, topic, name) == value
