"""The text of a first declaration: it has the fields that are needed, and a comment that names the
others.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.model.semantics import Semantic
from harness.pipelines.inputs import DEFAULT_LINE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SCHEMA_FILE = "pipeline.schema.json"
CI_FILE = ".github/workflows/lostack.yml"
ACTION = "OWNER/lostack@v0"
"""lostack as an action: docs/ci.md."""


@dataclass(frozen=True, slots=True)
class DraftStage:
    """A stage as it is written into the draft. ``note``: a comment for the reader."""

    role: str
    command: str = ""
    image: str = ""
    build: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True, slots=True)
class DraftServer:
    """A service beside the stages."""

    name: str
    image: str
    command: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Draft:
    """The fields of a first declaration."""

    claims: str
    topics: Sequence[str]
    stages: Sequence[DraftStage]
    output: Mapping[str, str]
    servers: Sequence[DraftServer] = ()
    system: str = "kafka"
    python: str = ""
    input_kind: str = "stdin"
    line: str = DEFAULT_LINE
    header: str = ""
    input_topic: str = ""
    url: str = ""
    pattern: str = ""
    """The pattern of ``[id]``, if the input has no token of lostack's; else empty."""

    def toml(self) -> str:
        """Return the declaration."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield f"#:schema ./{SCHEMA_FILE}"
        yield (
            "# A pipeline for lostack. See what would be done:  lostack check pipeline.toml "
            "--explain"
        )
        yield "#                        Do it:                   lostack check pipeline.toml"
        yield ""
        yield (
            f"claims = {_text(self.claims)}  # {' | '.join(Semantic)}: what the pipeline "
            "promises for every record"
        )
        yield (
            f"topics = {json.dumps(list(self.topics))}  # created for every run; the first is "
            "the one between the stages"
        )
        if self.system != "kafka":
            yield f"system = {_text(self.system)}"
        if self.python:
            yield f"python = {_text(self.python)}  # the project's own interpreter: {{python}}"
        for server in self.servers:
            yield from (
                "",
                "[[service]]",
                f"name = {_text(server.name)}",
                f"image = {_text(server.image)}",
            )
            yield from _command_and_environment(server.command, server.environment)
            yield (
                f"# it must listen on 127.0.0.1:{{{server.name}.port}}: say so in its command or "
                "environment"
            )
        for stage in self.stages:
            yield from self._stage(stage)
        yield from self._input()
        yield from (
            "",
            (
                "[output]  # where the results land; every row, or line, must hold the id of its "
                "record"
            ),
        )
        yield from (f"{name} = {_text(value)}" for name, value in self.output.items())
        if self.pattern:
            yield from (
                "",
                "[id]  # the first group, or all of it, is a record's id",
                f"pattern = {_literal(self.pattern)}",
            )
        yield ""
        yield (
            "# Also possible (every field: lostack init --schema): [aggregate] for counts and "
            "sums, [[invariant]], [[service]],"
        )
        yield (
            '# order = "per key", expects = ["duplicated"], failpoints and refusals of a stage, '
            "[security]."
        )

    def _stage(self, stage: DraftStage) -> Iterator[str]:
        yield from ("", "[[stage]]", f"role = {_text(stage.role)}")
        if stage.note:
            yield f"# {stage.note}"
        if stage.image:
            yield f"image = {_text(stage.image)}"
        if stage.build:
            yield f"build = {_text(stage.build)}  # the folder of its Dockerfile"
        yield from _command_and_environment(stage.command, stage.environment)

    def _input(self) -> Iterator[str]:
        yield from (
            "",
            "[input]",
            (
                f"kind = {_text(self.input_kind)}  # stdin | file ({{input}}) | http (url) | "
                "topic | own"
            ),
        )
        if self.header:
            yield f"header = {_literal(self.header)}"
        yield (
            f"line = {_literal(self.line)}  # {{id}} is a token that is found again in the results"
        )
        if self.url:
            yield f"url = {_text(self.url)}  # every record is a POST there"
        if self.input_topic:
            yield f"topic = {_text(self.input_topic)}"


def _command_and_environment(command: str, environment: Mapping[str, str]) -> Iterator[str]:
    if command:
        yield f"command = {_text(command)}"
    if environment:
        pairs = ", ".join(f"{_text(name)} = {_text(value)}" for name, value in environment.items())
        yield f"environment = {{ {pairs} }}"


def _text(value: str) -> str:
    """Return a basic string of TOML, which JSON's strings are, too."""
    return json.dumps(value, ensure_ascii=False)


def _literal(value: str) -> str:
    """Return a literal string of TOML where that can be: quotes in a line stay readable.

    >>> print(_literal('{"id": "{id}"}'))
    '{"id": "{id}"}'
    """
    return _text(value) if "'" in value else f"'{value}'"


def workflow(declaration: str) -> str:
    """Return a workflow for GitHub that checks a declaration at every push, by lostack's own
    action, and keeps the report.
    """
    return f"""# Crashes the pipeline at every failure point it has; a broken promise fails the job.
name: lostack
on: [push, pull_request]
jobs:
  check:
    runs-on: ubuntu-latest
    timeout-minutes: 60
    steps:
      - uses: actions/checkout@v4
      # what your programs need comes here, as: run: pip install -r requirements.txt
      - uses: {ACTION}  # replace OWNER by the account whose repository of lostack you use
        with:
          pipeline: {declaration}
"""
