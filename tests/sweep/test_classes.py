"""Which points are run: the first and the last of each class, and one in twenty of the rest."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from harness.controls import OnWire
from harness.model.scenario import Role
from harness.protocols.kafka.steps import Api
from harness.sweep.acts import ACTS, Happening
from harness.sweep.classes import (
    Class,
    Earlier,
    ProtocolState,
    RunReason,
    chosen,
    deviations,
    grouped,
    splits,
    turns,
)
from harness.sweep.points import Point
from harness.sweep.steps import Step
from harness.wire.rules import Direction

AT = OnWire(Role.PRODUCER, Api.PRODUCE, Direction.REQUEST)


def point(place: int, act: str = "lose", role: str = "producer") -> Point:
    """Return a point of a step."""
    return Point(
        Step(role, "Produce", Direction.REQUEST, 1, f"k0-{place}"), Happening(act, AT), place, ""
    )


def line(length: int) -> list[Point]:
    """Return points of one class."""
    return [point(place) for place in range(length)]


@given(
    st.lists(
        st.tuples(st.sampled_from(["lose", "kill"]), st.sampled_from(["calm", "joining"])),
        max_size=120,
    ),
    st.integers(0, 9),
)
def test_each_class_is_run_at_both_ends_and_a_sample_between(
    kinds: list[tuple[str, str]], seed: int
) -> None:
    """No point twice; the same seed draws the same ones; who is cut short after the first third has
    seen every class.
    """
    points = [point(place, act) for place, (act, _) in enumerate(kinds)]
    classes = grouped(points, {place: phase for place, (_, phase) in enumerate(kinds)})
    assert sorted(one.place for inside in classes.values() for one in inside) == list(
        range(len(kinds))
    )
    found = chosen(classes, seed)
    assert found == chosen(classes, seed)
    assert len({one.id for one, _ in found}) == len(found)
    by_why = {why: [one for one, each in found if each is why] for why in RunReason}
    assert {one.id for one in by_why[RunReason.FIRST]} == {
        inside[0].id for inside in classes.values()
    }
    assert {one.id for one in by_why[RunReason.LAST]} == {
        inside[-1].id for inside in classes.values() if len(inside) > 1
    }
    pruned = sum(max(0, len(inside) - 2) for inside in classes.values())
    assert len(by_why[RunReason.SAMPLE]) == -(-pruned * 5 // 100)
    assert [why for _, why in found] == sorted(
        (why for _, why in found), key=[RunReason.FIRST, RunReason.LAST, RunReason.SAMPLE].index
    )


def test_what_can_teach_most_comes_first() -> None:
    """A state that no fault has struck, then where something was found, then what nobody has run,
    then the rest.
    """
    phases = ("ran", "ran", "found", "found", "new")
    points = [
        point(place, act) for place, act in enumerate(("kill", "lose", "kill", "lose", "lose"))
    ]
    classes = grouped(points, dict(enumerate(phases)))
    name = {(each.act, each.phase): str(each) for each in classes}
    state = {each.phase: str(each.state) for each in classes}
    earlier = Earlier(
        frozenset({name["kill", "ran"], name["kill", "found"], name["lose", "found"]}),
        frozenset({state["ran"], state["found"]}),
        frozenset({state["found"]}),
    )

    def order(known: Earlier | None) -> list[int]:
        return [one.place for one, _ in chosen(classes, 1, known)]

    assert order(earlier) == [4, 3, 2, 1, 0]
    assert order(None) == order(Earlier())
    assert order(None) != order(earlier)
    assert {ProtocolState.name_in(each) for each in name.values()} == set(state.values())


@given(st.integers(1, 8), st.integers(1, 8))
def test_few_rounds_strike_every_state(acts: int, phases: int) -> None:
    """In the first round each act strikes a phase of the step, and none twice while another one is
    left.
    """
    found = [
        Class("consumer", "Fetch", "response", act, f"phase {phase}")
        for act in list(ACTS)[:acts]
        for phase in range(phases)
    ]
    when = turns(found)
    first = [each for each in found if when[each] < acts]
    assert len({each.act for each in first}) == acts, "one class of each kind"
    assert len({each.phase for each in first}) == min(acts, phases)
    assert set(when) == set(found)


def test_the_first_class_of_each_kind_comes_first() -> None:
    """Another phase, or another error of a refusal, comes when every kind of step has been struck
    by every kind of act once.

    Kills come first, and refusals last.
    """
    acts = (
        "kill",
        "refuse-NOT_LEADER_OR_FOLLOWER",
        "refuse-REQUEST_TIMED_OUT",
        "kill",
        "refuse-done-REQUEST_TIMED_OUT",
        "lose",
    )
    points = [point(place, act) for place, act in enumerate(acts)]
    classes = grouped(
        points, dict(enumerate(("calm", "calm", "calm", "joining", "calm", "joining")))
    )
    assert [one.place for one, _ in chosen(classes, 1)] == [0, 5, 1, 3, 2, 4]


def test_all_acts_and_all_programs_come_soon() -> None:
    """Three kills for one of every other act, and each of them from all programs in turn."""
    acts, apis = ("kill", "lose", "pause"), [f"Api{number}" for number in range(5)]
    found = [
        Class(role, api, "request", act, "calm")
        for role in ("producer", "consumer")
        for api in apis
        for act in acts
    ]
    when = turns(found)
    told = sorted(found, key=lambda each: when[each])
    for upto in (5, 10, 15):
        count = Counter(each.act for each in told[:upto])
        assert count == {"kill": 3 * upto // 5, "lose": upto // 5, "pause": upto // 5}
    for act in acts:
        roles = [each.role for each in told if each.act == act]
        assert {frozenset(pair) for pair in zip(roles[::2], roles[1::2], strict=True)} == {
            frozenset(roles)
        }
    assert len({each.api for each in told[:10]}) == 5, "each state is struck before a second time"


@given(st.integers(3, 60), st.data())
def test_a_split_finds_where_a_class_changes(length: int, data: st.DataObject) -> None:
    points = line(length)
    border = data.draw(st.integers(1, length - 1))
    outcome = {points[at].id: at >= border for at in (0, length - 1)}
    runs = 0
    while found := list(splits(points, outcome)):
        outcome |= {one.id: one.place >= border for one in found}
        runs += 1
    assert {points[border - 1].id, points[border].id} <= outcome.keys()
    assert runs <= length.bit_length()


def test_what_agrees_is_not_split_and_deviates_from_nothing() -> None:
    """A class whose points all came out alike needs no more runs."""
    points = line(9)
    outcome = {points[at].id: "kept" for at in (0, 4, 8)}
    [(each, inside)] = grouped(points, dict.fromkeys(range(9), "calm")).items()
    assert not list(splits(points, outcome))
    assert not deviations({each: inside}, outcome)
    assert deviations({each: inside}, outcome | {points[4].id: "broken"}) == {each: (points[4],)}
    assert [one.place for one in splits(points, outcome | {points[4].id: "broken"})] == [2, 6]
