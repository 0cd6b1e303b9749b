"""What the parts of a declared cell share: its pipeline, its load, what was seen so far, what
earlier cells have shown.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar, cast

from harness.controls import OnWire, await_met, role_of, trigger_of
from harness.faults import NoFault
from harness.model import events as kinds
from harness.model.identity import REGISTRY
from harness.pipelines.braces import fill
from harness.run.scene import CellScene
from harness.runtimes.ports import PortLease
from harness.systems.declared.brokers.leftovers import Leftovers
from harness.systems.declared.learnt.silence import Silences
from harness.systems.declared.outputs import Columns
from harness.systems.declared.wire.members import GroupMembers
from harness.systems.declared.wire.records import RecordsOnWire
from harness.systems.declared.wire.routes import ServiceRoutes
from harness.systems.declared.wire.stages import StagesOnWire
from harness.systems.declared.wire.topics import TopicsOnWire

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from harness.model.history import HistoryWriter
    from harness.model.identity import Identity
    from harness.model.scenario import Role
    from harness.pipelines.cells import DeclaredCell
    from harness.run.queue_broker import QueueBroker
    from harness.runtimes.docker.engine import Image
    from harness.systems.declared.brokers.kafka import Brokers, KafkaBrokers
    from harness.systems.declared.brokers.queues import QueueBrokers
    from harness.systems.kafka.log_copies import WholeLog

A = TypeVar("A")
IMAGES_PYTHON = "python3"
"""The value of ``{python}`` in the command of a container."""


@dataclass
class EarlierCells:
    """What earlier cells have shown: how long a silence may last, and which columns of an output
    may be empty.
    """

    silences: Silences = field(default_factory=Silences)
    columns: Columns = field(default_factory=Columns)


@dataclass
class Fetched:
    """What was downloaded for stages: folders of jars by set name, Python interpreters by package,
    folders of PySpark by release, and images by what they are known by
    (:meth:`harness.pipelines.programs.Program.image_in`).

    ``say``: prints a message to the user while a cell runs.
    """

    jars: dict[str, Path] = field(default_factory=dict)
    pythons: dict[str, str] = field(default_factory=dict)
    pysparks: dict[str, Path] = field(default_factory=dict)
    images: dict[str, Image] = field(default_factory=dict)
    say: Callable[[str], None] = lambda _: None


class Scene(CellScene):
    """The objects that the parts of one cell share."""

    cell: DeclaredCell

    def __init__(
        self,
        cell: DeclaredCell,
        directory: Path,
        history: HistoryWriter,
        *,
        brokers: Brokers,
        fetched: Fetched,
        learnt: EarlierCells,
    ) -> None:
        super().__init__(cell, directory.resolve(), history)
        self.brokers = brokers
        self.fetched = fetched
        self.learnt = learnt
        self.pipeline = cell.declared
        self.known = {record.id: record for record in self.load.records}
        """Record id → record, for every record of the load."""
        self.records_seen = RecordsOnWire(
            self.so_far,
            self.pipeline.dialect,
            self.known,
            totals=self.pipeline.aggregate is not None,
        )
        self.topics_seen = TopicsOnWire(self.so_far)
        self.stages_seen = StagesOnWire(self.so_far, self.pipeline.dialect)
        self.members = GroupMembers(self.so_far)
        """Which members the groups have, as the wire has seen it."""
        self.added = 0
        """How many partitions the fault has added to the topic."""
        self.uncompacted: dict[str, WholeLog] = {}
        """What was in each log before lostack had it compacted, by topic."""
        self.superseded: set[str] = set()
        self.passed: dict[tuple[str, int], int] = {}
        """How far readers were in each log of a topic that is compacted, right before that."""
        """The records that compaction has taken."""
        self.lease = PortLease(1)
        self.of_services: dict[str, object] = {}
        """The values of the services' names in braces: ``NAME.port`` and ``NAME.dir``."""
        self.leftovers = Leftovers()
        self.service_routes = ServiceRoutes(self.pipeline)
        """The stages' own ports of the services, which are the wire's."""

    @property
    def faultless(self) -> bool:
        """Whether this run has no fault: then anything wrong is the pipeline's own problem."""
        return isinstance(self.cell.scenario.fault, NoFault)

    @property
    def work(self) -> Path:
        """The folder that is ``{work}`` in a declaration."""
        return self.directory / "work"

    @property
    def writes(self) -> Path:
        """The file that logs the durable writes of a stage."""
        return self.directory / "writes.txt"

    @property
    def roles(self) -> tuple[Role, ...]:
        """The roles of the stages."""
        return tuple(stage.known for stage in self.pipeline.stages)

    @property
    def reader(self) -> Role | None:
        """The role of the first stage that reads the topic; ``None`` if no stage reads."""
        return next((role for role in self.roles if self.pipeline.reads(role)), None)

    @property
    def kafka(self) -> KafkaBrokers:
        """The Kafka brokers.

        Raises:
            TypeError: the pipeline does not run on Kafka.
        """
        if not self.pipeline.dialect.logs:
            raise TypeError(f"{self.pipeline.name} runs on {self.pipeline.system}")
        return cast("KafkaBrokers", self.brokers)

    @property
    def queues(self) -> QueueBroker:
        """The queue broker.

        Raises:
            TypeError: the pipeline runs on Kafka.
        """
        if self.pipeline.dialect.logs:
            raise TypeError(f"{self.pipeline.name} runs on {self.pipeline.system}")
        return cast("QueueBrokers", self.brokers).broker

    @property
    def identity(self) -> Identity:
        """Where a record's id is found; with a schema registry, including its address
        in this cell.
        """
        found = self.cell.identity
        if found.schema is None or found.schema.kind != REGISTRY:
            return found
        return replace(
            found,
            schema=replace(
                found.schema, text=fill(found.schema.text, self.of_services), cell=self.cell.key
            ),
        )

    def still(self, least_s: float) -> float:
        """Return how long (seconds, at least ``least_s``) nothing must move before what is awaited
        counts as not coming.
        """
        return self.learnt.silences.still(self.cell, least_s)

    def await_met(self, condition: Callable[[], A | None], least_s: float, because: str) -> A:
        """Wait for what a fault needs, for so many seconds, or for longer where the dry run's
        silences were longer.

        Raises:
            NotFiredError: it did not come.
        """
        return await_met(condition, self.still(least_s), because, poll_s=0.1)

    def make_folders(self) -> None:
        """Create the folders that programs write into."""
        for folder in (self.work, self.logs, self.failpoints):
            folder.mkdir(parents=True, exist_ok=True)

    def groups(self) -> Sequence[str]:
        """Return the pipeline's consumer groups."""
        return self.kafka.groups(self.groups_seen())

    def groups_seen(self) -> frozenset[str]:
        """Return the consumer groups that the wire saw the pipeline use in this cell."""
        return frozenset(group for role in self.roles for group in self.stages_seen.groups(role))

    def values(self, role: Role) -> Mapping[str, object]:
        """Return the values of the names in braces in a stage's part of the declaration."""
        stage = self.pipeline.stage(role)
        in_image = stage is not None and bool(stage.image)
        return {
            **self.places(self.brokers.bootstrap(role), in_image=in_image),
            **self.service_routes.values(role),
        }

    def values_at_rest(self) -> Mapping[str, object]:
        """Return the values of the names in braces in a command by which lostack reads the results.
        It runs on this machine, and reaches services and Kafka past the wire: no fault is meant for
        it, and the wire takes nobody else for a stage. Secured brokers have another log-in there,
        so it reaches those as the last stage does; and queues, too.
        """
        past = self.pipeline.dialect.logs and self.brokers.access is None
        return self.places(
            self.kafka.direct if past else self.brokers.bootstrap(self.pipeline.stages[-1].known),
            in_image=False,
        )

    def places(self, bootstrap: str, *, in_image: bool) -> Mapping[str, object]:
        """Return the values of the names in braces for a program that is given these bootstrap
        addresses.
        """
        return {
            "bootstrap": bootstrap,
            "work": self.work,
            "input": self.work / "input.txt",
            "topic": self.pipeline.topic,
            "port": self.lease.port,
            "python": IMAGES_PYTHON if in_image else self.pipeline.interpreter,
            "here": self.pipeline.directory,
            **self.of_services,
            **{f"jars:{name}": folder for name, folder in self.fetched.jars.items()},
            **{f"python:{name}": python for name, python in self.fetched.pythons.items()},
            **{f"pyspark:{name}": folder for name, folder in self.fetched.pysparks.items()},
            **(self.brokers.access.places() if self.brokers.access else {}),
        }

    def has_stepped(self) -> bool:
        """Say whether the step of the fault was seen at least once."""
        fault = self.cell.scenario.fault
        at, role = trigger_of(fault), role_of(fault)
        if isinstance(at, OnWire) and (lines := self.pipeline.dialect.lines(at.api)):
            return any(self.stages_seen.stepped(role, line) for line in lines)
        return self.stages_seen.stepped(
            role, kinds.FETCHED if self.pipeline.reads(role) else kinds.PRODUCE_ANSWER
        )
