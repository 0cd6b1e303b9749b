"""A saved run: ``run.json``, and for each cell a folder with ``cell.json``, ``history/`` and
``logs/``. Read here, and judged.

Layout::

    reports/<run>/run.json                        what was planned, versions, machine
    reports/<run>/cells/<slug>/cell.json          the plan of a cell
    reports/<run>/cells/<slug>/history/*.jsonl    its history, one file per writer
    reports/<run>/cells/<slug>/logs/*.log         what its processes printed
    reports/<run>/report.json, report.md, ...     made only from the files above
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import itertools
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from harness.judge.deaths import deaths
from harness.judge.proof import Knowledge
from harness.judge.verdict import Judgement, Kind, Verdict, judge, unjudged
from harness.knowledge import knowledge
from harness.model import events as kinds
from harness.model import safe_files
from harness.model.ending import NO_END, differences
from harness.model.events import CellPhase, NodePhase
from harness.model.failures import why_damaged
from harness.model.history import HISTORY, History, HistoryError, read_files, read_history
from harness.model.logs import last_lines, log_text
from harness.model.plain import made
from harness.model.plan import PLAN_FILE, EditedPlanError, Plan, PlanError
from harness.model.prediction import by_name
from harness.model.scenario import BROKERS, Role
from harness.model.secrets import masked
from harness.model.semantics import Anomaly
from harness.stages.fatal import fatal_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

RUN_FILE = "run.json"
CELLS = "cells"
TRACE_FILE = "traceback.txt"
"""The file in a cell's folder with the traceback of an error that nobody expected, and that voided
the cell.
"""
SWEEP_FILE = "sweep.json"
"""The file in a sweep's folder that describes the sweep."""
ASIDE = "aside"
"""The folder with the first results of cells that were run again. lostack never reads it."""
INTERRUPTED = "the run was interrupted"
"""The reason given for a cell that was under way when its run was interrupted."""
SCHEMA = 1
"""Version of run.json and report.json; a reader refuses a newer one."""


class SavedRunError(Exception):
    """A directory is not a saved run, or a newer lostack wrote it. The message says what to do."""


@dataclass(frozen=True, slots=True)
class NotRun:
    """A cell that does not apply, with its reason."""

    id: str
    scenario: str
    failure_point: str
    pipeline: str
    system: str
    client: str
    runtime: str
    semantic: str
    seed: int
    because: str


@dataclass(frozen=True, slots=True)
class RunInfo:
    """The content of ``run.json``."""

    id: str
    started: str
    """ISO 8601, UTC."""
    seconds: float
    complete: bool
    """False until every planned cell has ended. It stays false if the run is
    interrupted or killed.
    """
    planned: tuple[str, ...]
    """Ids of all planned cells."""
    not_applicable: tuple[NotRun, ...]
    seeds: tuple[int, ...]
    records: int
    versions: dict[str, str]
    machine: dict[str, str]
    command: str
    jobs: int = 0
    """How many cells could run at once; 0: the run does not say."""
    phases: dict[str, float] = field(default_factory=dict)
    """Seconds of set-up phases outside the cells (deploy, ...)."""
    interrupted: bool = False
    """Whether Ctrl-C (or SIGTERM) interrupted the run. A run that was killed is neither interrupted
    nor complete.
    """
    untried: tuple[str, ...] = ()
    """A sentence for each stage of a declared pipeline that no cell kills, and which is therefore
    untested.
    """
    compared: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By the id of a cell that broke its promise, or stood still: sentences about where it parts
    from runs without a fault.
    """
    schema: int = SCHEMA

    def save(self, directory: Path) -> None:
        """Write ``run.json``, whole or not at all."""
        safe_files.write_whole(directory, RUN_FILE, json.dumps(dataclasses.asdict(self), indent=1))

    @staticmethod
    def load(directory: Path) -> RunInfo:
        """Read ``run.json``.

        Raises:
            SavedRunError: the file cannot be read, is damaged, or was written by a newer lostack.
        """
        file = directory / RUN_FILE
        try:
            data = safe_files.read_json(directory, RUN_FILE)
            if data.get("schema", 0) > SCHEMA:
                raise SavedRunError(
                    f"{file} was written by a newer lostack (schema {data['schema']}, this one "
                    f"reads up to {SCHEMA}); upgrade lostack to read it"
                )
            info = made(RunInfo, data)
            check_time(info.started)
        except OSError as error:
            raise SavedRunError(
                f"{directory} is not a saved run: cannot read {file.name}: {error.strerror}"
            ) from error
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise SavedRunError(f"{file} is damaged: {why_damaged(error)}") from error
        return info


def check_time(text: str) -> None:
    """Raise ValueError if a text is not a time in UTC, as ``2026-11-27T10:15:00+00:00``."""
    try:
        zone = dt.datetime.fromisoformat(text).utcoffset()
    except ValueError:
        zone = None
    if zone != dt.timedelta(0):
        raise ValueError(f"started must be a time as 2026-11-27T10:15:00+00:00, not {text[:40]!r}")


@dataclass(frozen=True)
class CellResult:
    """One judged cell with its saved files."""

    judgement: Judgement
    """Its account, verdict and signs."""
    directory: Path
    """Its folder: ``cell.json``, ``history/`` and ``logs/``."""
    seconds: float
    """How long the cell took."""
    phases: dict[str, float]
    """Seconds per phase of the cell."""
    ended: bool = True
    """False if the cell was cut short because its run was interrupted or killed."""
    failed: tuple[str, ...] = ()
    """The programs that ended by an error, in order of time."""

    @property
    def plan(self) -> Plan:
        """What was to be done: scenario, semantic, client, seed, and what was predicted."""
        return self.judgement.plan

    @property
    def verdict(self) -> Verdict:
        """What the cell has shown, and the sentence that explains it."""
        return self.judgement.verdict

    def row(self) -> dict[str, Any]:
        """Return the cell as a row of ``report.json`` (schema: docs in
        harness/report/schema.json).
        """
        plan, verdict = self.plan, self.verdict
        return {
            "id": plan.id,
            "scenario": plan.scenario,
            "group": plan.group,
            "system": plan.system,
            "client": plan.client,
            "pipeline": plan.pipeline,
            "failure_point": plan.failure_point,
            "semantic": str(plan.semantic),
            "runtime": plan.runtime,
            "seed": plan.seed,
            "target": plan.target,
            "targets": list(plan.struck),
            **self.judgement.account.counts,
            "fired": verdict.fired,
            "predicted": {
                name: plan.predicted(name) for name in (Anomaly.LOST, Anomaly.DUPLICATED)
            },
            "sign": str(plan.sign) if plan.sign else None,
            "control": plan.control,
            "verdict": str(verdict.kind),
            "label": verdict.label,
            "green": verdict.green,
            "effect": verdict.effect,
            "rule": str(verdict.rule),
            "reason": verdict.reason,
            "because": plan.because,
            "lost_ids": sorted(self.judgement.account.lost, key=by_name)[:200],
            "duplicated_ids": sorted(self.judgement.account.duplicated, key=by_name)[:200],
            **{name: self.judgement.details.get(name) for name in knowledge().details},
            "beside": self.judgement.movement.row(),
            "seconds": round(self.seconds, 3),
            "phases": {name: round(seconds, 3) for name, seconds in self.phases.items()},
        }


@dataclass(frozen=True)
class SavedRun:
    """A run read back from its directory and judged again."""

    directory: Path
    """Its folder: ``run.json``, ``cells/`` and the reports."""
    info: RunInfo
    """What ``run.json`` says of it: when it began, its command, the versions, the machine."""
    results: tuple[CellResult, ...]
    """The cells that began, in the order in which they were planned."""
    missing: tuple[str, ...]
    """Ids of planned cells that never began: they have no folder."""

    @property
    def whole(self) -> bool:
        """Whether every planned cell ran to its end."""
        return self.info.complete and not self.missing

    def compared(self, result: CellResult) -> tuple[str, ...]:
        """Return where a cell that broke its promise, or stood still, parts from runs without a
        fault. What was said of it holds no longer where it is judged otherwise now.
        """
        red = result.verdict.kind in {Kind.BROKEN, Kind.STUCK}
        return self.info.compared.get(result.plan.id, ()) if red else ()


def judge_cell(directory: Path) -> CellResult:
    """Judge one saved cell. It is void if its history cannot be read, or if its plan was edited.

    Raises:
        PlanError: the plan cannot be read.
    """
    edited: EditedPlanError | None = None
    try:
        plan = Plan.load(directory)
    except EditedPlanError as error:
        plan, edited = error.plan, error
    if edited:
        return CellResult(unjudged(plan, str(edited), knowledge(plan)), directory, 0.0, {})
    try:
        history = read_history(directory / HISTORY, plan.id)
        judgement = _whole(plan, history, directory)
        seconds, phases = _timing(history)
        judgement = with_deaths(judgement, history, directory)
        return CellResult(
            judgement, directory, seconds, phases, _ended(history), tuple(_failed(history))
        )
    except HistoryError as error:
        return CellResult(unjudged(plan, str(error), knowledge(plan)), directory, 0.0, {})
    except Exception as error:  # noqa: BLE001 - a judge that fails has found nothing out, least of all a success
        because = f"the history cannot be judged: {type(error).__name__}: {error}"
        return CellResult(
            unjudged(plan, because, Knowledge()), directory, 0.0, {}
        )  # what failed is not asked again


def _failed(history: History) -> Iterator[str]:
    lives = history.of(kinds.Node)
    yield from dict.fromkeys(e.node for e in lives if e.phase == NodePhase.EXITED and e.status)


def _whole(plan: Plan, history: History, directory: Path) -> Judgement:
    """Judge a history, and void it if it lacks what it held at the cell's end.

    Of a cell that was cut short the reason is told rather than that its end is missing.
    """
    known = knowledge(plan)
    judgement = judge(plan, history, known)
    missing = tuple(differences(read_files(directory / HISTORY))) if plan.ends else ()
    if not missing or (missing == (NO_END,) and judgement.verdict.kind is Kind.VOID):
        return judgement
    return judge(plan, replace(history, damage=(*history.damage, *missing)), known)


def with_deaths(judgement: Judgement, history: History, directory: Path) -> Judgement:
    """Add to a verdict's reason which programs ended by themselves, and what they said then.

    This decides nothing. A program's log is read because it says what no line of a history does:
    the fatal error of a client library, or the last words of a program.
    """
    reason = judgement.verdict.reason
    told = {death.node: death for death in deaths(history.events)}
    stages = {
        event.node: event.role
        for event in history.of(kinds.Node)
        if event.role not in {*BROKERS, Role.DATABASE}
    }
    for node in dict.fromkeys((*told, *stages)):
        text = log_text(directory, node)
        fatal = [*map(masked, fatal_lines(text)[-1:])] if node in stages else []
        if node not in told and not fatal:
            continue
        said = fatal or last_lines(text)[-1:]
        words = said[0].strip()[: kinds.MOST_WORDS] if said else ""
        if node in told:
            reason += f"; {told[node].words}"
            opens = "its client's fatal error" if fatal else "its log ends"
        else:
            opens = f"the {node}'s client told a fatal error"
        if words and words not in reason:
            reason += f"{': ' if node in told else '; '}{opens}: {words}"
    if reason == judgement.verdict.reason:
        return judgement
    verdict = dataclasses.replace(judgement.verdict, reason=reason)
    return dataclasses.replace(judgement, verdict=verdict)


def load_run(directory: Path, judged: Mapping[str, CellResult] | None = None) -> SavedRun:
    """Read a saved run and judge its cells. Cells in ``judged`` (by id) are not judged again.

    Raises:
        SavedRunError: the folder is not a saved run.
    """
    info = RunInfo.load(directory)
    known = {result.directory: result for result in (judged or {}).values()}
    try:
        results = tuple(known.get(folder) or judge_cell(folder) for folder in _cells(directory))
    except PlanError as error:
        raise SavedRunError(str(error)) from error
    order = {cell: number for number, cell in enumerate(info.planned)}
    results = tuple(sorted(results, key=lambda result: order.get(result.plan.id, len(order))))
    ran = {result.plan.id for result in results}
    return SavedRun(
        directory, info, results, tuple(cell for cell in info.planned if cell not in ran)
    )


def _cells(directory: Path) -> list[Path]:
    """Return the folders of a run's cells, sorted.

    Raises:
        SavedRunError: one of them is a link: what it shows is no part of the run.
    """
    try:
        if links := safe_files.links(directory, CELLS):
            raise SavedRunError(
                f"{directory / CELLS / links[0]} is a symbolic link, which lostack does not "
                "follow: copy the folder there"
            )
        names = safe_files.folders(directory, CELLS)
    except OSError as error:
        raise SavedRunError(f"cannot read {directory / CELLS}: {error.strerror}") from error
    return [
        directory / CELLS / name
        for name in names
        if safe_files.exists(directory, f"{CELLS}/{name}/{PLAN_FILE}")
    ]


def _ended(history: History) -> bool:
    """Return whether a cell ran to its end, with any result."""
    cut = any(event.because == INTERRUPTED for event in history.of(kinds.Failed))
    return not cut and any(event.phase == CellPhase.ENDED for event in history.of(kinds.Cell))


def _timing(history: History) -> tuple[float, dict[str, float]]:
    """Return the seconds of the whole cell, and the seconds of each phase (since the
    phase before).
    """
    marks = [(str(event.phase), event.t) for event in history.of(kinds.Cell)]
    phases = {name: (t - before) / 1e9 for (_, before), (name, t) in itertools.pairwise(marks)}
    return (marks[-1][1] - marks[0][1]) / 1e9 if marks else 0.0, phases


__all__ = [
    "CellResult",
    "Kind",
    "NotRun",
    "RunInfo",
    "SavedRun",
    "SavedRunError",
    "judge_cell",
    "load_run",
]
