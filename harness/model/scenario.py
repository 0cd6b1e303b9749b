"""The scenario: what is crashed where, and what theory says about it. Declarations only."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, TypeVar

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
    """What a node does. An engine whose nodes do other things names them itself: ``Role("task-manager")``."""

    __slots__ = ()
    PRODUCER: ClassVar[Role]
    CONSUMER: ClassVar[Role]
    PROCESSOR: ClassVar[Role]
    BROKER: ClassVar[Role]
    """The one broker; on the wire: a broker that talks to another."""
    LEADER: ClassVar[Role]
    """The broker of a cluster that leads the target's partition; which that is, is asked when the fault fires."""
    FOLLOWER: ClassVar[Role]
    """A broker that follows it."""
    CONTROLLER: ClassVar[Role]
    """The node that leads the quorum of controllers."""
    COORDINATOR: ClassVar[Role]
    """The broker of a cluster that coordinates the transactions: the leader of their log."""
    DATABASE: ClassVar[Role]
    """The server that keeps the results."""
    DRIVER: ClassVar[Role]
    """The JVM that plans and drives the batches of a streaming query."""
    EXECUTOR: ClassVar[Role]
    """The JVM that runs the tasks of a batch, where that is not the driver's own."""


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
"""Roles that a broker of a cluster has for a while: the history must say that it had them."""
BROKERS = PARTS | {Role.BROKER}


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the history must show for the fault to have fired as declared.

    ``trigger``: ``rule`` (the wire), ``failpoint`` (a program), ``durable`` (the kernel's tracer) or ``none`` (no fault).
    ``killed`` and ``paused`` name the roles whose processes must have died by SIGKILL or been stopped after it. ``at_target`` is
    false for faults that are not placed at the target record. ``proofs`` say what else the history must show.
    """

    trigger: str
    killed: tuple[Role, ...] = ()
    paused: tuple[Role, ...] = ()
    ended: tuple[Role, ...] = ()
    """The roles whose node must have ended by itself after it, with an error: nobody killed it."""
    told: tuple[Role, ...] = ()
    """The roles whose processes must have been told to end (SIGTERM) after it."""
    forgotten: bool = False
    """Something that was stored may be gone: a power loss, a lost volume, retention."""
    at_target: bool = True
    approached: bool = False
    """The trigger names no record: it counts from when a program had the target in hand at a failpoint, or was given it."""
    write: str = ""
    """The :class:`~harness.model.writes.Point` at which a thread must have been held, as text."""
    proofs: tuple[Any, ...] = ()
    """Each a :class:`~harness.judge.proof.Proof`, of a kind of its own. A plan saves them by their names."""

    def proof(self, kind: type[T]) -> T | None:
        """Return the proof of a kind, where it is declared."""
        return next((proof for proof in self.proofs if isinstance(proof, kind)), None)


class Fault(Protocol):
    """What is done at a failure point. Implementations stand in :mod:`harness.faults`."""

    @property
    def id(self) -> str:
        """The fault's name, e.g. ``kill``."""

    def evidence(self) -> Evidence:
        """Return what the history must show."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """Theory's answer for one semantic.

    ``sign`` is what must be seen where zero is predicted although a fault fired. ``control`` marks a cell that *must*
    be convicted of exactly what is predicted.
    """

    lost: Prediction = field(default_factory=Zero)
    duplicated: Prediction = field(default_factory=Zero)
    sign: Sign | None = None
    control: bool = False
    stops: str | None = None
    """The control is convicted of being stuck: its program must end by itself, and name this error, rather than go on."""
    left: Prediction = field(default_factory=Zero)
    """The control is convicted of being stuck: it stands still, and these records are left, or no reader sees them."""
    also: tuple[Anomaly, ...] = ()
    """What a control must show besides: phantom, resurrected or torn."""
    settings: Settings | None = None
    """Other settings than the semantic's recipe."""

    def __post_init__(self) -> None:
        if self.stands and not self.control:
            raise ValueError("a cell that must stop is a control: nothing else may be stuck and green")

    @property
    def stands(self) -> bool:
        """Whether the drain must never end."""
        return self.stops is not None or self.left.must_show()


@dataclass(frozen=True, slots=True)
class RefusedByClient:
    """The client itself must refuse these settings; nothing may be sent."""

    settings: Settings
    because: str


@dataclass(frozen=True, slots=True)
class NotApplicable:
    """The trigger cannot exist under this semantic, for this reason."""

    because: str


Expectation: TypeAlias = Predicted | RefusedByClient | NotApplicable


class Deployment(StrEnum):
    """What a scenario needs under it."""

    SHARED = "shared"
    """The broker lives through the cell, which may therefore share it with others."""
    OWN = "own"
    """The broker dies in the cell, which has it to itself, or with those that it dies for too."""
    SMALL = "small"
    """A broker for one cell, and what it keeps is on a small disk, which may be full: a container's."""
    CLUSTER = "cluster"
    """Three brokers, for one cell at a time."""
    APART = "apart"
    """The same, and their controller is a process of its own."""
    TLS = "tls"
    """As shared, and clients speak TLS."""
    SASL = "sasl"
    """As shared, and clients log in, in the clear, by a password (PLAIN)."""
    SASL_TLS = "sasl-tls"
    """As shared, and clients speak TLS and log in by SCRAM."""

    @property
    def shared(self) -> bool:
        """Whether the broker lives through its cells."""
        return self is Deployment.SHARED or self.security is not None

    @property
    def security(self) -> Security | None:
        """How clients come to the broker; null: anyhow, in the clear."""
        return {
            Deployment.TLS: Security(tls=True), Deployment.SASL: Security(mechanism=Mechanism.PLAIN),
            Deployment.SASL_TLS: Security(tls=True, mechanism=Mechanism.SCRAM_SHA_512),
        }.get(self)  # fmt: skip

    @property
    def alone(self) -> bool:
        """Whether there is one broker, for one cell at a time."""
        return self in {Deployment.OWN, Deployment.SMALL}

    @property
    def clustered(self) -> bool:
        """Whether there are several brokers."""
        return self in {Deployment.CLUSTER, Deployment.APART}


SECURED = tuple(need for need in Deployment if need.security)


class Suite(StrEnum):
    """How often a scenario is run. Each suite has those before it."""

    CORE = "core"
    """The main job, in minutes: every failure point of the plain pipeline, and one of each kind with Spark."""
    DAY = "day"
    """What every change is tested with."""
    NIGHT = "night"
    """What is long or rare."""

    def has(self, scenario: Scenario) -> bool:
        """Say whether a scenario belongs to this suite."""
        order = list(Suite)
        return order.index(scenario.suite) <= order.index(self)


@dataclass(frozen=True, slots=True)
class Scenario:
    """One declaration: pipeline, failure point, fault, predictions per semantic, and why.

    ``group`` is the story the scenario belongs to. ``consumer_starts_after_fault`` delays the consuming side (power
    loss: the consumer starts only after the restart).
    """

    id: str
    failure_point: str
    fault: Fault
    because: str
    expect: Mapping[Semantic, Expectation]
    pipeline: Pipeline
    deployment: Deployment = Deployment.SHARED
    group: str = "plain"
    consumer_starts_after_fault: bool = False
    source_goes_on: bool = False
    """A streaming query starts when its source stands at the target, not when it is exhausted: there are records to come."""
    suite: Suite = Suite.DAY
    """The smallest suite that it belongs to; by its name it runs always."""
    together: bool = False
    """Its semantics may share one death of the broker: each is held at its own failure point until all of them are."""
    pace_ms: int = 0
    """The source gives one record every so many ms, whatever the seed; 0: as fast as it goes, but for the seed's jitter."""
    dead_letters: bool = False
    """Whether dead letters are a part of the pipeline: what was set aside is not lost then."""
    only_in_containers: str | None = None
    """Why it does not apply to processes; null where it does."""
    by_client: Mapping[str, Mapping[Semantic, Expectation]] = field(default_factory=dict)
    """What theory says of one client where that differs: ``{client: {semantic: expectation}}``.

    A client is a name, or a name with versions (``java<4``), which means only those that are pinned to one; the first that
    fits counts.
    """
    by_system: Mapping[str, Mapping[Semantic, Expectation]] = field(default_factory=dict)
    """The same of one version of a system (``kafka<4.3``). What is said of a client comes first."""

    def __post_init__(self) -> None:
        if self.together and (self.deployment is not Deployment.OWN or not self.pipeline.shares_death):
            raise SettingsError(f"{self.id}: cells share a death only of a broker of their own, and not on {self.pipeline}")
        declared = [("", semantic, expectation) for semantic, expectation in self.expect.items()]
        by_version = (*self.by_client.items(), *self.by_system.items())
        declared += [(whose, *each) for whose, own in by_version for each in own.items()]
        for whose, semantic, expectation in declared:
            if semantic not in self.expect:
                raise SettingsError(f"{self.id}, {semantic}: {whose} cannot differ from what nobody else is expected to do")
            if isinstance(expectation, NotApplicable):
                continue
            try:
                self._settings(semantic, expectation).check(self.pipeline, clustered=self.deployment.clustered)
            except SettingsError as error:
                raise SettingsError(f"{self.id}, {semantic}: {error}") from error

    def expectation(self, semantic: Semantic, client: str = "", system: str = "") -> Expectation:
        """Return what theory says under a semantic, with a client and a system (``name``, or ``name==version``)."""
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
    """Whether a client or a system is meant by a name, or by a name with versions.

    >>> _means("java", "java==3.9.1"), _means("java<4", "java==3.9.1"), _means("java<4", "java")
    (True, True, False)
    """
    requirement, (name, _, version) = Requirement(meant), whose.partition("==")
    return requirement.name == name and (not requirement.specifier or (bool(version) and version in requirement.specifier))
