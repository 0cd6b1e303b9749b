"""Check that the parts of a declaration fit each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.model.identity import REGISTRY
from harness.model.scenario import Role
from harness.pipelines.braces import SECRETS, SECURED, check_places, check_services, places
from harness.pipelines.inputs import InputKind
from harness.pipelines.outputs import OutputKind
from harness.pipelines.refusing import DeclarationError
from harness.pipelines.stages import ROLES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from harness.model.identity import Identity
    from harness.pipelines.aggregates import Aggregate
    from harness.pipelines.inputs import Input
    from harness.pipelines.invariants import Invariant
    from harness.pipelines.outputs import Output
    from harness.pipelines.programs import Service
    from harness.pipelines.security import DeclaredSecurity
    from harness.pipelines.stages import Stage


def check_programs(stages: Sequence[Stage], services: Sequence[Service]) -> None:
    """Raise :class:`DeclarationError` unless there is a stage, at most one producer, and no name of
    two programs.
    """
    if not stages:
        raise DeclarationError("a pipeline needs a [[stage]] with role and command")
    names = [service.name for service in services]
    if twice := _repeated(names):
        raise DeclarationError(f"service: two services are called {twice}: give each its own name")
    if [stage.role for stage in stages].count(Role.PRODUCER) > 1:
        raise DeclarationError(
            "two stages are a producer, but only one is offered the records: start both by one "
            "command"
        )
    if twice := _repeated([*(str(stage.known) for stage in stages), *names]):
        said = (
            f"two stages are a {twice}"
            if twice in ROLES
            else f"two stages or services are called {twice}"
        )
        raise DeclarationError(f'{said}: give each its own name (name = "...")')


def _repeated(names: Sequence[str]) -> str | None:
    return next((name for name in names if names.count(name) > 1), None)


def check_services_named(
    services: Iterable[Service],
    texts: Iterable[str],
    invariants: Iterable[Invariant],
    identity: Identity | None,
) -> None:
    """Raise :class:`DeclarationError` unless commands, environments and the schema registry name
    declared services only.
    """
    asked = [word for invariant in invariants for word in invariant.command]
    if identity and identity.schema and identity.schema.kind == REGISTRY:
        check_places("id: registry", identity.schema.text, ())
        asked.append(identity.schema.text)
    names = [service.name for service in services]
    for text in (*texts, *asked):
        check_services(text, names)


def check_line(given: Input, identity: Identity | None, *, totals: bool) -> None:
    """Raise :class:`DeclarationError` unless records can be found by what the input's line holds.
    ``totals``: the results are totals, which have no id.
    """
    if given.kind is InputKind.OWN:
        if identity is None or "{position}" not in given.line:
            raise DeclarationError(
                "input: kind own needs {position} in line, and [id]: its records carry no token of "
                "lostack's"
            )
    elif identity is None and "id" not in places(given.line) and not totals:
        raise DeclarationError(
            "input: line has {position} but not {id}: put {id} into it, or say in [id] where the "
            "results have the position"
        )


def check_input(given: Input, stages: Sequence[Stage]) -> None:
    """Raise :class:`DeclarationError` unless the stages can be offered records by an input of this
    kind.
    """
    producer = next((stage for stage in stages if stage.role is Role.PRODUCER), None)
    if given.kind is InputKind.TOPIC:
        if producer is not None:
            raise DeclarationError(
                "input: kind topic replaces the producer: take away one of the two"
            )
        if not given.into:
            raise DeclarationError("input: kind topic needs topic, the topic's name")
        return
    if producer is None:
        raise DeclarationError(
            f"input: kind {given.kind} needs a stage with role producer; without one, use kind "
            "topic"
        )
    if given.kind is InputKind.STDIN and producer.connector:
        raise DeclarationError(
            "input: kind stdin is the default, and a connector reads no standard input: write an "
            "[input] of kind own, file or table"
        )


def check_offering(given: Input, named: Collection[str]) -> None:
    """Raise :class:`DeclarationError` unless the programs are told where the input is. ``named``:
    the names in braces that their commands and environments have.
    """
    if "input" in named and given.kind is not InputKind.FILE:
        raise DeclarationError(
            f"{{input}} is the file of an input of kind file, but the input is of kind {given.kind}"
        )
    if given.kind is InputKind.FILE and not {*named} & {"input", "work"}:
        raise DeclarationError(
            "input: kind file, but no command or environment has {input}: pass it to the producer"
        )
    if "{port}" in given.url and "port" not in named:
        raise DeclarationError(
            "input: url has {port}, but no command or environment has it: pass it to the producer"
        )


def check_security(security: DeclaredSecurity | None, named: Collection[str]) -> None:
    """Raise :class:`DeclarationError` unless the programs are told how to log in. ``named``: the
    names in braces that their commands and environments have.
    """
    if security is None:
        if wrong := next((name for name in SECURED if name in named), None):
            raise DeclarationError(
                f"{{{wrong}}} needs a [security] with protocol and mechanism: write one"
            )
        return
    if security.protocol.endswith("SSL") and "ca" not in named:
        raise DeclarationError(
            "security: no command or environment has {ca}: the programs need it to trust the "
            "brokers"
        )
    if security.mechanism and not security.username and not {*named} & {*SECRETS}:
        raise DeclarationError(
            "security: no environment has {password} or {jaas}: pass one of them to the programs"
        )


def check_queue(
    system: str,
    topics: Sequence[str],
    stages: Iterable[Stage],
    *,
    of_topics: bool,
    secured: bool,
) -> None:
    """Raise :class:`DeclarationError` unless a pipeline on a queue uses nothing that only a log
    has. ``of_topics``: whether its input or its output is a topic.
    """
    if of_topics or any(stage.role is Role.PROCESSOR for stage in stages):
        raise DeclarationError(
            f"system: on {system} a pipeline must be a producer, a queue, a consumer, and an "
            "output that is not a topic"
        )
    if len(topics) > 1:
        raise DeclarationError(
            f"topics: on {system} name one only, the queue between the stages: {topics[0]}"
        )
    if secured:
        raise DeclarationError(
            f"security: on {system} there is neither TLS nor a log-in: take [security] away"
        )
    for stage in stages:
        if what := stage.of_logs:
            raise DeclarationError(
                f"{what}: has no meaning for the {stage.role} on {system}: leave it out"
            )


def check_aggregate(aggregate: Aggregate | None, given: Input) -> None:
    """Raise :class:`DeclarationError` unless the records of the input can be counted or summed as
    the totals are.
    """
    if aggregate is not None:
        aggregate.check(given.line)
        if given.kind is InputKind.OWN:
            raise DeclarationError(
                "aggregate: use another input kind than own, whose keys lostack does not know"
            )
    elif "amount" in places(given.line):
        raise DeclarationError(
            "input: line: {amount} needs an [aggregate] that sums it up: write one, or take "
            "{amount} out"
        )


def check_order(given: Input, output: Output, *, totals: bool) -> None:
    """Raise :class:`DeclarationError` unless the order of the results can be judged."""
    if why := _why_no_order(given, output, totals=totals):
        raise DeclarationError(f"order: {why}")


def _why_no_order(given: Input, output: Output, *, totals: bool) -> str | None:
    """Say why the order of the results cannot be checked; return ``None`` if it can."""
    if totals:
        return "a total does not show the order of its records: take away order, or [aggregate]"
    if given.kind is InputKind.OWN or "key" not in places(given.line):
        return (
            "lostack does not know the key of a record: put {key} into the input's line, and "
            "use another kind than own"
        )
    if given.at_once > 1:
        return (
            f"{given.at_once} records are under way at once, in no order: set writers = 1 "
            "in [input]"
        )
    return why_unordered(output)


def why_unordered(output: Output) -> str | None:
    """Say why the results in an output have no order; return ``None`` if they have one."""
    if output.kind is OutputKind.SQLITE and "order by" not in " ".join(
        output.query.lower().split()
    ):
        return (
            "the output's query has no order: end it with ORDER BY and a column that grows "
            "with each inserted row"
        )
    if output.kind in (OutputKind.DELTA, OutputKind.ICEBERG):
        return (
            f"the rows of a table ({output.kind}) have no order: several tasks write the files of "
            "a commit, and what rewrites files mixes them"
        )
    if output.file and any(char in output.file for char in "*?["):
        return f"results in several files ({output.file}) have no order: write them to one file"
    return None
