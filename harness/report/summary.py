"""The summary of a run: how many cells of each outcome, one sentence, one exit code."""

from __future__ import annotations

import dataclasses
import shlex
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from harness.model.exits import ExitCode

if TYPE_CHECKING:
    from harness.judge.verdict import Verdict
    from harness.model.plan import Plan
    from harness.saved import SavedRun

DEFAULT_SYSTEMS = ("kafka", "spark")
DEFAULT_CLIENTS = ("kafka-python", "spark-sql-kafka", "none")
DECLARED = "declared"
"""The system that runs the pipelines that users bring."""
SWEEP = "sweep"
"""The group of the cells that a sweep makes."""
SIMULATED = "simulated"
"""The version of a system that is a simulation: its results say something about the harness only.
"""


class Outcome(StrEnum):
    """The outcome of a cell. Every cell that ran has exactly one; only the first two are green."""

    KEPT = "kept"
    CONVICTED = "convicted"
    BROKEN = "broken"
    NOT_CONVICTED = "not convicted"
    VOID = "void"
    STUCK = "stuck"


GREEN = frozenset({Outcome.KEPT, Outcome.CONVICTED})
SIGNS = {
    Outcome.KEPT: "✔",
    Outcome.CONVICTED: "⚖",
    Outcome.BROKEN: "✘",
    Outcome.NOT_CONVICTED: "✘",
    Outcome.VOID: "∅",
    Outcome.STUCK: "◐",
}
"""Outcomes can be told apart without colour."""
WORST = (
    Outcome.NOT_CONVICTED,
    Outcome.BROKEN,
    Outcome.VOID,
    Outcome.STUCK,
    Outcome.CONVICTED,
    Outcome.KEPT,
)
"""From worst to best."""


def outcome(verdict: Verdict) -> Outcome:
    """Return the outcome of a cell.

    A control is green only if it is convicted as predicted. A control that is void or stuck proves
    nothing, like any other cell.
    """
    return Outcome(verdict.label)


@dataclass(frozen=True, slots=True)
class Summary:
    """A run in numbers. ``planned`` = ``ran`` or the run is partial; one that was cut short is
    partial, too.

    A cell that was cut short has not run: it is void, and not among ``ran``. ``interrupted``: by
    Ctrl-C, not by a kill.
    """

    planned: int
    ran: int
    kept: int
    broken: int
    convicted: int
    not_convicted: int
    void: int
    stuck: int
    not_applicable: int
    partial: bool
    interrupted: bool
    simulated: bool
    untried: int = 0
    """How many stages of a declared pipeline no cell kills."""
    no_effect: int = 0
    """How many of ``kept`` show no trace of their fault on its target."""
    own: bool = False
    """Whether all cells are of users' own pipelines, which have no controls."""

    @property
    def green(self) -> bool:
        """Whether everything planned was run, and every cell is green."""
        return self.exit_code == ExitCode.KEPT

    @property
    def exit_code(self) -> ExitCode:
        """The exit code: that of an interruption, or else that of the worst outcome."""
        if self.interrupted:
            return ExitCode.INTERRUPTED
        if self.broken or self.not_convicted:
            return ExitCode.BROKEN
        if self.void or self.stuck or self.partial or self.untried or not self.ran:
            return ExitCode.VOID
        return ExitCode.KEPT

    @property
    def sentence(self) -> str:
        """The summary in one sentence."""
        controls = f"{counted(self.convicted, 'control')} convicted"
        if self.not_convicted:
            controls += f" and {self.not_convicted} not"
        kept = f"{self.kept} kept" + (
            f" ({self.no_effect} with no effect seen)" if self.no_effect else ""
        )
        convicted = (
            () if self.own and not self.convicted and not self.not_convicted else (controls,)
        )
        parts = (
            kept,
            f"{self.broken} broken",
            *convicted,
            f"{self.void} void",
            f"{self.stuck} stuck",
        )
        runs = f"planned {self.planned} {'=' if self.planned == self.ran else '≠'} ran {self.ran}"
        words = f"{', '.join(parts)}; {runs}; {self.not_applicable} not applicable"
        if self.untried:
            words = f"{words}; {counted(self.untried, 'stage')} not tried"
        if self.simulated:
            words = f"SIMULATED, nothing real was crashed: {words}"
        return f"PARTIAL: {words}" if self.partial else words

    def row(self) -> dict[str, Any]:
        """Return the summary as plain data for ``report.json``."""
        said = {name: value for name, value in dataclasses.asdict(self).items() if name != "own"}
        return said | {"green": self.green, "exit_code": int(self.exit_code)}


def counted(number: int, word: str) -> str:
    """Return a number and a word, in the singular or plural.

    >>> counted(1, "seed"), counted(2, "seed")
    ('1 seed', '2 seeds')
    """
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def is_own(run: SavedRun) -> bool:
    """Say whether all cells of a run are of users' own pipelines."""
    return bool(run.results) and all(result.plan.system == DECLARED for result in run.results)


def is_simulated(run: SavedRun, system: str) -> bool:
    """Say whether a system of a run is a simulation, as the run itself says."""
    return run.info.versions.get(system) == SIMULATED


def summarise(run: SavedRun) -> Summary:
    """Count a run's outcomes."""
    counts = Counter(outcome(result.verdict) for result in run.results)
    ran = [result.plan.id for result in run.results if result.ended]
    return Summary(
        planned=len(run.info.planned),
        ran=len(ran),
        kept=counts[Outcome.KEPT],
        broken=counts[Outcome.BROKEN],
        convicted=counts[Outcome.CONVICTED],
        not_convicted=counts[Outcome.NOT_CONVICTED],
        void=counts[Outcome.VOID],
        stuck=counts[Outcome.STUCK],
        not_applicable=len(run.info.not_applicable),
        partial=not run.whole or sorted(ran) != sorted(run.info.planned),
        interrupted=run.info.interrupted,
        untried=len(run.info.untried),
        no_effect=sum(not result.verdict.effect for result in run.results),
        simulated=any(is_simulated(run, result.plan.system) for result in run.results),
        own=is_own(run),
    )


def rerun_line(plan: Plan) -> str:
    """Return the command that runs exactly this cell again. For a cell of a sweep it names the
    folder of the scenario's file.
    """
    if plan.group == SWEEP:
        return "lostack run --scenario FILE, one of those in the folder found of its sweep"
    if plan.system == DECLARED:
        return (
            f"lostack check {shlex.quote(plan.settings.get('file') or 'FILE')} --only "
            f"{plan.scenario} --seed {plan.seed}"
        )
    system = "" if plan.system in DEFAULT_SYSTEMS else f" --system {shlex.quote(plan.system)}"
    only = "'" + plan.id.replace("'", "'\"'\"'") + "'"
    runtime = "" if plan.runtime == "process" else f" --runtime {shlex.quote(plan.runtime)}"
    client = "" if plan.client in DEFAULT_CLIENTS else f" --client {shlex.quote(plan.client)}"
    return (
        f"lostack run --only {only} --seed {plan.seed} --records "
        f"{plan.offered}{system}{client}{runtime}"
    )
