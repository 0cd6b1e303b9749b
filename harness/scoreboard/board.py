"""A scoreboard on disk, and how its rows are run.

Layout::

    reports/scoreboard/rows/<row>.s<seed>.json      the outcome of a row, written when it has ended
    reports/scoreboard/pipelines/<row>.toml         its declaration, for lostack check
    reports/scoreboard/runs/<run>/                  its saved run, with the reports
    reports/scoreboard/scoreboard.{html,json,md}    the page, from the rows that are there

A row that is there is not run again: a board that was killed goes on where it was.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import os
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from harness.judge.verdict import Kind
from harness.matrix.checking import Check
from harness.matrix.seen import seen_in
from harness.model import events as kinds
from harness.model import safe_files
from harness.model.code import lostack_version
from harness.model.failures import UsageError
from harness.model.history import HISTORY, HistoryError, read_history
from harness.model.logs import log_text
from harness.model.secrets import masked
from harness.pipelines import read_pipeline
from harness.pipelines.failure_points import NO_FAULT
from harness.report.publishing import folders_of
from harness.report.record import advice
from harness.report.renderers import write_reports
from harness.scoreboard.building import LackingError, built
from harness.scoreboard.declaring import declaration

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from harness.matrix.listener import Progress
    from harness.saved import CellResult, SavedRun
    from harness.scoreboard.table import Row
    from harness.systems.declared.system import DeclaredSystem

ROWS: Final = "rows"
PIPELINES: Final = "pipelines"
RUNS: Final = "runs"
SCHEMA: Final = 1
MOST_WAY: Final = 24
"""How many lines of a record's way a row keeps."""
MOST_WORDS: Final = 200
OF_OTHER_ROLES: Final = "the pipeline has no "
RAN, LACKING, NO_CONTROL = "ran", "not-applicable", "no-control"
"""States of a row. ``no-control``: without a fault it was not kept, so nothing else was tried."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One failure point of a row. ``outcome``: kept, broken, stuck or void; ``way``: the path of
    the record that broke it; ``told``: the last words of the program.
    """

    point: str
    outcome: str
    lost: int
    duplicated: int
    reason: str
    seconds: float
    way: tuple[str, ...] = ()
    told: str = ""
    effect: bool = True
    """Whether a sign was seen that the fault met its record."""
    times_as_long: float | None = None
    """How many times as long as without the fault the records took on the wire, from the first to
    the last that was sent or delivered. ``None``: the cell was not kept, or its wire saw fewer than
    two.
    """


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a row. ``apart``: points that do not apply, or were left out, with the
    reason.
    """

    row: str
    client: str
    language: str
    version: str
    role: str
    mode: str
    claims: str
    seed: int
    date: str
    state: str
    because: str = ""
    kafka: str = ""
    lostack: str = ""
    sources: str = ""
    run: str = ""
    seconds: float = 0.0
    cells: tuple[Cell, ...] = ()
    apart: tuple[tuple[str, str], ...] = ()
    schema: int = SCHEMA

    def to_json(self) -> str:
        """Return it as JSON."""
        return json.dumps(dataclasses.asdict(self), indent=1) + "\n"


def read_outcomes(directory: Path) -> tuple[Outcome, ...]:
    """Return the outcomes of the rows that a board has.

    Raises:
        UsageError: a file is no row of a scoreboard.
    """
    files = sorted((directory / ROWS).glob("*.json"))
    return tuple(read_outcome(directory, f"{ROWS}/{file.name}") for file in files)


def read_outcome(directory: Path, name: str) -> Outcome:
    """Return the outcome of a row.

    Raises:
        UsageError: the file is no row of a scoreboard.
    """
    try:
        return msgspec.json.decode(safe_files.read_bytes(directory, name), type=Outcome)
    except (OSError, msgspec.MsgspecError) as error:
        raise UsageError(
            f"{directory / name} is no row of a scoreboard ({error}): remove it"
        ) from error


@dataclass(frozen=True, slots=True)
class Board:
    """A board that is being run: where it lies, and how its rows are run."""

    directory: Path
    system: DeclaredSystem
    command: str
    seed: int = 1
    jobs: int = 1

    def has(self, row: Row) -> bool:
        """Whether the row has been run at this seed, with the programs that there are now."""
        if not (self.directory / self._name(row)).exists():
            return False
        return read_outcome(self.directory, self._name(row)).sources == row.sources

    def run(self, row: Row, progress: Progress) -> Outcome:
        """Run a row and save its outcome.

        Raises:
            KeyboardInterrupt: it was interrupted; nothing is saved of it.
            EnvironmentFailure: the brokers broke down.
        """
        outcome = self._run(row, progress)
        for folder in (ROWS, PIPELINES, RUNS):
            (self.directory / folder).mkdir(parents=True, exist_ok=True)
        safe_files.write_whole(self.directory, self._name(row), outcome.to_json())
        return outcome

    def _name(self, row: Row) -> str:
        return f"{ROWS}/{row.slug}.s{self.seed}.json"

    def _run(self, row: Row, progress: Progress) -> Outcome:
        outcome = self._outcome(row)
        if row.missing:
            return replace(outcome, because=row.missing)
        try:
            programs = built(row.client, row.version, progress.say)
        except LackingError as error:
            return replace(outcome, because=str(error))
        (self.directory / PIPELINES).mkdir(parents=True, exist_ok=True)
        name = f"{PIPELINES}/{row.slug}.toml"
        safe_files.write_whole(self.directory, name, declaration(row, programs))
        pipeline = read_pipeline(self.directory / name)
        runs = self.directory / RUNS
        asked = Check(pipeline, self.system, runs, self.command, self.seed, jobs=self.jobs)
        rehearsed = asked.rehearsed(progress, brief=True)
        if rehearsed.dry.verdict.kind is not Kind.KEPT:
            return replace(outcome, state=NO_CONTROL, because=rehearsed.dry.verdict.reason)
        seen = seen_in(rehearsed.dry)
        asked = replace(asked, jobs=rehearsed.jobs)
        saved = asked.faults(*asked.plan(seen, row.points), progress)
        if saved.info.interrupted or not saved.whole:
            raise KeyboardInterrupt
        write_reports(saved)
        left = () if row.points else tuple((line, "") for line in asked.left_out(seen))
        return with_run(outcome, saved, os.path.relpath(saved.directory, self.directory), left)

    def _outcome(self, row: Row) -> Outcome:
        return Outcome(
            row=row.id,
            client=row.client.name,
            language=row.client.language,
            version=row.version,
            role=str(row.role),
            mode=row.mode,
            claims=str(row.claims),
            seed=self.seed,
            date=dt.datetime.now(dt.UTC).date().isoformat(),
            state=LACKING,
            lostack=lostack_version(),
            sources=row.sources,
        )


def with_run(
    outcome: Outcome, saved: SavedRun, named: str, left: tuple[tuple[str, str], ...] = ()
) -> Outcome:
    """Return the outcome of a row with what its run has shown.

    ``named``: the run's folder, from the board; ``left``: sentences about points that were left
    out. If the cell without a fault is not kept, no other cell counts.
    """
    control = next((one for one in saved.results if one.plan.scenario == NO_FAULT), None)
    if control is None or control.verdict.kind is not Kind.KEPT:
        because = control.verdict.reason if control else "it has no cell without a fault"
        return replace(outcome, state=NO_CONTROL, because=because, run=named)
    folders = sorted(folders_of(saved), key=lambda pair: -len(pair[0]))
    usual = _worked_s(control)
    return replace(
        outcome,
        state=RAN,
        kafka=saved.info.versions.get("kafka", ""),
        run=named,
        seconds=round(saved.info.seconds, 1),
        cells=tuple(_cell(result, outcome.role, folders, usual) for result in saved.results),
        apart=(*_apart(saved), *left),
    )


def _apart(saved: SavedRun) -> Iterator[tuple[str, str]]:
    """Yield the points that do not apply, without those of roles that the program does not have."""
    for one in saved.info.not_applicable:
        if not one.because.startswith(OF_OTHER_ROLES):
            yield one.scenario, one.because


def _worked_s(result: CellResult) -> float:
    """Return the seconds from the first record that was sent or delivered on the wire to the last;
    0 if the history cannot be read.
    """
    try:
        history = read_history(result.directory / HISTORY)
    except HistoryError:
        return 0.0
    moments = [event.t for event in history.of(kinds.Sent, kinds.Fetched)]
    return (max(moments) - min(moments)) / 1e9 if moments else 0.0


def _cell(
    result: CellResult, role: str, folders: Sequence[tuple[str, str]], usual_s: float
) -> Cell:
    """Return a cell of a row. ``folders``: folders of this machine, each with the name that stands
    for it; ``usual_s``: how long the records took without a fault.
    """
    took_s = _worked_s(result) if result.verdict.kind is Kind.KEPT else 0.0
    counts = result.judgement.account.counts

    def told(text: str) -> str:
        for folder, name in folders:
            text = text.replace(folder, name)
        return masked(text)

    return Cell(
        point=result.plan.scenario,
        outcome=str(result.verdict.kind),
        lost=counts["lost"],
        duplicated=counts["duplicated"],
        reason=told(result.verdict.reason),
        seconds=round(result.seconds, 1),
        way=tuple(told(line) for line in islice(advice(result), MOST_WAY)),
        told=told(_last_error(result, role)),
        effect=result.verdict.effect,
        times_as_long=round(took_s / usual_s, 1) if took_s and usual_s else None,
    )


def _last_error(result: CellResult, role: str) -> str:
    """Return the last line that the program has printed on its way to an error."""
    lines = [
        line.strip()
        for line in log_text(result.directory, role).splitlines()
        if any(word in line.lower() for word in ("not sent", "error", "exception", "failed"))
    ]
    return lines[-1][:MOST_WORDS] if lines else ""
