"""Shrinking: finds the smallest scenario that shows a finding again in three of three runs."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from harness.controls import OnWire
from harness.model import safe_files
from harness.model.cell import LEAST_RECORDS
from harness.model.history import HISTORY, HistoryError, read_history
from harness.sweep import SUFFIX
from harness.sweep.acts import LATE_NEXT, LATE_NEXT_KILL, LOSE, REFUSE
from harness.sweep.found import FoundScenario, slug
from harness.sweep.pipelines import consumers_of, fewest_of, loaded, partitions_of
from harness.sweep.settings import FOUND
from harness.sweep.signature import signature_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from harness.matrix.listener import Progress
    from harness.sweep.outcomes import Finding, Outcomes
    from harness.sweep.sweeping import Sweep

TIMES = 3
"""How many times a smaller scenario is run. It must show the finding each time."""
BEHIND = 3
"""Minimum number of records behind the one at which the fault strikes."""


def found_of(sweep: Sweep, finding: Finding) -> FoundScenario:
    """Return the scenario of the point that shows a finding, as it was run in the sweep."""
    point, asked = finding.first.point, sweep.settings
    position = next(
        record.position for record in sweep.base.load().records if record.id == point.step.at
    )
    return FoundScenario(
        name=slug(point.id),
        because=point.because,
        seed=asked.seed,
        records=sweep.base.records,
        position=position,
        fault=point.happens,
        then=None if point.second is None else point.second[1],
        pipeline="" if asked.declared else asked.what,
        declaration=asked.what if asked.declared else "",
        client=asked.client,
        system=asked.system,
        like=asked.like,
        signature=finding.signature.text(),
    )


def shrink_all(
    sweep: Sweep, outcomes: Outcomes, usual: frozenset[str], progress: Progress, until: float | None
) -> None:
    """Shrink every finding and save its scenario, those with most points first. Skip findings that
    were shrunk already.

    After ``until`` (monotonic s), save the rest as they were found, without shrinking.
    """
    for finding in outcomes.findings():
        saved = saved_of(sweep, finding)
        late = until is not None and time.monotonic() >= until
        if saved and (late or saved.tried):
            continue
        (found_of(sweep, finding) if late else shrink(sweep, finding, usual, progress)).save(
            sweep.directory, _name(finding)
        )


def file_of(sweep: Sweep, finding: Finding) -> Path:
    """Return the path of a finding's scenario file."""
    return sweep.directory / _name(finding)


def _name(finding: Finding) -> str:
    """Return that path from the sweep's folder."""
    return f"{FOUND}/{slug(finding.first.point.id)}.toml"


def saved_of(sweep: Sweep, finding: Finding) -> FoundScenario | None:
    """Return the scenario file of a finding, or ``None`` if there is none.

    Raises:
        UsageError: it is not a scenario.
    """
    there = safe_files.exists(sweep.directory, _name(finding))
    return FoundScenario.load(file_of(sweep, finding), sweep.directory) if there else None


def keep_all(sweep: Sweep, outcomes: Outcomes, folder: Path) -> tuple[Path, ...]:
    """Copy every finding's scenario into a folder of the user's project, where pytest collects it;
    return the files.
    """
    # others have points of the same names
    of = f"{sweep.base.pipeline} {sweep.base.semantic} {sweep.base.client}"
    found = [one for finding in outcomes.findings() if (one := saved_of(sweep, finding))]
    return tuple(one.save(folder, f"{slug(f'{of} {one.file.stem}')}{SUFFIX}") for one in found)


def smaller(
    found: FoundScenario, partitions: int, consumers: int, fewest: int = LEAST_RECORDS
) -> Iterator[tuple[str, FoundScenario]]:
    """Yield smaller scenarios, each simpler in one respect, which is named.

    ``partitions``: how many its topics have; ``consumers``: how many consumers it has; ``fewest``:
    how many records its load has at least.
    """
    if found.then is not None:
        yield "one fault", replace(found, then=None)
    if found.records > fewest and found.position + BEHIND <= fewest:
        yield f"{fewest} records", replace(found, records=fewest)
    if partitions > 1 and not found.partitions:
        yield "one partition", replace(found, partitions=1)
    if consumers > 1 and not found.consumers:
        yield "one consumer", replace(found, consumers=1)
    if found.fault.act == LATE_NEXT_KILL:
        yield "no process killed", replace(found, fault=replace(found.fault, act=LATE_NEXT))
    elif (
        found.fault.act != LOSE
        and not found.fault.act.startswith(REFUSE)
        and isinstance(found.fault.at, OnWire)
    ):
        yield "a frame lost", replace(found, fault=replace(found.fault, act=LOSE, into=None))


def shrink(
    sweep: Sweep, finding: Finding, usual: frozenset[str], progress: Progress
) -> FoundScenario:
    """Return the smallest scenario that shows a finding. Each simplification is tried alone, then
    all that worked together.

    If they do not work together, only the first one is kept.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed.
    """
    whole = found_of(sweep, finding)
    base = sweep.base
    less = smaller(whole, partitions_of(base), consumers_of(base), fewest_of(base))
    tried = {"": whole, **dict(less)}
    progress.say(
        f"shrinking {whole.name}: "
        f"{', '.join(name for name in tried if name) or 'nothing can be left out'}"
    )
    counts = _came_back(sweep, tried, finding, usual, progress)
    able = [name for name, count in counts.items() if name and count == TIMES]
    best, by = whole, able
    for name in able:
        best = _merged(best, tried[name], whole)
    if (
        len(able) > 1
        and _came_back(sweep, {"together": best}, finding, usual, progress)["together"] < TIMES
    ):
        best, by = tried[able[0]], able[:1]
    return replace(best, came_back=TIMES if by else counts[""], tried=TIMES, without=tuple(by))


def _merged(best: FoundScenario, other: FoundScenario, whole: FoundScenario) -> FoundScenario:
    """Return a scenario that also leaves out what another one leaves out."""
    names = ("then", "records", "partitions", "consumers", "fault")
    return replace(
        best,
        **{
            name: getattr(other, name)
            for name in names
            if getattr(other, name) != getattr(whole, name)
        },
    )


def _came_back(
    sweep: Sweep,
    tried: Mapping[str, FoundScenario],
    finding: Finding,
    usual: frozenset[str],
    progress: Progress,
) -> dict[str, int]:
    """Return how often each scenario showed a finding, of three runs."""
    cells = {}
    for name, found in tried.items():
        base = loaded(sweep.base, found.records, found.partitions, found.consumers)
        for number in range(1, TIMES + 1):
            cell = found.cell(base, f"{found.name}~{slug(name) or 'whole'}~{number}")
            cells[cell.scenario.id] = name, cell
    results = sweep.run_cells([cell for _, cell in cells.values()], progress)
    counts = dict.fromkeys(tried, 0)
    for result in results:
        name, _ = cells[result.plan.scenario]
        with suppress(HistoryError):  # without one it has shown nothing
            shown = signature_of(
                result, read_history(result.directory / HISTORY, result.plan.id), usual
            )
            counts[name] += shown.without(finding.ordinary) == finding.signature.without(
                finding.ordinary
            )
    return counts
