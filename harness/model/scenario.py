"""The scenario: which fault strikes where, and what theory predicts for each semantic. Declarations
only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeAlias, TypeVar

from packaging.requirements import Requirement

from harness.model.names import Name
from harness.model.pipeline import SettingsError
from harness.model.prediction import Prediction, Zero
from harness.model.security import Mechanism, Security
from harness.model.semantics import Anomaly  # noqa: TC001 - see above

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.model.pipeline import Pipeline, Settings
    from harness.model.semantics import Semantic
    from harness.model.sign import Sign


T = TypeVar("T")


class Role(Name):
    """What a node does. An engine with other kinds of nodes adds roles of its own:
    ``Role("task-manager")``.
    """

    __slots__ = ()
    PRODUCER: ClassVar[Role]
    CONSUMER: ClassVar[Role]
    PROCESSOR: ClassVar[Role]
    BROKER: ClassVar[Role]
    """The one broker; on the wire: a broker that talks to another broker."""
    LEADER: ClassVar[Role]
    """The broker of a cluster that leads the target's partition when the fault fires."""
    FOLLOWER: ClassVar[Role]
    """A broker of a cluster that follows that leader."""
    CONTROLLER: ClassVar[Role]
    """The node that leads the quorum of controllers."""
    COORDINATOR: ClassVar[Role]
    """The broker of a cluster that coordinates transactions: the leader of the transaction log."""
    DATABASE: ClassVar[Role]
    """The server that keeps the results."""
    DRIVER: ClassVar[Role]
    """The JVM that plans and drives the batches of a streaming query."""
    EXECUTOR: ClassVar[Role]
    """The JVM that runs the tasks of a batch, if it is not the driver."""


Role.PRODUCER = Role("producer")
Role.CONSUMER = Role("consumer")
Role.PROCESSOR = Role("processor")
Role.BROKER = Role("broker")
Role.LEADER = Role("leader")
Role.FOLLOWER = Role("follower")
Role.CONTROLLER = Role("controller")
Role.COORDINATOR = Role("coordinator")
Role.DATABASE = Role("database")
Role.DRIVER = Role("driver")
Role.EXECUTOR = Role("executor")

ROLES_OF_OURS = frozenset(str(value) for value in vars(Role).values() if isinstance(value, Role))
"""The names of the roles above."""
PARTS = frozenset({Role.LEADER, Role.FOLLOWER, Role.CONTROLLER, Role.COORDINATOR})
"""Roles that a broker of a cluster has for a while: the history must show that the crashed broker
had its role.
"""
BROKERS = PARTS | {Role.BROKER}


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the history must show for the fault to have fired as declared.

    ``trigger``: ``rule`` (the wire), ``failpoint`` (a program), ``durable`` (the kernel's tracer)
    or ``none`` (no fault). ``killed`` and ``paused`` name the roles whose processes must have died
    by SIGKILL, or been stopped, after the trigger fired. ``at_target`` is false for faults that are
    not placed at the target record. ``proofs`` say what else the history must show.
    """

    trigger: str
    killed: tuple[Role, ...] = ()
    paused: tuple[Role, ...] = ()
    ended: tuple[Role, ...] = ()
    """The roles whose node must have ended by itself, with an error, after the trigger fired:
    nobody killed it.
    """
    may_kill: tuple[Role, ...] = ()
    """The roles whose processes the fault kills in some runs only. A proof says in which it had to.
    """
    told: tuple[Role, ...] = ()
    """The roles whose processes must have been told to end (SIGTERM) after the trigger fired."""
    forgotten: bool = False
    """Stored records may be gone: a power loss, a lost volume, retention."""
    at_target: bool = True
    approached: bool = False
    """The trigger names no record. It counts from the moment at which a program got the target, or
    had it at a failpoint.
    """
    write: str = ""
    """The :class:`~harness.model.writes.Point` at which a thread must have been held, as text."""
    proofs: tuple[object, ...] = ()
    """Further :class:`~harness.judge.proof.Proof` objects, at most one of each class. A plan saves
    them by their names.
    """

    def proof(self, kind: type[T]) -> T | None:
        """Return the declared proof of a class; ``None``: there is none."""
        return next((proof for proof in self.proofs if isinstance(proof, kind)), None)


class Fault(Protocol):
    """What is done at a failure point. Its implementations are in :mod:`harness.faults`."""

    @property
    def id(self) -> str:
        """The fault's name, e.g. ``kill``."""

    def evidence(self) -> Evidence:
        """Return what the history must show."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """Theory's answer for one semantic.

    ``sign``: what the history must show of the protection if zero is predicted although a fault
    fired. ``control`` marks a cell that *must* be broken exactly as predicted.
    """

    lost: Prediction = field(default_factory=Zero)
    duplicated: Prediction = field(default_factory=Zero)
    sign: Sign | None = None
    control: bool = False
    stops: str | None = None
    """The control must be stuck: its program must end by itself, with this error, and not go on."""
    left: Prediction = field(default_factory=Zero)
    """The control must be stuck: the pipeline must stand still, with these records left, or visible
    to no reader.
    """
    also: tuple[Anomaly, ...] = ()
    """Further anomalies that a control must show: phantom, resurrected or torn."""
    settings: Settings | None = None
    """The settings, if they are other than the semantic's recipe."""

    def __post_init__(self) -> None:
        if self.stands and not self.control:
            raise ValueError("a cell that must stop must be a control: set control=True")

    @property
    def stands(self) -> bool:
        """Whether the pipeline must stand still: its drain must never complete."""
        return self.stops is not None or self.left.must_show()


@dataclass(frozen=True, slots=True)
class RefusedByClient:
    """The client itself must refuse these settings, and send nothing."""

    settings: Settings
    because: str


@dataclass(frozen=True, slots=True)
class NotApplicable:
    """The scenario does not apply under this semantic, for this reason."""

    because: str


Expectation: TypeAlias = Predicted | RefusedByClient | NotApplicable


class Deployment(StrEnum):
    """The brokers that a scenario needs."""

    SHARED = "shared"
    """One broker. The cell does not kill it, so other cells may share it."""
    OWN = "own"
    """One broker for this cell alone, because the cell kills it. (Cells that share one death of it
    share the broker.)
    """
    SMALL = "small"
    """One broker for this cell alone, in a container, with its data on a small disk that the cell
    can fill.
    """
    TRACED = "traced"
    """As own, and the broker is started below a tracer that notes what it tells the kernel to
    flush.
    """
    CLUSTER = "cluster"
    """Three brokers, for one cell at a time."""
    TRACED_CLUSTER = "traced-cluster"
    """As cluster, and each broker is traced."""
    APART = "apart"
    """Three brokers and a controller in a process of its own, for one cell at a time."""
    TLS = "tls"
    """As shared, and clients speak TLS."""
    SASL = "sasl"
    """As shared, and clients log in with a password, unencrypted (PLAIN)."""
    SASL_TLS = "sasl-tls"
    """As shared, and clients speak TLS and log in by SCRAM."""

    @property
    def shared(self) -> bool:
        """Whether several cells may share the broker."""
        return self is Deployment.SHARED or self.security is not None

    @property
    def security(self) -> Security | None:
        """How clients must connect to the broker; null: unencrypted, without a login."""
        return {
            Deployment.TLS: Security(tls=True),
            Deployment.SASL: Security(mechanism=Mechanism.PLAIN),
            Deployment.SASL_TLS: Security(tls=True, mechanism=Mechanism.SCRAM_SHA_512),
        }.get(self)

    @property
    def alone(self) -> bool:
        """Whether there is one broker, for one cell at a time."""
        return self in {Deployment.OWN, Deployment.SMALL, Deployment.TRACED}

    @property
    def clustered(self) -> bool:
        """Whether there are several brokers."""
        return self in {Deployment.CLUSTER, Deployment.TRACED_CLUSTER, Deployment.APART}

    @property
    def traced(self) -> bool:
        """Whether brokers are started below a tracer."""
        return self in {Deployment.TRACED, Deployment.TRACED_CLUSTER}


SECURED = tuple(need for need in Deployment if need.security)


class Edge(StrEnum):
    """The record of a run that is the target, if it is not one of the middle third."""

    FIRST = "first"
    LAST = "last"


class Suite(StrEnum):
    """A set of scenarios to run. Each suite contains those before it."""

    CORE = "core"
    """The main job, a few minutes long: every failure point of the plain pipeline, and one of each
    kind with Spark.
    """
    DAY = "day"
    """The scenarios that test every change."""
    NIGHT = "night"
    """Also the scenarios that take long, or are about rare cases."""

    def has(self, scenario: Scenario) -> bool:
        """Say whether a scenario belongs to this suite."""
        order = list(Suite)
        return order.index(scenario.suite) <= order.index(self)


@dataclass(frozen=True, slots=True)
class Scenario:
    """One declaration: pipeline, failure point, fault, predictions per semantic, and why.

    ``group`` is the story the scenario belongs to. ``consumer_starts_after_fault`` delays the
    consuming side (power loss: the consumer starts only after the restart).
    """

    id: str
    fault: Fault
    because: str
    expect: Mapping[Semantic, Expectation]
    pipeline: Pipeline
    failure_point: str = ""
    """Empty: what stands before the first ``+`` of the id."""
    deployment: Deployment = Deployment.SHARED
    group: str = "plain"
    consumer_starts_after_fault: bool = False
    source_goes_on: bool = False
    """Whether a streaming query starts when its source is at the target, so that more records
    follow; else it starts when the source is exhausted.
    """
    suite: Suite = Suite.DAY
    """The smallest suite that the scenario belongs to. Selected by name, it always runs."""
    together: str = ""
    """The name of the broker's death that its cells may share with each other, and with those of
    scenarios that give it the same name: each cell is held at its failure point until all are.
    Empty: the broker dies for each cell alone.
    """
    pace_ms: int = 0
    """The source gives one record every so many ms, whatever the seed; 0: as fast as possible, with
    the seed's jitter.
    """
    broker_settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of the broker that the scenario has to itself, by the broker's names for them. Only
    brokers of queues take them.
    """
    dead_letters: bool = False
    """Whether dead letters are a part of the pipeline. If so, records that were set aside are not
    lost.
    """
    edge: Edge | None = None
    """Whether the first or the last record is the target; null: one of the middle third."""
    topic: str = ""
    """The topic of the target, if several are offered records."""
    waits_s: float = 0.0
    """How long, in seconds, its fault usually waits for a client's time-out, or for brokers that
    come back; 0: for none.
    """
    only_in_containers: str | None = None
    """Why the scenario does not apply to processes; null: it does."""
    by_client: Mapping[str, Mapping[Semantic, Expectation]] = field(default_factory=dict)
    """The expectations of single clients, if they differ: ``{client: {semantic: expectation}}``.

    A client is a name, or a name with versions (``java<4``). A name with versions fits only clients
    that are pinned to a version. The first entry that fits counts.
    """
    by_system: Mapping[str, Mapping[Semantic, Expectation]] = field(default_factory=dict)
    """The expectations of single versions of a system (``kafka<4.3``), likewise. ``by_client``
    takes precedence.
    """

    def __post_init__(self) -> None:
        if not self.failure_point:
            object.__setattr__(self, "failure_point", self.id.partition("+")[0])
        if self.together and (
            self.deployment is not Deployment.OWN or not self.pipeline.shares_death
        ):
            raise SettingsError(
                f"{self.id}: together needs Deployment.OWN and a pipeline with shares_death=True"
            )
        if self.broker_settings and self.deployment.shared:
            raise SettingsError(
                f"{self.id}: broker_settings needs a broker for this cell alone: Deployment.OWN"
            )
        declared = [("", semantic, expectation) for semantic, expectation in self.expect.items()]
        by_version = (*self.by_client.items(), *self.by_system.items())
        declared += [(whose, *each) for whose, own in by_version for each in own.items()]
        for whose, semantic, expectation in declared:
            if semantic not in self.expect:
                raise SettingsError(
                    f"{self.id}, {semantic}: {whose} has an expectation, and expect has none: "
                    "declare one there"
                )
            if isinstance(expectation, NotApplicable):
                continue
            try:
                self._settings(semantic, expectation).check(
                    self.pipeline, clustered=self.deployment.clustered
                )
            except SettingsError as error:
                raise SettingsError(f"{self.id}, {semantic}: {error}") from error

    def expectation(self, semantic: Semantic, client: str = "", system: str = "") -> Expectation:
        """Return the expectation under a semantic, with a client and a system (``name``, or
        ``name==version``).
        """
        for whose, by_version in ((client, self.by_client), (system, self.by_system)):
            for meant, own in by_version.items():
                if semantic in own and _means(meant, whose):
                    return own[semantic]
        return self.expect[semantic]

    def settings(self, semantic: Semantic, client: str = "", system: str = "") -> Settings:
        """Return the settings of this scenario under a semantic, with a client and a system."""
        return self._settings(semantic, self.expectation(semantic, client, system))

    def _settings(self, semantic: Semantic, expectation: Expectation) -> Settings:
        own: Settings | None = getattr(expectation, "settings", None)
        return own if own is not None else self.pipeline.recipes[semantic]


def _means(meant: str, whose: str) -> bool:
    """Say whether ``meant``, a name or a name with versions, means ``whose``, a client or a system.

    >>> _means("java", "java==3.9.1"), _means("java<4", "java==3.9.1"), _means("java<4", "java")
    (True, True, False)
    """
    requirement, (name, _, version) = Requirement(meant), whose.partition("==")
    return requirement.name == name and (
        not requirement.specifier or (bool(version) and version in requirement.specifier)
    )
