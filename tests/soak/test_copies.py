"""Copies of positions against a plain loop, in memory that stays small."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from harness.audit.pages import PAGE
from harness.soak.copies import LIVE, Copies


@pytest.mark.parametrize("seed", range(5))
def test_against_a_plain_loop(seed: int) -> None:
    dice = random.Random(seed)
    end = 5 * PAGE + 17
    copies, plain = Copies(end), Counter[int]()
    outside = 0
    for _ in range(60):
        first, count = dice.randrange(-9, end), dice.choice((1, 7, 400, PAGE, PAGE + 5))
        copies.add(first, count)
        inside = [at for at in range(first, first + count) if 0 <= at < end]
        outside += count - len(inside)
        plain.update(inside)
    low, high = sorted(dice.randrange(end) for _ in range(2))
    lost, more = copies.anomalies(low, high)
    assert [at for first, count in lost for at in range(first, first + count)] == [
        at for at in range(low, high) if not plain[at]
    ]
    assert {
        at: besides + 1 for first, count, besides in more for at in range(first, first + count)
    } == {at: plain[at] for at in range(low, high) if plain[at] > 1}
    assert copies.once == len(plain)
    assert copies.outside == outside


def test_what_is_as_it_should_be_takes_no_memory() -> None:
    """Pages that are whole are a number each; one late copy of a position in them is still seen."""
    many = 3 * LIVE
    copies = Copies(many * PAGE)
    for at in range(0, many * PAGE, PAGE // 2):
        copies.add(at, PAGE // 2)
    copies.add(PAGE + 5, 1)
    assert len(copies._live) + len(copies._cold) <= LIVE + 1
    assert copies.anomalies(0, many * PAGE) == ([], [(PAGE + 5, 1, 1)])
