"""The declaration of a user's pipeline: frozen dataclasses with clear defaults, checked when they
are made.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness.model.cell import LEAST_RECORDS, MOST_PARTITIONS, MOST_RECORDS
from harness.model.secrets import register_secrets
from harness.model.semantics import Anomaly, Semantic, forbids
from harness.pipelines.braces import (
    PLACES,
    check_places,
    fill,
    places,
)
from harness.pipelines.broker import CLEANING, Broker, TopicSettings
from harness.pipelines.connectors import Connector, check_patience
from harness.pipelines.consistency import (
    check_aggregate,
    check_input,
    check_line,
    check_offering,
    check_order,
    check_programs,
    check_queue,
    check_security,
    check_services_named,
)
from harness.pipelines.dead_letters import check_dead_letters
from harness.pipelines.dialects import SPOKEN
from harness.pipelines.guarantees import check_guarantees
from harness.pipelines.id_table import check_password
from harness.pipelines.inputs import Input, InputKind, Resend
from harness.pipelines.names import check_name, check_topics
from harness.pipelines.outputs import Output, OutputKind
from harness.pipelines.programs import (
    Program,
    Service,
    check_command,
    check_folder,
    check_interpreter,
)
from harness.pipelines.refusing import DeclarationError, check_home, choice, nearest

if TYPE_CHECKING:
    from harness.model.identity import Identity
    from harness.model.scenario import Role
    from harness.pipelines.aggregates import Aggregate
    from harness.pipelines.dialects import Dialect
    from harness.pipelines.invariants import Invariant
    from harness.pipelines.security import DeclaredSecurity
    from harness.pipelines.stages import Stage

DECLARED_RECORDS = 48
DEFAULT_RATE = 50.0
"""The default rate in lines a second. If there are many records, it is higher, so that all are
offered in ``OFFERED_S``.
"""
OFFERED_S = 20.0
EXPECTABLE = ("lost", "duplicated")
"""Anomalies that a pipeline may be declared to show without any fault."""
PER_KEY = "per key"
"""An order that a pipeline may claim."""
JARS = re.compile(r"\{jars:([^}]*)\}")
"""A name in a command or environment that stands for the folder of a locked set of jars, which
lostack fetches if needed.
"""
PYTHON = re.compile(r"\{python:([A-Za-z0-9_.-]+==[0-9][A-Za-z0-9.]*)\}")
"""A name that stands for a Python interpreter with a package at a version. lostack makes its
environment if needed.
"""
PYSPARK = re.compile(r"\{pyspark:([^}]*)\}")
"""A name that stands for the folder of a release of PySpark, for ``PYTHONPATH``. lostack fetches it
if needed.
"""


class RepeatedIdError(DeclarationError):
    """Several records of the input have the same id, so no run with this input proves anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A user's own pipeline."""

    name: str
    """The pipeline's name in the ids of its cells, of at most 64 bytes. By default the name of its
    folder.
    """
    claims: Semantic
    """The semantic that it promises, and by which it is judged."""
    stages: tuple[Stage, ...]
    """Its programs."""
    topics: tuple[str, ...]
    """Topics (or the queue) that lostack creates for it; the first lies between producer and
    consumer.
    """
    output: Output
    """Where the results land."""
    system: str = "kafka"
    """The system that it runs on: ``kafka``, ``activemq``, ``artemis`` or ``pulsar``."""
    broker: Broker = field(default_factory=Broker)
    """The broker that lostack starts for it."""
    input: Input = field(default_factory=Input)
    """How the records are offered."""
    security: DeclaredSecurity | None = None
    """How the programs connect to the brokers, if by TLS or with a password."""
    id: Identity | None = None
    """Where a record's id is found. By default lostack looks for its own token, anywhere."""
    aggregate: Aggregate | None = None
    """Declares that the rows of the output are counts or sums of keys, instead of records."""
    invariants: tuple[Invariant, ...] = ()
    """Conditions that the results must meet when everything is at rest."""
    services: tuple[Service, ...] = ()
    """The servers that the stages need, in the order in which they are started."""
    dead_letters: str = ""
    """The topic, or queue, in which records may end that cannot be processed. Records that rest
    there are not lost. By default a record that ends in any other place than the output is.
    """
    order: str = ""
    """``per key``: the records of a key must be recorded in the order in which they
    were offered.
    """
    guarantees: tuple[str, ...] = ()
    """Session guarantees that each of its readers and writers must keep: ``monotonic``,
    ``read-your-writes``. Only on Kafka.
    """
    records: int = DECLARED_RECORDS
    """The number of records in a run."""
    partitions: int = 3
    """The number of partitions of each topic."""
    topic_settings: TopicSettings = field(default_factory=TopicSettings)
    """The settings of its topics, by Kafka's names for them; a table in it is of one topic."""
    brokers: int = 1
    """How many Kafka brokers lostack starts for it: 1 or 3."""
    drain_s: float = 90.0
    """For how many seconds the load may come no further while records are on their way."""
    patience_s: float = 30.0
    """How many seconds a run waits if a record is missing and nothing is known to be on its way."""
    expects: tuple[str, ...] = ()
    """The anomalies that the pipeline shows even without a fault: ``lost`` or ``duplicated``, if
    its claim permits them.
    """
    python: str = ""
    """The project's interpreter: ``{python}``; commands are looked for beside it first. Default:
    lostack's, and ``PATH``.
    """
    directory: Path = field(default_factory=Path.cwd)
    """The folder in which its commands run: the declaration's folder."""
    file: str = ""
    """The TOML file it was read from, if any."""

    def __post_init__(self) -> None:
        register_secrets((*(each.environment for each in self.programs), self.broker.settings))
        check_name(self.name)
        check_topics(self.topics)
        if not 1 <= self.partitions <= MOST_PARTITIONS:
            raise DeclarationError(
                f"partitions: {self.partitions}; write a number from 1 to {MOST_PARTITIONS}"
            )
        if not LEAST_RECORDS <= self.records <= MOST_RECORDS:
            raise DeclarationError(
                f"records: {self.records}; write a number from {LEAST_RECORDS} to {MOST_RECORDS}"
            )
        for name in self.expects:
            if forbids(self.claims, Anomaly(choice("expects", name, EXPECTABLE))):
                raise DeclarationError(
                    f"expects: {name} is forbidden by the claim {self.claims}: take it out"
                )
        self._check_parts()
        named = [("input", topic) for topic in self.input.into]
        for where, topic in (*named, ("output", self.output.topic)):
            if topic and topic not in self.topics:
                raise DeclarationError(
                    f"{where}: topic {topic} is not among topics; {nearest(topic, self.topics)}"
                )
        if self.output.topic in self.input.into:
            raise DeclarationError(
                f"output: lostack itself produces into the topic {self.output.topic}: name the one "
                "in which the results are"
            )
        check_dead_letters(
            self.dead_letters,
            system=self.system,
            dialect=self.dialect,
            topics=self.topics,
            reads=self.between,
            output=self.output.topic,
            totals=self.aggregate is not None,
        )

    def _check_parts(self) -> None:
        """Raise :class:`DeclarationError` if its parts do not fit each other."""
        words = [word for program in self.programs for word in program.words]
        texts = (*words, *self.output.command, self.input.database)
        check_services_named(self.services, texts, self.invariants, self.id)
        check_programs(self.stages, self.services)
        check_input(self.input, self.stages)
        check_line(self.input, self.id, totals=self.aggregate is not None)
        named = {name for stage in self.stages for word in stage.words for name in places(word)}
        check_offering(self.input, named)
        check_security(self.security, named)
        choice("system", self.system, SPOKEN)
        self.broker.check(self.system, self.brokers, secured=bool(self.security))
        self.topic_settings.check(self.system, self.topics, logs=self.dialect.logs)
        if not self.dialect.logs:
            of_topics = self.input.kind is InputKind.TOPIC or self.output.kind is OutputKind.TOPIC
            check_queue(
                self.system,
                self.topics,
                self.stages,
                of_topics=of_topics,
                secured=self.security is not None,
            )
        check_aggregate(self.aggregate, self.input)
        check_guarantees(self.guarantees, system=self.system, logs=self.dialect.logs)
        for invariant in self.invariants:
            invariant.check(sqlite=self.output.kind is OutputKind.SQLITE)
            for word in invariant.command:
                check_places("invariant: command", word, PLACES)
        if self.order:
            choice("order", self.order, (PER_KEY,))
            check_order(self.input, self.output, totals=self.aggregate is not None)

    @property
    def dialect(self) -> Dialect:
        """The dialect of the system that it runs on: the names of its steps on the wire."""
        return self.broker.dialect(self.system)

    @property
    def pace(self) -> float:
        """Lines a second."""
        return self.input.rate or max(DEFAULT_RATE, self.records / OFFERED_S)

    @property
    def between(self) -> tuple[str, ...]:
        """The topics between producer and consumer: of several input topics, all."""
        return self.input.into or self.topics[:1]

    @property
    def started_broker(self) -> Broker:
        """The broker that lostack starts, with what its topics need."""
        if not self.topic_settings.compacts(self.topics):
            return self.broker
        return replace(self.broker, settings={**CLEANING, **self.broker.settings})

    @property
    def topic(self) -> str:
        """The first of the topics between producer and consumer."""
        return self.between[0]

    @property
    def resend(self) -> Resend:
        """Which records a restarted producer is given again."""
        if self.input.resend is not None:
            return self.input.resend
        return Resend.NONE if self.claims is Semantic.AT_MOST_ONCE else Resend.UNACKNOWLEDGED

    def stage(self, known: Role) -> Stage | None:
        """Return the stage of a name or role; ``None`` if there is none."""
        return next((stage for stage in self.stages if stage.known is known), None)

    def reads(self, known: str) -> bool:
        """Return whether the stage of this name reads a topic."""
        return any(stage.reads for stage in self.stages if stage.known == known)

    @property
    def named(self) -> tuple[str, ...]:
        """The names of the stages that have a name besides their role."""
        return tuple(stage.name for stage in self.stages if stage.name)

    @property
    def jars(self) -> tuple[str, ...]:
        """The sets of jars that its commands refer to."""
        return self._named(JARS)

    @property
    def packages(self) -> tuple[str, ...]:
        """The packages, with versions, for which its commands ask for an interpreter."""
        return self._named(PYTHON)

    @property
    def pysparks(self) -> tuple[str, ...]:
        """The releases of PySpark that its commands refer to."""
        return self._named(PYSPARK)

    def _named(self, pattern: re.Pattern[str]) -> tuple[str, ...]:
        """Return what a pattern finds in its commands and their environments, each once."""
        words = [word for program in self.programs for word in program.words]
        return tuple(dict.fromkeys(name for word in words for name in pattern.findall(word)))

    @property
    def programs(self) -> tuple[Program, ...]:
        """All programs that are started for it: services and stages."""
        return (*self.services, *self.stages)

    @property
    def interpreter(self) -> str:
        """The value of ``{python}`` for a process."""
        return str(self.directory.absolute() / self.python) if self.python else sys.executable

    @property
    def path(self) -> str | None:
        """The ``PATH`` on which the commands of processes are looked for; ``None``: lostack's own
        ``PATH``.
        """
        return (
            f"{Path(self.interpreter).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
            if self.python
            else None
        )

    def check_commands(self) -> None:
        """Raise :class:`DeclarationError` if a command cannot be found, a connector or the schema
        registry's password cannot be read, or a run would not wait long enough for a connector.
        """
        if self.python:
            check_home("python", self.python)
            check_interpreter(self.interpreter)
        started = (
            *(
                (f"the {each.known}'s command", () if each.image else each.command, True)
                for each in self.stages
            ),
            *(
                (f"the service {each.name}'s command", () if each.image else each.command, True)
                for each in self.services
            ),
            ("the output's command", self.output.command, False),
            *(
                (f"the command of invariant {n}", each.command, False)
                for n, each in enumerate(self.invariants, start=1)
            ),
        )
        built = [(each.known, each.build) for each in self.stages]
        built += [(each.known, each.build) for each in self.services]
        for known, build in built:
            if build:
                check_folder(str(known), build, self.directory)
        values = {"python": self.interpreter, "here": str(self.directory)}
        for what, command, beside in started:
            if command:
                check_command(
                    what, fill(command[0], values), self.directory, self.path, beside=beside
                )
        for stage in self.stages:
            file = fill(stage.connector, values)
            if file and not places(file):  # else it is made when it runs
                connector = Connector.read(self.directory / file)
                check_patience(connector, stage.environment, self.patience_s)
        check_password(self.id)
