"""Cells: ids that select, keys that keep apart, loads that vary with the seed; and the payloads of
their records.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.model.cell import LEAST_RECORDS, Cell, expand, make_load
from harness.model.pipeline import SettingsError
from harness.model.plan import Plan, plan_of
from harness.model.prediction import Exactly
from harness.model.record import Record, decode, decode_id, make_records
from harness.model.scenario import NotApplicable, Predicted, RefusedByClient
from harness.model.semantics import Semantic
from harness.stages.settings import AT_MOST_ONCE, EXACTLY_ONCE, PLAIN, TOPIC_TO_TOPIC, TopicSettings
from tests.judge.test_settings import scenario

SEEDS = range(60)
EXPECT = {
    Semantic.AT_MOST_ONCE: Predicted(lost=Exactly()),
    Semantic.AT_LEAST_ONCE: NotApplicable("the trigger does not exist"),
    Semantic.EXACTLY_ONCE: RefusedByClient(AT_MOST_ONCE, "acks=1"),
}
SCENARIOS = [
    scenario(id="one", expect=EXPECT),
    scenario(id="two", expect={Semantic.AT_MOST_ONCE: Predicted()}),
]


def cells() -> list[Cell]:
    """Return all cells of two scenarios and a few seeds."""
    return list(expand(SCENARIOS, semantics=Semantic, seeds=(1, 2, 11)))


def test_ids_keys_and_folders_are_unique() -> None:
    """No two cells share an id, a key or a folder; a folder is one path component."""
    found = cells()
    assert len(found) == 3 * 4
    for names in (
        {cell.id for cell in found},
        {cell.key for cell in found},
        {cell.slug for cell in found},
    ):
        assert len(names) == len(found)
    assert not any("/" in cell.slug for cell in found)


def test_ids_and_keys_are_stable() -> None:
    """A cell's id and key are the same in every process and on every machine: they select it
    everywhere.
    """
    cell = cells()[0]
    assert cell.id == "kafka/kafka-python/plain/one/at-most-once/process/s1"
    assert cell.slug == "kafka.kafka-python.plain.one.at-most-once.process.s1"
    assert cell.key == "51c5e521"


def test_no_folder_has_a_space_in_its_name() -> None:
    """A program that is started by its path may split that: Iceberg's sink does so with the one of
    its worker's properties.
    """
    cell = cells()[0]
    spaced = replace(cell, scenario=replace(cell.scenario, id="consumer.before rename 1"))
    assert "before rename 1" in spaced.id
    assert "before-rename-1" in spaced.slug
    assert " " not in spaced.slug


def test_every_axis_changes_the_key() -> None:
    cell = cells()[0]
    others = (
        replace(cell, system="other"),
        replace(cell, client="other"),
        replace(cell, runtime="other"),
        replace(cell, seed=99),
        replace(cell, records=99),
        replace(cell, semantic=Semantic.EXACTLY_ONCE),
        replace(cell, scenario=SCENARIOS[1]),
    )
    assert len({other.key for other in (cell, *others)}) == 1 + len(others)


def test_expanding_yields_every_cell_with_its_expectation() -> None:
    """Cells that do not apply are yielded with their reason; semantics a scenario does not name are
    not.
    """
    found = cells()
    assert Counter(cell.scenario.id for cell in found) == {"one": 9, "two": 3}
    assert {type(cell.expectation) for cell in found} == {Predicted, NotApplicable, RefusedByClient}
    assert {
        cell.records for cell in expand(SCENARIOS, semantics=Semantic, seeds=[1], records=30)
    } == {30}


@given(seed=st.integers(0, 10**6), count=st.integers(LEAST_RECORDS, 200), unit=st.integers(1, 20))
def test_the_target_is_in_the_middle_third(seed: int, count: int, unit: int) -> None:
    """There is a third of the load before the target and a third after it, so a fault there always
    meets load.
    """
    load = make_load(seed=seed, salt="x", count=count, unit=unit)
    assert len(load.records) == count
    assert load.target in load.records
    assert count // 3 < load.target.position <= max(2 * (count // 3), count // 3 + 1)


def test_the_seed_varies_something_real() -> None:
    """Target, keys, payload sizes and jitter all differ between seeds; one seed always gives the
    same load.
    """
    loads = [make_load(seed=seed, salt="x", count=24, unit=1) for seed in SEEDS]
    assert len({load.target.position for load in loads}) == 8
    assert len({len({record.key for record in load.records}) for load in loads}) > 3
    assert (
        len({max(len(record.filler) for record in load.records) for load in loads})
        > len(SEEDS) // 3
    )
    assert len({load.jitter_ms for load in loads}) > 1
    assert len({load.records for load in loads}) == len(SEEDS)
    assert loads == [make_load(seed=seed, salt="x", count=24, unit=1) for seed in SEEDS]


def test_cells_of_one_seed_differ() -> None:
    """The seed is salted with scenario and semantic: one seed does not place every fault at the
    same record.
    """
    targets = {
        make_load(seed=1, salt=str(salt), count=24, unit=1).target.position for salt in range(40)
    }
    assert len(targets) > 4


def test_the_key_of_the_target_comes_again_behind_it() -> None:
    """Where it can: a consumer that is told nothing more of the target's partition shows nothing of
    where it resumed.
    """
    for unit in (1, 4, 6):
        for seed in range(300):
            load = make_load(seed=seed, salt="x", count=24, unit=unit)
            at = load.target.position
            behind = [record for record in load.records if record.position > -(-at // unit) * unit]
            assert load.target.key in {record.key for record in behind}, (seed, unit)


def test_a_queue_is_no_log() -> None:
    """Nor are its results in one, or its source's cursor: no ends are asked for."""
    queue = replace(EXACTLY_ONCE, topic=TopicSettings(partitions=0))
    for pipeline in PLAIN, TOPIC_TO_TOPIC:
        logs, none = (
            Cell(
                scenario(
                    pipeline=pipeline, expect={Semantic.EXACTLY_ONCE: Predicted(settings=settings)}
                ),
                Semantic.EXACTLY_ONCE,
                "memory",
                "none",
                "process",
                1,
                24,
            ).logs()
            for settings in (EXACTLY_ONCE, queue)
        )
        assert (logs["topic"], none) == (3, {})
    with pytest.raises(SettingsError, match="or 0 for a queue"):
        TopicSettings(partitions=-1)


def test_positions_count_from_one_and_ids_are_unique() -> None:
    records = make_records(50, keys=5, filler_bytes=(0, 9), seed=3)
    assert [record.position for record in records] == list(range(1, 51))
    assert len({record.id for record in records}) == 50
    assert all(record.id == f"{record.key}-{record.position}" for record in records)
    assert {len(record.filler) for record in records} == set(range(10))


def test_a_plan_is_made_of_a_cell_that_applies() -> None:
    """The plan holds what the judge needs; a cell that does not apply has none and says why; plans
    survive JSON.
    """
    predicted, not_applicable, refused = cells()[:3]
    plan = plan_of(predicted)
    assert (plan.id, plan.lost, plan.refused_by_client) == (predicted.id, Exactly(), False)
    assert plan.select == predicted.load().select()
    assert plan_of(refused).refused_by_client
    assert Plan.from_json(plan.to_json()).to_json() == plan.to_json()
    with pytest.raises(ValueError, match="does not apply: the trigger does not exist"):
        plan_of(not_applicable)


# --- payloads -------------------------------------------------------------------------------------

FILLER = st.text("abcdefghijklmnopqrstuvwxyz0123456789", max_size=40)


@given(position=st.integers(1, 10**9), filler=FILLER)
def test_a_payload_is_read_back(position: int, filler: str) -> None:
    """What was encoded is decoded: key of the cell, id, position, intact."""
    payload = decode(Record(f"k3-{position}", "k3", position, filler).encode("c0ffee00"))
    assert payload
    assert (payload.cell_key, payload.record, payload.position, payload.intact) == (
        "c0ffee00",
        f"k3-{position}",
        position,
        True,
    )


@pytest.mark.parametrize("filler", ["", "abc"])
def test_any_flipped_bit_is_found(filler: str) -> None:
    """One flipped bit anywhere makes the payload damaged or none of ours; it never passes for
    intact.
    """
    value = Record("k3-7", "k3", 7, filler).encode("c0ffee00")
    passed = []
    for bit in range(8 * len(value)):
        damaged = bytearray(value)
        damaged[bit // 8] ^= 1 << bit % 8
        payload = decode(bytes(damaged))
        if payload and payload.intact:
            passed.append(bytes(damaged))
    assert not passed


@pytest.mark.parametrize("filler", ["", "abc"])
def test_any_truncation_is_found(filler: str) -> None:
    value = Record("k3-7", "k3", 7, filler).encode("c0ffee00")
    cuts = [decode(value[:keep]) for keep in range(len(value))]
    assert not [payload for payload in cuts if payload and payload.intact]


@given(st.binary(max_size=60))
def test_foreign_bytes_are_none_of_ours(value: bytes) -> None:
    for candidate in (value, b"lostack " + value):
        payload = decode(candidate)
        assert payload is None or not payload.intact
        assert decode_id(candidate) == (payload.record if payload else None)
    assert decode(None) is None
