"""The fault ``rebalanced``: the order of its steps, and what the history must show of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.controls import OnWire
from harness.faults import PutOutWhileJoining, Rebalanced
from harness.model import events as kinds
from harness.model.history import read_history
from harness.model.rebalances import Change, Regrouping
from harness.model.scenario import Role
from harness.model.writing import LedgerWriter
from harness.proofs.moved import (
    CAME_BACK,
    MOVED_IN_HAND,
    PARTITION_WAITED,
    Moved,
    is_incremental,
    left_by_itself,
    moving_signs,
    returning_signs,
    taken_in,
)
from harness.protocols.kafka.steps import Api
from harness.wire.rules import Direction
from tests.judge.recording import Recording

if TYPE_CHECKING:
    from pathlib import Path

    from harness.model.history import History

AT = OnWire(Role.CONSUMER, Api.FETCH, Direction.RESPONSE)
SAVES = OnWire(Role.CONSUMER, Api.OFFSET_COMMIT, Direction.REQUEST)
SAVED = OnWire(Role.CONSUMER, Api.OFFSET_COMMIT, Direction.RESPONSE)
OTHER = [
    "resolve Fetch release",
    "Regrouping.await_given",
    "Regrouping.begin",
    "applied",
    "Regrouping.await_moved",
]
PUT_OUT = [
    "Regrouping.begin",
    "applied",
    "Regrouping.await_moved",
    "resolve OffsetCommit release",
]


@pytest.mark.parametrize(
    ("fault", "then"),
    [
        *((Rebalanced(AT, change), OTHER) for change in Change if change is not Change.PUT_OUT),
        (Rebalanced(SAVES, Change.PUT_OUT), PUT_OUT),
        (Rebalanced(SAVED, Change.PUT_OUT), PUT_OUT),
    ],
)
def test_the_record_goes_on_when_the_group_is_told(fault: Rebalanced, then: list[str]) -> None:
    """And the request of a member that was put out only when another has its partition."""
    controls = Recording(fault)
    fault.arm(controls)
    fault.inject(controls)
    assert controls.done == [
        "arm fault",
        "armed",
        "fired",
        f"Regrouping.prepare consumer {fault.change}",
        *then,
        "Regrouping.restore",
        "healed",
    ]
    assert fault.needs() == (Regrouping,)


def test_who_is_put_out_while_it_joins_asks_when_the_others_have_done_the_work() -> None:
    """Its own request is held until then, and the record never comes over this connection."""
    fault = PutOutWhileJoining(AT)
    controls = Recording(fault)
    fault.arm(controls)
    fault.inject(controls)
    assert controls.done == [
        "arm fault",
        "armed",
        "fired",
        "Regrouping.prepare consumer joins",
        "Regrouping.begin",
        "applied",
        "Regrouping.await_moved",
        "settle",
        "resolve Fetch discard",
        "Regrouping.restore",
        "healed",
    ]
    assert fault.evidence().proofs == (Moved("consumer", "joins", elsewhere=True),)


@pytest.mark.parametrize(("at", "saved"), [(SAVES, False), (SAVED, True)])
def test_whether_the_position_must_be_saved_follows_from_the_moment(
    at: OnWire, *, saved: bool
) -> None:
    [proof] = Rebalanced(at, Change.PUT_OUT).evidence().proofs
    assert proof == Moved("consumer", "put-out", saved=saved)


def member(t: int, api: str = "SyncGroup", conn: int = 2, **more: Any) -> dict[str, Any]:
    """Return a line about a member: by default another than the one that has the target."""
    return {
        "event": "group_member",
        "t": t,
        "conn": conn,
        "api": api,
        "group": "g",
        "member": f"m-{conn}",
        "reached": True,
        **more,
    }


def lines(**change: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return a run in which another member joined, and got the partition of the target in hand.

    ``change``: lines in place of these, by name; ``None``: without it.
    """
    found: dict[str, dict[str, Any] | None] = {
        "hit": {"event": "rule", "t": 1, "rule": "fault", "phase": "hit", "record": "k1-1"},
        "given": {
            "event": "fetched",
            "t": 2,
            "record": "k1-1",
            "topic": "orders",
            "partition": 1,
            "offset": 5,
            "reached": True,
        },
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
        "gave_up": None,
        "saved": None,
        "moved": member(9, assigned=["orders/1"]),
        **change,
    }
    return sorted((each for each in found.values() if each), key=lambda each: each["t"])


def saved(t: int, offset: int = 6, **more: Any) -> dict[str, Any]:
    """Return the line of a saved position."""
    return {
        "event": "commit_answer",
        "t": t,
        "topic": "orders",
        "partition": 1,
        "offset": offset,
        "error": 0,
        "group": "g",
        "reached": True,
        **more,
    }


def history(tmp_path: Path, told: list[dict[str, Any]]) -> History:
    """Write a history, with these times."""
    with LedgerWriter(tmp_path / "wire.jsonl", cell="c", by="wire") as out:
        for line in told:
            out.write(line["event"], **{k: v for k, v in line.items() if k != "event"})
    return read_history(tmp_path)


def trouble(tmp_path: Path, told: list[dict[str, Any]], change: str = "joins", **more: Any) -> Any:
    """Return what a proof finds missing."""
    course: Any = SimpleNamespace(
        history=history(tmp_path, told), plan=SimpleNamespace(target="k1-1")
    )
    return Moved("consumer", change, **more).trouble(course)


HELD = {"event": "rule", "t": 2, "rule": "fault", "phase": "hit", "dir": "response"}
"""The answer at which the fault fires."""
AGAIN = member(9, conn=1, assigned=["orders/1"])
"""Its member has the partition again."""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, None),
        ({"saved": saved(8)}, None),
        ({"changed": None}, "nobody saw that another member joined"),
        ({"moved": None}, "nobody saw that the partition of k1-1 was assigned anew"),
        ({"moved": member(9, assigned=["orders/2"])}, "was assigned anew"),
        ({"moved": member(9, assigned=["orders/1"], error=27)}, "was assigned anew"),
        ({"moved": AGAIN}, "was assigned anew"),
        ({"moved": AGAIN, "gave_up": member(7, "JoinGroup", 1, owned=["orders/1"])}, "anew"),
        ({"moved": AGAIN, "gave_up": member(7, "JoinGroup", 1, owned=[])}, None),
    ],
    ids=[
        "moved",
        "moved when it was saved",
        "not changed",
        "nothing assigned",
        "another partition",
        "refused",
        "its own all along",
        "its own, which a cooperative member does not give up",
        "its own again",
    ],
)
def test_what_the_history_must_show(
    tmp_path: Path, change: dict[str, dict[str, Any] | None], said: str | None
) -> None:
    """That the partition was assigned anew behind the change, to another or to its own again."""
    found = trouble(tmp_path, lines(**change))
    assert found is None if said is None else said in str(found)


@pytest.mark.parametrize("moved", [AGAIN, member(9, assigned=["orders/1"])])
def test_another_must_have_it_where_that_is_declared(tmp_path: Path, moved: dict[str, Any]) -> None:
    gave_up = member(7, "JoinGroup", 1, owned=[])
    found = trouble(tmp_path, lines(moved=moved, gave_up=gave_up), elsewhere=True)
    assert (found is None) is (moved is not AGAIN)


def test_a_record_that_never_came_proves_nothing(tmp_path: Path) -> None:
    given = lines()[1] | {"reached": False}
    assert "did not reach" in trouble(tmp_path, lines(given=given))


@pytest.mark.parametrize(
    ("line", "wants", "said"),
    [
        (None, False, None),
        (saved(8), False, "was saved before the member that had the record was put out"),
        (saved(8), True, None),
        (saved(8, offset=5), True, "was saved after"),
        (saved(8, error=25), True, "was saved after"),
        (saved(10), True, "was saved after"),
        (saved(10), False, None),
        ({**HELD, "api": "OffsetCommit"}, True, None),
        ({**HELD, "api": "Fetch"}, True, "was saved after"),
        ({**HELD, "api": "OffsetCommit", "dir": "request"}, True, "was saved after"),
    ],
)
def test_of_a_member_that_is_put_out_the_state_must_be_as_declared(
    tmp_path: Path, line: dict[str, Any] | None, *, wants: bool, said: str | None
) -> None:
    """When another gets the partition, the position is saved behind the target, or it is not."""
    found = trouble(tmp_path, lines(saved=line), "put-out", saved=wants)
    assert found is None if said is None else said in str(found)


@pytest.mark.parametrize(
    ("change", "sign"),
    [
        ({}, MOVED_IN_HAND),
        ({"saved": saved(8)}, PARTITION_WAITED),
        ({"saved": saved(8, partition=2)}, MOVED_IN_HAND),
        ({"moved": None}, None),
    ],
)
def test_a_sign_says_in_which_state_the_record_was(
    tmp_path: Path, change: dict[str, Any], sign: Any
) -> None:
    """In hand, or done with; none where nothing was assigned anew."""
    found = moving_signs(history(tmp_path, lines(**change)))
    assert found == ({sign: frozenset({"k1-1"})} if sign else {})


def joined(t: int, conn: int, instance: str | None) -> dict[str, Any]:
    """Return the line of a member that joins under a name of its own."""
    return member(t, "JoinGroup", conn, instance=instance)


@pytest.mark.parametrize(
    ("change", "came_back"),
    [
        ({}, True),
        ({"again": joined(7, 3, "two")}, False),
        ({"again": joined(7, 3, None)}, False),
        ({"first": joined(0, 1, None)}, False),
        ({"has": member(8, conn=3, assigned=["orders/2"])}, False),
        ({"between": member(6, conn=2, assigned=["orders/1"])}, False),
        ({"hit": None}, False),
    ],
    ids=["back", "another name", "no name", "never had one", "no partition", "another had it", "-"],
)
def test_a_static_member_came_back_if_nobody_else_had_its_partition(
    tmp_path: Path, change: dict[str, Any], *, came_back: bool
) -> None:
    """Its next life has another id, and the same name."""
    told: dict[str, dict[str, Any] | None] = {
        "first": joined(0, 1, "one"),
        "had": member(0, conn=1, assigned=["orders/1"]),
        "hit": lines()[0],
        "given": lines()[1],
        "again": joined(7, 3, "one"),
        "has": member(8, conn=3, assigned=["orders/1"]),
        **change,
    }
    found = returning_signs(history(tmp_path, [each for each in told.values() if each]))
    assert found == ({CAME_BACK: frozenset({"k1-1"})} if came_back else {})


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ({"api": "LeaveGroup", "assigned": []}, True),
        ({"api": "LeaveGroup", "assigned": [], "error": 25}, False),
        ({"api": "ConsumerGroupHeartbeat", "assigned": [], "generation": -1}, True),
        ({"api": "ConsumerGroupHeartbeat", "assigned": [], "generation": -2}, True),
        ({"api": "ConsumerGroupHeartbeat", "assigned": [], "generation": 4}, False),
        ({"api": "ConsumerGroupHeartbeat", "assigned": [], "generation": -1, "error": 25}, False),
        ({"api": "ConsumerGroupHeartbeat", "assigned": [], "generation": -1, "conn": 2}, False),
    ],
    ids=["classic", "refused", "newer", "static", "no partitions", "refused too", "another"],
)
def test_who_has_no_partitions_has_not_left(
    tmp_path: Path, line: dict[str, Any], *, left: bool
) -> None:
    """In the newer protocol a member of the group may be assigned nothing."""
    found = left_by_itself(history(tmp_path, lines(gave_up=member(7, **{"conn": 1, **line}))))
    assert (found is not None) is left


@pytest.mark.parametrize(
    ("line", "keeps"),
    [
        (member(1, "JoinGroup", assignor="range"), False),
        (member(1, "JoinGroup", assignor="range", owned=[]), False),
        (member(1, "JoinGroup", assignor="cooperative-sticky"), True),
        (member(1, "JoinGroup", assignor="mine", owned=["orders/1"]), True),
        (member(1, "ConsumerGroupHeartbeat", assigned=[]), True),
    ],
)
def test_which_groups_share_out_incrementally(
    tmp_path: Path, line: dict[str, Any], *, keeps: bool
) -> None:
    [told] = history(tmp_path, [line]).of(kinds.GroupMember)
    assert is_incremental(told) is keeps


def test_what_a_member_takes_that_joins(tmp_path: Path) -> None:
    """And not what those that were there have again."""
    told = [
        member(1, conn=1, assigned=["orders/0", "orders/1", "orders/2"]),
        {"event": "regroup", "t": 2, "role": "consumer", "phase": "started", "number": 2},
        member(5, conn=1, assigned=["orders/0", "orders/1"]),
        member(6, conn=3, assigned=["orders/1"], error=27),
    ]
    assert taken_in(history(tmp_path / "a", told)) == frozenset()
    late = [*told, member(7, conn=3, assigned=["orders/2"])]
    assert taken_in(history(tmp_path / "b", late)) == {"orders/2"}
    assert taken_in(history(tmp_path / "c", [told[0], late[-1]])) == frozenset()
