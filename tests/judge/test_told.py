"""The fault ``told-late``: the order of its steps, and what the history must show of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.controls import OnWire
from harness.faults import ToldLate
from harness.model import events as kinds
from harness.model.rebalances import Regrouping
from harness.model.scenario import Role
from harness.proofs.moved import Moved
from harness.proofs.told import ToldWhileSaving, tells
from harness.protocols.kafka.steps import Api
from harness.wire.rules import Direction
from tests.judge.recording import Recording
from tests.judge.test_moved import history

if TYPE_CHECKING:
    from pathlib import Path


AT = OnWire(Role.CONSUMER, Api.FETCH, Direction.RESPONSE)


@pytest.mark.parametrize("answered", [False, True])
def test_what_tells_is_held_before_the_other_joins(*, answered: bool) -> None:
    """Then the record goes on, the other joins, and the position is met."""
    fault = ToldLate(AT, answered)
    controls = Recording(fault)
    fault.arm(controls)
    fault.inject(controls)
    assert controls.done == [
        "arm fault",
        "armed",
        "fired",
        "Regrouping.withhold consumer",
        "Regrouping.prepare consumer joins",
        "resolve Fetch release",
        "Regrouping.await_given",
        "Regrouping.begin",
        "applied",
        "Regrouping.tell",
        "Regrouping.await_moved",
        "Regrouping.restore",
        "healed",
    ]
    assert fault.needs() == (Regrouping,)
    assert fault.evidence().proofs == (Moved("consumer", "joins"), ToldWhileSaving(answered))


def rule(t: int, name: str, phase: str, **more: Any) -> dict[str, Any]:
    """Return a line about a rule that holds a frame of the member."""
    return {"event": "rule", "t": t, "rule": name, "phase": phase, "conn": 1, "held": name, **more}


TOLD: dict[str, Any] = {
    "event": "group_member",
    "t": 6,
    "conn": 1,
    "request": "1:7",
    "api": "Heartbeat",
    "group": "g",
    "member": "m-1",
    "error": 27,
    "reached": True,
}


def lines(**change: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return a run in which the member was told when its request to save a position was held.

    ``change``: lines in place of these, by name; ``None``: without it.
    """
    found: dict[str, dict[str, Any] | None] = {
        "changed": {
            "event": "regroup",
            "t": 3,
            "role": "consumer",
            "phase": "changed",
            "change": "joins",
            "group": "g",
            "member": "m-1",
            "conn": 1,
        },
        "given": {
            "event": "fetched",
            "t": 2,
            "record": "k1-1",
            "topic": "orders",
            "partition": 1,
            "offset": 5,
            "reached": True,
        },
        "telling": rule(4, "telling-0", "hit", corr=7, api="Heartbeat", error=27),
        "asked": rule(5, "saving", "hit"),
        "told": TOLD,
        "gone": rule(8, "saving", "released"),
        **change,
    }
    return sorted((each for each in found.values() if each), key=lambda each: each["t"])


ASSIGNED = {**TOLD, "api": "SyncGroup", "error": 0, "assigned": ["orders/0"]}
ANSWER = {"asked": rule(5, "saved", "hit"), "gone": rule(8, "saved", "released")}
NOBODY = "nobody saw that the member was told"


@pytest.mark.parametrize(
    ("change", "answered", "said"),
    [
        ({}, False, None),
        ({"asked": rule(7, "saving", "hit")}, False, None),
        ({"told": ASSIGNED}, False, None),
        ({"told": {**ASSIGNED, "assigned": ["orders/1"]}}, False, NOBODY),
        ({"given": None}, False, NOBODY),
        (ANSWER, True, None),
        ({}, True, "no answer to its position was on its way when the member was told"),
        (ANSWER, False, "no position was on its way"),
        ({"asked": None}, False, "no position was on its way"),
        ({"gone": rule(5, "saving", "released")}, False, "no position was on its way"),
        ({"gone": None}, False, "no position was on its way"),
        ({"asked": rule(5, "saving", "hit", conn=2)}, False, "no position was on its way"),
        ({"changed": None}, False, NOBODY),
        ({"telling": None}, False, NOBODY),
        ({"told": None}, False, NOBODY),
        ({"told": {**TOLD, "reached": False}}, False, NOBODY),
        ({"told": {**TOLD, "conn": 2, "member": "m-2"}}, False, NOBODY),
        ({"told": {**TOLD, "t": 2}}, False, NOBODY),
    ],
)
def test_what_the_history_must_show(
    tmp_path: Path, change: dict[str, dict[str, Any] | None], *, answered: bool, said: str | None
) -> None:
    """That what was held made this member give the partition up, and its position went on only
    then.
    """
    course: Any = SimpleNamespace(
        history=history(tmp_path, lines(**change)), plan=SimpleNamespace(target="k1-1")
    )
    found = ToldWhileSaving(answered).trouble(course)
    assert found is None if said is None else said in str(found)


JOINED = {**TOLD, "t": 7, "api": "JoinGroup", "error": 0}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"before": {**JOINED, "t": 0, "assignor": "cooperative-sticky"}}, NOBODY),
        ({"before": {**JOINED, "t": 0, "assignor": "range"}}, None),
        ({"joined": {**JOINED, "owned": ["orders/1"]}}, NOBODY),
        ({"joined": {**JOINED, "owned": []}}, None),
        ({"told": ASSIGNED, "joined": {**JOINED, "owned": ["orders/1"]}}, None),
        ({"told": {**ASSIGNED, "assigned": []}}, None),
    ],
    ids=["cooperative", "eager", "it keeps", "it gives up", "by SyncGroup", "all of them"],
)
def test_an_incremental_member_gives_up_only_what_it_is_told_to(
    tmp_path: Path, change: dict[str, dict[str, Any] | None], said: str | None
) -> None:
    """The error of its heartbeat says that it must join again, and no more."""
    told = history(tmp_path, lines(**change))
    course: Any = SimpleNamespace(history=told, plan=SimpleNamespace(target="k1-1"))
    found = ToldWhileSaving(answered=False).trouble(course)
    assert found is None if said is None else said in str(found)


@pytest.mark.parametrize(
    ("hit", "says"),
    [
        ({"api": "Heartbeat", "error": 27}, True),
        ({"api": "Heartbeat", "error": 0}, False),
        ({"api": "Heartbeat"}, False),
        ({"api": "SyncGroup", "error": 27}, False),
        ({"api": "SyncGroup", "assigned": ["orders/0", "orders/1"]}, False),
        ({"api": "SyncGroup", "assigned": ["orders/0"]}, True),
        ({"api": "ConsumerGroupHeartbeat", "error": 0}, False),
        ({"api": "ConsumerGroupHeartbeat", "error": 0, "assigned": []}, True),
        ({"api": "ConsumerGroupHeartbeat", "error": 0, "assigned": ["orders/1"]}, False),
    ],
)
def test_which_answer_tells(tmp_path: Path, hit: dict[str, Any], *, says: bool) -> None:
    """A heartbeat that is refused, or partitions without the target's."""
    [asked] = history(tmp_path, [rule(3, "x", "hit", **hit)]).of(kinds.Rule)
    assert tells(asked, "orders/1") is says
