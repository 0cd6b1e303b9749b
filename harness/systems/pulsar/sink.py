"""A Pulsar topic as the sink of a cell: the results that a processor sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.model.places import Waiting
from harness.model.record import decode
from harness.model.states import Hop
from harness.run.queues import tell_message
from harness.run.sinks import NO_ORIGIN, Row, recorded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.run.queue_broker import Message, QueueBroker
    from harness.run.scene import CellScene


@dataclass
class TopicSink:
    """Results in a topic without a subscription. Implements
    :class:`harness.run.queue_broker.Results`.
    """

    scene: CellScene
    broker: QueueBroker
    there: str = ""
    """The address of a database, which a topic does not have."""

    @property
    def name(self) -> str:
        """The full name of the topic."""
        return self.broker.queue(f"{self.scene.cell.key}.out")

    def open(self) -> None:
        """Do nothing: the topic is created when a program sends to it."""

    def close(self) -> None:
        """Do nothing: the topic stays."""

    def size(self) -> object:
        """Return the number of copies, and the number of visible copies."""
        found = self._copies()
        return len(found), sum(message.visible for message in found)

    def trouble(self) -> str | None:
        """Say how many results are in open transactions, or return ``None``."""
        left = sum(message.waiting is Waiting.OPEN for message in self._copies())
        return f"{left} results are in open transactions" if left else None

    def observe(self) -> None:
        """Write every copy, and each visible one as a result. No program reads the sink, so no copy
        waits for a reader.
        """
        for order, message in enumerate(self._copies()):
            payload = decode(message.value)
            mine = payload is not None and payload.cell_key == self.scene.cell.key
            waiting = Waiting.OPEN if message.waiting is Waiting.OPEN else None
            tell_message(
                self.scene.history,
                Hop.SINK,
                self.name,
                message,
                record=payload.record if payload and mine else None,
                waiting=waiting,
                intact=bool(payload and mine and payload.intact),
            )
            if message.visible:
                recorded(
                    self.scene,
                    Row(
                        message.value, None, order, NO_ORIGIN, message.attempt, place=message.origin
                    ),
                )

    def _copies(self) -> Sequence[Message]:
        """Return its messages; parts of which none came are nobody's."""
        return [message for message in self.broker.messages(self.name) if message.whole]
