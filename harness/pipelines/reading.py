"""Reading a pipeline from TOML: every wrong field is named, with the nearest right one. The fields also make its JSON schema."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any, Final

from harness.model.identity import IdentityError
from harness.model.scenario import Role
from harness.model.semantics import Semantic
from harness.pipelines.aggregates import Aggregate, Of
from harness.pipelines.declaration import (
    EXPECTABLE,
    PER_KEY,
    POSITIONS,
    ROLES,
    Input,
    InputKind,
    Output,
    OutputKind,
    Pipeline,
    Resend,
    Stage,
)
from harness.pipelines.dialects import DIALECTS
from harness.pipelines.fields import FLAG, MAPPING, NUMBER, PLAIN, TEXT, TEXTS, WHOLE, WORDS, Table, among, each, one, some
from harness.pipelines.invariants import Invariant
from harness.pipelines.programs import CELL, ONCE, PROCESS, STAGE, Service
from harness.pipelines.refusing import DeclarationError
from harness.pipelines.security import PROTOCOLS, DeclaredSecurity, check_identity
from harness.pipelines.sought import Sought

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_PROGRAM: Final = {
    "command": WORDS.means("what starts it, run in the declaration's folder; without a shell"),
    "image": TEXT.means("an image that it is a container of; command is handed to it"),
    "environment": MAPPING.means("its environment variables, besides lostack's own"),
    "ready": TEXT.means("a regular expression that its output shows when it does its work"),
    "ready_within_s": NUMBER.means("how long that may take (60)"),
    "restart": FLAG.means("whether it is started again when it ends by an error, as by a supervisor (true)"),
    "down_s": NUMBER.means("how long it is down before it is started again (0)"),
}
STAGES: Final = Table("stage", Stage, {
    "role": among(ROLES, Role).means("what it does with the topic: produces into it, consumes from it, or both", needed=True),
    "name": TEXT.means("what it is called, where several stages have one role"),
    **_PROGRAM,
    "position": among(POSITIONS).means("where a reading stage keeps how far it is: its consumer group, or elsewhere (group)"),
    "failpoints": TEXTS.means("names that it gives to failpoint(name, id); at each it is killed"),
    "refusals": TEXTS.means('requests of it that are refused, each as "Produce NOT_ENOUGH_REPLICAS"'),
    "crash": among((STAGE, PROCESS)).means("what dies: the whole stage, or the one process that is hit (stage)"),
}, "one of your programs")  # fmt: skip
SERVICES: Final = Table("service", Service, {
    "name": TEXT.means("what it is called: {NAME.port} and {NAME.dir} stand for its port and its folder", needed=True),
    **_PROGRAM,
    "anew": among((CELL, ONCE)).means("started for each cell, with an empty folder, or once (cell)"),
    "pause_s": NUMBER.means("how long it stands still at service-pause (5)"),
}, "a server that your programs need: a database, a schema registry, Redis")  # fmt: skip
INPUT: Final = Table("input", Input, {
    "kind": among(InputKind, InputKind).means("how the records come to the pipeline (stdin)"),
    "line": TEXT.means("what one record is: {id}, {key}, {position} and {amount} are filled in"),
    "rate": NUMBER.means("lines a second (50, more where there are many)"),
    "resend": among(Resend, Resend).means("what a restarted producer is offered again"),
    "topic": TEXT.means("kind topic: the topic that lostack produces into"),
    "header": TEXT.means("a first line that is no record, as of a CSV file"),
    "url": TEXT.means("kind http: where the producer listens, http://127.0.0.1:{port}/..."),
}, "how lostack offers the records")  # fmt: skip
OUTPUT: Final = Table("output", Output, {
    "kind": among(OutputKind, OutputKind).means("where the results are", needed=True),
    "topic": TEXT.means("kind topic: which"),
    "file": TEXT.means("the file, or a glob of files; {work} is a folder that is new for every run"),
    "query": TEXT.means("kind sqlite: each row of it is a result"),
    "command": WORDS.means("kind command: each line that it prints is a result"),
    "quiet_s": NUMBER.means("how long it must not change for the run to be over (1)"),
}, "where the results land")  # fmt: skip
SECURITY: Final = Table("security", DeclaredSecurity, {
    "protocol": among(PROTOCOLS).means("Kafka's security.protocol", needed=True),
    "mechanism": TEXT.means("Kafka's sasl.mechanism"),
    "ca": TEXT.means("--attach: a PEM file of the authority that the brokers are trusted by"),
    "username": TEXT.means("--attach: the user's name"),
    "password_from": TEXT.means("--attach: the environment variable that holds the password"),
}, "how the programs come to the brokers", check_identity)  # fmt: skip
IDENTITY: Final = Table("id", Sought, {
    "pattern": TEXT.means("a regular expression; its first group, or all of it, is the id"),
    "where": TEXT.means("anywhere, value, key or header:NAME (anywhere)"),
    "json": TEXT.means("a dotted path into a JSON value, looked up first"),
    "avro": TEXT.means("the file of the schema (.avsc) of values that are Avro"),
    "protobuf": TEXT.means("the file (.proto, or a descriptor set) of values that are Protobuf"),
    "message": TEXT.means("which message of it a value is, as shop.Order"),
    "registry": TEXT.means("the schema registry that has the schemas: its URL, or the name of a [[service]]"),
    "registry_username": TEXT.means("who logs in to it (HTTP basic authentication)"),
    "registry_password_from": TEXT.means("where that password is: an environment variable, or a file (./password)"),
}, "where a record's id is found; without it lostack looks for its own token, {id}")  # fmt: skip
AGGREGATE: Final = Table("aggregate", Aggregate, {
    "of": among(Of, Of).means("what a row of the output is, of the records of a key", needed=True),
    "pattern": TEXT.means("finds (?P<key>...) and (?P<value>...) in a row"),
}, "the rows of the output are totals, and no records")  # fmt: skip
INVARIANTS: Final = Table("invariant", Invariant, {
    "query": TEXT.means("asked of the output's SQLite file"),
    "command": WORDS.means("prints the value"),
    "equals": PLAIN.means("what it must be", needed=True),
}, "a value that must hold when everything is at rest")  # fmt: skip
PIPELINE: Final = Table("", Pipeline, {
    "name": TEXT.means("part of every cell's id (the folder's name)"),
    "claims": among(Semantic, Semantic).means("what the pipeline promises", needed=True),
    "topics": TEXTS.means("created for every run; the first is the one between producer and consumer", needed=True),
    "system": among(DIALECTS).means("what it runs on (kafka)"),
    "python": TEXT.means("the project's own interpreter, as .venv/bin/python: {python}, and what commands find first"),
    "stage": each(STAGES).means(STAGES.told, needed=True),
    "service": each(SERVICES),
    "input": one(INPUT),
    "output": one(OUTPUT).means(OUTPUT.told, needed=True),
    "security": one(SECURITY),
    "id": one(IDENTITY),
    "aggregate": one(AGGREGATE),
    "invariant": each(INVARIANTS, single=True),
    "order": among((PER_KEY,)).means("a claim: the records of a key are recorded in their order"),
    "expects": some(EXPECTABLE).means("what it shows without any fault, as far as its claim permits that"),
    "records": WHOLE.means("how many are offered (48)"),
    "partitions": WHOLE.means("of every topic (3)"),
    "drain_s": NUMBER.means("how long it may take to come to rest (90)"),
    "patience_s": NUMBER.means("how long it may be silent and go on all the same (30)"),
}, "A pipeline for lostack check.")  # fmt: skip
ALIASES: Final = {"topic": TEXT.means("the same as topics, with one in it")}
"""What may be written instead."""
_MANY: Final = {"stage": "stages", "service": "services", "invariant": "invariants"}
"""Tables that are written once for each, and what they are together."""


def read_pipeline(file: Path) -> Pipeline:
    """Read a declaration.

    Raises:
        DeclarationError: the declaration is wrong; one line that names the file and the field.
    """
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise DeclarationError(f"cannot read {file}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DeclarationError(f"{file} is no TOML: {error}") from error
    try:
        return _pipeline(data, file)
    except (DeclarationError, IdentityError) as error:
        raise DeclarationError(f"{file}: {error}") from error


def schema() -> dict[str, Any]:
    """Return the JSON schema of a declaration, of the fields that it is read by."""
    found = PIPELINE.schema()
    found["properties"] |= {name: field.described() for name, field in ALIASES.items()}
    required = [name for name in found.pop("required") if name != "topics"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A pipeline for lostack check",
        **found, "required": required, "anyOf": [{"required": ["topics"]}, {"required": ["topic"]}],
    }  # fmt: skip


def _pipeline(data: Mapping[str, Any], file: Path) -> Pipeline:
    data = {"name": _name(file.resolve().parent.name), **data}
    if "topic" in data and "topics" not in data:
        data["topics"] = [data.pop("topic")]
    values = PIPELINE.values("", data)
    values = {_MANY.get(name, name): value for name, value in values.items()}
    if "id" in values:
        values["id"] = values["id"].identity(file.resolve().parent)
    return Pipeline(**values, directory=file.resolve().parent, file=str(file))


def _name(folder: str) -> str:
    """Return the name of a pipeline whose declaration gives it none: its folder's, without what a cell's id cannot have.

    >>> _name("my orders (new)")
    'my-orders-new'
    """
    return re.sub(r"[^\w-]+", "-", folder).strip("-") or "pipeline"
