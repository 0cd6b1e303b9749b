"""The type of a renderer, and sentences that all renderers share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.report.summary import counted, is_own

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from harness.saved import RunInfo, SavedRun


@dataclass(frozen=True, slots=True)
class Renderer:
    """One form of the report: its name, the name of its file, and a pure function from the run to
    the file's text.
    """

    name: str
    file: str
    render: Callable[[SavedRun], str]


HOW_WE_COUNT = tuple(
    """\
Lost: a record that the source offered and that, with everything at rest, is not in the sink, the source \
or the topic, and not stalled behind an open transaction. A late record is not lost.
Duplicated: extra copies in the sink. Losses and duplicates are counted even if the semantic \
permits them.
A cell is kept only if the history proves that its fault fired at its target, its victims died, \
there was load before and after it, and the drain completed. Otherwise it is void: it proves nothing, and is not green.
A control must be convicted of exactly what is predicted, or the suite proves nothing.
""".splitlines()  # noqa: E501
)


def not_tested(run: SavedRun) -> list[str]:
    """Return sentences that say what this run did not test."""
    seeds = counted(len(run.info.seeds), "seed")
    of_seeds = (
        f"{seeds} with {run.info.records} records a cell: a cell shows what its failure does, "
        "not how often that happens."
    )
    scope = _own_scope() if is_own(run) else _scope(run)
    return [*scope, of_seeds, *run.info.untried, *_left(run)]


def _own_scope() -> Iterator[str]:
    yield (
        "These are the named failure points, each at one record. Failures at other steps were "
        "not tried (lostack sweep takes every step of a run)."
    )
    yield "No other commands, versions or machine than those of this run."


def _scope(run: SavedRun) -> Iterator[str]:
    plans = [result.plan for result in run.results]
    seen = {
        name: ", ".join(sorted({str(getattr(plan, name)) for plan in plans})) or "none"
        for name in ("system", "client", "runtime", "pipeline")
    }
    words = "; ".join(f"{name} {values} and no other" for name, values in seen.items())
    yield f"Only the cells of the matrix were tested: {words}."


def _left(run: SavedRun) -> Iterator[str]:
    if run.missing:
        yield f"PARTIAL: {len(run.missing)} planned cells never began; their outcome is unknown."


def facts(info: RunInfo) -> dict[str, str]:
    """Return what a reader needs to judge the numbers, by name."""
    return {
        "run": info.id,
        "started": info.started,
        "duration": f"{info.seconds:.1f} s",
        "seeds": ", ".join(str(seed) for seed in info.seeds),
        "records per cell": str(info.records),
        "versions": _listed(info.versions),
        "machine": _listed(info.machine),
        "command": info.command,
    }


def _listed(words: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in words.items()) or "not known"
