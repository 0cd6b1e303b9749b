"""The next system is prepared while the cells of the one before it run."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from harness.judge.verdict import Kind
from harness.matrix.preparation import ASIDE_NICE
from harness.matrix.runner import RunPlan, run
from harness.model.exits import ExitCode
from harness.model.failures import EnvironmentFailure
from harness.report.summary import summarise
from harness.saved import load_run
from tests.matrix.troubled import Trouble, TroubledSystem, Watched, named, only_run

if TYPE_CHECKING:
    from pathlib import Path

WITHIN_S = 30.0


class Named(TroubledSystem):
    """A troubled system of another name, with a version of its own."""

    def __init__(self, name: str, trouble: Trouble) -> None:
        super().__init__(lambda step, scenario: trouble(f"{name} {step}", scenario))
        self.name = name

    def versions(self) -> dict[str, str]:
        """Its own."""
        return {self.name: "1"}


def plan_of_two(reports: Path, trouble: Trouble) -> RunPlan:
    """Return the plan of two cells of one system, and two of another."""
    systems = tuple(Named(name, trouble) for name in ("first", "second"))
    cells = tuple(replace(cell, system=system.name) for system in systems for cell in named(2))
    return RunPlan(systems, cells, (), reports, jobs=1, command="test", seeds=(1,), records=24)


def test_the_second_is_prepared_while_the_first_one_runs(tmp_path: Path) -> None:
    """Behind the cells, that is with less of the machine; none of its own begins before it is
    prepared.
    """
    meets = threading.Barrier(2, timeout=WITHIN_S)
    steps: list[str] = []
    nice: dict[str, int] = {}

    def note(step: str, scenario: str) -> None:
        if step == "second set-up" or (step, scenario) == ("first inject", "cell-1"):
            nice[step] = os.getpriority(os.PRIO_PROCESS, 0)
            meets.wait()  # never met where one comes after the other
        steps.append(step)

    saved = run(plan_of_two(tmp_path, note), Watched())
    assert [result.verdict.kind for result in saved.results] == [Kind.KEPT] * 4
    assert nice["second set-up"] == min(nice["first inject"] + ASIDE_NICE, 19)
    assert steps.index("second set-up") < steps.index("second deploy")
    assert max(at for at, step in enumerate(steps) if step.startswith("first ")) < steps.index(
        "second deploy"
    )
    assert saved.info.versions == {"first": "1", "second": "1"}
    assert {"set-up-first", "set-up-second"} <= saved.info.phases.keys()


def test_one_that_cannot_be_prepared_stops_no_cell_of_the_other(tmp_path: Path) -> None:
    """Its own cells are void, and say why; they are not missing, and nothing of it is started."""

    def fail(step: str, scenario: str) -> None:
        if step == "second set-up":
            raise EnvironmentFailure("there is no network")
        assert step != "second deploy"

    saved = run(plan_of_two(tmp_path, fail), Watched())
    assert [(result.plan.system, result.verdict.kind) for result in saved.results] == [
        ("first", Kind.KEPT),
        ("first", Kind.KEPT),
        ("second", Kind.VOID),
        ("second", Kind.VOID),
    ]
    assert saved.results[2].verdict.reason.endswith(
        "lacks something that this cell needs: there is no network"
    )
    assert (saved.whole, summarise(saved).exit_code) == (True, ExitCode.VOID)


def test_an_error_of_ours_in_preparing_ends_the_run(tmp_path: Path) -> None:
    """It is no want of the machine, so it is raised. What the first one's cells saw stays."""
    begun = threading.Event()

    def fail(step: str, scenario: str) -> None:
        if step == "first inject":
            begun.set()
        if step == "second set-up" and begun.wait(WITHIN_S):
            raise LookupError("a bug")

    with pytest.raises(LookupError, match="a bug"):
        run(plan_of_two(tmp_path, fail), Watched())
    assert not load_run(only_run(tmp_path)).whole


def test_the_failure_of_the_first_one_waits_for_nobody(tmp_path: Path) -> None:
    """What the second would be, if it came, is nothing to a run that is over."""
    out, prepared = threading.Event(), threading.Event()

    def fail(step: str, scenario: str) -> None:
        if step == "first deploy":
            raise EnvironmentFailure("the guardian has died")
        if step == "second set-up":
            out.wait(WITHIN_S)
            prepared.set()

    try:
        with pytest.raises(EnvironmentFailure, match=r"^the guardian has died$"):
            run(plan_of_two(tmp_path, fail), Watched())
        assert not prepared.is_set()
    finally:
        out.set()
    assert not [path for path in tmp_path.iterdir() if path.is_dir()], "no cell had begun"
