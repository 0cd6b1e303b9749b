"""Recoveries: which of them count as one, and which acts cut a process short at its next durable
step.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.controls import OnWire
from harness.faults import Terminate, Twice, Withheld
from harness.model import events as kinds
from harness.model.scenario import Role
from harness.protocols.kafka.steps import Api
from harness.sweep.acts import TERMINATE_KILL, WITHHOLD_KILL, Happening, trigger
from harness.sweep.classes import Class, RunReason
from harness.sweep.outcomes import Outcome
from harness.sweep.points import Capabilities, Point, cut_short
from harness.sweep.recovery import first_faults
from harness.sweep.signature import Signature, repeated_requests
from harness.sweep.steps import NamedFrame, Step
from harness.wire.rules import Direction
from tests.events import a_history, typed
from tests.memory.plants import Plant
from tests.sweep.stepping import RIGHT, Quiet, sweep

if TYPE_CHECKING:
    from harness.model.cell import Cell
    from harness.model.history import History

REQUEST, RESPONSE = Direction.REQUEST, Direction.RESPONSE
SENDS = Step("producer", "Produce", REQUEST, 1, "k1-4", protocol="kafka")
ANYWHERE = Class("producer", "Produce", "request", "refuse", "calm")


def asked(t: int, *records: str, role: str = "producer", api: str = "Produce") -> dict[str, Any]:
    """Return the line of a request about records."""
    return {
        "event": "frame",
        "t": t,
        "role": role,
        "api": api,
        "dir": "request",
        "records": list(records),
    }


def told(*lines: dict[str, Any]) -> tuple[History, kinds.Rule]:
    """Return a history, and the hit of a rule in it at 10."""
    hit = typed({"event": "rule", "t": 10, "rule": "fault", "phase": "hit"})
    assert isinstance(hit, kinds.Rule)
    return a_history(lines), hit


@pytest.mark.parametrize(
    ("again", "said"),
    [
        ([asked(11, "a", "b", "c", "d")], ("producer Produce: the same records, once",)),
        ([asked(11, "a", "b"), asked(12, "c", "d")], ("producer Produce: a part, twice",)),
        (
            [asked(t, "a", "b", "c", "d") for t in range(11, 16)],
            ("producer Produce: the same records, often",),
        ),
        ([asked(11, "d", "e")], ("producer Produce: a part and others, once",)),
        ([asked(11, "e", "f")], ()),
        ([asked(11, "a", role="consumer", api="OffsetCommit")], ()),
    ],
)
def test_what_is_asked_again_is_told_by_its_records_and_how_often(
    again: list[dict[str, Any]], said: tuple[str, ...]
) -> None:
    """A batch that is sent again whole differs from one that is sent again in parts."""
    history, hit = told(asked(5, "a", "b", "c", "d"), asked(10, "a", "b", "c", "d"), *again)
    assert repeated_requests(history, hit) == said


def test_what_was_asked_again_before_the_fault_does_not_count() -> None:
    history, hit = told(asked(5, "a"), asked(6, "a"))
    assert repeated_requests(history, hit) == ()
    assert repeated_requests(*told(asked(5, "a"), asked(11, "a"))[:1], None) == ()


def refused(error: str, again: tuple[str, ...], place: int = 0, **signature: Any) -> Outcome:
    """Return the outcome of a refusal."""
    point = Point(SENDS, Happening(f"refuse-{error}", trigger(SENDS)), place, "It is refused.")
    return Outcome(
        point,
        RunReason.FIRST,
        ANYWHERE,
        ANYWHERE,
        Signature("kept", **signature),
        "",
        Path(),
        1.0,
        again=again,
    )


WHOLE, SPLIT = ("producer Produce: the same records, once",), ("producer Produce: a part, twice",)


def test_each_error_of_a_refusal_has_a_recovery_of_its_own() -> None:
    """A client answers each in its own way, even if it makes the same requests."""
    one, other = refused("NOT_LEADER_OR_FOLLOWER", WHOLE), refused("MESSAGE_TOO_LARGE", WHOLE)
    assert first_faults([one, other]) == (one, other)


def test_what_is_asked_again_makes_another_recovery() -> None:
    """The act and the requests are the same; one was sent again whole, the other in two parts."""
    whole, split = refused("MESSAGE_TOO_LARGE", WHOLE), refused("MESSAGE_TOO_LARGE", SPLIT, 1)
    assert first_faults([split, whole]) == (whole, split)
    assert first_faults([split, replace(split, seconds=9.0), whole]) == (whole, split)


def test_recoveries_that_are_alike_in_all_of_it_count_as_one() -> None:
    """The earliest stands for them; one that makes other requests is another."""
    one, later = (refused("MESSAGE_TOO_LARGE", SPLIT, place) for place in (0, 7))
    other = refused("MESSAGE_TOO_LARGE", SPLIT, 3, recovery=("producer InitProducerId",))
    assert first_faults([later, one, other]) == (one, other)
    assert first_faults([replace(one, signature=Signature("void"))]) == ()


def test_a_recovery_that_was_struck_already_stands_for_its_kind() -> None:
    """Else what its second faults have shown would belong to no point of the plan."""
    one, later, last = (refused("MESSAGE_TOO_LARGE", SPLIT, place) for place in (0, 7, 9))
    [later, last] = (
        replace(each, point=replace(each.point, step=replace(SENDS, ordinal=number)))
        for number, each in enumerate((later, last), 2)
    )
    assert first_faults([one, later, last], {later.point.id}) == (later,)
    assert first_faults([one, later, last], {later.point.id, last.point.id}) == (later, last)


def test_second_faults_stay_when_earlier_points_are_run_behind_them(tmp_path: Path) -> None:
    """Also where these would stand for the recovery, had they been run before."""

    def wrong(cell: Cell) -> Plant:
        return Plant(lose=1) if isinstance(cell.scenario.fault, Twice) else RIGHT

    one = sweep(tmp_path / "one", wrong, acts=("kill",), jobs=1, depth=2)
    one.dry_run(Quiet())
    planned = one.plan()
    late = replace(
        planned, chosen=tuple(each for each in planned.chosen if each[1] is RunReason.LAST)
    )
    one.run(late, Quiet())
    one.run(one.deeper(late), Quiet())
    second = {each.point.id for each in one.outcomes(one.planned()).all if each.point.second}
    assert second
    one.run(planned, Quiet())
    rest = sweep(tmp_path / "one", wrong, acts=("kill",), jobs=1, depth=2)
    outcomes = rest.outcomes(rest.planned())
    assert second <= {each.point.id for each in outcomes.all}
    assert second <= {each.point.id for found in outcomes.findings() for each in found.points}


def passed(
    role: str, api: str, way: Direction, conn: int, error: int | None = None, *records: str
) -> NamedFrame:
    """Return a frame of a program, on a connection."""
    line = typed(
        {
            "event": "frame",
            "role": role,
            "api": api,
            "dir": str(way),
            "conn": conn,
            "error": error,
            "records": list(records),
        }
    )
    assert isinstance(line, kinds.Frame)
    return NamedFrame(line, f"route {role}", (), "kafka")


def acts(
    step: Step, conn: int, *behind: NamedFrame, can: Capabilities | None = None
) -> dict[str, Any]:
    """Return the faults that cut the step's process short, by their acts."""
    frame = passed(step.role, step.api, Direction(step.direction), conn)
    found = cut_short(step, frame, behind, trigger(step), can or Capabilities(terminate=True))
    return {happens.act: happens.fault() for happens, _ in found}


GIVEN = Step("processor", "Fetch", RESPONSE, 1, "k1-4", protocol="kafka")
RESULT = Step("processor", "Produce", REQUEST, 1, "k1-4", protocol="kafka")


def test_who_is_told_to_end_is_killed_at_its_next_durable_request() -> None:
    at = trigger(GIVEN)
    behind = [
        passed("consumer", "OffsetCommit", REQUEST, 9),
        passed("processor", "Fetch", REQUEST, 1),
        passed("processor", "Produce", REQUEST, 2),
        passed("processor", "OffsetCommit", REQUEST, 3),
    ]
    next_one = OnWire(Role.PROCESSOR, Api.PRODUCE, REQUEST, since=at)
    assert acts(GIVEN, 1, *behind) == {TERMINATE_KILL: Terminate(at, next_one)}
    assert acts(GIVEN, 1, *behind, can=Capabilities()) == {}
    assert acts(GIVEN, 1, *behind[:2]) == {}


def test_a_request_is_withheld_while_something_else_is_made_durable() -> None:
    """On another connection: on its own nothing overtakes it. What was refused is not durable."""
    at, can = trigger(RESULT), Capabilities()
    done = OnWire(Role.PROCESSOR, Api.OFFSET_COMMIT, RESPONSE, since=at)
    commit = [passed("processor", "OffsetCommit", way, 3) for way in (REQUEST, RESPONSE)]
    assert acts(RESULT, 2, *commit, can=can) == {WITHHOLD_KILL: Withheld(at, done)}
    assert acts(RESULT, 3, *commit, can=can) == {}
    assert acts(RESULT, 2, passed("processor", "OffsetCommit", RESPONSE, 3, 25), can=can) == {}
    assert acts(GIVEN, 2, *commit, can=can) == {}
