"""Tables of what was measured: a line for each scenario, a column for each semantic.

What they show comes from committed runs: the two ``report.json`` in ``reports/published``, of Kafka and Spark, and, of all else,
``reports/published/engines/*.json``, the counts of cells, which :func:`keep` takes from the reports of runs.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from harness import registry
from harness.matrix.points import symbol
from harness.model.scenario import NotApplicable, Predicted
from harness.model.semantics import Semantic
from harness.report.summary import SIGNS, Outcome
from tests.docs.markdown import cell, columns

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.model.scenario import Scenario

PUBLISHED: Final = Path(__file__).parents[2] / "reports" / "published"
ENGINES: Final = PUBLISHED / "engines"
COUNTS: Final = ("lost", "duplicated", "left", "offered", "outcome")
_RAISED: Final = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")

Told = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Table:
    """The cells of one pipeline, by one client, in one group of scenarios."""

    system: str
    client: str
    pipeline: str
    group: str

    def scenarios(self) -> list[Scenario]:
        """Return its scenarios, in the order of their declaration."""
        wanted = (self.system, self.pipeline, self.group)
        return [
            each for each in registry.scenarios()
            if (each.pipeline.system, str(each.pipeline), each.group) == wanted
        ]  # fmt: skip

    def text(self) -> str:
        """Return the table, what its marks mean, and which run it is of."""
        found = [(each, {s: self._spot(each, s) for s in Semantic}) for each in self.scenarios()]
        rows = [(each, spots) for each, spots in found if any(spot.runs for spot in spots.values())]
        shown = [s for s in Semantic if any(spots[s].runs for _, spots in rows)]
        notes: dict[str, int] = {}
        lines = columns("scenario", *shown)
        for each, spots in rows:
            lines.append(f"| {each.id} | {' | '.join(spots[s].text(notes) for s in shown)} |")
        told = [f"{_raised(number)} {note}." for note, number in notes.items()]
        return "\n".join([*lines, "", *([" ".join(told), ""] if told else []), self._runs(lines)])

    def _spot(self, scenario: Scenario, semantic: Semantic) -> Spot:
        name = f"{self.system}/{self.client}/{self.pipeline}/{scenario.id}/{semantic}"
        theory = scenario.expectation(semantic, self.client, self.system) if semantic in scenario.expect else None
        return Spot(theory, measured().get(name))

    def _runs(self, lines: Iterable[str]) -> str:
        names = {each.id for each in self.scenarios()}
        start = f"{self.system}/{self.client}/{self.pipeline}/"
        known = [at for name, at in measured().items() if name.startswith(start) and name.split("/")[3] in names]
        seeds = sorted({each["seed"] for each in known})
        days = sorted({each["day"] for each in known})
        if not known:
            return "Nothing of this was run yet."
        rest = " *Predicted* (L lost, D duplicated): in no committed run." if any("*predicted" in line for line in lines) else ""
        return f"Lost / duplicated. Measured on {', '.join(days)}, seed {', '.join(map(str, seeds))}, {len(known)} cells.{rest}"


@dataclass(frozen=True, slots=True)
class Spot:
    """One cell of a table: what theory says, and what was measured."""

    theory: Any
    told: Told | None

    @property
    def runs(self) -> bool:
        """Whether there is something to run."""
        return self.theory is not None and not isinstance(self.theory, NotApplicable)

    def text(self, notes: dict[str, int]) -> str:
        """Return what it shows; a reason why it does not apply becomes a note."""
        if self.theory is None:
            return ""
        if isinstance(self.theory, NotApplicable):
            return f"n/a {_raised(notes.setdefault(cell(self.theory.because), len(notes) + 1))}"
        if not isinstance(self.theory, Predicted):
            return "refused by the client"
        if self.told is None:
            return f"*predicted {symbol(self.theory)}*"
        counts = f"{self.told['lost']} / {self.told['duplicated']}" if self.told["offered"] else "? / ?"
        left = f", {self.told['left']} left" if self.told["left"] else ""
        return f"{counts}{left} {SIGNS[Outcome(self.told['outcome'])]} {self.told['outcome']}"


def _raised(number: int) -> str:
    return str(number).translate(_RAISED)


@cache
def measured() -> dict[str, Told]:
    """Return what was measured, by cell without runtime and seed, at the lowest seed of each."""
    found: dict[str, Told] = {}
    for file in (PUBLISHED / "report.json", PUBLISHED / "clients" / "report.json", *sorted(ENGINES.glob("*.json"))):
        told = json.loads(file.read_text(encoding="utf-8"))
        for each in of_run(told) if "run" in told else told["cells"]:
            if each["name"] not in found or each["seed"] < found[each["name"]]["seed"]:
                found[each["name"]] = each
    return found


def of_run(told: Told) -> list[Told]:
    """Return the counts of a run's cells, from its ``report.json``; those that were cut off tell nothing."""
    day = told["run"]["started"][:10]
    return [
        {"name": "/".join(each[part] for part in ("system", "client", "pipeline", "scenario", "semantic")),
         "seed": each["seed"], "day": day, **{count: each[count] for count in COUNTS}}
        for each in told["cells"] if each["runtime"] == "process" and "observed" in each.get("phases", ("observed",))
    ]  # fmt: skip


def keep(runs: Iterable[Path]) -> None:
    """Write the counts of runs into ``reports/published/engines``, a file for each system and client.

    A later run of a cell and seed takes the place of the earlier one.
    """
    for run in runs:
        told = json.loads((run / "report.json").read_text(encoding="utf-8"))
        for each in of_run(told):
            system, client = each["name"].split("/")[:2]
            _add(ENGINES / f"{system}-{client}.json", each, told["run"]["versions"])
    measured.cache_clear()


def _add(file: Path, new: Told, versions: dict[str, str]) -> None:
    old = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {"cells": []}
    cells = {(each["name"], each["seed"]): each for each in old["cells"]} | {(new["name"], new["seed"]): new}
    lines = ",\n".join(f"  {json.dumps(cells[at], ensure_ascii=False)}" for at in sorted(cells))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f'{{"versions": {json.dumps(versions)},\n "cells": [\n{lines}\n]}}\n', encoding="utf-8")
