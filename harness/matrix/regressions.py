"""Trials of published bugs: a version that has the bug must be convicted, one without
it acquitted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness import registry
from harness.judge.verdict import Kind
from harness.matrix.selection import choose
from harness.model.cell import system_name
from harness.report.breaks import BreakComparison
from harness.scenarios.regressions import CORPUS, PublishedBug

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from harness.model.cell import Cell
    from harness.saved import CellResult
    from harness.scenarios.regressions import Trial


@dataclass(frozen=True, slots=True)
class Ruling:
    """The outcome of one trial: how many of its runs agree with the corpus, and the reason of the
    first that does not.
    """

    bug: str
    convicts: bool
    trial: Trial
    agreed: int
    runs: int
    differs: str | None

    def text(self) -> str:
        """Return the outcome as one line."""
        word = "convicted" if self.convicts else "acquitted"
        head = "✔" if self.agreed == self.runs else "✘ not"
        line = (
            f"{self.bug:<20} {head} {word} {self.agreed} of {self.runs}  "
            f"{self.trial.programs:<24} {self.trial.cell}"
        )
        return f"{line}: {self.differs}" if self.differs else line


def corpus() -> tuple[PublishedBug, ...]:
    """Return all published bugs: lostack's own, and those of packages."""
    return (*CORPUS, *registry.declared_in("corpus", PublishedBug))


def needs_extra(bug: PublishedBug) -> bool:
    """Say whether this is a bug of an engine, or of a system that needs an extra of lostack. Such a
    system is fetched only if its bug is named.
    """
    named = {each.name for each in registry.declared() if each.extra} | {*registry.engines()}
    return any(system_name(trial.system) in named for trial in bug.trials)


def cells_of(bugs: Iterable[PublishedBug], seeds: Sequence[int]) -> tuple[Cell, ...]:
    """Return the cells of every trial.

    Raises:
        SelectionError: the corpus names a cell that does not exist.
    """
    scenarios = registry.scenarios()
    found: dict[str, Cell] = {}
    for bug in bugs:
        for trial in bug.trials:
            meant = choose(
                scenarios,
                only=[f"{trial.cell}/*"],
                seeds=seeds,
                system=trial.system,
                clients=[trial.client],
            )
            found |= {cell.id: cell for cell in meant}
    return tuple(found.values())


def rulings(bugs: Iterable[PublishedBug], results: Sequence[CellResult]) -> Iterator[Ruling]:
    """Yield the outcome of each trial."""
    for bug in bugs:
        for trial in bug.trials:
            mine = [one for one in results if _is_of(one, trial)]
            agreed = [one for one in mine if _agrees(one, trial)]
            differs = next(
                (one.verdict.reason for one in mine if one not in agreed),
                None if mine else "it was not run",
            )
            yield Ruling(bug.id, trial in bug.convicts, trial, len(agreed), len(mine), differs)


def disagreements(bugs: Iterable[PublishedBug], results: Sequence[CellResult]) -> BreakComparison:
    """Return the results that differ from the corpus, as new breaks. An expected conviction is no
    break.
    """
    trials = [trial for bug in bugs for trial in bug.trials]
    return BreakComparison(
        tuple(
            one
            for one in results
            if any(_is_of(one, each) and not _agrees(one, each) for each in trials)
        ),
        (),
        (),
    )


def _is_of(result: CellResult, trial: Trial) -> bool:
    return f"/{trial.system}/{trial.client}/{trial.cell}/" in f"/{result.plan.id}/"


def _agrees(result: CellResult, trial: Trial) -> bool:
    """Whether verdict and reason are those of the corpus. A broken cell must be broken exactly as
    predicted.
    """
    verdict = result.verdict
    if not re.search(trial.reason, verdict.reason):
        return False
    return verdict.kind is trial.verdict and (
        verdict.as_predicted or trial.verdict is not Kind.BROKEN
    )
