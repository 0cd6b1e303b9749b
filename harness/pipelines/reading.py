"""Read a pipeline from TOML. Errors name the wrong field and a similar one. The same fields make
the JSON schema.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from harness.model import safe_files
from harness.model.identity import IdentityError
from harness.model.scenario import Role
from harness.model.semantics import Guarantee, Semantic
from harness.pipelines.aggregates import Aggregate, AggregateKind
from harness.pipelines.broker import Broker
from harness.pipelines.declaration import EXPECTABLE, PER_KEY, Pipeline
from harness.pipelines.dialects import PROTOCOLS as SPEAKABLE
from harness.pipelines.dialects import SPOKEN
from harness.pipelines.fields import (
    FLAG,
    MAPPING,
    NUMBER,
    PLAIN,
    SETTINGS,
    SETTINGS_OF_TOPICS,
    TEXT,
    TEXTS,
    WHOLE,
    WORDS,
    Field,
    Table,
    among,
    each,
    one,
    some,
)
from harness.pipelines.id_table import IdTable
from harness.pipelines.inputs import Input, InputKind, Resend
from harness.pipelines.invariants import Invariant
from harness.pipelines.outputs import Output, OutputKind
from harness.pipelines.programs import CELL, ONCE, PROCESS, STAGE, Service
from harness.pipelines.refusing import DeclarationError
from harness.pipelines.security import PROTOCOLS, DeclaredSecurity, check_identity
from harness.pipelines.stages import (
    BEGINNINGS,
    POSITIONS,
    ROLES,
    Stage,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_PROGRAM: Final = {
    "command": WORDS.means(
        "the command that starts it, in the declaration's folder and without a shell"
    ),
    "image": TEXT.means("a container image to start it from; command is passed to the container"),
    "environment": MAPPING.means("its environment variables, besides lostack's own"),
    "build": TEXT.means("instead of image: a folder with a Dockerfile, built once"),
    "ready": TEXT.means("a regular expression that its output matches when it is ready"),
    "ready_within_s": NUMBER.means("how many seconds it may take to be ready (60)"),
    "restart": FLAG.means(
        "whether it is started again when it ends by an error, as by a supervisor (true)"
    ),
    "down_s": NUMBER.means("how many seconds it stays down before it is started again (0)"),
}
STAGES: Final = Table(
    "stage",
    Stage,
    {
        "role": among(ROLES, Role).means(
            "what it does: writes the topic (producer), reads it (consumer), or both (processor)",
            needed=True,
        ),
        "name": TEXT.means("its name; needed if several stages have one role"),
        **_PROGRAM,
        "position": among(POSITIONS).means(
            "where a reading stage keeps its position: in its consumer group, or elsewhere (group)"
        ),
        "begins": among(BEGINNINGS).means(
            "where a reading stage without a position is meant to begin: start, or end (start)"
        ),
        "failpoints": TEXTS.means(
            "names that it passes to failpoint(name, id); lostack kills it at each"
        ),
        "refusals": TEXTS.means(
            'requests of it that lostack refuses, each as "Produce NOT_ENOUGH_REPLICAS"'
        ),
        "crash": among((STAGE, PROCESS)).means(
            "what a crash kills: the whole stage, or the one process that hit the fault (stage)"
        ),
        "scale": WHOLE.means(
            "how many members of its group lostack starts, each by its command: 1 to 4 (1)"
        ),
        "connector": TEXT.means(
            "instead of a command: the JSON file of a connector of Kafka Connect"
        ),
        "plugins": TEXTS.means("with connector: the folders of its jars"),
        "worker": SETTINGS.means("with connector: properties of the worker"),
    },
    "one of your programs",
)
SERVICES: Final = Table(
    "service",
    Service,
    {
        "name": TEXT.means(
            "its name; {NAME.port} and {NAME.dir} stand for its port and its folder", needed=True
        ),
        **_PROGRAM,
        "anew": among((CELL, ONCE)).means(
            "when it is started: for each cell, with an empty folder, or once (cell)"
        ),
        "pause_s": NUMBER.means(
            "how many seconds it is paused at the failure point service-pause (5)"
        ),
    },
    "a server that your programs need: a database, a schema registry, Redis",
)
INPUT: Final = Table(
    "input",
    Input,
    {
        "kind": among(InputKind, InputKind).means("how the records come to the pipeline (stdin)"),
        "line": TEXT.means(
            "the text of one record; {id}, {key}, {position} and {amount} are filled in"
        ),
        "rate": NUMBER.means("lines a second (50, or more if there are many records)"),
        "resend": among(Resend, Resend).means("which records a restarted producer is given again"),
        "topic": TEXT.means("kind topic: the topic that lostack produces into"),
        "topics": TEXTS.means("kind topic: several topics that lostack produces into, 2 to 4"),
        "header": TEXT.means("a first line that is not a record, as in a CSV file"),
        "writers": WHOLE.means(
            "kinds http and table: how many records are under way at once (1; table: 4)"
        ),
        "database": TEXT.means("kind table: the database, postgresql://user@host:port/name"),
        "table": TEXT.means("kind table: the table that lostack inserts rows into"),
        "url": TEXT.means("kind http: where the producer listens, http://127.0.0.1:{port}/..."),
    },
    "how lostack offers the records",
)
OUTPUT: Final = Table(
    "output",
    Output,
    {
        "kind": among(OutputKind, OutputKind).means("where the results are", needed=True),
        "topic": TEXT.means("kind topic: the topic's name"),
        "file": TEXT.means(
            "the file, a glob of files, or a table's folder; {work} is a folder that is new for "
            "every run"
        ),
        "query": TEXT.means("kind sqlite: each row of it is a result"),
        "command": WORDS.means("kind command: each line that it prints is a result"),
        "quiet_s": NUMBER.means(
            "for how many seconds it must stay unchanged before the run is over (1)"
        ),
    },
    "where the results land",
)
BROKER: Final = Table(
    "broker",
    Broker,
    {
        "protocol": among(SPEAKABLE).means(
            "what the programs speak; "
            + "; ".join(
                f"on {system}: {', '.join((f'{first} (default)' if others else first, *others))}"
                for system, (first, *others) in SPOKEN.items()
            )
        ),
        "version": TEXT.means("its version (the newest that lostack knows)"),
        "replicas": WHOLE.means("how many of several brokers have a copy of each topic (all)"),
        "settings": SETTINGS.means('its settings, as { "message.max.bytes" = 5000 }'),
    },
    "the broker that lostack starts for the pipeline",
)
SECURITY: Final = Table(
    "security",
    DeclaredSecurity,
    {
        "protocol": among(PROTOCOLS).means("Kafka's security.protocol", needed=True),
        "mechanism": TEXT.means("Kafka's sasl.mechanism"),
        "ca": TEXT.means(
            "--attach: the PEM file of the authority that signed the brokers' certificates"
        ),
        "username": TEXT.means("--attach: the user's name"),
        "password_from": TEXT.means("--attach: the environment variable that holds the password"),
    },
    "how the programs connect to the brokers",
    check_identity,
)
IDENTITY: Final = Table(
    "id",
    IdTable,
    {
        "pattern": TEXT.means("a regular expression; its first group, or all of it, is the id"),
        "where": TEXT.means("anywhere, value, key or header:NAME (anywhere)"),
        "json": TEXT.means("a dotted path into a JSON value, looked up first"),
        "avro": TEXT.means("the schema file (.avsc) of Avro values"),
        "protobuf": TEXT.means("the schema file (.proto, or a descriptor set) of Protobuf values"),
        "message": TEXT.means("the message type of the values, as shop.Order"),
        "registry": TEXT.means(
            "the schema registry that holds the schemas: its URL, or the name of a [[service]]"
        ),
        "registry_username": TEXT.means(
            "the user that logs in to the registry (HTTP basic authentication)"
        ),
        "registry_password_from": TEXT.means(
            "where that user's password is: an environment variable, or a file (./password)"
        ),
    },
    "where a record's id is found; without it lostack looks for its own token, {id}",
)
AGGREGATE: Final = Table(
    "aggregate",
    Aggregate,
    {
        "of": among(AggregateKind, AggregateKind).means(
            "how a row of the output is computed from the records of a key", needed=True
        ),
        "pattern": TEXT.means("finds (?P<key>...) and (?P<value>...) in a row"),
    },
    "declares that the rows of the output are totals instead of records",
)
INVARIANTS: Final = Table(
    "invariant",
    Invariant,
    {
        "query": TEXT.means("a query of the output's SQLite file that returns the value"),
        "command": WORDS.means("a command that prints the value"),
        "equals": PLAIN.means("the value that it must have", needed=True),
    },
    "a value that must hold when everything is at rest",
)
PIPELINE: Final = Table(
    "",
    Pipeline,
    {
        "name": TEXT.means("part of every cell's id (the folder's name)"),
        "claims": among(Semantic, Semantic).means("what the pipeline promises", needed=True),
        "topics": TEXTS.means(
            "created for every run; the first is the one between producer and consumer", needed=True
        ),
        "system": among(SPOKEN).means("the system that it runs on (kafka)"),
        "python": TEXT.means(
            "the project's own interpreter, as .venv/bin/python: {python}, and where commands "
            "are looked for first"
        ),
        "stage": each(STAGES).means(STAGES.told, needed=True),
        "service": each(SERVICES),
        "broker": one(BROKER),
        "input": one(INPUT),
        "output": one(OUTPUT).means(OUTPUT.told, needed=True),
        "security": one(SECURITY),
        "id": one(IDENTITY),
        "aggregate": one(AGGREGATE),
        "invariant": each(INVARIANTS, single=True),
        "dead_letters": TEXT.means(
            "the topic, or queue, in which records may end that cannot be processed; they are not "
            "lost then"
        ),
        "order": among((PER_KEY,)).means(
            "a claim: the records of a key are recorded in their order"
        ),
        "guarantees": some(Guarantee).means(
            "claims: what each reader and writer keeps (monotonic, read-your-writes)"
        ),
        "expects": some(EXPECTABLE).means(
            "anomalies that it shows even without a fault, if its claim permits them"
        ),
        "records": WHOLE.means("how many records a run offers (48)"),
        "partitions": WHOLE.means("how many partitions every topic has (3)"),
        "topic_settings": SETTINGS_OF_TOPICS.means(
            'the settings of all its topics, as { "max.message.bytes" = 5000 }; those of one as '
            '{ orders = { "retention.ms" = 60000 } } (Kafka)'
        ),
        "brokers": WHOLE.means("how many Kafka brokers lostack starts: 1 or 3 (1)"),
        "drain_s": NUMBER.means(
            "for how many seconds records that are on their way may come no further (90)"
        ),
        "patience_s": NUMBER.means(
            "how many seconds to wait if a record is missing and nothing is on its way (30)"
        ),
    },
    "A pipeline for lostack check.",
)
ALIASES: Final = {
    "topic": Field(
        lambda where, value: (TEXTS if isinstance(value, list) else TEXT).take(where, value),
        {"anyOf": [TEXT.schema, TEXTS.schema]},
    ).means("the same as topics; one may be a text")
}
"""Other names that a field may be written by."""
_MANY: Final = {"stage": "stages", "service": "services", "invariant": "invariants"}
"""Tables that may be repeated, and the field of the pipeline that holds all of them."""


def read_pipeline(file: Path) -> Pipeline:
    """Read a declaration.

    Raises:
        DeclarationError: the declaration is wrong. The message is one line and names the file and
            the field.
    """
    try:
        data = safe_files.parse_toml(safe_files.read_named(file).decode("utf-8-sig"))
    except OSError as error:
        raise DeclarationError(f"cannot read {file}: {error.strerror}") from error
    except ValueError as error:
        raise DeclarationError(f"{file} is not TOML: {error}") from error
    try:
        return _pipeline(data, file)
    except (DeclarationError, IdentityError) as error:
        raise DeclarationError(f"{file}: {error}") from error


def schema() -> dict[str, Any]:
    """Return the JSON schema of a declaration, made from the fields by which it is read."""
    found = PIPELINE.schema()
    found["properties"] |= {name: field.described() for name, field in ALIASES.items()}
    required = [name for name in found.pop("required") if name != "topics"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A pipeline for lostack check",
        **found,
        "required": required,
        "oneOf": [{"required": ["topics"]}, {"required": ["topic"]}],
    }


def _pipeline(data: Mapping[str, Any], file: Path) -> Pipeline:
    data = {"name": _name(file.resolve().parent.name) or "pipeline", **data}
    if isinstance(data["name"], str):
        data["name"] = _name(data["name"]) or data["name"]
    if "topic" in data:
        if "topics" in data:
            raise DeclarationError("topic and topics: write one of the two")
        named = ALIASES["topic"].take("topic", data.pop("topic"))
        data["topics"] = [named] if isinstance(named, str) else [*named]
    values = PIPELINE.values("", data)
    values = {_MANY.get(name, name): value for name, value in values.items()}
    if "id" in values:
        values["id"] = values["id"].identity(file.resolve().parent)
    return Pipeline(**values, directory=file.resolve().parent, file=str(file))


def _name(text: str) -> str:
    """Return the name of a pipeline with a hyphen for characters that a cell's id cannot have.

    >>> _name("my orders (new)")
    'my-orders-new'
    """
    return re.sub(r"[^\w-]+", "-", text).strip("-")
