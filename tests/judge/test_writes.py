"""Points at durable writes: which are tried of those that a program was seen to make."""

from __future__ import annotations

from itertools import product

import pytest

from harness.model.writes import CALLS, CHANGES, FLUSHES, MOST, Point, Side, chosen


def told(made: dict[str, list[int]], records: int = 20) -> list[str]:
    """Return what is tried, as text."""
    return [str(point) for point in chosen(made, records)]


@pytest.mark.parametrize(
    ("made", "points"),
    [
        ({}, []),
        (
            {"rename": [20]},
            ["before rename 1", "after rename 1", "before rename 2", "after rename 2"],
        ),
        ({"fdatasync": [20]}, ["after fdatasync 1", "after fdatasync 2"]),
        ({"fdatasync": [80]}, [f"after fdatasync {number}" for number in (1, 2, 3, 4)]),
        (
            {"fdatasync": [5]},
            ["after fdatasync 1", "after fdatasync 2"],
        ),  # a batch takes what a record does
        (
            {"fdatasync": [160], "unlink": [40]},
            [
                "before unlink 1",
                "after unlink 1",
                "before unlink 2",
                "after unlink 2",
                "after fdatasync 1",
                "after fdatasync 6",
            ],
        ),
        ({"unlink": [1]}, []),  # at some end: it may not come again
        ({"unlink": [3]}, ["before unlink 1", "after unlink 1"]),
        ({"rename": [1] * 20}, ["before rename 1", "after rename 1"]),  # a process for each record
        (
            {"rename": [2, 2, 1, 1]},
            ["before rename 1", "after rename 1", "before rename 2", "after rename 2"],
        ),
        (
            {"rename": [120]},
            [
                "before rename 1",
                "after rename 2",
                "before rename 3",
                "after rename 4",
                "before rename 5",
                "after rename 6",
            ],
        ),
    ],
)
def test_a_unit_of_work_is_covered(made: dict[str, list[int]], points: list[str]) -> None:
    """As many occurrences as a record takes, and two at least; both sides of what changes
    something; no more than a few.
    """
    assert told(made) == points


@pytest.mark.parametrize("calls", [1, 2, 3])
@pytest.mark.parametrize("order", [0, 1])
def test_what_lies_between_two_transactions_is_hit(calls: int, order: int) -> None:
    """However many flushes a transaction has, and wherever in it the counting begins: one point at
    least is between the two.
    """
    transaction = ["fdatasync"] * calls + ["unlink"] * order
    unit = transaction * 2
    made = {call: [20 * unit.count(call)] for call in set(unit)}
    points = chosen(made, 20)
    for start in range(len(unit)):
        met = [unit[(start + number) % len(unit)] for number in range(10 * len(unit))]
        exposed = [dies_between(met, start, point, transaction) for point in points]
        assert any(exposed), (unit, start)
        assert not all(exposed), (unit, start)


def dies_between(met: list[str], start: int, point: Point, transaction: list[str]) -> bool:
    """Whether a program dies at a point with its row recorded, by the first of two transactions,
    and its position not.

    A transaction is recorded when its last call is done.
    """
    places = [number for number, call in enumerate(met) if call == point.call]
    done = start + places[point.occurrence - 1] + (point.side is Side.AFTER)
    recorded = done // len(transaction)
    return recorded % 2 == 1


def test_every_call_is_of_one_kind() -> None:
    assert not set(CHANGES) & set(FLUSHES)
    assert set(CALLS) == {*CHANGES, *FLUSHES}


def test_there_are_no_more_points_than_names() -> None:
    for counts, records in product(([1], [3], [50], [7, 7, 7], [400]), (1, 10, 50)):
        points = chosen(dict.fromkeys(CALLS, counts), records)
        assert len(set(points)) == len(points) <= MOST
