"""The in-memory system as a queue lies in every way we know: each is found out and
counted exactly.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.judge.verdict import Kind
from harness.model import events as kinds
from harness.model.history import read_history
from harness.model.places import MOVABLE, Waiting
from harness.model.semantics import Semantic
from harness.model.states import LastHop
from scenarios.plain import ACK_LOST, COMMIT_LOST, DELIVERY_LOST, NONE
from tests.events import plain
from tests.judge.agreement import differences
from tests.judge.queue_oracle import queue_oracle
from tests.memory.plants import Lie, Plant
from tests.planted.lies import FORGIVING, Case, hold, in_queue, run_planted

if TYPE_CHECKING:
    from pathlib import Path

    from harness.saved import CellResult

AMO, ALO, EOS = Semantic.AT_MOST_ONCE, Semantic.AT_LEAST_ONCE, Semantic.EXACTLY_ONCE
KEPT, BROKEN, VOID, STUCK = Kind.KEPT, Kind.BROKEN, Kind.VOID, Kind.STUCK
NUMBERS = (1, 2, 5)
QUEUE, PERMITS, AT_REST = in_queue(DELIVERY_LOST), in_queue(FORGIVING), in_queue(NONE)
HOPS = tuple(hop for hop in LastHop if hop is not LastHop.SKIPPED)
"""Where a queue loses: what waits for nothing was removed, or else nobody knows where it is."""
LENIENT = replace(QUEUE, id="lenient", dead_letters=True)
"""Dead letters are a part of its pipeline."""


def lost() -> list[Case]:
    """Return losses at every hop that there is."""
    cases = []
    for hop in HOPS:
        cases += [
            Case(Plant(lose=k, lose_at=hop), ALO, BROKEN, {"lost": k}, str(hop), QUEUE)
            for k in NUMBERS
        ]
        cases.append(
            Case(
                Plant(lose=2, lose_at=hop),
                EOS,
                BROKEN,
                {"lost": 2},
                "exactly-once forbids loss: 2 lost",
                QUEUE,
            )
        )
        cases.append(Case(Plant(lose=2, lose_at=hop), AMO, KEPT, {"lost": 2}, f"{hop}", PERMITS))
    return cases


def counted() -> list[Case]:
    """Return the other lies that are convicted of a number."""
    cases = []
    for k in NUMBERS:
        stored = {"duplicated": k, "stored_twice": k}
        delivered = {"duplicated": k, "delivered_twice": k}
        cases += [
            Case(Plant(duplicate=k), EOS, BROKEN, stored, f"{k} stored twice", QUEUE),
            Case(Plant(duplicate=k), ALO, VOID, stored, "contradicted", QUEUE),
            Case(
                Plant(duplicate=k, delivered_twice=True),
                AMO,
                BROKEN,
                delivered,
                f"{k} delivered twice",
                QUEUE,
            ),
            Case(
                Plant(duplicate=k, delivered_twice=True, absorbs=True),
                EOS,
                KEPT,
                {"absorbed": k},
                scenario=QUEUE,
            ),
            Case(Plant(duplicate=k, absorbs=True), EOS, KEPT, {"absorbed": k}, scenario=QUEUE),
            Case(Plant(set_aside=k), EOS, BROKEN, {"set_aside": k}, f"{k} set aside", QUEUE),
            Case(Plant(set_aside=k), ALO, KEPT, {"set_aside": k}, f"{k} set aside", LENIENT),
            Case(Plant(stall=k), EOS, STUCK, {"stalled": k}, "prepared", QUEUE),
            Case(Plant(resurrect=k), ALO, BROKEN, {"resurrected": k}, f"{k} resurrected", QUEUE),
            Case(Plant(tear=k), AMO, BROKEN, {"torn": k}, f"{k} torn", QUEUE),
            Case(Plant(phantom=k), EOS, BROKEN, {"phantom": k}, f"{k} phantom", QUEUE),
        ]
    cases += [Case(Plant(), semantic, KEPT, scenario=QUEUE) for semantic in Semantic]
    cases += [
        Case(
            Plant(duplicate=2, times=4, delivered_twice=True),
            EOS,
            BROKEN,
            {"duplicated": 6, "delivered_twice": 6},
            "",
            QUEUE,
        ),
        Case(Plant(lose=2, set_aside=1), EOS, BROKEN, {"lost": 2, "set_aside": 1}, "2 lost", QUEUE),
        Case(Plant(reorder=2), EOS, KEPT, {"reordered": 2}, scenario=QUEUE),
    ]
    return cases


def hidden() -> list[Case]:
    """Return the messages that wait although nothing is said to, and those that only broker or
    observer know.
    """
    cases = []
    for waiting in sorted(MOVABLE):
        for k in NUMBERS:
            left = {"left_in_topic": k}
            cases.append(
                Case(
                    Plant(hide=k, hide_as=waiting),
                    ALO,
                    VOID,
                    left,
                    f"{k} records are left behind",
                    QUEUE,
                )
            )
        another = Plant(hide=2, hide_as=waiting, hide_another=True)
        cases.append(Case(another, EOS, VOID, {}, f"waits: {waiting}", QUEUE))
        beside = replace(another, lose=1)
        cases.append(Case(beside, EOS, VOID, {"lost": 1}, f"waits: {waiting}", AT_REST))
    cases += [
        Case(
            Plant(miscount=k),
            EOS,
            VOID,
            {},
            f"the broker counts {k} messages ready or in flight in queue, but the observer saw 0",
            QUEUE,
        )
        for k in NUMBERS
    ]
    cases += [
        Case(
            Plant(miscount=-1, hide=2),
            ALO,
            VOID,
            {"left_in_topic": 2},
            "counts 1 messages ready or in flight in queue, but the observer saw 2",
            QUEUE,
        ),
        Case(
            Plant(miscount=1, duplicate=1),
            EOS,
            VOID,
            {"duplicated": 1, "stored_twice": 1},
            "the broker counts 1",
            QUEUE,
        ),
    ]
    return cases


def lies() -> list[Case]:
    """Return the runs that prove nothing, and those that stop."""
    left = {"left_in_topic": 2, "left_in_source": 1}
    return [
        Case(Plant(disarm=True), ALO, VOID, {}, "did not fire", QUEUE),
        Case(Plant(disarm=True), ALO, VOID, {}, "did not fire", in_queue(ACK_LOST)),
        Case(
            Plant(disarm=True, lose=1),
            ALO,
            BROKEN,
            {"lost": 1},
            "though not by this fault (the fault did not fire)",
            QUEUE,
        ),
        Case(
            Plant(wrong_victim=True), ALO, VOID, {}, "wrong process was killed: the producer", QUEUE
        ),
        Case(
            Plant(wrong_victim=True),
            EOS,
            VOID,
            {},
            "consumer was not killed",
            in_queue(COMMIT_LOST),
        ),
        Case(Plant(no_load=True), ALO, VOID, {}, "no load after", QUEUE),
        Case(Plant(cut_drain=True), ALO, VOID, left, "cut short", QUEUE),
        Case(
            Plant(stop_reading=True), ALO, STUCK, {"left_in_topic": 3}, "messages are ready", QUEUE
        ),
        Case(Plant(unhealthy=True), EOS, VOID, {}, "not healthy before", QUEUE),
        Case(
            Plant(lose=1, lose_at=LastHop.SKIPPED), AMO, VOID, {"lost": 1}, "for nothing", PERMITS
        ),
        Case(Plant(lie=Lie.NEITHER), ALO, VOID, {}, "that waits for nothing, but not", QUEUE),
        Case(Plant(lie=Lie.UNSTORED), ALO, VOID, {}, "where no queue has had a copy", QUEUE),
        *(
            Case(Plant(lie=Lie.TWICE), semantic, VOID, {}, "the wire passed on 1 request", PERMITS)
            for semantic in Semantic
        ),
        Case(
            Plant(lie=Lie.TWICE, duplicate=1, delivered_twice=True),
            EOS,
            BROKEN,
            {"duplicated": 1, "delivered_twice": 1},
            "though not by this fault (the broker's authority has 2 copies of",
            QUEUE,
        ),
        Case(Plant(hide_sign=True), EOS, VOID, {}, "nothing shows", in_queue(ACK_LOST)),
    ]


ALL = (*lost(), *counted(), *hidden(), *lies())


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CellResult]:
    """Return every lie, run and judged."""
    plants = {case.name: (case.scenario, case.semantic, case.plant) for case in ALL}
    assert len(plants) == len(ALL)
    return run_planted(plants, tmp_path_factory.mktemp("queues"))


@pytest.mark.parametrize("case", ALL, ids=[case.name for case in ALL])
def test_every_lie_is_found_out_and_counted_exactly(
    results: dict[str, CellResult], case: Case
) -> None:
    """What is planted is counted, to the record, and nothing else is; verdict and reason are the
    right ones.
    """
    hold(case, results[case.name])


@pytest.mark.parametrize("hop", HOPS)
def test_each_lost_record_is_lost_at_its_own_hop(
    results: dict[str, CellResult], hop: LastHop
) -> None:
    name = next(case.name for case in ALL if case.plant == Plant(lose=5, lose_at=hop))
    records = results[name].judgement.account.records
    assert records["last_hop"].dropna().tolist() == [hop] * 5
    assert (records["recordings"] == 1).sum() == len(records) - 5


def test_the_oracle_says_the_same_of_every_lie(results: dict[str, CellResult]) -> None:
    told = {
        name: plain(read_history(result.directory / "history").events)
        for name, result in results.items()
    }
    assert {
        name: said for name, events in told.items() if (said := differences(events, queue_oracle))
    } == {}


def test_a_history_of_a_queue_names_no_offsets(results: dict[str, CellResult]) -> None:
    """It has no ends and no positions; its copies have places, and are counted."""
    result = results[Case(Plant(set_aside=1), EOS, BROKEN, scenario=QUEUE).name]
    history = read_history(result.directory / "history")
    assert not list(history.of(kinds.Log, kinds.Position))
    assert result.plan.logs == {}
    for event in history.of(kinds.Stored, kinds.Recorded, kinds.Removed, kinds.Delivered):
        assert (event.partition, event.offset, event.epoch) == (None, None, None)
    counted = {event.queue: event.ready for event in history.of(kinds.Counted)}
    assert counted == {"queue": 0, "dead letters": 1}
    [aside] = [event.place for event in history.of(kinds.Stored) if event.hop == "aside"]
    assert [event.to for event in history.of(kinds.Moved)] == [aside]
    assert [event.redelivered for event in history.of(kinds.Delivered)].count(True) == 2


FEW = st.integers(0, 3)
PLANTS = st.builds(
    Plant,
    lose=FEW,
    lose_at=st.sampled_from(HOPS),
    duplicate=FEW,
    times=st.integers(2, 4),
    delivered_twice=st.booleans(),
    resurrect=FEW,
    tear=FEW,
    phantom=FEW,
    hide=FEW,
    hide_as=st.sampled_from(sorted(MOVABLE)),
    set_aside=FEW,
)


@settings(max_examples=20)  # each is a run
@given(plant=PLANTS)
def test_any_mixture_is_counted_exactly(
    tmp_path_factory: pytest.TempPathFactory, plant: Plant
) -> None:
    """Several lies at once, each counted as if it were alone."""
    found = run_planted({"mixed": (PERMITS, EOS, plant)}, tmp_path_factory.mktemp("mixed"))["mixed"]
    counts, extra = found.judgement.account.counts, plant.duplicate * (plant.times - 1)
    want = {
        "lost": plant.lose,
        "duplicated": extra,
        "delivered_twice": extra if plant.delivered_twice else 0,
        "resurrected": plant.resurrect,
        "torn": plant.tear,
        "phantom": plant.phantom,
        "left_in_topic": plant.hide,
        "set_aside": plant.set_aside,
        "stalled": 0,
        "reordered": 0,
    }
    assert {name: counts[name] for name in want} == want
    forbidden = extra or plant.resurrect or plant.tear or plant.phantom
    rest = VOID if plant.hide else BROKEN if plant.lose or plant.set_aside else KEPT
    assert found.verdict.kind is (BROKEN if forbidden else rest), found.verdict.reason


def test_a_log_does_not_do_what_only_a_queue_can(tmp_path: Path) -> None:
    plants = (
        Plant(hide=1),
        Plant(set_aside=1),
        Plant(miscount=1),
        Plant(lose=1, lose_at=LastHop.EXPIRED),
    )
    found = run_planted(
        {f"log-{n}": (NONE, EOS, plant) for n, plant in enumerate(plants)}, tmp_path
    )
    assert len(found) == len(plants)
    for result in found.values():
        assert result.verdict.kind is VOID
        assert "the plant needs a queue" in result.verdict.reason


def test_what_waits_for_a_transaction_is_not_hidden_but_stalled() -> None:
    assert {Waiting.OPEN, Waiting.PREPARED}.isdisjoint(MOVABLE)
