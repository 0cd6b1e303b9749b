"""Predictions agree with exactly the counts they should, and selections name the
records they say.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.model.cell import Load
from harness.model.prediction import (
    AtLeast,
    AtMost,
    Exactly,
    Permitted,
    Prediction,
    Select,
    Some,
    Zero,
    examples,
)
from harness.model.record import Record

RESOLVE = {Select.TARGET: frozenset({"b"}), Select.UNIT: frozenset({"b", "c"})}
NONE, TARGET, UNIT, OTHER, MORE = set[str](), {"b"}, {"b", "c"}, {"d"}, {"a", "b", "c"}

AGREES: list[tuple[Prediction, list[set[str]], list[set[str]]]] = [
    (Zero(), [NONE], [TARGET, UNIT, OTHER]),
    (Exactly(), [TARGET], [NONE, UNIT, OTHER, MORE]),
    (Exactly(Select.UNIT), [UNIT], [NONE, TARGET, MORE]),
    (AtLeast(), [TARGET, UNIT, MORE], [NONE, OTHER]),
    (AtLeast(Select.UNIT), [UNIT, MORE], [NONE, TARGET, OTHER]),
    (AtMost(Select.UNIT), [NONE, TARGET, UNIT], [OTHER, MORE]),
    (Some(), [TARGET, OTHER, MORE], [NONE]),
    (Some(2), [UNIT, MORE], [NONE, TARGET]),
    (AtLeast(most=Select.UNIT), [TARGET, UNIT], [NONE, OTHER, MORE]),
    (AtLeast(Select.UNIT, most=Select.TARGET), [UNIT], [NONE, TARGET, OTHER, MORE]),
    (Some(most=Select.UNIT), [TARGET, UNIT], [NONE, OTHER, MORE]),
    (Permitted(), [NONE, TARGET, OTHER, MORE], []),
]


@pytest.mark.parametrize(
    ("prediction", "agree", "contradict"), AGREES, ids=lambda value: getattr(value, "text", str)()
)
def test_a_prediction_agrees_with_what_it_says(
    prediction: Prediction, agree: list[set[str]], contradict: list[set[str]]
) -> None:
    """A prediction is contradicted by exactly the sets it excludes, in one line that says what was
    seen.
    """
    for seen in agree:
        assert prediction.contradiction(seen, RESOLVE) is None
    for seen in contradict:
        said = prediction.contradiction(seen, RESOLVE)
        assert said
        assert said.startswith("predicted ")
        assert "\n" not in said


@pytest.mark.parametrize(
    ("prediction", "shows"),
    [
        (Zero(), False),
        (Permitted(), False),
        (AtMost(Select.TARGET), False),
        (Exactly(), True),
        (AtLeast(), True),
        (Some(), True),
        (AtLeast(most=Select.UNIT), True),
        (Some(most=Select.UNIT), True),
    ],
)
def test_only_an_effect_must_show(prediction: Prediction, shows: bool) -> None:
    """A count of zero voids a run exactly where theory says that the fault must bite."""
    assert prediction.must_show() is shows
    assert (prediction.contradiction(set(), RESOLVE) is not None) is shows


def test_every_prediction_reads_differently() -> None:
    texts = [prediction.text() for prediction, _, _ in AGREES]
    assert len(set(texts)) == len(texts)
    assert all(texts)


@given(st.sets(st.text("abc", min_size=1, max_size=3)), st.integers(1, 5))
def test_examples_are_examples(records: set[str], most: int) -> None:
    """At most so many records are named, all of them real, and the rest is counted."""
    said = examples(records, most)
    named, _, more = said.partition(" and ")
    if not records:
        assert said == "none"
        return
    names = named.split(", ")
    assert len(names) == min(most, len(records))
    assert set(names) <= records
    assert len(names) + (int(more.split()[0]) if more else 0) == len(records)


@pytest.mark.parametrize("unit", [1, 2, 3, 5, 12])
@pytest.mark.parametrize("at", [1, 4, 5, 6, 12])
def test_selections_name_the_records_they_say(unit: int, at: int) -> None:
    """Target, unit, through-target and before-target are right for every unit size and place of the
    target.
    """
    records = tuple(Record(f"r-{n}", "r", n) for n in range(1, 13))
    selected = Load(records, records[at - 1], unit, (0, 0)).select()
    units = [records[n : n + unit] for n in range(0, 12, unit)]
    mine = next(part for part in units if records[at - 1] in part)
    assert selected[Select.TARGET] == {f"r-{at}"}
    assert selected[Select.UNIT] == {record.id for record in mine}
    assert selected[Select.THROUGH_TARGET] == {f"r-{n}" for n in range(1, at + 1)}
    assert selected[Select.BEFORE_TARGET] == {f"r-{n}" for n in range(1, at)}
    assert set(selected) == {
        Select.TARGET,
        Select.NEXT,
        Select.UNIT,
        Select.THROUGH_TARGET,
        Select.BEFORE_TARGET,
    }
