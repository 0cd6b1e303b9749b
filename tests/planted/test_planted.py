"""The in-memory system lies in every way we know, through the real runner: each is found out and
counted exactly.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from harness.judge.verdict import Kind
from harness.model.scenario import Predicted
from harness.model.semantics import Semantic
from harness.model.states import LastHop
from scenarios.network import NETWORK
from scenarios.plain import ACK_LOST, COMMIT_LOST, NONE
from tests.memory.plants import Plant, PlantError
from tests.narrow import narrow
from tests.planted.lies import FORGIVING, Case, hold, run_planted

if TYPE_CHECKING:
    from pathlib import Path

    from harness.saved import CellResult

AMO, ALO, EOS = Semantic.AT_MOST_ONCE, Semantic.AT_LEAST_ONCE, Semantic.EXACTLY_ONCE
KEPT, BROKEN, VOID, STUCK = Kind.KEPT, Kind.BROKEN, Kind.VOID, Kind.STUCK
NUMBERS = (1, 2, 5)


def counted() -> list[Case]:
    """Return the lies that are convicted of a number."""
    cases = []
    for k in NUMBERS:
        lost, doubled = {"lost": k}, {"duplicated": k, "stored_twice": k}
        cases += [
            Case(Plant(lose=k), AMO, VOID, lost, "contradicted"),
            Case(Plant(lose=k), ALO, BROKEN, lost, "forbids loss"),
            Case(Plant(lose=k), EOS, BROKEN, lost, "acked, not stored"),
            Case(Plant(duplicate=k), AMO, BROKEN, doubled, "forbids duplicates"),
            Case(Plant(duplicate=k), ALO, VOID, doubled, "contradicted"),
            Case(Plant(duplicate=k), EOS, BROKEN, doubled, "forbids duplicates"),
            Case(
                Plant(duplicate=k, delivered_twice=True),
                EOS,
                BROKEN,
                {"duplicated": k, "delivered_twice": k},
            ),
            Case(Plant(lose=k), AMO, KEPT, lost, scenario=FORGIVING),
            Case(Plant(duplicate=k), ALO, KEPT, doubled, scenario=FORGIVING),
        ]
    cases += [
        Case(
            Plant(duplicate=2, times=4),
            AMO,
            BROKEN,
            {"duplicated": 6, "stored_twice": 6},
            "6 duplicated",
        ),
        Case(
            Plant(duplicate=2, times=4, delivered_twice=True),
            EOS,
            BROKEN,
            {"duplicated": 6, "delivered_twice": 6},
        ),
    ]
    for semantic, k in ((AMO, 1), (ALO, 2), (EOS, 4)):
        cases += [
            Case(Plant(resurrect=k), semantic, BROKEN, {"resurrected": k}, f"{k} resurrected"),
            Case(Plant(tear=k), semantic, BROKEN, {"torn": k}, f"{k} torn"),
            Case(Plant(phantom=k), semantic, BROKEN, {"phantom": k}, f"{k} phantom"),
            Case(Plant(stall=k), semantic, STUCK, {"stalled": k}, "topic"),
            Case(Plant(reorder=k), semantic, KEPT, {"reordered": k}),
            Case(Plant(), semantic, KEPT),
        ]
    cases.append(
        Case(
            Plant(lose=2, duplicate=3, phantom=1, resurrect=2, tear=1, reorder=2),
            EOS,
            BROKEN,
            {
                "lost": 2,
                "duplicated": 3,
                "stored_twice": 3,
                "phantom": 1,
                "resurrected": 2,
                "torn": 1,
                "reordered": 2,
            },
        )
    )
    return cases


def hops() -> list[Case]:
    """Return losses at every other hop of a log."""
    others = [
        LastHop.NEVER_SENT,
        LastHop.SENT,
        LastHop.DELETED,
        LastHop.ABORTED,
        LastHop.SKIPPED,
        LastHop.DELIVERED,
    ]
    return [Case(Plant(lose=2, lose_at=hop), EOS, BROKEN, {"lost": 2}, str(hop)) for hop in others]


def lies() -> list[Case]:
    """Return the runs that prove nothing, and those that stop."""
    left = {"left_in_topic": 2, "left_in_source": 1}
    return [
        Case(Plant(disarm=True), ALO, VOID, reason="did not fire"),
        Case(Plant(disarm=True), ALO, VOID, reason="did not fire", scenario=ACK_LOST),
        Case(
            Plant(disarm=True, lose=1),
            ALO,
            BROKEN,
            {"lost": 1},
            "though not by this fault (the fault did not fire): at-lea",
        ),
        Case(
            Plant(wrong_victim=True, lose=2),
            EOS,
            BROKEN,
            {"lost": 2},
            "though not by this fault (the wrong process was kil",
        ),
        Case(
            Plant(disarm=True, duplicate=1),
            EOS,
            BROKEN,
            {"duplicated": 1, "stored_twice": 1},
            "forbids duplicates",
        ),
        Case(Plant(wrong_victim=True), ALO, VOID, reason="wrong process was killed: the producer"),
        Case(
            Plant(wrong_victim=True),
            EOS,
            VOID,
            reason="consumer was not killed",
            scenario=COMMIT_LOST,
        ),
        Case(Plant(no_load=True), ALO, VOID, reason="no load after"),
        Case(Plant(cut_drain=True), ALO, VOID, left, "cut short"),
        Case(Plant(cut_drain=True), EOS, VOID, left, "cut short", NONE),
        Case(Plant(stop_reading=True), ALO, STUCK, {"left_in_topic": 3}, "position"),
        Case(
            Plant(stop_reading=True, lose=1),
            EOS,
            STUCK,
            {"left_in_topic": 3, "lost": 1},
            "position",
        ),
        Case(Plant(unhealthy=True), EOS, VOID, reason="not healthy before"),
        Case(Plant(unhealthy=True), EOS, VOID, reason="not healthy before", scenario=NONE),
        Case(Plant(hide_sign=True), AMO, VOID, reason="nothing shows that the protection worked"),
        Case(Plant(hide_sign=True), EOS, VOID, reason="nothing shows", scenario=ACK_LOST),
        Case(Plant(hide_sign=True, lose=1), EOS, BROKEN, {"lost": 1}, "forbids loss"),
    ]


ALL = (*counted(), *hops(), *lies())


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CellResult]:
    """Return every lie, run and judged."""
    plants = {case.name: (case.scenario, case.semantic, case.plant) for case in ALL}
    assert len(plants) == len(ALL)
    return run_planted(plants, tmp_path_factory.mktemp("planted"))


@pytest.mark.parametrize("case", ALL, ids=[case.name for case in ALL])
def test_every_lie_is_found_out_and_counted_exactly(
    results: dict[str, CellResult], case: Case
) -> None:
    """What is planted is counted, to the record, and nothing else is; verdict and reason are the
    right ones.
    """
    hold(case, results[case.name])


def test_a_control_is_convicted_of_exactly_what_is_predicted(tmp_path: Path) -> None:
    """A control that duplicates its target is convicted; one that duplicates another record too, or
    none, is not.
    """
    control = replace(
        ACK_LOST,
        expect={
            EOS: Predicted(
                duplicated=narrow(ACK_LOST.expect[ALO], Predicted).duplicated, control=True
            )
        },
    )
    found = run_planted(
        {
            "as-predicted": (control, EOS, Plant()),
            "one-more": (control, EOS, Plant(duplicate=1)),
            "none": (control, EOS, Plant(disarm=True)),
            "lost-too": (control, EOS, Plant(lose=1)),
        },
        tmp_path,
    )
    assert {
        name: (str(result.verdict.kind), result.verdict.green) for name, result in found.items()
    } == {
        "as-predicted": ("broken", True),
        "one-more": ("broken", False),
        "none": ("void", False),
        "lost-too": ("broken", False),
    }


def test_a_network_that_changed_nothing_proves_nothing(tmp_path: Path) -> None:
    """Every scenario of the network is green where its effect shows, and void where it does not,
    whatever is counted.
    """
    applicable = [
        (
            scenario,
            next(
                semantic
                for semantic, said in scenario.expect.items()
                if isinstance(said, Predicted)
            ),
        )
        for scenario in NETWORK
    ]
    found = run_planted(
        {
            f"{scenario.id}-{word}": (scenario, semantic, Plant(network_idle=idle))
            for scenario, semantic in applicable
            for word, idle in (("felt", False), ("idle", True))
        },
        tmp_path,
    )
    assert len(found) == 2 * len(NETWORK)
    for name, result in found.items():
        assert result.verdict.green is name.endswith("-felt"), f"{name}: {result.verdict.reason}"
        if (
            name.endswith("-idle") and result.verdict.kind is not BROKEN
        ):  # a control is broken, and not as predicted
            assert "the network was made" in result.verdict.reason


def test_more_cannot_be_planted_than_there_are_records(tmp_path: Path) -> None:
    """A plant that finds no room is an error of the test, told in the cell's own verdict: never a
    smaller number.
    """
    found = run_planted({"too-many": (NONE, EOS, Plant(lose=24))}, tmp_path)["too-many"]
    assert found.verdict.kind is VOID
    assert "24 records are planted and 23 are free" in found.verdict.reason
    with pytest.raises(PlantError, match="counts from 0"):
        Plant(lose=-1)
