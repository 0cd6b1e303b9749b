"""The names that the steps of a pipeline have in each system's protocol."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from harness.model import events as kinds
from harness.plugins import entry_points_of, load_brought
from harness.protocols.acts import Act
from harness.protocols.amqp import steps as amqp
from harness.protocols.core import steps as core
from harness.protocols.kafka.steps import Api
from harness.protocols.openwire import steps as openwire
from harness.protocols.pulsar import steps as pulsar
from harness.protocols.stomp import steps as stomp
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
    """A sender ends the transaction that its record is in."""
    COMMIT_ANSWER = auto()
    SESSION_COMMIT = auto()
    """A consumer commits the session in which it has acknowledged the record."""
    SESSION_COMMIT_ANSWER = auto()


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
    Moment.SESSION_COMMIT: kinds.ENDING,
    Moment.SESSION_COMMIT_ANSWER: kinds.ENDING,
}
"""The event of the wire which shows that a step was completed for a record."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How programs talk to a system. ``steps``: the protocol's step for each moment; a missing
    moment does not exist there. ``others``: further steps that may be at a moment, by the way in
    which a program uses the protocol; the dry run tells which.

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
    others: Mapping[Moment, tuple[StepName, ...]] = field(default_factory=dict)
    acts: Mapping[Act, StepName] = field(default_factory=dict)
    """Of a queue: the step that each act means."""
    dead_letters: str | None = None
    """Of a queue: what stands before its name in that of the queue of its dead letters; empty: a
    declaration names any; ``None``: none is known.
    """
    own: tuple[str, ...] = ()
    """The settings of the broker that its system itself makes, and counts on, as patterns: for
    packages (lostack's own systems have theirs in :data:`harness.pipelines.broker.OWN`).
    """

    def at(self, moment: Moment, label: str | None = None) -> tuple[StepName, Direction]:
        """Return a moment's step. ``label``: that of the one that was seen, of several."""
        step, way = self.steps[moment]
        found = (each for each in self.others.get(moment, ()) if each.label == label)
        return next(found, step), way

    @property
    def sends(self) -> frozenset[str]:
        """The labels of the requests that send records, whose answers tell what became of them."""
        return self._labels(Moment.SEND, Moment.COMMIT)

    @property
    def answers(self) -> frozenset[str]:
        """The labels of the answers to requests that send records."""
        return self._labels(Moment.SEND_ANSWER, Moment.COMMIT_ANSWER)

    @property
    def stores(self) -> frozenset[str]:
        """The labels of the answers which show that the server has stored something."""
        return self._labels(Moment.SEND_ANSWER, Moment.POSITION_ANSWER, Moment.COMMIT_ANSWER)

    def label(self, moment: Moment) -> str:
        """Return the label that a moment's step has in histories."""
        return self.steps[moment][0].label

    def lines(self, api: str) -> frozenset[str]:
        """Return the kinds of events which show that the step with this label was completed."""
        return frozenset(
            LINES[each]
            for each, (step, _) in self.steps.items()
            if each in LINES and api in (step, *self.others.get(each, ()))
        )

    def _labels(self, *moments: Moment) -> frozenset[str]:
        steps = [
            (*self.others.get(each, ()), self.steps[each][0])
            for each in moments
            if each in self.steps
        ]
        return frozenset(step.label for each in steps for step in each)


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
_ACTS: Final = {
    Moment.SEND: (Act.SEND, _OUT),
    Moment.SEND_ANSWER: (Act.SENT, _IN),
    Moment.DELIVERY: (Act.GIVE, _IN),
    Moment.ACKNOWLEDGEMENT: (Act.ACK, _OUT),
    Moment.ACKNOWLEDGEMENT_ANSWER: (Act.ACKED, _IN),
    Moment.COMMIT: (Act.COMMIT, _OUT),
    Moment.COMMIT_ANSWER: (Act.COMMITTED, _IN),
    Moment.SESSION_COMMIT: (Act.COMMIT, _OUT),
    Moment.SESSION_COMMIT_ANSWER: (Act.COMMITTED, _IN),
}
"""The act on a queue at each moment, and its direction."""


def of_queues(
    speaks: str,
    acts: Mapping[Act, StepName],
    reads: StepName,
    others: Mapping[Moment, tuple[StepName, ...]] | None = None,
    *,
    own: tuple[str, ...] = (),
    dead_letters: str | None = None,
) -> Dialect:
    """Return the dialect of a protocol of queues. ``reads``: a consumer's first request."""
    steps = {moment: (acts[act], way) for moment, (act, way) in _ACTS.items() if act in acts}
    return Dialect(
        speaks,
        steps,
        (reads, _OUT),
        others=others or {},
        acts=acts,
        own=own,
        dead_letters=dead_letters,
    )


DEAD_LETTERS: Final = "DLQ."
"""What the brokers of JMS, as lostack starts them, put before the name of a queue."""
STOMP: Final = of_queues("STOMP", stomp.ACTS, stomp.Command.SUBSCRIBE, dead_letters=DEAD_LETTERS)
OPENWIRE: Final = of_queues(
    "OpenWire",
    openwire.ACTS,
    openwire.Command.CONSUMER_INFO,
    dict.fromkeys((Moment.COMMIT, Moment.SESSION_COMMIT), (openwire.Command.COMMIT_TWO_PHASE,)),
    dead_letters=DEAD_LETTERS,
)
CORE: Final = of_queues(
    "Core",
    core.ACTS,
    core.Packet.CREATE_CONSUMER,
    {
        # a session that acknowledges by itself commits nothing
        Moment.ACKNOWLEDGEMENT: (core.Packet.ACKNOWLEDGE,),
        Moment.ACKNOWLEDGEMENT_ANSWER: (core.Packet.NULL_RESPONSE,),
        **dict.fromkeys((Moment.COMMIT, Moment.SESSION_COMMIT), (core.Packet.XA_COMMIT,)),
        **dict.fromkeys(
            (Moment.COMMIT_ANSWER, Moment.SESSION_COMMIT_ANSWER), (core.Packet.XA_COMMITTED,)
        ),
    },
    dead_letters=DEAD_LETTERS,
)
AMQP: Final = of_queues("AMQP 1.0", amqp.ACTS, amqp.Performative.FLOW, dead_letters=DEAD_LETTERS)
PULSAR: Final = of_queues("Pulsar's protocol", pulsar.ACTS, pulsar.Command.SUBSCRIBE)
GROUP: Final = "lostack.dialects"
"""The group of entry points in which packages register what programs speak to their systems: the
name is ``SYSTEM.PROTOCOL``, and its object a :class:`Dialect`. A system's first protocol in the
alphabet is its default.
"""
_OURS: Final[Mapping[str, Dialect]] = {
    "kafka": KAFKA,
    "stomp": STOMP,
    "openwire": OPENWIRE,
    "core": CORE,
    "amqp": AMQP,
    "pulsar": PULSAR,
}
_SPOKEN: Final[Mapping[str, tuple[str, ...]]] = {
    "kafka": ("kafka",),
    "activemq": ("stomp", "openwire", "amqp"),
    "artemis": ("stomp", "openwire", "core", "amqp"),
    "pulsar": ("pulsar",),
}


def _spoken() -> Mapping[str, tuple[str, ...]]:
    found = dict(_SPOKEN)
    for entry in entry_points_of(GROUP):
        system, _, protocol = entry.name.partition(".")
        if system not in _SPOKEN and protocol:
            found[system] = (*found.get(system, ()), protocol)
    return found


SPOKEN: Final[Mapping[str, tuple[str, ...]]] = _spoken()
"""The protocols that each system speaks which a declaration may name; the first is the default.
Those of packages are among them.
"""
PROTOCOLS: Final = tuple(
    dict.fromkeys((*_OURS, *(protocol for spoken in SPOKEN.values() for protocol in spoken)))
)
"""Every protocol that a declaration may name."""


def dialect_of(system: str, protocol: str = "") -> Dialect:
    """Return the names of the steps in a protocol; by default in the system's first one.

    Raises:
        EnvironmentFailure: a package's dialect cannot be loaded. The message is one line.
    """
    protocol = protocol or SPOKEN[system][0]
    name = f"{system}.{protocol}"
    theirs = next((entry for entry in entry_points_of(GROUP) if entry.name == name), None)
    if theirs is None or system in _SPOKEN:
        return _OURS[protocol]
    return load_brought(GROUP, name, theirs.value, Dialect)


def act_of(system: str, act: Act) -> StepName | None:
    """Return the step that an act means on a package's system; ``None``: there is none."""
    return dialect_of(system).acts.get(act) if system in SPOKEN else None
