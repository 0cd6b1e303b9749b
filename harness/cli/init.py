"""``lostack init``: a first declaration of a pipeline, and a workflow that checks it."""

from __future__ import annotations

import json
import re
import shlex
import sys
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.drafts.asking import Asker
from harness.cli.drafts.compose import FILES, Composed, command_at_port, pointed, read_compose, safe
from harness.cli.drafts.sources import GIVEN, Sources, look_at
from harness.cli.drafts.writing import (
    CI_FILE,
    SCHEMA_FILE,
    Draft,
    DraftServer,
    DraftStage,
    workflow,
)
from harness.cli.telling import complain, tell, tell_json, warn
from harness.model import safe_files
from harness.model.failures import UsageError
from harness.model.scenario import Role
from harness.model.secrets import with_variables
from harness.model.semantics import Semantic
from harness.pipelines.dialects import SPOKEN
from harness.pipelines.inputs import DEFAULT_LINE, DRAFTED, InputKind
from harness.pipelines.outputs import NEEDS, OutputKind
from harness.pipelines.reading import read_pipeline, schema
from harness.pipelines.refusing import DeclarationError, choice

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

FILE = "pipeline.toml"
URL_OF = "Where does the producer take records by POST? ({port} is a free port)"
PATTERN = "Which regular expression finds the id of such a record?"
LINE = "What is one record? ({id}, {key} and {position} are filled in)"
PYTHONS = (".venv/bin/python", "venv/bin/python")


def init(
    folder: Annotated[
        Path, typer.Argument(help="The folder of your programs; pipeline.toml is written there.")
    ] = Path(),
    *,
    claims: Annotated[
        str | None, typer.Option(help=f"What the pipeline promises: {', '.join(Semantic)}.")
    ] = None,
    producer: Annotated[
        str | None,
        typer.Option(
            metavar="CMD", help="The command of your producer, or a service of --compose."
        ),
    ] = None,
    consumer: Annotated[
        list[str] | None,
        typer.Option(metavar="CMD", help="The command of your consumer, or a service."),
    ] = None,
    processor: Annotated[
        str | None,
        typer.Option(metavar="CMD", help="The command of a program that reads and writes topics."),
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            help="A topic of the pipeline; first the one that the producer writes. May be repeated."
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option("--input", help=f"How the pipeline gets records: {', '.join(DRAFTED)}."),
    ] = None,
    line: Annotated[
        str | None,
        typer.Option(help="The text of one record, with {id}, {key} and {position} in it."),
    ] = None,
    header: Annotated[str | None, typer.Option(help="The first line of a CSV file.")] = None,
    url: Annotated[
        str | None,
        typer.Option(help="Where the producer takes records by POST (http), with {port} in it."),
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option(help="A regular expression that finds the id of a record of your own (own)."),
    ] = None,
    output: Annotated[
        str | None, typer.Option(help=f"Where results land: {', '.join(OutputKind)}.")
    ] = None,
    file: Annotated[
        str | None, typer.Option(help="The output's file or files, e.g. {work}/orders.db.")
    ] = None,
    query: Annotated[
        str | None, typer.Option(help="The query that returns the output (sqlite).")
    ] = None,
    command: Annotated[str | None, typer.Option(help="The command that prints the output.")] = None,
    system: Annotated[
        str, typer.Option(help=f"The system it runs on: {', '.join(SPOKEN)}.")
    ] = "kafka",
    compose: Annotated[
        Path | None,
        typer.Option(help="A docker-compose file, whose services are offered as stages."),
    ] = None,
    ci: Annotated[bool, typer.Option("--ci/--no-ci", help=f"Write {CI_FILE} as well.")] = True,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that exist.")] = False,
    show_schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON schema of a declaration, and stop.")
    ] = False,
) -> None:
    """Write a first pipeline.toml for programs of your own; asks for what no option says."""
    if show_schema:
        tell_json(schema())
        return
    at = folder / FILE
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder: make it, or name another")
    if at.exists() and not force:
        raise UsageError(f"{at} exists already: --force overwrites it")
    texts = {
        "--line": line,
        "--header": header,
        "--url": url,
        "--pattern": pattern,
        "--file": file,
        "--query": query,
        "--command": command,
        "--producer": producer,
        "--processor": processor,
    }
    several = {"--consumer": consumer or [], "--topic": topic or []}
    for option, text in (
        *texts.items(),
        *((option, each) for option, given in several.items() for each in given),
    ):
        _check_text(option, text)
    if len(several["--consumer"]) > 1:
        raise UsageError(
            "--consumer is given more than once: give the one whose results are judged, and "
            f"write the others into {FILE}, each a [[stage]] with a name"
        )
    options = _Options(folder, texts | {"--claims": claims, "--input": source, "--output": output})
    options.lists.update(several)
    options.words.extend(["--system", system] if system != "kafka" else [])
    options.words.extend(["--compose", str(compose)] if compose else [])
    options.words.extend([*([] if ci else ["--no-ci"]), *(["--force"] if force else [])])
    asker = Asker(sys.stdin.isatty())
    choice("--system", system, SPOKEN)
    try:
        draft, shown = _draft(asker, options, system, compose)
        _write(folder, draft, ci=ci)
    except (KeyboardInterrupt, typer.Abort, UsageError, DeclarationError):
        if asker.said:
            complain(f"nothing was written; to go on with your answers{options.again(asker)}")
        raise
    _tell(draft.stages, shown)


@dataclass(frozen=True, slots=True)
class _Options:
    """The options of the command line, by name. ``words``: those that no question is about."""

    folder: Path
    texts: Mapping[str, str | None]
    lists: dict[str, list[str]] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)

    def again(self, asker: Asker) -> str:
        """Return the command line that has these options, and the answers as options. It has
        variables in the place of secrets, and says so before.
        """
        pairs = [(name, text) for name, text in self.texts.items() if text is not None]
        pairs += [(name, text) for name, texts in self.lists.items() for text in texts]
        said = [(name, text) for name, text in asker.said if name != "--topic"]
        topics = [text for name, text in asker.said if name == "--topic"]
        names = dict.fromkeys(topic for text in topics for topic in _several(text))
        said += [("--topic", topic) for topic in names]
        words = [word for pair in (*pairs, *said) for word in pair]
        line, secrets = with_variables(["lostack", "init", str(self.folder), *words, *self.words])
        if not secrets:
            return f": {line}"
        named = ", ".join(f"{name} (read -rs {name})" for name in secrets)
        return f", put each secret into a variable of your shell, {named}, then run: {line}"


def _draft(
    asker: Asker, options: _Options, system: str, compose: Path | None
) -> tuple[Draft, dict[str, Sources]]:
    """Return the draft, and what the programs of its stages show. Ask for what is missing."""
    folder, texts = options.folder, options.texts
    services = _composed(folder, compose)
    offered = [each.name for each in services if each.kind == "program"]
    if asker.asks and offered:
        tell(
            f"services that could be stages: {', '.join(offered)} (answer with a name, or with a "
            "command)"
        )
    consumer = options.lists["--consumer"]
    given = {
        Role.PRODUCER: texts["--producer"],
        Role.PROCESSOR: texts["--processor"],
        Role.CONSUMER: consumer[0] if consumer else None,
    }
    if not any(given.values()):
        given = {
            role: asker.perhaps(
                f"--{role}", f"What starts your {role}? (a command; nothing: there is none)"
            )
            for role in given
        }
    stages = [_stage(role, told, folder, services) for role, told in given.items() if told]
    if not stages:
        raise UsageError(
            "--producer or --consumer is missing: give the command that starts your program, in "
            "this folder"
        )
    shown = {stage.role: look_at(shlex.split(stage.command), folder) for stage in stages}
    claims = asker.answer(
        texts["--claims"],
        "--claims",
        f"What does it promise? ({', '.join(Semantic)})",
        str(Semantic.AT_LEAST_ONCE),
        Semantic,
    )
    topics = options.lists["--topic"] or _topics(asker, shown)
    kind = _kind(asker, texts["--input"], shown, stages)
    url, pattern = texts["--url"] or "", texts["--pattern"] or ""
    if kind == InputKind.HTTP:
        url = asker.answer(texts["--url"], "--url", URL_OF, "http://127.0.0.1:{port}/")
        stages = _with_port(stages, url)
    header = texts["--header"]
    like = "order-{position}" if kind == InputKind.OWN else _like(header, shown)
    line = asker.answer(texts["--line"], "--line", LINE, like)
    if kind == InputKind.OWN:
        found = re.escape(line).replace(re.escape("{position}"), r"\d+")
        pattern = asker.answer(texts["--pattern"], "--pattern", PATTERN, found)
    draft = Draft(
        claims=claims,
        topics=topics,
        stages=stages,
        system=system,
        servers=_servers(services),
        python=next((each for each in PYTHONS if (folder / each).is_file()), ""),
        output=_output(asker, texts, shown, topics),
        input_kind=kind,
        line=line,
        header=header or "",
        input_topic=topics[0] if kind == InputKind.TOPIC else "",
        url=url,
        pattern=pattern,
    )
    return draft, shown


def _with_port(stages: Sequence[DraftStage], url: str) -> list[DraftStage]:
    """Return the stages, with the port of the url given to a producer that names none."""

    def listening(stage: DraftStage) -> DraftStage:
        named = "{port}" in stage.command or "{port}" in "".join(stage.environment.values())
        if stage.role != Role.PRODUCER or named or "{port}" not in url:
            return stage
        note = "lostack gives it PORT; check that it listens on that port, and on 127.0.0.1"
        environment = {**stage.environment, "PORT": "{port}"}
        told = f"{stage.note}; {note}" if stage.note else note
        return replace(stage, environment=environment, note=told)

    return [listening(stage) for stage in stages]


def _check_text(option: str, text: str | None) -> None:
    """Raise UsageError if an option is empty, or has a character that a line of the declaration
    cannot have.
    """
    if text is None:
        return
    if not text.strip():
        raise UsageError(f"{option} is empty: write something, or leave it out")
    if odd := next(
        (
            char
            for char in text
            if char in "\x7f\n\r" or char < "\t" or "\ud800" <= char <= "\udfff"
        ),
        "",
    ):
        raise UsageError(
            f"{option} has the character {odd!r}, which {FILE} cannot have: write one line of "
            "plain text"
        )


def _write(folder: Path, draft: Draft, *, ci: bool) -> None:
    """Write the draft, and read it again to check it. If that fails, restore all files.

    Raises:
        DeclarationError: the draft is not a valid declaration.
        OSError: a file cannot be written.
    """
    at, schema_at, workflow_at = folder / FILE, folder / SCHEMA_FILE, folder / CI_FILE
    for name in (FILE, SCHEMA_FILE, *([CI_FILE] if ci else [])):
        safe_files.check_plain(folder, name)
    written: list[Path] = []
    with ExitStack() as undo:
        _put(folder, FILE, draft.toml(), undo)
        written.append(at)
        read_pipeline(at).check_commands()
        if not schema_at.exists() or _is_ours(folder):
            _put(folder, SCHEMA_FILE, json.dumps(schema(), indent=1) + "\n", undo)
            written.append(schema_at)
        else:
            warn(
                f"{schema_at} is not lostack's and was left as it is: lostack init --schema "
                f"prints the schema of {FILE}"
            )
        if ci and workflow_at.exists():
            warn(f"{workflow_at} exists already and was left as it is")
        elif ci:
            safe_files.make_folder(folder, Path(CI_FILE).parent)
            _put(folder, CI_FILE, workflow(FILE), undo)
            written.append(workflow_at)
        undo.pop_all()
    tell(f"wrote {', '.join(map(str, written))}")
    if workflow_at in written:
        tell(
            f"in {workflow_at.name}: replace OWNER by the account whose repository of lostack "
            "you use"
        )
    tell(f"next: lostack check --explain {shlex.quote(str(at))}")


def _put(folder: Path, name: str, text: str, undo: ExitStack) -> None:
    """Write a file, and let ``undo`` know what was there."""
    if safe_files.exists(folder, name):
        undo.callback(safe_files.write_whole, folder, name, safe_files.read_bytes(folder, name))
    else:
        undo.callback((folder / name).unlink, missing_ok=True)
    safe_files.write_whole(folder, name, text)


def _is_ours(folder: Path) -> bool:
    """Whether the schema in a folder was written here, by this version or another."""
    with suppress(OSError, ValueError, AttributeError):
        return bool(safe_files.read_json(folder, SCHEMA_FILE).get("title") == schema()["title"])
    return False


def _tell(stages: Sequence[DraftStage], shown: dict[str, Sources]) -> None:
    """Warn of programs that name a broker's address themselves: lostack cannot put its wire in
    front of it.
    """
    for stage in stages:
        seen = shown[stage.role]
        if seen.fixed and not seen.variables:
            warn(
                f"{', '.join(seen.files)} names the broker {seen.fixed}: let it take "
                "the address from the environment variable BOOTSTRAP_SERVERS, or from an argument, "
                "{bootstrap}: lostack's wire must stand between them"
            )


def _composed(folder: Path, compose: Path | None) -> tuple[Composed, ...]:
    if compose is None:
        compose = next((folder / name for name in FILES if (folder / name).is_file()), None)
        return () if compose is None or not sys.stdin.isatty() else read_compose(compose)
    return read_compose(compose)


def _stage(role: Role, told: str, folder: Path, services: tuple[Composed, ...]) -> DraftStage:
    """Return a stage: a service of the compose file by its name, or a command."""
    found = next((each for each in services if each.name == told and each.kind == "program"), None)
    if found is not None:
        environment = pointed(found.environment, services)
        told_where = "{bootstrap}" in " ".join(environment.values())
        note = "" if told_where else "lostack gives it BOOTSTRAP_SERVERS: does it read that?"
        made = found.made(folder.resolve())
        return DraftStage(str(role), shlex.join(found.command), *made, environment, note)
    try:
        words = shlex.split(told)
    except ValueError as error:
        raise UsageError(f"--{role}: {told!r}: {error}") from error
    seen = look_at(words, folder)
    others = [name for name in seen.variables if name not in GIVEN]
    return DraftStage(str(role), told, environment=dict.fromkeys(others, "{bootstrap}"))


def _servers(services: Iterable[Composed]) -> list[DraftServer]:
    return [
        DraftServer(safe(each.name), each.image, command_at_port(each), each.environment)
        for each in services
        if each.kind == "server"
    ]


def _topics(asker: Asker, shown: dict[str, Sources]) -> list[str]:
    found = list(dict.fromkeys(topic for seen in shown.values() for topic in seen.topics))
    told = asker.answer(
        None,
        "--topic",
        "Which topics does it use? (first the one that the producer writes)",
        " ".join(found),
    )
    return _several(told)


def _several(text: str) -> list[str]:
    """Return the names in an answer that may have several."""
    return text.replace(",", " ").split()


def _kind(
    asker: Asker, kind: str | None, shown: dict[str, Sources], stages: Sequence[DraftStage]
) -> str:
    """Return the kind of the input: how the pipeline gets records."""
    producer = next((stage for stage in stages if stage.role == Role.PRODUCER), None)
    seen = shown.get(str(Role.PRODUCER), Sources())
    if producer is None:
        kind = kind or str(InputKind.TOPIC)
    guess = (
        InputKind.FILE
        if "{input}" in (producer.command if producer else "")
        else InputKind.STDIN
        if seen.stdin
        else ""
    )
    question = f"How does it get records? ({', '.join(DRAFTED)})"
    return asker.answer(kind, "--input", question, str(guess), DRAFTED)


def _like(header: str | None, shown: dict[str, Sources]) -> str:
    """Return a line with a token in its first field, as a CSV row or a JSON object of the fields
    that a program reads.

    >>> _like("order,customer,cents", {})
    '{id},{key},{position}'
    >>> _like(None, {"consumer": Sources(fields=("order", "customer"))})
    '{"order": "{id}", "customer": "{key}"}'
    """
    if header:
        fills = ("{id}", "{key}", *["{position}"] * header.count(","))
        return ",".join(fills[: header.count(",") + 1])
    names = list(dict.fromkeys(name for seen in reversed(shown.values()) for name in seen.fields))
    if not names or any(seen.csv for seen in shown.values()):
        return DEFAULT_LINE
    fills = ('"{id}"', '"{key}"', *["{position}"] * len(names))
    return (
        "{" + ", ".join(f'"{name}": {fill}' for name, fill in zip(names, fills, strict=False)) + "}"
    )


def _output(
    asker: Asker, given: Mapping[str, str | None], shown: dict[str, Sources], topics: Sequence[str]
) -> dict[str, str]:
    """Return the fields of ``[output]``."""
    last = [*shown.values()][-1]
    likely = (
        OutputKind.SQLITE
        if last.sqlite
        else OutputKind.TOPIC
        if [*shown][-1] == Role.PROCESSOR
        else ""
    )
    question = f"Where do results land? ({', '.join(OutputKind)})"
    kind = asker.answer(given["--output"], "--output", question, str(likely), OutputKind)
    column = last.column or "*"
    guesses: dict[str, str] = {
        "query": f"SELECT {column} FROM {last.table} ORDER BY rowid" if last.table else "",  # noqa: S608 - a guess, shown to who asks
        "topic": topics[-1],
    }
    questions = {
        "file": "Which file, or files? ({work} is a folder that is new for every run)",
        "query": "Which query gives a row with an id for each result?",
        "command": "What prints a line with an id for each result?",
        "topic": "Which topic?",
    }
    needed = NEEDS[OutputKind(kind)]
    return {"kind": kind} | {
        name: asker.answer(
            given.get(f"--{name}"), f"--{name}", questions[name], guesses.get(name, "")
        )
        for name in needed
    }
