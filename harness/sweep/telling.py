"""The output of a sweep: its plan and summary as lines, its JSON, its page."""

from __future__ import annotations

import functools
import itertools
import json
import os
import shlex
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from harness.judge.verdict import Kind
from harness.matrix.checking import at_once
from harness.model import safe_files
from harness.model.exits import ExitCode
from harness.model.failures import UsageError
from harness.pipelines.cells import DeclaredCell
from harness.report.summary import counted
from harness.sweep.acts import words
from harness.sweep.cells import at_point
from harness.sweep.classes import RunReason
from harness.sweep.outcomes import line_of, merged
from harness.sweep.page import PAGE_FILE, Again, SweepReport, page_of
from harness.sweep.parting import counterfactual
from harness.sweep.pipelines import sweep_of
from harness.sweep.planning import RESULT_FILE
from harness.sweep.reached import SweepProgress, reached
from harness.sweep.settings import SweepSettings
from harness.sweep.shrinking import file_of, saved_of
from harness.sweep.steps import FAILPOINT, WRITE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from harness.sweep.found import FoundScenario
    from harness.sweep.outcomes import Finding, Outcome, Outcomes
    from harness.sweep.parting import Counterfactual
    from harness.sweep.planning import Planned
    from harness.sweep.points import Point
    from harness.sweep.sweeping import Sweep

SCHEMA = 1
SHOWN = 12
"""How many points of a finding, and how many protocol states, are named."""
BROKER_S = 8.0
"""How many seconds longer a cell takes in which a broker dies and comes back: an estimate."""


@dataclass(frozen=True, slots=True)
class SweepSummary:
    """The summary of a sweep: its lines and its exit code."""

    lines: tuple[str, ...]
    exit_code: ExitCode


def plan_lines(sweep: Sweep, planned: Planned, left_s: float | None) -> Iterator[str]:
    """Yield lines about what the dry runs have shown, and which points will be run."""
    steps = planned.steps
    for about, word in ((True, "about a record"), (False, "about none")):
        if steps.named.get(about):
            yield (
                f"  {steps.recurred.get(about, 0)} of {steps.named[about]} frames {word} have "
                "the same name in all three runs"
            )
    yield (
        (
            f"  {counted(steps.early, 'frame')} before the first record of its process: no fault "
            "can be placed there"
        )
        if steps.early
        else "  no frame before the first record"
    )
    for direction, of in ((FAILPOINT, "failpoints"), (WRITE, "durable writes behind a record")):
        inside = dict.fromkeys(
            f"{each.role} {each.api}" for each in planned.classes if each.direction == direction
        )
        if inside:
            yield f"  {of}: {', '.join(inside)}"
    whys = Counter(why for _, why in planned.chosen)
    part = (
        ""
        if sweep.settings.shard == (1, 1)
        else f", of which this is part {'/'.join(map(str, sweep.settings.shard))}"
    )
    yield (
        f"{steps.frames} frames, {len(steps.found)} steps, {planned.points} points, "
        f"{len(planned.classes)} classes; to be run: {whys[RunReason.FIRST]} first, "
        f"{whys[RunReason.LAST]} last, {whys[RunReason.SAMPLE]} sampled{part}"
    )
    for because, count in Counter(because for _, because in planned.inapplicable).items():
        yield f"  {counted(count, 'point')} not possible: {because}"
    done = sweep.outcomes(planned).done
    left = [point for point, _ in planned.chosen if point.id not in done]
    seconds = _estimate_s(sweep, planned, left)
    if isinstance(sweep.base, DeclaredCell):
        yield f"  {at_once(sweep.settings.jobs, sweep.alone)}"
    known = f"; {len(done)} of them were run before" if done else ""
    if left_s is None or seconds <= max(left_s, 0.0):
        yield f"  that takes about {seconds / 60:.0f} minutes{known}"
    else:
        yield (
            f"  the time is enough for about {len(left) * max(left_s, 0.0) / seconds:.0f} of "
            f"{len(left)} points{known}"
        )


def _estimate_s(sweep: Sweep, planned: Planned, points: Sequence[Point]) -> float:
    """Return an estimate of how long points take, in seconds."""
    brokers = sum(point.kills_broker for point in points)
    return len(points) * planned.seconds / sweep.settings.jobs + brokers * BROKER_S / min(
        2, sweep.settings.jobs
    )


def summary_of(sweep: Sweep, planned: Planned, outcomes: Outcomes) -> SweepSummary:
    """Return the summary's lines and the exit code. A sweep with points that are still to be run is
    partial, and not kept.
    """
    findings, far = outcomes.findings(), _reached(planned, outcomes)
    lines = ["", f"{sweep.settings.what}: {line_of(planned.steps.frames, outcomes)}"]
    seconds = sum(one.seconds for one in outcomes.all)
    if outcomes.all:
        lines.append(f"  {seconds / len(outcomes.all):.1f} s a point")
    lines += _reach_lines(sweep, far)
    for number, finding in enumerate(findings, 1):
        lines += finding_lines(number, finding)
        lines += [f"    {line}" for line in _compared(sweep, outcomes, finding).lines()]
        lines += _scenario_lines(saved_of(sweep, finding))
    for each, points in outcomes.deviations().items():
        lines.append(f"  deviation: {each}: {', '.join(point.id for point in points[:SHOWN])}")
    for one in outcomes.unproved[:SHOWN]:
        lines.append(f"  without proof: {one.point.id}: {one.reason}")
    if ended := [one for one in outcomes.unproved if one.ended]:
        lines.append(
            f"  {counted(len(ended), 'point')} ended a program without a supervisor: "
            f"{ended[0].point.id}, ..."
        )
    if not findings:
        lines.append("  no finding")
    broken = any(finding.signature.verdict == Kind.BROKEN for finding in findings)
    unseen = outcomes.unseen() if sweep.settings.shard == (1, 1) and not far.partial else ()
    if unseen:
        lines.append(
            f"  {len(unseen)} of {len(outcomes.classes)} classes have no point with a proof: "
            f"{unseen[0]}{', …' if len(unseen) > 1 else ''}"
        )
    wanting = bool(findings or unseen or far.partial or not any(one.proved for one in outcomes.all))
    return SweepSummary(
        tuple(lines), ExitCode.BROKEN if broken else ExitCode.VOID if wanting else ExitCode.KEPT
    )


def _reach_lines(sweep: Sweep, far: SweepProgress) -> Iterator[str]:
    """Yield how far a sweep has come, and why it has not come further."""
    yield f"  reached: {far.sentence}"
    if unstruck := far.of_states(struck=False):
        more = "; …" if len(unstruck) > SHOWN else ""
        yield f"  protocol states never struck: {'; '.join(unstruck[:SHOWN])}{more}"
    if sweep.ran_dry:
        yield (
            f"  ended by --until-dry: {sweep.until_dry} points in turn struck no new protocol "
            "state and had no new outcome"
        )
    if far.partial:
        yield f"  {partial_text(far)} (lostack sweep --resume FOLDER runs them)"


def _reached(planned: Planned, outcomes: Outcomes) -> SweepProgress:
    return reached(planned.steps, outcomes, (point for point, _ in planned.chosen))


def partial_text(far: SweepProgress) -> str:
    """Say that a sweep is partial, and how many of its points are still to be run."""
    return f"PARTIAL: {counted(far.left, 'point')} still to be run"


def finding_lines(number: int, finding: Finding) -> Iterator[str]:
    """Yield the lines of a finding: its outcome, its classes, and one point in words."""
    yield (
        f"  finding {number}: {finding.signature.text()} ({counted(len(finding.points), 'point')})"
    )
    yield f"    {finding.first.point.because}"
    yield f"    {finding.first.reason}"
    others = [one.point.id for one in finding.points if one is not finding.first]
    named = [finding.first.point.id, *others[: SHOWN - 1]]
    yield f"    {', '.join(named)}{', …' if len(finding.points) > SHOWN else ''}"


def _scenario_lines(found: FoundScenario | None) -> Iterator[str]:
    """Yield how a finding is run again, and what was left out of it."""
    if found is None:
        return
    less = f", with {', '.join(found.without)}" if found.without else ""
    yield f"    {found.again}{less}"
    yield f"    again: lostack run --scenario {shlex.quote(os.path.relpath(found.file))}"


def as_json_text(sweep: Sweep, planned: Planned, outcomes: Outcomes, told: SweepSummary) -> str:
    """Return the outcomes of a sweep as JSON text."""
    return json.dumps(plain_of(sweep, planned, outcomes, told), indent=1) + "\n"


def plain_of(
    sweep: Sweep, planned: Planned, outcomes: Outcomes, told: SweepSummary
) -> dict[str, object]:
    """Return the outcomes of a sweep as plain data."""
    steps, far = planned.steps, _reached(planned, outcomes)
    return {
        "schema": SCHEMA,
        "what": sweep.settings.what,
        "claims": str(sweep.base.semantic),
        "client": sweep.base.client,
        "system": sweep.base.system,
        "seed": sweep.settings.seed,
        "shard": list(sweep.settings.shard),
        "exit_code": int(told.exit_code),
        "frames": steps.frames,
        "early": steps.early,
        "reached": far.row(),
        "steps": [
            {"name": str(step), "words": words(step), "reached": str(far.steps[step])}
            for step, _ in steps.found
        ],
        "points": planned.points,
        "classes": [
            {"class": str(each), "points": [point.id for point in inside]}
            for each, inside in planned.classes.items()
        ],
        "chosen": len(planned.chosen),
        "outcomes": [_outcome(sweep.directory, one) for one in outcomes.all],
        "deviations": {
            str(each): [point.id for point in points]
            for each, points in outcomes.deviations().items()
        },
        "findings": [_finding(sweep, outcomes, finding) for finding in outcomes.findings()],
    }


def _compared(sweep: Sweep, outcomes: Outcomes, finding: Finding) -> Counterfactual:
    cell = at_point(sweep.base, finding.first.point)
    return counterfactual(finding, outcomes.all, cell, sweep.saved.dry_runs())


def _finding(sweep: Sweep, outcomes: Outcomes, finding: Finding) -> dict[str, object]:
    return {
        "signature": finding.signature.to_json(),
        "because": finding.first.point.because,
        "reason": finding.first.reason,
        "points": [one.point.id for one in finding.points],
        "scenario": _scenario(sweep, finding),
        "counterfactual": _compared(sweep, outcomes, finding).plain(),
    }


def _scenario(sweep: Sweep, finding: Finding) -> str | None:
    file = file_of(sweep, finding)
    name = str(file.relative_to(sweep.directory))
    return name if safe_files.exists(sweep.directory, name) else None


def _outcome(directory: Path, one: Outcome) -> dict[str, object]:
    return {
        "point": one.point.id,
        "why": str(one.why),
        "class": str(one.planned),
        "hit": str(one.where),
        "proved": one.proved,
        "reason": one.reason,
        "signature": one.signature.to_json(),
        "seconds": round(one.seconds, 3),
        "cell": os.path.relpath(one.directory, directory),
    }


def report_of(directories: Sequence[Path]) -> SweepSummary:
    """Report on a saved sweep again, or on its parts as one. The files are written into the first
    folder.

    Raises:
        UsageError: a folder is not a sweep, the folders belong to different sweeps, or nothing was
            run yet.
    """
    sweeps = [sweep_of(SweepSettings.load(directory), directory) for directory in directories]
    first = sweeps[0]
    for other in sweeps[1:]:
        if _points_of(other.settings) != _points_of(first.settings):
            raise UsageError(
                f"{other.directory} is not a part of the sweep in {first.directory}: it has "
                "other options"
            )
    plans = [each.planned() for each in sweeps]
    found = [each.outcomes(planned) for each, planned in zip(sweeps, plans, strict=True)]
    outcomes = functools.reduce(merged, found)
    turns = itertools.zip_longest(
        *(
            plan.chosen
            for _, plan in sorted(
                zip(sweeps, plans, strict=True), key=lambda part: part[0].settings.shard
            )
        )
    )
    chosen = {one[0].id: one for turn in turns for one in turn if one is not None}
    both = replace(plans[0], chosen=tuple(chosen.values()))
    if (
        len({each.settings.shard[0] for each in sweeps}) == first.settings.shard[1]
    ):  # together they are the whole
        first.settings = replace(first.settings, shard=(1, 1))
    told = summary_of(first, both, outcomes)
    files = write_sweep(first, both, outcomes, told)
    return SweepSummary((*told.lines, *map(str, files)), told.exit_code)


def _points_of(asked: SweepSettings) -> SweepSettings:
    """Return the parts of a plan that decide which points there are."""
    return replace(asked, shard=(1, 1), command="", jobs=1)


def write_sweep(
    sweep: Sweep, planned: Planned, outcomes: Outcomes, told: SweepSummary
) -> tuple[Path, ...]:
    """Write a sweep's result and page into its folder; return the files."""
    files = {
        RESULT_FILE: as_json_text(sweep, planned, outcomes, told),
        PAGE_FILE: _page(sweep, planned, outcomes),
    }
    for name, text in files.items():
        safe_files.write_whole(sweep.directory, name, text)
    return tuple(sweep.directory / name for name in files)


def _page(sweep: Sweep, planned: Planned, outcomes: Outcomes) -> str:
    asked, far = sweep.settings, _reached(planned, outcomes)
    facts = {
        "claims": str(sweep.base.semantic),
        "client": sweep.base.client,
        "seed": str(asked.seed),
        "points": line_of(planned.steps.frames, outcomes),
        "command": asked.command,
    }
    again = {
        finding.first.point.id: Again(
            f"lostack run --scenario {name}" if (name := _scenario(sweep, finding)) else "",
            tuple(_compared(sweep, outcomes, finding).lines()),
        )
        for finding in outcomes.findings()
    }
    return page_of(asked.what, facts, SweepReport(planned.steps, outcomes, far), again)
