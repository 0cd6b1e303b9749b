"""The names that the steps of a pipeline have in each system's protocol."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from harness.model import events as kinds
from harness.protocols.kafka.steps import Api
from harness.protocols.pulsar.steps import Command as Pulsar
from harness.protocols.stomp.steps import Command
from harness.wire.rules import Direction, StepName

if TYPE_CHECKING:
    from collections.abc import Mapping


class Moment(Enum):
    """A step on the way of a record, independent of any protocol's name for it."""

    SEND = auto()
    SEND_ANSWER = auto()
    DELIVERY = auto()
    NEXT_FETCH = auto()
    """A consumer that has been given a record asks for more."""
    POSITION = auto()
    """A consumer saves its position behind a record."""
    POSITION_ANSWER = auto()
    SAVED_POSITIONS = auto()
    """A consumer that has started is told its saved positions."""
    JOINED = auto()
    PRODUCER_ID = auto()
    """A producer that has started is told its id."""
    ACKNOWLEDGEMENT = auto()
    """A consumer acknowledges a record by itself."""
    ACKNOWLEDGEMENT_ANSWER = auto()
    COMMIT = auto()
    COMMIT_ANSWER = auto()


LINES: Final = {
    Moment.SEND: kinds.PRODUCE_ANSWER,
    Moment.SEND_ANSWER: kinds.PRODUCE_ANSWER,
    Moment.DELIVERY: kinds.FETCHED,
    Moment.NEXT_FETCH: kinds.FETCHED,
    Moment.POSITION: kinds.COMMITTED,
    Moment.POSITION_ANSWER: kinds.COMMITTED,
    Moment.ACKNOWLEDGEMENT: kinds.ACKNOWLEDGED,
    Moment.ACKNOWLEDGEMENT_ANSWER: kinds.ACKNOWLEDGED,
    Moment.COMMIT: kinds.ENDING,
    Moment.COMMIT_ANSWER: kinds.ENDING,
}
"""The event of the wire which shows that a step was completed for a record."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How programs talk to a system. ``steps``: the protocol's step for each moment; a missing
    moment does not exist there.

    ``reads``: the frame that shows that a stage reads. ``ends``: the frame that tells a reader
    where the log begins or ends; ``None``: there is none. ``logs``: whether the system is a log, in
    which records stay and readers save positions. In a queue an acknowledged message is gone.
    """

    speaks: str
    """The protocol's name in messages."""
    steps: Mapping[Moment, tuple[StepName, Direction]]
    reads: tuple[StepName, Direction]
    ends: tuple[StepName, Direction] | None = None
    logs: bool = False

    @property
    def sends(self) -> frozenset[str]:
        """The labels of the requests that send records, whose answers tell what became of them."""
        return self._labels(Moment.SEND, Moment.COMMIT)

    @property
    def answers(self) -> frozenset[str]:
        """The labels of the answers to requests that send records."""
        return self._labels(Moment.SEND_ANSWER, Moment.COMMIT_ANSWER)

    def label(self, moment: Moment) -> str:
        """Return the label that a moment's step has in histories."""
        return self.steps[moment][0].label

    def lines(self, api: str) -> frozenset[str]:
        """Return the kinds of events which show that the step with this label was completed."""
        return frozenset(
            LINES[each] for each, (step, _) in self.steps.items() if step == api and each in LINES
        )

    def _labels(self, *moments: Moment) -> frozenset[str]:
        return frozenset(self.label(each) for each in moments if each in self.steps)


_OUT, _IN = Direction.REQUEST, Direction.RESPONSE
KAFKA: Final = Dialect(
    "Kafka",
    {
        Moment.SEND: (Api.PRODUCE, _OUT),
        Moment.SEND_ANSWER: (Api.PRODUCE, _IN),
        Moment.DELIVERY: (Api.FETCH, _IN),
        Moment.NEXT_FETCH: (Api.FETCH, _OUT),
        Moment.POSITION: (Api.OFFSET_COMMIT, _OUT),
        Moment.POSITION_ANSWER: (Api.OFFSET_COMMIT, _IN),
        Moment.SAVED_POSITIONS: (Api.OFFSET_FETCH, _IN),
        Moment.JOINED: (Api.JOIN_GROUP, _IN),
        Moment.PRODUCER_ID: (Api.INIT_PRODUCER_ID, _IN),
        Moment.COMMIT: (Api.END_TXN, _OUT),
        Moment.COMMIT_ANSWER: (Api.END_TXN, _IN),
    },
    reads=(Api.FETCH, _OUT),
    ends=(Api.LIST_OFFSETS, _IN),
    logs=True,
)
STOMP: Final = Dialect(
    "STOMP",
    {
        Moment.SEND: (Command.SEND, _OUT),
        Moment.SEND_ANSWER: (Command.RECEIPT, _IN),
        Moment.DELIVERY: (Command.MESSAGE, _IN),
        Moment.ACKNOWLEDGEMENT: (Command.ACK, _OUT),
        Moment.ACKNOWLEDGEMENT_ANSWER: (Command.RECEIPT, _IN),
        Moment.COMMIT: (Command.COMMIT, _OUT),
        Moment.COMMIT_ANSWER: (Command.RECEIPT, _IN),
    },
    reads=(Command.SUBSCRIBE, _OUT),
)
PULSAR: Final = Dialect(
    "Pulsar's protocol",
    {
        Moment.SEND: (Pulsar.SEND, _OUT),
        Moment.SEND_ANSWER: (Pulsar.SEND_RECEIPT, _IN),
        Moment.DELIVERY: (Pulsar.MESSAGE, _IN),
        Moment.ACKNOWLEDGEMENT: (Pulsar.ACK, _OUT),
        Moment.ACKNOWLEDGEMENT_ANSWER: (Pulsar.ACK_RESPONSE, _IN),
        Moment.COMMIT: (Pulsar.END_TXN, _OUT),
        Moment.COMMIT_ANSWER: (Pulsar.END_TXN_RESPONSE, _IN),
    },
    reads=(Pulsar.SUBSCRIBE, _OUT),
)
DIALECTS: Final[Mapping[str, Dialect]] = {
    "kafka": KAFKA,
    "activemq": STOMP,
    "artemis": STOMP,
    "pulsar": PULSAR,
}
"""The dialect of each system that a declaration may name."""
