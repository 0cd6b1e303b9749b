"""``lostack soak``: fault after fault, for as long as there are records; our plain pipeline on
Kafka as one stream.
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from harness import registry
from harness.cli.options import AsJson, KeepFiles, Reports  # noqa: TC001 - typer reads them
from harness.cli.telling import complain, tell_json, tell_lines
from harness.faults import NoFault
from harness.judge.verdict import Kind
from harness.matrix.alone import alone_in
from harness.matrix.progress import make_progress
from harness.matrix.room import new_directory
from harness.matrix.selection import choose, systems_of
from harness.model import safe_files
from harness.model.closing import Closing
from harness.model.exits import ExitCode
from harness.model.keep import Keep
from harness.model.scenario import Deployment, Predicted
from harness.model.semantics import Semantic
from harness.soak.waves import SOAK_FILE, Soak, SoakError, as_lines
from harness.soak.waves import soak as run_soak

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from harness.interfaces import Launcher
    from harness.matrix.checking import Check
    from harness.matrix.listener import Progress
    from harness.model.cell import Cell
    from harness.model.scenario import Scenario

LEAST = 12
LEAST_STREAMED = 4000
PLAIN = "plain"
KAFKA = "kafka"
ONE_BROKER = (Deployment.SHARED, Deployment.OWN)


def soak(
    pipeline: Annotated[
        str,
        typer.Argument(
            help="plain, another pipeline of lostack's own or of a package's, or the file of a "
            "declaration."
        ),
    ],
    *,
    records: Annotated[float, typer.Option(help="How many records in all, e.g. 1e6.")] = 10_000,
    faults_per_minute: Annotated[
        float,
        typer.Option(
            help="How many faults a minute; it decides how many records there are between them."
        ),
    ] = 6.0,
    semantic: Annotated[
        str | None,
        typer.Option(help="The semantic, by default exactly-once. A declaration has its own."),
    ] = None,
    system: Annotated[
        str | None,
        typer.Option(
            help="The system under test; by default kafka, or the only one with the pipeline."
        ),
    ] = None,
    client: Annotated[
        list[str] | None, typer.Option(help="Only this client. May be repeated.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="Only faults whose cell has these words or matches this glob. May be repeated."
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(help="The seed, from which faults and their target records are drawn.", min=0),
    ] = 1,
    resume: Annotated[Path | None, typer.Option(help="Continue the soak in this folder.")] = None,
    reports: Reports = Path("reports"),
    keep: KeepFiles = Keep.BROKEN,
    as_json: AsJson = False,
) -> None:
    """Inject one fault after another at random exact points while records flow; judge each fault,
    and the whole.
    """
    _check_options(records, faults_per_minute, resume)
    declared = Path(pipeline).suffix == ".toml"
    if declared:
        _check_declared(
            pipeline,
            {
                "--semantic": semantic,
                "--system": system,
                "--client": client,
            },
        )
    semantic = semantic or str(Semantic.EXACTLY_ONCE)
    folder_of = partial(_folder, resume, reports)
    if pipeline == PLAIN and system in (None, KAFKA) and client is None:
        _stream(
            folder_of,
            int(records),
            faults_per_minute,
            semantic,
            only=only or (),
            seed=seed,
            keep=keep,
            as_json=as_json,
        )
    with make_progress(sys.stderr if as_json else sys.stdout) as progress:
        if declared:
            systems, cells_of = _declared(Path(pipeline), seed, only or (), progress)
        else:
            cells = _own(pipeline, semantic, system, client or (), only or ())
            systems, cells_of = systems_of(cells), lambda _: cells
        folder = folder_of()
        try:
            with alone_in(folder):
                asked = Soak(
                    folder,
                    cells_of(folder),
                    systems,
                    int(records),
                    faults_per_minute,
                    seed,
                    shlex.join(["lostack", *sys.argv[1:]]),
                    keep,
                )
                found = run_soak(asked, progress)
        finally:
            for each in systems:
                if isinstance(each, Closing):
                    each.close()
    if as_json:
        told = {
            "verdict": found.kind,
            "records": found.records,
            "complete": found.records >= asked.records,
        }
        tell_json({**told, "waves": [asdict(wave) for wave in found.waves]})
    else:
        tell_lines(as_lines(found, asked))
    _leave(folder, found.kind, interrupted=found.interrupted)


def _folder(resume: Path | None, reports: Path) -> Path:
    """Return the folder of a soak that is continued, or make that of a new one.

    Raises:
        EnvironmentFailure: it cannot be made.
    """
    return resume or new_directory(reports, "soak-")


def _leave(folder: Path, kind: Kind, *, interrupted: bool) -> NoReturn:
    if interrupted:
        complain(
            "interrupted; to continue: lostack soak with the same options and --resume "
            f"{shlex.quote(str(folder))}"
        )
        raise typer.Exit(ExitCode.INTERRUPTED)
    raise typer.Exit(
        {Kind.KEPT: ExitCode.KEPT, Kind.BROKEN: ExitCode.BROKEN}.get(kind, ExitCode.VOID)
    )


def _stream(
    folder_of: Callable[[], Path],
    records: int,
    faults_per_minute: float,
    semantic: str,
    *,
    only: Sequence[str],
    seed: int,
    keep: Keep,
    as_json: bool,
) -> NoReturn:
    """Soak the plain pipeline on Kafka as one stream."""
    from harness.soak import found as told_of  # noqa: PLC0415
    from harness.soak import stream  # noqa: PLC0415 - brings numpy; who has another pipeline does not need it
    from harness.soak.drawing import streamable  # noqa: PLC0415
    from harness.soak.flow import Stream  # noqa: PLC0415
    from harness.soak.kafka import KafkaFlow  # noqa: PLC0415
    from harness.stages.bulk.telling import CLIENT  # noqa: PLC0415
    from harness.systems.kafka.system import KafkaSystem  # noqa: PLC0415

    if records < LEAST_STREAMED:
        raise SoakError(
            f"--records {records}: a stream needs at least {LEAST_STREAMED}; with --client fewer "
            "are enough"
        )
    meant = Semantic(registry.known(semantic, dict.fromkeys(map(str, Semantic), ""), "semantic"))
    scenarios = streamable(
        (cell.scenario for cell in _own(PLAIN, meant, "kafka", [CLIENT], only)), meant
    )
    if not scenarios:
        raise SoakError(
            f"no fault of {PLAIN} that --only selects can strike a stream under {meant}: leave "
            "out --only, or name others"
        )
    with make_progress(sys.stderr if as_json else sys.stdout) as progress:
        system = KafkaSystem()
        system.prepare(progress.say)
        folder = folder_of()
        asked = Stream(
            folder,
            scenarios,
            meant,
            records,
            faults_per_minute,
            seed,
            unit=stream.unit_of(records),
            keep=keep,
        )
        found = stream.Streaming(asked, KafkaFlow(asked, system), progress).run()
    if as_json:
        told = {
            "verdict": found.kind,
            "records": found.recorded,
            "complete": found.outside is not None,
        }
        tell_json(
            {**told, "faults": [asdict(one) for one in found.faults], "outside": found.outside}
        )
    else:
        tell_lines(told_of.as_lines(found, records, folder))
    _leave(folder, found.kind, interrupted=found.interrupted)


def _check_options(records: float, faults_per_minute: float, resume: Path | None) -> None:
    if not (records >= LEAST and records.is_integer()):
        raise SoakError(f"--records {records:g}: give a whole number of at least {LEAST}")
    if not 0 < faults_per_minute <= 600:  # noqa: PLR2004 - ten a second are beyond any broker
        raise SoakError(
            f"--faults-per-minute {faults_per_minute:g}: give a number above 0, at most 600"
        )
    if resume is not None and not resume.is_dir():
        raise SoakError(f"--resume {resume}: there is no such folder")
    if resume is not None and not safe_files.exists(resume, SOAK_FILE):
        raise SoakError(
            f"--resume {resume}: this is not the folder of a soak: it has no {SOAK_FILE}"
        )


def _check_declared(pipeline: str, given: Mapping[str, object]) -> None:
    """Raise SoakError if an option is given that only pipelines of lostack's own have."""
    if said := [option for option, value in given.items() if value]:
        raise SoakError(
            f"{said[0]} is only for lostack's own pipelines: leave it out; {pipeline} itself "
            "decides that"
        )


def _own(
    pipeline: str, semantic: str, system: str | None, clients: Sequence[str], only: Sequence[str]
) -> tuple[Cell, ...]:
    """Return a cell for each fault of a pipeline of lostack's own, or of a package's, for brokers
    that run one cell at a time. ``pipeline``: its name, or that of a group of scenarios.
    """
    every = registry.scenarios()
    names = dict.fromkeys(name for one in every for name in (one.group, str(one.pipeline)))
    name = registry.known(pipeline, names, "pipeline")
    scenarios = [one for one in every if name in (one.group, str(one.pipeline))]
    system = system or _only_system(name, scenarios)
    chosen = choose(
        [
            replace(one, deployment=Deployment.OWN)
            for one in scenarios
            if one.deployment in ONE_BROKER and not isinstance(one.fault, NoFault)
        ],
        semantics=(semantic,),
        system=system,
        clients=clients,
        only=only,
    )
    cells = tuple(
        cell for cell in chosen if registry.inapplicable(cell) is None and not _is_control(cell)
    )
    if not cells:
        raise SoakError(
            f"no fault of {pipeline} applies to {semantic} on {system}: choose another --semantic, "
            "or leave out --only"
        )
    return cells


def _only_system(pipeline: str, scenarios: Sequence[Scenario]) -> str:
    """Return the system of a pipeline: Kafka, or the only one that has it.

    Raises:
        SoakError: several have it.
    """
    systems = dict.fromkeys(one.pipeline.system for one in scenarios)
    if KAFKA in systems or len(systems) == 1:
        return KAFKA if KAFKA in systems else next(iter(systems))
    raise SoakError(f"{pipeline} is a pipeline of {' and '.join(systems)}: name one with --system")


def _is_control(cell: Cell) -> bool:
    return isinstance(cell.expectation, Predicted) and cell.expectation.control


def _declared(
    file: Path, seed: int, only: Sequence[str], progress: Progress
) -> tuple[tuple[Launcher, ...], Callable[[Path], tuple[Cell, ...]]]:
    """Return the system of a declared pipeline, and what runs it once without a fault in a folder,
    and returns a cell for each of its possible faults.

    Raises:
        DeclarationError: the declaration is wrong, or ``only`` names no failure point.
    """
    from harness.matrix.checking import Check  # noqa: PLC0415 - brings a system; nobody else needs it
    from harness.pipelines import read_pipeline  # noqa: PLC0415
    from harness.systems.declared.fetchable import check_declared  # noqa: PLC0415
    from harness.systems.declared.system import DeclaredSystem  # noqa: PLC0415

    pipeline = read_pipeline(file)
    check_declared(pipeline)
    system = DeclaredSystem(keep=True)
    check = Check(pipeline, system, Path(), shlex.join(["lostack", *sys.argv[1:]]), seed)
    check.plan({}, only)  # a wrong name is told before anything is written
    return (system,), lambda folder: _faults(replace(check, reports=folder), file, only, progress)


def _faults(check: Check, file: Path, only: Sequence[str], progress: Progress) -> tuple[Cell, ...]:
    """Run a declared pipeline once without a fault, and return a cell for each of its possible
    faults.

    Raises:
        typer.Exit: without a fault it is not kept.
    """
    from harness.matrix.seen import seen_in  # noqa: PLC0415 - brings a system; nobody else needs it

    progress.say("dry run: no fault")
    dry = check.dry_run(progress)
    if dry.verdict.kind is not Kind.KEPT:
        told = (
            f"the dry run without a fault is {dry.verdict.kind}: {dry.verdict.reason}; lostack "
            f"check {file} says more"
        )
        complain(told)
        raise typer.Exit(ExitCode.BROKEN if dry.verdict.kind is Kind.BROKEN else ExitCode.VOID)
    cells, _ = check.plan(seen_in(dry), only)
    return tuple(cell for cell in cells if not isinstance(cell.scenario.fault, NoFault))
