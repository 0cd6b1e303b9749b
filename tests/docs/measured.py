"""The counts of committed runs, by cell and seed.

They come from the two ``report.json`` in ``reports/published``, of Kafka and Spark, and, of all
else, from ``reports/published/engines/*.json``, which :func:`keep` takes from the reports of runs.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from harness.report.summary import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable

PUBLISHED: Final = Path(__file__).parents[2] / "reports" / "published"
ENGINES: Final = PUBLISHED / "engines"
POINTS: Final = Path(__file__).parents[2] / "docs" / "points.json"
COUNTS: Final = ("lost", "duplicated", "left", "offered", "outcome")
LATER: Final = ("set_aside", "stalled")
"""Counts that a report of an older version does not have."""
OF_THE_MACHINE: Final = frozenset({"java", "python", "postgres", "toxiproxy"})
"""Versions that may differ between runs of one table."""

Measurement = dict[str, Any]


class CannotKeepError(Exception):
    """A run's counts cannot stand beside those that are committed."""


@cache
def measured() -> dict[str, dict[int, Measurement]]:
    """Return what was measured, by cell without runtime and seed, and by seed.

    Of a cell and seed that several have, the first of the files above counts, but for a run that
    was void where another was not.
    """
    found: dict[str, dict[int, Measurement]] = {}
    for file in (
        PUBLISHED / "report.json",
        PUBLISHED / "clients" / "report.json",
        *sorted(ENGINES.glob("*.json")),
    ):
        told = json.loads(file.read_text(encoding="utf-8"))
        for each in of_run(told) if "run" in told else told["cells"]:
            seeds = found.setdefault(each["name"], {})
            seeds[each["seed"]] = better(each, seeds.get(each["seed"]))
    return found


@cache
def as_predicted() -> dict[str, dict[int, bool]]:
    """Return, by cell and seed, whether it came out as predicted: of the common points also where
    no counts were kept.
    """
    read = json.loads(POINTS.read_text(encoding="utf-8"))
    return {
        name: {int(seed): right for seed, right in seeds.items()} for name, seeds in read.items()
    }


def better(other: Measurement | None, preferred: Measurement | None) -> Measurement:
    """Return which of two runs of a cell counts: the preferred one, unless it is void and the other
    one is not.
    """
    if other is None or preferred is None:
        found = other or preferred
        assert found is not None
        return found
    return other if proves_nothing(preferred) and not proves_nothing(other) else preferred


def proves_nothing(told: Measurement) -> bool:
    """Whether a run of a cell was void."""
    return Outcome(told["outcome"]) is Outcome.VOID


def of_run(told: Measurement) -> list[Measurement]:
    """Return the counts of a run's cells, from its ``report.json``; those that were cut off tell
    nothing.
    """
    day = told["run"]["started"][:10]
    return [
        {
            "name": "/".join(
                each[part] for part in ("system", "client", "pipeline", "scenario", "semantic")
            ),
            "seed": each["seed"],
            "day": day,
            **{count: each[count] for count in COUNTS},
            **{count: each[count] for count in LATER if count in each},
        }
        for each in told["cells"]
        if each["runtime"] == "process" and "observed" in each.get("phases", ("observed",))
    ]


def report_of(run: Path) -> Path:
    """Return the report of a run, which is named by its folder or by the report itself.

    Raises:
        CannotKeepError: there is none.
    """
    report = run if run.suffix == ".json" else run / "report.json"
    if not report.is_file():
        message = (
            f"{run} has no report.json: name the folder of a run that has ended, as `lostack "
            "run` prints it"
        )
        raise CannotKeepError(message)
    return report


def keep(runs: Iterable[Path]) -> list[str]:
    """Write the counts of runs into ``reports/published/engines``, a file for each system and
    client; return what was done.

    A later run of a cell and seed takes the place of the earlier one (:func:`better`).

    Raises:
        CannotKeepError: a run has no report, or is of other versions than what is committed.
    """
    done = []
    for run in runs:
        told = json.loads(report_of(run).read_text(encoding="utf-8"))
        files: dict[str, list[Measurement]] = {}
        for each in of_run(told):
            system, client = each["name"].split("/")[:2]
            files.setdefault(f"{system}-{client}.json", []).append(each)
        for name, cells in files.items():
            _add(ENGINES / name, cells, told["run"]["versions"])
            done.append(f"{run}: {len(cells)} cells into {name}")
    measured.cache_clear()
    return done


def _add(file: Path, new: list[Measurement], versions: dict[str, str]) -> None:
    old = (
        json.loads(file.read_text(encoding="utf-8"))
        if file.exists()
        else {"versions": {}, "cells": []}
    )
    for name in (old["versions"].keys() & versions.keys()) - OF_THE_MACHINE:
        if old["versions"][name] != versions[name]:
            message = (
                f"{file.name} has the counts of {name} {old['versions'][name]}, the run is of "
                f"{versions[name]}: delete the file to begin anew"
            )
            raise CannotKeepError(message)
    cells = {(each["name"], each["seed"]): each for each in old["cells"]}
    for each in new:
        at = (each["name"], each["seed"])
        cells[at] = better(cells.get(at), each)  # the later one
    lines = ",\n".join(f"  {json.dumps(cells[at], ensure_ascii=False)}" for at in sorted(cells))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(
        f'{{"versions": {json.dumps(old["versions"] | versions)},\n "cells": [\n{lines}\n]}}\n',
        encoding="utf-8",
    )
