"""The named failure points, and what a sweep has at each: ``python -m tests.sweep.taxonomy
SWEEP...`` tells it of saved sweeps.

A named point is found again where a sweep has a point of the same act at the same kind of step, and
it came out as the scenario predicts. What no step can be is exempt, by name, each with its reason.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from harness.controls import InProgram, OnWire, trigger_of
from harness.faults import Answer, Drop, Hold, Kill, Late
from harness.model.prediction import Zero
from harness.model.scenario import Predicted, Role
from harness.stages.settings import Settings, TopicSettings
from harness.sweep.acts import HOLD, KILL, KILL_BROKER, LATE_NEXT_KILL, LOSE, REFUSE, REFUSE_DONE
from harness.sweep.pipelines import sweep_of
from harness.sweep.planning import RESULT_FILE
from harness.sweep.settings import SweepSettings
from harness.sweep.steps import FAILPOINT
from scenarios.errors import ERRORS
from scenarios.offsets import LATE
from scenarios.plain import PLAIN_SCENARIOS
from scenarios.power_loss import POWER_LOSS
from scenarios.topic_to_topic import TOPIC_SCENARIOS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from harness.model.cell import Cell
    from harness.model.prediction import Prediction
    from harness.model.scenario import Scenario
    from harness.sweep.classes import Class

TAXONOMY = (*PLAIN_SCENARIOS, *POWER_LOSS, *TOPIC_SCENARIOS, *ERRORS, LATE)
EXEMPT = {
    "none": "there is no fault",
    "broker-crash-before-position": (
        "two processes die at once; a sweep kills the broker there, and the consumer there"
    ),
    "power-loss": (
        "no step: a cut of the power takes what was not flushed, whichever step it comes at"
    ),
    "power-loss-flushed": "as power-loss",
    "power-loss+by-calls": "as power-loss",
    "power-loss-flushed+by-calls": "as power-loss",
    "power-loss-everything": "as power-loss",
    "control-power-loss-reused-offsets": "as power-loss",
    "fetch-refused+offset-out-of-range": "no broker says so while the log has the offset",
}
NO_STEPS = {
    "heartbeat-refused": "no step: how often a client says that it lives is a matter of time",
    "join-refused": (
        "before the first record of its process, where no rule is armed; a sweep of two faults "
        "reaches it"
    ),
}
EXEMPT |= {one.id: NO_STEPS[one.failure_point] for one in ERRORS if one.failure_point in NO_STEPS}


class Where(NamedTuple):
    """Role, API (or failpoint), direction and act: what a class of a sweep says
    besides its phase.
    """

    role: str
    api: str
    direction: str
    act: str


class Named(NamedTuple):
    """A named point as a sweep of a pipeline under a semantic has it."""

    id: str
    where: Where
    lost: Prediction
    duplicated: Prediction

    def agrees(self, anomalies: Iterable[str]) -> bool:
        """Whether what was seen at it is what its scenario predicts: of what must show, and of what
        must not.
        """
        seen = set(anomalies)
        for name, prediction in (("lost", self.lost), ("duplicated", self.duplicated)):
            if prediction.must_show() and name not in seen:
                return False
            if isinstance(prediction, Zero) and name in seen:
                return False
        return True


def where_of(fault: Any) -> Where | None:
    """Return where a named fault is, and what it does there, in a sweep's words; ``None`` where a
    sweep has no word for it.
    """
    at = trigger_of(fault)
    if isinstance(fault, Kill) and fault == Kill(fault.at, fault.victims):
        if isinstance(at, InProgram):
            return Where(str(at.role), at.name, FAILPOINT, KILL)
        acts: dict[tuple[Role, ...], str] = {}
        if isinstance(at, OnWire):
            acts = {(at.role,): KILL, (Role.BROKER,): KILL_BROKER}
        act = acts.get(fault.victims)
    elif isinstance(fault, Answer) and fault.times == 1:
        act = f"{REFUSE_DONE if fault.forward else REFUSE}-{fault.error}"
    elif isinstance(fault, Late) and fault.kill and fault.dies is None:
        act = LATE_NEXT_KILL
    elif isinstance(fault, Hold) and not fault.lost:
        act = HOLD
    else:
        act = LOSE if isinstance(fault, Drop) and fault == Drop(fault.at) else None
    return (
        Where(str(at.role), at.api.label, str(at.direction), act)
        if act and isinstance(at, OnWire)
        else None
    )


def applicable(base: Cell, scenarios: Iterable[Scenario] = TAXONOMY) -> Iterator[Scenario]:
    """Yield the named points of a pipeline that its semantic has, with its own settings on any
    number of partitions.
    """
    of = base.semantic, base.client, base.system
    there = (
        one
        for one in scenarios
        if one.pipeline == base.scenario.pipeline and base.semantic in one.expect
    )
    mine = replace(Settings.of(base.settings), topic=TopicSettings())
    for one in there:
        if (
            isinstance(one.expectation(*of), Predicted)
            and replace(Settings.of(one.settings(*of)), topic=TopicSettings()) == mine
        ):
            yield one


def named(base: Cell) -> tuple[list[Named], list[str]]:
    """Return the named points that a sweep must find again, and the ids of those that are exempt or
    that nothing is known of.
    """
    found, others = [], []
    for one in applicable(base):
        where, said = where_of(one.fault), one.expectation(base.semantic, base.client, base.system)
        if where is None or one.id in EXEMPT:
            others.append(one.id)
        elif isinstance(said, Predicted):
            found.append(Named(one.id, where, said.lost, said.duplicated))
    return found, others


def classes_at(where: Where, classes: Iterable[Class]) -> list[Class]:
    """Return the classes of a sweep that a named point is in, whatever the phase."""
    return [
        each for each in classes if Where(each.role, each.api, each.direction, each.act) == where
    ]


def told(directory: Path) -> Iterator[str]:
    """Yield a row of Markdown for each named point of a saved sweep: points, runs, what they
    showed, whether that agrees.
    """
    sweep = sweep_of(SweepSettings.load(directory), directory)
    result = json.loads((directory / RESULT_FILE).read_text(encoding="utf-8"))
    points, others = named(sweep.base)
    of = f"{result['what']}, {result['client']}"
    for one in points:
        head = f"{one.where.role} {one.where.api} {one.where.direction} · {one.where.act} · "
        has = sum(
            len(each["points"]) for each in result["classes"] if each["class"].startswith(head)
        )
        ran = [each["signature"] for each in result["outcomes"] if each["class"].startswith(head)]
        proved = [each for each in ran if each["verdict"] != "void"]
        seen = sorted({name for each in proved for name in each["anomalies"]})
        agrees = sum(one.agrees(each["anomalies"]) for each in proved)
        shown = ", ".join(seen) or "nothing"
        yield (
            f"| {of} | {one.id} | {has} | {len(proved)} of {len(ran)} | {shown} | {agrees} of "
            f"{len(proved)} |"
        )
    for name in others:
        yield f"| {of} | {name} | exempt | | | {EXEMPT.get(name, 'NOT EXEMPT')} |"


def main() -> None:
    """Print the table of the sweeps that are named."""
    print(  # noqa: T201
        "| sweep | named point | points | run with a proof | shown | as predicted "
        "|\n|---|---|---|---|---|---|"
    )
    for directory in sys.argv[1:]:
        for row in told(Path(directory)):
            print(row)  # noqa: T201


if __name__ == "__main__":
    main()
