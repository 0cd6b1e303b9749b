"""The declaration of a user's pipeline: frozen dataclasses with clear defaults, checked when they
are made.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from harness.model.cell import LEAST_RECORDS, MOST_PARTITIONS, MOST_RECORDS
from harness.model.identity import REGISTRY, Identity
from harness.model.scenario import ROLES_OF_OURS, Role
from harness.model.secrets import bring
from harness.model.semantics import Anomaly, Semantic, forbids
from harness.pipelines.aggregates import Aggregate  # noqa: TC001 - likewise
from harness.pipelines.braces import (
    PLACES,
    SECRETS,
    SECURED,
    check_places,
    check_services,
    fill,
    places,
)
from harness.pipelines.broker import Broker, TopicSettings
from harness.pipelines.dead_letters import check_dead_letters
from harness.pipelines.dialects import SPOKEN
from harness.pipelines.guarantees import check_guarantees
from harness.pipelines.inputs import Input, InputKind, Resend
from harness.pipelines.invariants import Invariant  # noqa: TC001 - likewise
from harness.pipelines.programs import (
    PROCESS,
    STAGE,
    Program,
    Service,
    check_command,
    check_interpreter,
)
from harness.pipelines.refusals import Refusal
from harness.pipelines.refusing import DeclarationError, check_reads, choice, nearest
from harness.pipelines.sought import check_password

if TYPE_CHECKING:
    from harness.pipelines.dialects import Dialect
    from harness.pipelines.security import DeclaredSecurity

ROLES = (Role.PRODUCER, Role.CONSUMER, Role.PROCESSOR)
CONSUMING = (Role.CONSUMER, Role.PROCESSOR)
POSITIONS = ("group", "elsewhere")
AT_END = "end"
BEGINNINGS = ("start", AT_END)
"""Where a reading stage may keep its position."""
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
NAME = re.compile(r"[a-z][a-z0-9_]*")
MOST_MEMBERS = 4
"""The most members of a stage that lostack starts."""
MOST_OF_NAME = 64
"""The most bytes of a pipeline's name."""
TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
BROKERS_OWN = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"}
)
JARS = re.compile(r"\{jars:([^}]*)\}")
"""A name in a command or environment that stands for the folder of a locked set of jars, which
lostack fetches if needed.
"""
PYTHON = re.compile(r"\{python:([A-Za-z0-9_.-]+==[0-9][A-Za-z0-9.]*)\}")
"""A name that stands for a Python interpreter with a package at a version. lostack makes its
environment if needed.
"""


class RepeatedIdError(DeclarationError):
    """Several records of the input have the same id, so no run with this input proves anything."""


class OutputKind(StrEnum):
    """Where the results land."""

    TOPIC = "topic"
    """A ``topic``, read with isolation level read_committed; every record is a result."""
    SQLITE = "sqlite"
    """A SQLite ``file`` and a ``query``; every row is a result."""
    LINES = "lines"
    """Text files by a glob in ``file`` (JSON lines, CSV, a log); every line that has an id is a
    result.
    """
    PARQUET = "parquet"
    """Parquet files by a glob in ``file``; every row is a result."""
    DELTA = "delta"
    """A Delta table in the folder ``file``, read by its log; every row is a result."""
    STDOUT = "stdout"
    """What the last stage prints; every line that has an id is a result."""
    COMMAND = "command"
    """What a ``command`` prints (psql, mongoexport, …); every line that has an id is a result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage(Program):
    """A program of the pipeline. A crash kills it with all processes that it has started, detached
    ones too.

    Several stages of one role read in consumer groups of their own. All members of one group are
    one stage, and its command starts all of them, because lostack cannot know in advance which
    member receives a record.
    """

    role: Role
    """``producer``, ``consumer`` or ``processor``."""
    name: str = ""
    """Its name. Needed if several stages have one role. Each stage has its own address of the
    brokers. By default its role.
    """
    position: str = "group"
    """``group``: the position is in Kafka's consumer group. ``elsewhere``: skipped and unread
    records cannot be told apart.
    """
    begins: str = "start"
    """Where a reading stage without a position is meant to begin: at the ``start`` of what is
    there, or at the ``end``.
    """
    failpoints: tuple[str, ...] = ()
    """Names that the program passes to ``failpoint(name, id)``. At each of them it is killed while
    it works on the target.
    """
    refusals: tuple[str, ...] = ()
    """Requests that lostack refuses in the broker's name, each a failure point: ``"Produce
    NOT_ENOUGH_REPLICAS"``. With ``done`` at the end the broker carries out the request all the
    same: ``"Produce REQUEST_TIMED_OUT done"``.
    """
    crash: str = STAGE
    """What a crash kills: the whole ``stage``, or only the ``process`` that hit the fault."""
    scale: int = 1
    """How many members of its group lostack starts, each by its command: 1 to 4. With several, a
    crash kills the member that hit the fault, and members join and leave.
    """

    def __post_init__(self) -> None:
        self.check_program(str(self.known))
        if self.name and (not NAME.fullmatch(self.name) or self.name in ROLES_OF_OURS):
            raise DeclarationError(
                f"stage: name {self.name!r}: use lower-case letters, digits and _; no name of "
                "lostack's own"
            )
        for name in self.failpoints:
            if not name or any(not (char.isalnum() or char in "-_") for char in name):
                raise DeclarationError(
                    f"failpoints: {name!r} is part of a cell's id: use letters, digits, - and _ "
                    "only"
                )
        self._check_refusals()
        self._check_scale()
        if self.role not in ROLES:
            raise DeclarationError(
                f"a stage cannot be a {self.role}: it is a {' or a '.join(ROLES)}"
            )
        choice("position", self.position, POSITIONS)
        choice("begins", self.begins, BEGINNINGS)
        choice("crash", self.crash, (STAGE, PROCESS))
        if self.image and self.crash == PROCESS:
            raise DeclarationError(
                f"crash: the {self.role} is a container, which dies as a whole: crash must be "
                f"{STAGE}"
            )

    @property
    def known(self) -> Role:
        """The stage's name on the wire and in histories: its declared name, or its role."""
        return Role(self.name) if self.name else self.role

    @property
    def reads(self) -> bool:
        """Whether the stage reads a topic."""
        return self.role in CONSUMING

    @property
    def one_dies(self) -> bool:
        """Whether a crash kills one process of several, and not the whole stage."""
        return self.crash == PROCESS or self.scale > 1

    @property
    def of_logs(self) -> str | None:
        """The first field of it that has no meaning on a queue."""
        fields = {
            "refusals": bool(self.refusals),
            "name": bool(self.name),
            "scale": self.scale > 1,
            "position": self.position != "group",
        }
        return next((name for name, said in fields.items() if said), None)

    def _check_scale(self) -> None:
        if not 1 <= self.scale <= MOST_MEMBERS:
            raise DeclarationError(
                f"scale: {self.scale} members of the {self.known}; write a number from 1 to "
                f"{MOST_MEMBERS}"
            )
        if self.scale == 1:
            return
        why = (
            "a producer has no group whose members share its records"
            if not self.reads
            else "it keeps its position elsewhere, so it has no group to share records in"
            if self.position != "group"
            else "it is a container, and lostack starts only one of it"
            if self.image
            else None
        )
        if why:
            raise DeclarationError(
                f"scale: the {self.known} cannot have {self.scale} members: {why}"
            )

    def _check_refusals(self) -> None:
        names = [Refusal.read(text).name for text in self.refusals]
        if len(names) > len(set(names)):
            raise DeclarationError(
                f"refusals: the {self.role} names a refusal twice: name each once"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Where the results land."""

    kind: OutputKind
    """The kind of the output."""
    topic: str = ""
    """For kind topic: its name, which must be among ``topics``."""
    file: str = ""
    """For kinds sqlite, lines and parquet: the file, or a glob of files; for kind delta: the
    table's folder.
    """
    query: str = ""
    """For kind sqlite: the query whose rows are the results."""
    command: tuple[str, ...] = ()
    """For kind command: the command that prints the results."""
    quiet_s: float = 1.0
    """For how many seconds the output must stay unchanged before a run is over."""

    def __post_init__(self) -> None:
        needs = {
            OutputKind.TOPIC: ("topic",),
            OutputKind.SQLITE: ("file", "query"),
            OutputKind.LINES: ("file",),
            OutputKind.PARQUET: ("file",),
            OutputKind.DELTA: ("file",),
            OutputKind.STDOUT: (),
            OutputKind.COMMAND: ("command",),
        }[self.kind]
        for name in needs:
            if not getattr(self, name):
                raise DeclarationError(f"output: kind {self.kind} needs {name}")
        for name, word in (("file", self.file), *(("command", word) for word in self.command)):
            check_places(f"output: {name}", word, PLACES)
        for name in ("topic", "file", "query", "command"):
            if getattr(self, name) and name not in needs:
                raise DeclarationError(
                    f"output: {name} has no meaning for kind {self.kind}: leave it out"
                )
        check_reads("output: query", self.query)


def check_name(name: str) -> None:
    """Raise :class:`DeclarationError` if a pipeline cannot have a name."""
    if not name or any(not (char.isalnum() or char in "-_") for char in name):
        raise DeclarationError(
            f"name: {name!r} is part of every cell's id: use letters, digits, - and _ only"
        )
    if (size := len(os.fsencode(name))) > MOST_OF_NAME:
        raise DeclarationError(
            f"name: has {size} bytes, and {MOST_OF_NAME} is the most, because it stands twice in "
            'the names of folders: write a shorter one, as name = "orders"'
        )


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
        bring((*(each.environment for each in self.programs), self.broker.settings))
        self._check_names()
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
        self._check_services()
        self._check_stages()
        self._check_queue()
        self._check_results()
        for where, topic in (("input", self.input.topic), ("output", self.output.topic)):
            if topic and topic not in self.topics:
                raise DeclarationError(
                    f"{where}: topic {topic} is not among topics; {nearest(topic, self.topics)}"
                )
        check_dead_letters(
            self.dead_letters,
            system=self.system,
            topics=self.topics,
            reads=self.topic,
            output=self.output.topic,
            totals=self.aggregate is not None,
        )

    def _check_names(self) -> None:
        check_name(self.name)
        if not self.topics:
            raise DeclarationError(
                "topics: name at least the topic between the stages; lostack creates it"
            )
        wrong = next(
            (topic for topic in self.topics if not TOPIC.fullmatch(topic) or topic in {".", ".."}),
            None,
        )
        if wrong is not None:
            raise DeclarationError(
                f"topics: {wrong!r} is no name of a topic: use letters, digits, '.', '_' and "
                "'-', at most 249"
            )
        if twice := next((topic for topic in self.topics if self.topics.count(topic) > 1), None):
            raise DeclarationError(f"topics: {twice} is named twice: name each topic once")
        if own := next((topic for topic in self.topics if topic in BROKERS_OWN), None):
            raise DeclarationError(
                f"topics: {own} is one of the broker's internal topics: choose another name"
            )

    def _check_results(self) -> None:
        """Raise :class:`DeclarationError` if a claim about the results cannot be checked."""
        if self.aggregate is not None:
            self.aggregate.check(self.input.line)
            if self.input.kind is InputKind.OWN:
                raise DeclarationError(
                    "aggregate: use another input kind than own, whose keys lostack does not know"
                )
        elif "amount" in places(self.input.line):
            raise DeclarationError(
                "input: line: {amount} needs an [aggregate] that sums it up: write one, or take "
                "{amount} out"
            )
        check_guarantees(self.guarantees, system=self.system, logs=self.dialect.logs)
        for invariant in self.invariants:
            invariant.check(sqlite=self.output.kind is OutputKind.SQLITE)
            for word in invariant.command:
                check_places("invariant: command", word, PLACES)
        if self.order:
            choice("order", self.order, (PER_KEY,))
            if why := _why_no_order(self):
                raise DeclarationError(f"order: {why}")

    @property
    def dialect(self) -> Dialect:
        """The dialect of the system that it runs on: the names of its steps on the wire."""
        return self.broker.dialect(self.system)

    def _check_queue(self) -> None:
        """Raise :class:`DeclarationError` if a pipeline on a queue uses something that only a log
        has.
        """
        choice("system", self.system, SPOKEN)
        self.broker.check(self.system, self.brokers, secured=bool(self.security))
        self.topic_settings.check(self.system, self.topics, logs=self.dialect.logs)
        if self.dialect.logs:
            return
        processes = any(stage.role is Role.PROCESSOR for stage in self.stages)
        if self.input.kind is InputKind.TOPIC or self.output.kind is OutputKind.TOPIC or processes:
            raise DeclarationError(
                f"system: on {self.system} a pipeline must be a producer, a queue, a consumer, "
                "and an output that is not a topic"
            )
        if len(self.topics) > 1:
            raise DeclarationError(
                f"topics: on {self.system} name one only, the queue between the stages: "
                f"{self.topics[0]}"
            )
        if self.security is not None:
            raise DeclarationError(
                f"security: on {self.system} there is neither TLS nor a log-in: take [security] "
                "away"
            )
        for stage in self.stages:
            if what := stage.of_logs:
                raise DeclarationError(
                    f"{what}: has no meaning for the {stage.role} on {self.system}: leave it out"
                )

    def _check_services(self) -> None:
        names = [service.name for service in self.services]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise DeclarationError(
                f"service: two services are called {twice}: give each its own name"
            )
        asked = [word for invariant in self.invariants for word in invariant.command]
        if self.id and self.id.schema and self.id.schema.kind == REGISTRY:
            check_places("id: registry", self.id.schema.text, ())
            asked.append(self.id.schema.text)
        for text in (
            *(word for program in self.programs for word in program.words),
            *self.output.command,
            self.input.database,
            *asked,
        ):
            check_services(text, names)

    def _check_stages(self) -> None:
        roles = [stage.role for stage in self.stages]
        if not roles:
            raise DeclarationError("a pipeline needs a [[stage]] with role and command")
        self._check_known()
        if self.input.kind is InputKind.TOPIC:
            if Role.PRODUCER in roles:
                raise DeclarationError(
                    "input: kind topic replaces the producer: take away one of the two"
                )
            if not self.input.topic:
                raise DeclarationError("input: kind topic needs topic, the topic's name")
        elif Role.PRODUCER not in roles:
            raise DeclarationError(
                f"input: kind {self.input.kind} needs a stage with role producer; without one, "
                "use kind topic"
            )
        if self.input.kind is InputKind.OWN and (
            self.id is None or "{position}" not in self.input.line
        ):
            raise DeclarationError(
                "input: kind own needs {position} in line, and [id]: its records carry no token "
                "of lostack's"
            )
        if (
            self.input.kind is InputKind.STDIN
            and next(stage for stage in self.stages if stage.role is Role.PRODUCER).image
        ):
            raise DeclarationError(
                "input: kind stdin: lostack cannot write to a container's standard input; use "
                "kind file or http"
            )
        if self.input.kind is not InputKind.TOPIC and self.input.topic:
            raise DeclarationError(
                f"input: topic has no meaning for kind {self.input.kind}: leave it out"
            )
        named = {name for stage in self.stages for word in stage.words for name in places(word)}
        self._check_ways_in(named)
        self._check_security(named)

    def _check_known(self) -> None:
        """Raise :class:`DeclarationError` if two stages or services have the same name."""
        if [stage.role for stage in self.stages].count(Role.PRODUCER) > 1:
            raise DeclarationError(
                "two stages are a producer, but only one is offered the records: start both by "
                "one command"
            )
        known = [
            *(str(stage.known) for stage in self.stages),
            *(service.name for service in self.services),
        ]
        if twice := next((name for name in known if known.count(name) > 1), None):
            said = (
                f"two stages are a {twice}"
                if twice in ROLES
                else f"two stages or services are called {twice}"
            )
            raise DeclarationError(f'{said}: give each its own name (name = "...")')

    def _check_security(self, named: set[str]) -> None:
        """Raise :class:`DeclarationError` if commands and environments do not fit
        ``[security]``.
        """
        if self.security is None:
            if wrong := next((name for name in SECURED if name in named), None):
                raise DeclarationError(
                    f"{{{wrong}}} needs a [security] with protocol and mechanism: write one"
                )
            return
        if self.security.protocol.endswith("SSL") and "ca" not in named:
            raise DeclarationError(
                "security: no command or environment has {ca}: the programs need it to trust the "
                "brokers"
            )
        if self.security.mechanism and not self.security.username and not named & set(SECRETS):
            raise DeclarationError(
                "security: no environment has {password} or {jaas}: pass one of them to the "
                "programs"
            )

    def _check_ways_in(self, named: set[str]) -> None:
        """Raise :class:`DeclarationError` if the producer's command and environment do not fit the
        input's kind.
        """
        if "input" in named and self.input.kind is not InputKind.FILE:
            raise DeclarationError(
                f"{{input}} is the file of an input of kind file, but the input is of kind "
                f"{self.input.kind}"
            )
        if self.input.kind is InputKind.FILE and not named & {"input", "work"}:
            raise DeclarationError(
                "input: kind file, but no command or environment has {input}: pass it to the "
                "producer"
            )
        if "{port}" in self.input.url and "port" not in named:
            raise DeclarationError(
                "input: url has {port}, but no command or environment has it: pass it to the "
                "producer"
            )

    @property
    def pace(self) -> float:
        """Lines a second."""
        return self.input.rate or max(DEFAULT_RATE, self.records / OFFERED_S)

    @property
    def topic(self) -> str:
        """The topic between producer and consumer."""
        return self.input.topic or self.topics[0]

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
        words = [word for program in self.programs for word in program.words]
        return tuple(dict.fromkeys(name for word in words for name in JARS.findall(word)))

    @property
    def packages(self) -> tuple[str, ...]:
        """The packages, with versions, for which its commands ask for an interpreter."""
        words = [word for program in self.programs for word in program.words]
        return tuple(dict.fromkeys(name for word in words for name in PYTHON.findall(word)))

    @property
    def images(self) -> tuple[str, ...]:
        """The container images of its stages and services."""
        return tuple(dict.fromkeys(program.image for program in self.programs if program.image))

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
        """Raise :class:`DeclarationError` if a command cannot be found, or the schema registry's
        password cannot be read.
        """
        if self.python:
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
        values = {"python": self.interpreter, "here": str(self.directory)}
        for what, command, beside in started:
            if command:
                check_command(
                    what, fill(command[0], values), self.directory, self.path, beside=beside
                )
        check_password(self.id)


def _why_no_order(pipeline: Pipeline) -> str | None:
    """Say why the order of the results cannot be checked; return ``None`` if it can."""
    if pipeline.aggregate is not None:
        return "a total does not show the order of its records: take away order, or [aggregate]"
    if pipeline.input.kind is InputKind.OWN or "key" not in places(pipeline.input.line):
        return (
            "lostack does not know the key of a record: put {key} into the input's line, and "
            "use another kind than own"
        )
    if pipeline.input.at_once > 1:
        return (
            f"{pipeline.input.at_once} records are under way at once, in no order: set writers = 1 "
            "in [input]"
        )
    if pipeline.output.kind is OutputKind.SQLITE and "order by" not in " ".join(
        pipeline.output.query.lower().split()
    ):
        return (
            "the output's query has no order: end it with ORDER BY and a column that grows "
            "with each inserted row"
        )
    if pipeline.output.file and any(char in pipeline.output.file for char in "*?["):
        return (
            f"results in several files ({pipeline.output.file}) have no order: write them to one "
            "file"
        )
    return None
