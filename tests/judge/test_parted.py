"""The fault ``parted-from-work``: the order of its steps, and what the history must show of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.abilities import HeldWork
from harness.controls import InHand, OnWire
from harness.faults import PartedFromWork
from harness.model.rebalances import Change, Regrouping
from harness.model.scenario import Role
from harness.proofs.moved import MOVED_IN_HAND, PARTITION_WAITED, Moved, moving_signs
from harness.proofs.overtaken import MOVING, overtaking_signs
from harness.proofs.parted import PartedWhileHeld
from harness.protocols.kafka.steps import Api
from harness.wire.rules import Direction
from tests.judge.recording import Recording
from tests.judge.test_moved import history, member
from tests.judge.test_moved import lines as moved
from tests.judge.test_told import TOLD, rule

if TYPE_CHECKING:
    from pathlib import Path

AT = OnWire(Role.CONSUMER, Api.FETCH, Direction.RESPONSE)
WORK = InHand(AT, OnWire(Role.CONSUMER, Api.OFFSET_COMMIT, Direction.RESPONSE))


@pytest.mark.parametrize(
    ("change", "before", "then"),
    [
        (Change.JOINS, ["Regrouping.withhold consumer"], "tell_at_once"),
        (Change.OVERDUE, [], "await_moved"),
    ],
)
def test_the_work_is_held_until_the_partition_is_anothers(
    change: Change, before: list[str], then: str
) -> None:
    """And before the target comes."""
    fault = PartedFromWork(AT, WORK, change)
    controls = Recording(fault)
    fault.arm(controls)
    fault.inject(controls)
    assert controls.done == [
        "arm fault",
        "armed",
        "fired",
        "HeldWork.hold",
        *before,
        f"Regrouping.prepare consumer {change}",
        "resolve Fetch release",
        "HeldWork.await_held",
        "Regrouping.begin",
        "applied",
        f"Regrouping.{then}",
        f"HeldWork.release {MOVING}",
        "Regrouping.await_moved",
        "Regrouping.restore",
        "healed",
    ]
    assert fault.needs() == (HeldWork, Regrouping)
    proofs = (Moved("consumer", change), PartedWhileHeld("consumer", change))
    assert fault.evidence().proofs == proofs
    assert fault.joins is (change is Change.JOINS)


def test_without_a_dry_run_there_is_nothing_to_hold() -> None:
    fault = PartedFromWork(AT)
    with pytest.raises(ValueError, match="no dry run has shown yet what the consumer writes"):
        fault.inject(Recording(fault))


def work(t: int, phase: str, **more: Any) -> dict[str, Any]:
    """Return a line about the work that is held."""
    return {"event": "work", "t": t, "role": "consumer", "phase": phase, **more}


LEFT = member(7, "LeaveGroup", conn=1, assigned=[])
UNHEARD = "nobody saw that the consumer was told to give the partition of k1-1 up while its work"
STAYED = "the consumer did not leave its group while its work was held"


def ran(**change: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return a run in which the member was told at 6, left at 7, and another had the partition at
    9; its work was held from 4 to 11.
    """
    found = {
        "held": work(4, "held", how="write"),
        "telling": rule(5, "telling-0", "hit", corr=7, api="Heartbeat", error=27),
        "told": TOLD,
        "left": LEFT,
        "released": work(11, "released", how=MOVING),
        **change,
    }
    return sorted((each for each in moved(**found) if each), key=lambda each: each["t"])


@pytest.mark.parametrize(
    ("change", "by", "unseen", "said"),
    [
        ({}, Change.JOINS, (), None),
        ({}, Change.OVERDUE, (), None),
        ({"held": None}, Change.JOINS, (), "did nothing that could be held"),
        ({"held": None}, Change.OVERDUE, (), "did nothing that could be held"),
        ({"released": None}, Change.JOINS, (), "was held and never released"),
        ({}, Change.JOINS, ("10.0.0.1:1",), "its work at 10.0.0.1:1 cannot be held"),
        ({"told": None}, Change.JOINS, (), UNHEARD),
        ({"telling": None}, Change.JOINS, (), UNHEARD),
        ({"held": work(7, "held")}, Change.JOINS, (), UNHEARD),
        ({"released": work(5, "released")}, Change.JOINS, (), UNHEARD),
        ({"left": None}, Change.OVERDUE, (), STAYED),
        ({"left": {**LEFT, "error": 25}}, Change.OVERDUE, (), STAYED),
        ({"left": {**LEFT, "conn": 2, "member": "m-2"}}, Change.OVERDUE, (), STAYED),
        ({"left": {**LEFT, "api": "SyncGroup"}}, Change.OVERDUE, (), STAYED),
        ({"held": work(8, "held")}, Change.OVERDUE, (), STAYED),
        ({"released": work(8, "released")}, Change.OVERDUE, (), "nobody had the partition of k1-1"),
    ],
)
def test_what_the_history_must_show(
    tmp_path: Path,
    change: dict[str, dict[str, Any] | None],
    by: Change,
    unseen: tuple[str, ...],
    said: str | None,
) -> None:
    """The member was told, or left, while its work was held; then another had the partition."""
    course: Any = SimpleNamespace(
        history=history(tmp_path, ran(**change)), plan=SimpleNamespace(target="k1-1")
    )
    found = PartedWhileHeld("consumer", by, unseen).trouble(course)
    assert found is None if said is None else str(found).startswith("not tried: ")
    assert said is None or said in str(found)


@pytest.mark.parametrize(("released", "sign"), [(11, MOVED_IN_HAND), (8, PARTITION_WAITED)])
def test_whether_the_partition_waited_for_the_work(
    tmp_path: Path, released: int, sign: object
) -> None:
    """Though its position is not saved. Nobody looked whether a position waited."""
    told = history(tmp_path, ran(released=work(released, "released", how=MOVING)))
    assert moving_signs(told) == {sign: {"k1-1"}}
    assert not overtaking_signs(told)
