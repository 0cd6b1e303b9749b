"""The declaration of a user's pipeline: frozen dataclasses with clear defaults, checked when they are made."""

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
from harness.model.semantics import Anomaly, Semantic, forbids
from harness.pipelines.aggregates import Aggregate  # noqa: TC001 - likewise
from harness.pipelines.braces import LINES, PLACES, SECRETS, SECURED, check_places, check_services, fill, places
from harness.pipelines.dialects import DIALECTS
from harness.pipelines.invariants import Invariant  # noqa: TC001 - likewise
from harness.pipelines.programs import PROCESS, STAGE, Program, Service, check_command, check_interpreter
from harness.pipelines.refusals import Refusal
from harness.pipelines.refusing import DeclarationError, check_reads, choice, nearest
from harness.pipelines.sought import check_password

if TYPE_CHECKING:
    from harness.pipelines.dialects import Dialect
    from harness.pipelines.security import DeclaredSecurity

DEFAULT_LINE = '{"id": "{id}", "key": "{key}", "position": {position}}'
"""What lostack offers, one line a record, where the declaration has no ``line`` of its own."""
ROLES = (Role.PRODUCER, Role.CONSUMER, Role.PROCESSOR)
CONSUMING = (Role.CONSUMER, Role.PROCESSOR)
POSITIONS = ("group", "elsewhere")
"""Where a reading stage may keep how far it is."""
DECLARED_RECORDS = 48
DEFAULT_RATE = 50.0
"""Lines a second, or as many as it takes to offer all of them in ``OFFERED_S``."""
OFFERED_S = 20.0
EXPECTABLE = ("lost", "duplicated")
"""What a pipeline may be declared to show without any fault."""
PER_KEY = "per key"
"""An order that a pipeline may claim."""
NAME = re.compile(r"[a-z][a-z0-9_]*")
TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
BROKERS_OWN = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"})
JARS = re.compile(r"\{jars:([^}]*)\}")
"""In a command or its environment: the folder of a locked set of jars, which is fetched where it is not there yet."""
PYTHON = re.compile(r"\{python:([A-Za-z0-9_.-]+==[0-9][A-Za-z0-9.]*)\}")
"""Likewise, the interpreter of an environment with a package at a version, which is made where it is not there yet."""
URL = re.compile(r"http://(127\.0\.0\.1|localhost|\[::1\]):(\{port\}|[0-9]{1,5})([/?].*)?")
"""Of an input: on this machine, and with a port."""


class RepeatedIdError(DeclarationError):
    """Several records of an input have one id: whatever is run on it proves nothing."""


class InputKind(StrEnum):
    """How the records are offered."""

    STDIN = "stdin"
    """Lines, one a record, to the producer's standard input, at a steady rate."""
    FILE = "file"
    """A file of lines, whole from the start, whose path is ``{input}``."""
    HTTP = "http"
    """One POST a record to the producer's ``url``; what it has answered with 2xx it has taken over."""
    TOPIC = "topic"
    """lostack produces them into a topic: for a pipeline that begins with a consumer."""
    OWN = "own"
    """The producer makes them itself, ``records`` of them; ``line`` says what the id of each looks like."""


class OutputKind(StrEnum):
    """Where the results land."""

    TOPIC = "topic"
    """A ``topic``, read committed; every record is a result."""
    SQLITE = "sqlite"
    """A SQLite ``file`` and a ``query``; every row is a result."""
    LINES = "lines"
    """Text files by a glob in ``file`` (JSON lines, CSV, a log); every line that has an id is a result."""
    PARQUET = "parquet"
    """Parquet files by a glob in ``file``; every row is a result."""
    STDOUT = "stdout"
    """What the last stage prints; every line that has an id is a result."""
    COMMAND = "command"
    """What a ``command`` prints (psql, mongoexport, …); every line that has an id is a result."""


class Resend(StrEnum):
    """What a restarted producer is offered again, by standard input or HTTP."""

    UNACKNOWLEDGED = "unacknowledged"
    """Every line again that it was given and that the broker (HTTP: it itself) had not acknowledged, then the rest."""
    NONE = "none"
    """The rest: what was in its hands is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage(Program):
    """A program of the pipeline. A crash ends it with all processes that it has started, wherever they have gone.

    Several stages of one role read in consumer groups of their own. Members of one group are one stage, whose command starts them
    all, for which member is given a record is not known beforehand.
    """

    role: Role
    """``producer``, ``consumer`` or ``processor``."""
    name: str = ""
    """Its name, where several stages have one role; each then has its own address of the brokers. By default its role."""
    position: str = "group"
    """Where a consuming stage keeps its position: ``group`` (Kafka's consumer group) or ``elsewhere``. With ``elsewhere``
    lostack cannot tell what the stage has skipped from what it has yet to read."""
    failpoints: tuple[str, ...] = ()
    """Names that the program gives to ``failpoint(name, id)``; it is killed at each of them, with the target in hand."""
    refusals: tuple[str, ...] = ()
    """Requests that are refused in the broker's name, each a failure point: ``"Produce NOT_ENOUGH_REPLICAS"``. With ``done``
    behind it the request is carried out all the same: ``"Produce REQUEST_TIMED_OUT done"``."""
    crash: str = STAGE
    """What a crash ends: the whole ``stage``, or the one ``process`` of it that hit the fault."""

    def __post_init__(self) -> None:
        self.check_program(str(self.known))
        if self.name and (not NAME.fullmatch(self.name) or self.name in ROLES_OF_OURS):
            raise DeclarationError(f"stage: name {self.name!r}: lower-case letters, digits and _, and no name of lostack's own")
        for name in self.failpoints:
            if not name or any(not (char.isalnum() or char in "-_") for char in name):
                raise DeclarationError(f"failpoints: {name!r} is part of a cell's id: letters, digits, - and _ only")
        self._check_refusals()
        if self.role not in ROLES:
            raise DeclarationError(f"a stage cannot be a {self.role}: it is a {' or a '.join(ROLES)}")
        choice("position", self.position, POSITIONS)
        choice("crash", self.crash, (STAGE, PROCESS))
        if self.image and self.crash == PROCESS:
            raise DeclarationError(f"crash: the {self.role} is a container, which dies as a whole: crash is {STAGE}")

    @property
    def known(self) -> Role:
        """What it is called on the wire and in histories: its name, or else its role."""
        return Role(self.name) if self.name else self.role

    @property
    def reads(self) -> bool:
        """Whether it reads a topic."""
        return self.role in CONSUMING

    def _check_refusals(self) -> None:
        names = [Refusal.read(text).name for text in self.refusals]
        if len(names) > len(set(names)):
            raise DeclarationError(f"refusals: the {self.role} names one twice")


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """How the records are offered."""

    kind: InputKind = InputKind.STDIN
    """How the records reach the producer."""
    line: str = DEFAULT_LINE
    """One record as text, with ``{id}``, ``{key}``, ``{position}``, and ``{amount}``: what an ``[aggregate]`` sums up."""
    rate: float | None = None
    """Records a second, of kinds stdin, http and topic. By default 50, or more where there are many records."""
    resend: Resend | None = None
    """What a restarted producer is given again. By default ``unacknowledged``, but ``none`` for at-most-once."""
    topic: str = ""
    """Of kind topic: where the records are put."""
    url: str = ""
    """Of kind http: where the producer listens, on this machine. ``{port}``, here and in its command, is a free port."""
    header: str = ""
    """A first line that is no record, as of a CSV file. A restarted producer gets it again on standard input."""

    def __post_init__(self) -> None:
        if self.header and self.kind not in {InputKind.FILE, InputKind.STDIN}:
            raise DeclarationError(
                f"input: header means nothing for kind {self.kind}: it is the first line of a file, or of stdin"
            )
        if "\n" in self.header:
            raise DeclarationError("input: header is one line, without its line break")
        check_places("input: line", self.line, LINES)
        check_places("input: url", self.url, PLACES)
        if self.rate is not None and self.rate <= 0:
            raise DeclarationError("input: rate is records a second, above 0")
        if self.rate is not None and self.kind in {InputKind.FILE, InputKind.OWN}:
            raise DeclarationError(f"input: rate means nothing for kind {self.kind}: the producer has all of it from the start")
        if bool(self.url) != (self.kind is InputKind.HTTP):
            raise DeclarationError("input: kind http needs url, and no other kind has one")
        if self.url and not URL.fullmatch(self.url):
            raise DeclarationError(f"input: url {self.url!r} is not on this machine: http://127.0.0.1:{{port}}/...")
        if self.kind is InputKind.OWN and self.line == DEFAULT_LINE:
            raise DeclarationError("input: kind own needs line: what the id of a record looks like, e.g. order-{position}")
        if "\n" in self.line or not {"id", "position"} & set(places(self.line)):
            raise DeclarationError(
                "input: a line needs {id} or {position} in it, or nothing could be recognised, and no line break"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Where the results land."""

    kind: OutputKind
    """What the results are."""
    topic: str = ""
    """Of kind topic: its name, which is among ``topics``."""
    file: str = ""
    """Of kinds sqlite, lines and parquet: the file, or a glob of files."""
    query: str = ""
    """Of kind sqlite: its rows are the results."""
    command: tuple[str, ...] = ()
    """Of kind command: what prints the results."""
    quiet_s: float = 1.0
    """How long the output must not change for a run to be over."""

    def __post_init__(self) -> None:
        needs = {
            OutputKind.TOPIC: ("topic",), OutputKind.SQLITE: ("file", "query"), OutputKind.LINES: ("file",),
            OutputKind.PARQUET: ("file",), OutputKind.STDOUT: (), OutputKind.COMMAND: ("command",),
        }[self.kind]  # fmt: skip
        for name in needs:
            if not getattr(self, name):
                raise DeclarationError(f"output: kind {self.kind} needs {name}")
        for name, word in (("file", self.file), *(("command", word) for word in self.command)):
            check_places(f"output: {name}", word, PLACES)
        for name in ("topic", "file", "query", "command"):
            if getattr(self, name) and name not in needs:
                raise DeclarationError(f"output: {name} means nothing for kind {self.kind}")
        check_reads("output: query", self.query)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A pipeline of a user's own."""

    name: str
    """What it is called in the ids of its cells. By default its folder's name."""
    claims: Semantic
    """The promise that it is judged by."""
    stages: tuple[Stage, ...]
    """Its programs."""
    topics: tuple[str, ...]
    """Topics (or the queue) that lostack creates for it; the first lies between producer and consumer."""
    output: Output
    """Where the results land."""
    system: str = "kafka"
    """What it runs on: ``kafka``, ``activemq``, ``artemis`` or ``pulsar``."""
    input: Input = field(default_factory=Input)
    """How the records are offered."""
    security: DeclaredSecurity | None = None
    """How the programs come to the brokers, where that is not in the clear."""
    id: Identity | None = None
    """Where a record's id is found. By default lostack looks for its own token, anywhere."""
    aggregate: Aggregate | None = None
    """What the rows of the output are, where they are counts or sums of keys and not records."""
    invariants: tuple[Invariant, ...] = ()
    """What must hold of the results when everything is at rest."""
    services: tuple[Service, ...] = ()
    """The servers beside it, in the order in which they are started."""
    order: str = ""
    """``per key``: the records of a key must be recorded in the order in which they were offered."""
    records: int = DECLARED_RECORDS
    """How many records a run has."""
    partitions: int = 3
    """How many partitions each topic has."""
    drain_s: float = 90.0
    """How long a run waits, at most, for what is known to be on its way."""
    patience_s: float = 30.0
    """How long a run waits where a record is missing and nothing is known to be on its way."""
    expects: tuple[str, ...] = ()
    """What the pipeline shows without any fault: ``lost`` or ``duplicated``, as far as its claim permits that."""
    python: str = ""
    """The project's own interpreter: ``{python}``, and the first place where the stages' commands are looked for. By default
    lostack's own, and the ``PATH``."""
    directory: Path = field(default_factory=Path.cwd)
    """The folder in which its commands are run: the declaration's own."""
    file: str = ""
    """The TOML file it was read from, if any."""

    def __post_init__(self) -> None:
        self._check_names()
        if not 1 <= self.partitions <= MOST_PARTITIONS:
            raise DeclarationError(f"partitions: {self.partitions}; a topic has at least one, and at most {MOST_PARTITIONS} here")
        if not LEAST_RECORDS <= self.records <= MOST_RECORDS:
            raise DeclarationError(f"records: {self.records}; a run needs {LEAST_RECORDS} to {MOST_RECORDS}")
        for name in self.expects:
            if forbids(self.claims, Anomaly(choice("expects", name, EXPECTABLE))):
                raise DeclarationError(f"expects: {self.claims} forbids {name}, with or without a fault")
        self._check_services()
        self._check_stages()
        self._check_queue()
        self._check_results()
        for where, topic in (("input", self.input.topic), ("output", self.output.topic)):
            if topic and topic not in self.topics:
                raise DeclarationError(f"{where}: topic {topic} is not among topics; {nearest(topic, self.topics)}")

    def _check_names(self) -> None:
        if not self.name or any(not (char.isalnum() or char in "-_") for char in self.name):
            raise DeclarationError(f"name: {self.name!r} is part of every cell's id: letters, digits, - and _ only")
        if not self.topics:
            raise DeclarationError("topics: name at least the topic between the stages; lostack creates it")
        wrong = next((topic for topic in self.topics if not TOPIC.fullmatch(topic) or topic in {".", ".."}), None)
        if wrong is not None:
            raise DeclarationError(f"topics: {wrong!r} is no name of a topic: letters, digits, '.', '_' and '-', up to 249")
        if twice := next((topic for topic in self.topics if self.topics.count(topic) > 1), None):
            raise DeclarationError(f"topics: {twice} is named twice: name each topic once")
        if own := next((topic for topic in self.topics if topic in BROKERS_OWN), None):
            raise DeclarationError(f"topics: {own} is a topic of the broker itself: choose another name")

    def _check_results(self) -> None:
        """Raise :class:`DeclarationError` where what is claimed of the results cannot be told of them."""
        if self.aggregate is not None:
            self.aggregate.check(self.input.line)
            if self.input.kind is InputKind.OWN:
                raise DeclarationError("aggregate: input: kind own: lostack does not know the keys of what the producer makes")
        elif "amount" in places(self.input.line):
            raise DeclarationError("input: line: {amount} is what an [aggregate] sums up, and there is none")
        for invariant in self.invariants:
            invariant.check(sqlite=self.output.kind is OutputKind.SQLITE)
            for word in invariant.command:
                check_places("invariant: command", word, PLACES)
        if self.order:
            choice("order", self.order, (PER_KEY,))
            if why := self._why_no_order():
                raise DeclarationError(f"order: {why}")

    def _why_no_order(self) -> str | None:
        """Why nothing can be told of the order of the results, or ``None``."""
        if self.aggregate is not None:
            return "a total says nothing of the order of its records: take away order, or [aggregate]"
        if self.input.kind is InputKind.OWN or "key" not in places(self.input.line):
            return "nobody knows the key of a record: let the input's line hold {key}, and lostack offer it (not kind own)"
        if self.output.kind is OutputKind.SQLITE and "order by" not in " ".join(self.output.query.lower().split()):
            return "the output's query says nothing of an order: let it end with ORDER BY, the column in which rows were added"
        if self.output.file and any(char in self.output.file for char in "*?["):
            return f"results in several files ({self.output.file}) stand in no order: let it be one file"
        return None

    @property
    def dialect(self) -> Dialect:
        """How its programs speak to what it runs on."""
        return DIALECTS[self.system]

    def _check_queue(self) -> None:
        """Raise :class:`DeclarationError` where something is asked of a queue that only a log has."""
        choice("system", self.system, DIALECTS)
        if self.dialect.logs:
            return
        processes = any(stage.role is Role.PROCESSOR for stage in self.stages)
        if self.input.kind is InputKind.TOPIC or self.output.kind is OutputKind.TOPIC or processes:
            raise DeclarationError(f"system: on {self.system} a pipeline is a producer, a queue, a consumer, and an output of it")
        if len(self.topics) > 1:
            raise DeclarationError(f"topics: on {self.system} one, the queue between the stages: {self.topics[0]}")
        if self.security is not None:
            raise DeclarationError(f"security: programs come to {self.system} in the clear, and are not asked who they are")
        for stage in self.stages:
            if stage.position != "group" or stage.refusals or stage.name:
                what = "refusals" if stage.refusals else "name" if stage.name else "position"
                raise DeclarationError(f"{what}: the {stage.role}'s means nothing on {self.system}")

    def _check_services(self) -> None:
        names = [service.name for service in self.services]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise DeclarationError(f"service: two are called {twice}: give each a name of its own")
        asked = [word for invariant in self.invariants for word in invariant.command]
        if self.id and self.id.schema and self.id.schema.kind == REGISTRY:
            check_places("id: registry", self.id.schema.text, ())
            asked.append(self.id.schema.text)
        for text in (*(word for program in self.programs for word in program.words), *self.output.command, *asked):
            check_services(text, names)

    def _check_stages(self) -> None:
        roles = [stage.role for stage in self.stages]
        if not roles:
            raise DeclarationError("a pipeline needs a [[stage]]: role and command")
        self._check_known()
        if self.input.kind is InputKind.TOPIC:
            if Role.PRODUCER in roles:
                raise DeclarationError("input: kind topic replaces the producer: take away one of the two")
            if not self.input.topic:
                raise DeclarationError("input: kind topic needs topic")
        elif Role.PRODUCER not in roles:
            raise DeclarationError(f"input: kind {self.input.kind} needs a stage that is a producer; or let kind be topic")
        if self.input.kind is InputKind.OWN and (self.id is None or "{position}" not in self.input.line):
            raise DeclarationError("input: kind own needs {position} in line, and [id]: its records carry no token of lostack's")
        if self.input.kind is InputKind.STDIN and next(stage for stage in self.stages if stage.role is Role.PRODUCER).image:
            raise DeclarationError(
                "input: kind stdin: nothing is written to the input of a container; let the producer take them by file or http"
            )
        if self.input.kind is not InputKind.TOPIC and self.input.topic:
            raise DeclarationError(f"input: topic means nothing for kind {self.input.kind}")
        named = {name for stage in self.stages for word in stage.words for name in places(word)}
        self._check_ways_in(named)
        self._check_security(named)

    def _check_known(self) -> None:
        """Whether each stage and each service is known by a name of its own."""
        if [stage.role for stage in self.stages].count(Role.PRODUCER) > 1:
            raise DeclarationError("two stages are a producer, and each record is offered to one: start both by one command")
        known = [*(str(stage.known) for stage in self.stages), *(service.name for service in self.services)]
        if twice := next((name for name in known if known.count(name) > 1), None):
            said = f"two stages are a {twice}" if twice in ROLES else f"two stages or services are called {twice}"
            raise DeclarationError(f'{said}: give each a name of its own (name = "...")')

    def _check_security(self, named: set[str]) -> None:
        """Whether the programs are told what they need to come to the brokers, and nothing that there is not."""
        if self.security is None:
            if wrong := next((name for name in SECURED if name in named), None):
                raise DeclarationError(f"{{{wrong}}} is of a [security], and there is none: protocol and mechanism")
            return
        if self.security.protocol.endswith("SSL") and "ca" not in named:
            raise DeclarationError("security: no command or environment has {ca}: the programs have to trust the run's authority")
        if self.security.mechanism and not self.security.username and not named & set(SECRETS):
            raise DeclarationError("security: no environment has {password} or {jaas}: the programs have to be told it")

    def _check_ways_in(self, named: set[str]) -> None:
        """Whether the producer is told of the way in that the input has, and of no other."""
        if "input" in named and self.input.kind is not InputKind.FILE:
            raise DeclarationError(f"{{input}} is the file of kind file: the input is of kind {self.input.kind}")
        if self.input.kind is InputKind.FILE and not named & {"input", "work"}:
            raise DeclarationError("input: kind file, and no command or environment has {input}: the producer has to be told it")
        if "{port}" in self.input.url and "port" not in named:
            raise DeclarationError("input: url has {port}, and no command or environment has: the producer has to be told it")

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
        """What a restarted producer is given on standard input."""
        if self.input.resend is not None:
            return self.input.resend
        return Resend.NONE if self.claims is Semantic.AT_MOST_ONCE else Resend.UNACKNOWLEDGED

    def stage(self, known: Role) -> Stage | None:
        """Return the stage that is known by a name: its own, or that of its role."""
        return next((stage for stage in self.stages if stage.known is known), None)

    def reads(self, known: str) -> bool:
        """Say whether it is a reading stage that is known by a name."""
        return any(stage.reads for stage in self.stages if stage.known == known)

    @property
    def named(self) -> tuple[str, ...]:
        """The names of stages that are not those of roles."""
        return tuple(stage.name for stage in self.stages if stage.name)

    @property
    def jars(self) -> tuple[str, ...]:
        """The sets of jars that its commands name."""
        words = [word for program in self.programs for word in program.words]
        return tuple(dict.fromkeys(name for word in words for name in JARS.findall(word)))

    @property
    def packages(self) -> tuple[str, ...]:
        """The packages that its commands name an interpreter by."""
        words = [word for program in self.programs for word in program.words]
        return tuple(dict.fromkeys(name for word in words for name in PYTHON.findall(word)))

    @property
    def images(self) -> tuple[str, ...]:
        """The images that its stages are containers of."""
        return tuple(dict.fromkeys(program.image for program in self.programs if program.image))

    @property
    def programs(self) -> tuple[Program, ...]:
        """All that is started for it."""
        return (*self.services, *self.stages)

    @property
    def interpreter(self) -> str:
        """What ``{python}`` is for a process."""
        return str(self.directory.absolute() / self.python) if self.python else sys.executable

    @property
    def path(self) -> str | None:
        """Where the commands of processes are looked for; ``None``: as ever."""
        return f"{Path(self.interpreter).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}" if self.python else None

    def check_commands(self) -> None:
        """Raise :class:`DeclarationError` where a command, or the schema registry's password, is not there."""
        if self.python:
            check_interpreter(self.interpreter)
        started = (
            *((f"the {each.known}'s command", () if each.image else each.command, True) for each in self.stages),
            *((f"the service {each.name}'s command", () if each.image else each.command, True) for each in self.services),
            ("the output's command", self.output.command, False),
            *((f"the command of invariant {n}", each.command, False) for n, each in enumerate(self.invariants, start=1)),
        )
        values = {"python": self.interpreter, "here": str(self.directory)}
        for what, command, beside in started:
            if command:
                check_command(what, fill(command[0], values), self.directory, self.path, beside=beside)
        check_password(self.id)
