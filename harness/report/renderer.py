"""What a renderer is, and the words they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from harness.saved import RunInfo, SavedRun


@dataclass(frozen=True, slots=True)
class Renderer:
    """One form of the report: its name, the name of its file, and a pure function from the run to the file's text."""

    name: str
    file: str
    render: Callable[[SavedRun], str]


HOW_WE_COUNT = tuple(
    """\
Lost: offered by the source and, with everything at rest, neither recorded in the sink, nor left in the source, \
nor left in the topic, nor stalled behind an open transaction. Late is not lost.
Duplicated: extra copies in the sink. What a semantic permits is counted all the same.
A cell is kept only if its fault is proved to have fired at its target, its victims died, there was load before and \
after, and the drain was completed. Otherwise it is void: it proves nothing, and is not green.
A control must be convicted of exactly what is predicted, or the suite proves nothing.
""".splitlines()
)


def not_tested(run: SavedRun) -> list[str]:
    """Say what this run does not speak of, from the run itself."""
    plans = [result.plan for result in run.results]
    seen = {
        name: ", ".join(sorted({str(getattr(plan, name)) for plan in plans})) or "none"
        for name in ("system", "client", "runtime", "pipeline")
    }
    said = [
        "What is no cell of the matrix was not tested: "
        + "; ".join(f"{name} {values} and no other" for name, values in seen.items()) + ".",
        f"{_seeds(run.info)} with {run.info.records} records a cell: a cell shows what its failure does, not how often it comes.",
    ]  # fmt: skip
    said += run.info.untried
    if run.missing:
        said.append(f"PARTIAL: {len(run.missing)} planned cells never began, and nothing is known of them.")
    if run.info.not_applicable:
        said.append(f"{len(run.info.not_applicable)} combinations cannot exist; each says why in the matrix (n/a).")
    return said


def _seeds(info: RunInfo) -> str:
    return "1 seed" if len(info.seeds) == 1 else f"{len(info.seeds)} seeds"


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
