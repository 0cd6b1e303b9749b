"""Every named failure point of the taxonomy is a point of a sweep, by itself; what is none is
exempt by name.
"""

from __future__ import annotations

import pytest

from harness.model.prediction import Exactly, Permitted, Zero
from harness.sweep.acts import LOSE
from harness.sweep.classes import Class, class_of
from harness.sweep.pipelines import failpoints_of, swept
from harness.sweep.points import Capabilities, in_programs, points
from tests.sweep.stepping import asked
from tests.sweep.taxonomy import EXEMPT, TAXONOMY, Named, Where, classes_at, named
from tests.sweep.test_steps import saved, steps_of

CRASHES = "producer-crash-before-send"


def classes_of(semantic: str) -> set[Class]:
    """Return the classes of a sweep of three real runs, whatever their phase."""
    [base] = swept([f"plain/{semantic}"], asked(system="", records=24))
    steps, can = steps_of(saved(semantic)), Capabilities(failpoints=failpoints_of(base))
    return {
        class_of(point, "")
        for point in (*points(steps, base.load(), can), *in_programs(steps, can))
        if not point.illegal
    }


@pytest.mark.parametrize(
    ("semantic", "count"), [("at-most-once", 28), ("at-least-once", 34), ("exactly-once", 47)]
)
def test_every_named_point_is_one_of_a_sweep(semantic: str, count: int) -> None:
    """By its act at its step; and nothing is exempt that is one."""
    [base] = swept([f"plain/{semantic}"], asked(system="", records=24))
    found, others = named(base)
    classes = classes_of(semantic)
    assert {one.id for one in found if not classes_at(one.where, classes)} == set()
    assert set(others) <= EXEMPT.keys()
    assert len(found) == count
    assert CRASHES in {one.id for one in found}
    without = {each for each in classes if each.act != LOSE}
    assert {one.id for one in found if not classes_at(one.where, without)} == {
        "request-lost",
        "ack-lost",
        "delivery-lost",
    }


def test_who_is_exempt_is_a_named_point() -> None:
    assert EXEMPT.keys() <= {one.id for one in TAXONOMY}


def test_what_is_shown_at_a_point_is_compared_with_its_prediction() -> None:
    """What must show must, what must not does not; the rest is permitted."""
    where = Where("producer", "Produce", "response", LOSE)
    duplicates = Named("ack-lost", where, Zero(), Exactly())
    assert duplicates.agrees(["duplicated"])
    assert not duplicates.agrees([])
    assert not duplicates.agrees(["duplicated", "lost"])
    assert Named("any", where, Permitted(), Zero()).agrees(["lost"])
