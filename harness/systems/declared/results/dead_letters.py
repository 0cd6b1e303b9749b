"""Find the records of a declared pipeline that ended as dead letters: in the topic or queue that
the declaration names, or in another topic that nobody reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.model.places import MOVABLE
from harness.systems.declared.outputs import OutputError
from harness.systems.declared.programs.errors import StageError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from harness.systems.declared.scene import Scene
    from harness.systems.kafka.log_copies import LogCopy, WholeLog


def dead_queue(scene: Scene) -> str:
    """Return the name of the queue of a cell's dead letters, as clients write it: the declared one,
    else the one to which the broker moves them.
    """
    broker, pipeline = scene.queues, scene.pipeline
    if pipeline.dead_letters:
        return broker.queue(pipeline.dead_letters)
    return broker.dead_letters(broker.queue(pipeline.topic))


class DeadMessages:
    """Reads the dead letters of one cell on a broker of queues. ``ids_of``: returns the ids in a
    message.
    """

    def __init__(self, scene: Scene, ids_of: Callable[[bytes], Sequence[str]]) -> None:
        self._scene = scene
        self._ids_of = ids_of

    def ends(self) -> object:
        """Return a value that changes when a message is set aside; ``None`` if none may be."""
        named = self._scene.pipeline.dead_letters
        return self._scene.queues.count(dead_queue(self._scene)) if named else None

    def ids(self) -> set[str | None]:
        """Return the ids of the records that rest in the declared queue."""
        if not self._scene.pipeline.dead_letters:
            return set()
        return {
            next(iter(self._ids_of(message.value)), None)
            for message in self._scene.leftovers.messages(
                self._scene.queues, dead_queue(self._scene)
            )
            if message.waiting in MOVABLE
        }


class DeadLetters:
    """Reads the dead letters of one cell on Kafka. ``ids_of``: returns the ids in a copy, or raises
    StageError.
    """

    def __init__(self, scene: Scene, ids_of: Callable[[LogCopy], Sequence[str]]) -> None:
        self._scene = scene
        self._ids_of = ids_of
        self._topic = scene.pipeline.dead_letters

    def ends(self) -> object:
        """Return a value that changes when a record is set aside; ``None`` without a topic for
        that.
        """
        return tuple(self._scene.kafka.observer.ends(self._topic).items()) if self._topic else None

    def ids(self) -> set[str | None]:
        """Return the ids of the records that rest in the declared topic.

        Raises:
            OutputError: a value cannot be read.
        """
        if not self._topic:
            return set()
        log, saved = self._scene.kafka.observer.log(self._topic), self.read_up_to(self._topic)
        try:
            return {
                next(iter(self._ids_of(copy)), None)
                for copy in log.copies
                if copy.visible and copy.offset >= saved.get(copy.partition, -1)
            }
        except StageError as error:
            raise OutputError(str(error)) from error

    def read_up_to(self, topic: str) -> Mapping[int, int]:
        """Return how far the pipeline's own stages have read a topic: what is below was taken.

        A stage that saves no position there has taken what it was given.
        """
        saved: dict[int, int] = {}
        for group in self._scene.groups():
            for partition, offset in self._scene.kafka.observer.positions(group, topic).items():
                saved[partition] = max(offset, saved.get(partition, -1))
        if saved:
            return saved
        return {at: offset + 1 for at, offset in self._scene.topics_seen.reached(topic).items()}

    def logs(self, recorded: Collection[str | None]) -> Mapping[str, WholeLog]:
        """Return the logs of dead letters, by topic: the declared one, or those that look so.

        If the declaration names none, it is each of its other topics that no stage reads, if its
        records, and all of them, are missing from the output (``recorded``).
        """
        observer, pipeline = self._scene.kafka.observer, self._scene.pipeline
        if self._topic:
            return {self._topic: observer.log(self._topic)}
        if pipeline.aggregate is not None or self._scene.known.keys() <= set(recorded):
            return {}
        others = {*pipeline.topics} - {*pipeline.between, pipeline.output.topic}
        logs = {
            topic: observer.log(topic) for topic in sorted(others - self._scene.topics_seen.read())
        }
        return {topic: log for topic, log in logs.items() if self._is_aside(log, recorded)}

    def _is_aside(self, log: WholeLog, recorded: Collection[str | None]) -> bool:
        try:
            held = [self._scene.known.keys() & set(self._ids_of(copy)) for copy in log.copies]
        except StageError:  # nothing says that it holds records
            return False
        records = set().union(*held)
        single = all(len(ids) <= 1 for ids in held)
        return bool(records) and single and records.isdisjoint(recorded)
