"""``lostack check --attach HOST:PORT --run COMMAND``: somebody's own test is the load."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from harness.cli.telling import complain, tell, tell_json_text, warn
from harness.matrix.room import new_run
from harness.model.exits import ExitCode
from harness.model.failures import CellFailure, UsageError
from harness.pipelines.refusing import nearest
from harness.proxy.upstream import host_and_port
from harness.systems.declared.brokers.listeners import is_loopback
from harness.trials.command import Command
from harness.trials.counting import ClaimResult
from harness.trials.trying import REPORT, Trial, TrialBaseline

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.model.semantics import Semantic
    from harness.trials.points import Point
    from harness.trials.trying import TriedPoint

SIGNS = {
    ClaimResult.KEPT: "✔",
    ClaimResult.BROKEN: "✘",
    ClaimResult.NOT_JUDGED: "?",
    ClaimResult.VOID: "∅",
}


@dataclass(frozen=True, slots=True)
class TryRequest:
    """What is asked for."""

    attach: str | None
    run: str
    claims: Semantic | None
    pattern: str | None
    only: tuple[str, ...]
    seed: int
    reports: Path
    remote: bool


def try_test(asked: TryRequest, *, long: bool, explain: bool, as_json: bool) -> ExitCode:
    """Run somebody's test behind the wire, at each point that a wire can have.

    Raises:
        UsageError: an option is wrong, or nothing came through the wire.
    """
    trial = _trial(asked)
    say: Callable[[str], None] = complain if as_json else tell
    command = shlex.join(["lostack", *sys.argv[1:]])
    learnt: TrialBaseline | None = None
    partial = True
    try:
        say("two runs without a fault")
        learnt = trial.learn()
        points, rest = _chosen(learnt, asked.only, long=long)
        _tell_plan(trial, learnt, points, rest, say)
        if explain:
            for point in points:
                say(f"  {point.id}: {point.because}")
            partial = False
            return ExitCode.KEPT
        for number, point in enumerate(points, 1):
            tried = trial.attempt(point, learnt)
            say(f"[{number:>{len(str(len(points)))}}/{len(points)}] {_line(tried)}")
            trial.save(command, learnt, partial=number < len(points))
        partial = False
    except CellFailure as error:
        warn(str(error), f"saved: {os.path.relpath(trial.folder)}")
        return ExitCode.VOID
    except KeyboardInterrupt:
        complain(f"interrupted: {len(trial.tried)} points were tried")
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    finally:
        trial.save(command, learnt, partial=partial)
    _tell_all(trial, say)
    if as_json:
        tell_json_text((trial.folder / REPORT).read_text(encoding="utf-8"))
    return trial.code


def _trial(asked: TryRequest) -> Trial:
    if asked.attach is None:
        raise UsageError("--run needs --attach HOST:PORT: the Kafka that your test uses")
    if asked.claims is None:
        raise UsageError(
            "--run needs --claims: at-most-once, at-least-once or exactly-once, as your programs "
            "promise"
        )
    host, _ = host_and_port(asked.attach)
    if not is_loopback(host) and not asked.remote:
        raise UsageError(f"{host} is another machine: give --attach-remote if that is meant")
    if asked.pattern is not None:
        try:
            groups = re.compile(asked.pattern).groups
        except re.error as error:
            raise UsageError(f"--id {asked.pattern!r} is no regular expression: {error}") from error
        if groups > 1:
            raise UsageError(f"--id {asked.pattern!r} has {groups} groups: make others (?:…)")
    command = Command(asked.run, Path.cwd())
    folder = new_run(asked.reports)
    return Trial(command, asked.attach, asked.claims, folder, asked.seed, asked.pattern)


def _chosen(
    learnt: TrialBaseline, only: Sequence[str], *, long: bool
) -> tuple[list[Point], list[Point]]:
    """Return the points that are tried, and those that would wait long.

    Raises:
        UsageError: there is no such point.
    """
    if only:
        by = {point.id: point for point in learnt.points}
        for name in only:
            if name not in by:
                raise UsageError(f"--only {name}: no such point: {nearest(name, by)}")
        return [by[name] for name in only], []
    tried = [point for point in learnt.points if long or not point.waits_s]
    return tried, [point for point in learnt.points if point not in tried]


def _tell_plan(
    trial: Trial,
    learnt: TrialBaseline,
    points: Sequence[Point],
    rest: Sequence[Point],
    say: Callable[[str], None],
) -> None:
    for kind, topic in learnt.usual.items():
        seen = "each was read" if topic.read else "not each was read"
        say(f"  {kind}: {topic.offered} records, {seen}")
    each = max((trial.within_s(point, learnt) for point in points), default=0.0)
    about = len(points) * learnt.seconds + sum(point.waits_s for point in points)
    say(
        f"{len(points)} points, each a run of {learnt.seconds:.1f} s, two if the test fails: "
        f"about {about:.0f} s, if no fault costs time; a run is ended after {each:.0f} s"
    )
    if rest:
        names = ", ".join(point.id for point in rest)
        say(f"not run without --all: {names}; each waits for its client's request time-out")


def _line(tried: TriedPoint) -> str:
    seconds = f"{tried.run.ended.seconds:.1f} s"
    return (
        f"{SIGNS[tried.word]} {tried.word:<10} {tried.point.id}  {seconds}  {tried.reason}; "
        f"the test: {tried.result}"
    )


def _tell_all(trial: Trial, say: Callable[[str], None]) -> None:
    for tried in trial.tried:
        if tried.code is ExitCode.KEPT:
            continue
        say("")
        test = ", the test fails with this fault" if tried.failing else ""
        say(f"{tried.word.upper()}{test}  {tried.point.id}")
        say(f"  {tried.reason}")
        say(f"  {tried.point.because}")
        say(f"  the test: {tried.result}")
        if tried.run.ended.code != 0:
            say(f"  it said: {tried.run.ended.said}")
        say(f"  saved: {os.path.relpath(trial.folder / tried.point.id)}")
    words = Counter(tried.word for tried in trial.tried)
    said = [f"{count} {word}" for word, count in words.items()]
    failing = sum(tried.failing for tried in trial.tried)
    said += [f"the test fails at {failing} and passes without a fault"] if failing else []
    say("")
    say(f"{len(trial.tried)} points: {', '.join(said) or 'none'}")
    say(f"report: {os.path.relpath(trial.folder / REPORT)}")
