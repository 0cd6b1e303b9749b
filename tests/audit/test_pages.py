"""The tally against plain dictionaries: any ids, any chunks, any order, with so little room that
pages come and go.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.audit.findings import RANGES, Span, compare, ranges
from harness.audit.pages import (
    NUMBER_BITS,
    NUMBERS,
    PAGE,
    PAGE_BITS,
    Keys,
    Order,
    Tally,
    decode,
    encode,
    merge,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


EDGES = [0, 1, PAGE - 1, PAGE, PAGE + 1, 5 * PAGE, NUMBERS - 1]
numbers = st.one_of(st.sampled_from(EDGES), st.integers(0, 3 * PAGE), st.integers(0, NUMBERS - 1))
ids = st.tuples(st.integers(0, 3), numbers)
chunks = st.lists(st.lists(ids, max_size=30), max_size=6)


def packed(rows: list[tuple[int, int]]) -> np.ndarray:
    """Pack (code, number) pairs."""
    return np.array([(code << NUMBER_BITS) | number for code, number in rows], dtype=np.int64)


def counted(tally: Tally) -> Counter[tuple[int, int]]:
    """Unpack what a tally holds."""
    found: Counter[tuple[int, int]] = Counter()
    for code, page, data in tally.pages():
        copies = decode(data)
        found.update(
            {
                (code, (page << PAGE_BITS) + int(at)): int(copies[at])
                for at in np.flatnonzero(copies)
            }
        )
    return found


@given(chunks)
def test_a_tally_counts_like_a_dictionary(given_chunks: list[list[tuple[int, int]]]) -> None:
    """Two living pages at most: they are compressed and woken all the time, and nothing is lost or
    counted twice.
    """
    tally = Tally(live_pages=2)
    want: Counter[tuple[int, int]] = Counter()
    for rows in given_chunks:
        fresh = tally.add_in_order(packed(rows))
        for row, is_fresh in zip(rows, fresh.tolist(), strict=True):
            assert is_fresh == (want[row] == 0)
            want[row] += 1
    plain = Tally(live_pages=1)
    for rows in given_chunks:
        plain.add(packed(rows))
    assert plain.rows == tally.rows == sum(want.values())
    assert counted(plain) == counted(tally) == want


@pytest.mark.parametrize("copies", [1, 2, 254, 255, 256, 70_000])
def test_many_copies_of_one_id_are_all_counted(copies: int) -> None:
    """A byte is not the limit; two chunks, and a page that goes to rest between them."""
    tally = Tally(live_pages=1)
    tally.add(packed([(0, 7)] * copies))
    tally.add(packed([(0, 5 * PAGE)]))
    tally.add(packed([(0, 7)]))
    assert counted(tally) == {(0, 7): copies + 1, (0, 5 * PAGE): 1}


@pytest.mark.parametrize("rounds", [1, 2, 254, 255, 257])
def test_runs_of_neighbours_are_counted_like_any_others(rounds: int) -> None:
    """Two and a half pages of ids that follow one another, again and again, some of them twice in a
    chunk.
    """
    tally = Tally(live_pages=4)
    run = np.arange(100, 100 + 2 * PAGE + PAGE // 2)
    for number in range(rounds):
        assert tally.add_in_order(run).all() == (number == 0)
    tally.add(np.sort(np.concatenate([run[:5000], run[2000:2010]])))
    found = counted(tally)
    assert found[0, 99] == found[0, int(run[-1]) + 1] == 0
    assert {found[0, int(number)] for number in run[5000:]} == {rounds}
    assert {found[0, int(number)] for number in run[2000:2010]} == {rounds + 2}
    assert {found[0, int(number)] for number in (*run[:2000], *run[2010:5000])} == {rounds + 1}


@pytest.mark.parametrize("names", [["b", None, "a", "b", ""], [None, None], [], ["a"]])
def test_no_key_is_the_empty_key(names: list[str | None]) -> None:
    column = pa.array(names, pa.string())
    for array in (column, column.dictionary_encode(), pa.chunked_array([column])):
        keys = Keys()
        keys.code("other")
        assert [keys.names[code] for code in keys.codes(array).tolist()] == [
            name or "" for name in names
        ]


def test_tallies_of_several_tasks_add_up() -> None:
    one, other = np.zeros(PAGE, np.uint32), np.zeros(PAGE, np.uint32)
    one[3], other[3], other[9] = 200, 100, 70_000
    total = merge([encode(one), encode(other)])
    assert total is not None
    assert (total[3], total[9], int(total.sum())) == (300, 70_000, 70_300)
    assert merge([]) is None


def slowly_reordered(rows: list[tuple[int, int]]) -> int:
    """Count by hand: a first copy below the highest number its stream has shown."""
    highest: dict[int, int] = {}
    found = 0
    for stream, number in rows:
        found += number < highest.get(stream, -1)
        highest[stream] = max(highest.get(stream, -1), number)
    return found


@given(chunks)
def test_the_order_is_counted_like_by_hand(given_chunks: list[list[tuple[int, int]]]) -> None:
    order = Order()
    for rows in given_chunks:
        streams = np.array([stream for stream, _ in rows], dtype=np.int64)
        order.add(streams, np.array([number for _, number in rows], dtype=np.int64))
    assert order.reordered == slowly_reordered([row for rows in given_chunks for row in rows])


sparse = st.dictionaries(
    st.one_of(st.integers(0, 40), st.integers(PAGE - 20, PAGE + 20)), st.integers(1, 3), max_size=40
)


@given(sparse, sparse)
@example({PAGE - 1: 1, PAGE: 1}, {})
def test_pages_compare_like_sets(offered: dict[int, int], arrived: dict[int, int]) -> None:
    """Lost, duplicated and phantom by set arithmetic; ranges join over the edge of a page."""
    found = []
    for page in (0, 1):
        sides = []
        for side in (offered, arrived):
            copies = np.zeros(PAGE, np.uint32)
            for number, count in side.items():
                if number >> PAGE_BITS == page:
                    copies[number & (PAGE - 1)] = count
            sides.append(copies)
        found.append(compare("k", page, sides[0], sides[1]))
    lost = sorted(offered.keys() - arrived.keys())
    assert sum(page.lost for page in found) == len(lost)
    assert sum(page.offered for page in found) == len(offered)
    assert sum(page.offered_again for page in found) == sum(offered.values()) - len(offered)
    assert sum(page.arrived for page in found) == len(offered.keys() & arrived.keys())
    assert sum(page.duplicated for page in found) == sum(
        arrived[n] - 1 for n in offered.keys() & arrived.keys()
    )
    assert sum(page.phantom for page in found) == sum(
        arrived[n] for n in arrived.keys() - offered.keys()
    )
    spans, total = ranges(found)
    assert total == len(spans)
    assert [number for span in spans for number in range(span.first, span.last + 1)] == lost
    assert all(one.last + 1 < other.first for one, other in pairwise(spans))


def test_ranges_beyond_what_is_kept_are_counted_all_the_same() -> None:
    """Every second id of three pages lost, and the page edge between two of them: kept are the
    first, counted are all.
    """
    every_second = np.zeros(PAGE, np.uint32)
    every_second[::2] = 1
    every_second[-1] = 1
    whole = np.ones(PAGE, np.uint32)
    pages = [
        compare("", 0, every_second, None),
        compare("", 1, whole, None),
        compare("", 2, every_second, None),
    ]
    spans, total = ranges(pages)
    assert len(spans) == RANGES
    assert spans[0] == Span("", 0, 0)
    assert spans[-1] == Span("", 2 * (RANGES - 1), 2 * (RANGES - 1))
    assert total == len(joined(pages))


def joined(pages: Sequence[Any]) -> list[tuple[int, int]]:
    """Join all lost numbers by hand."""
    lost: list[int] = []
    for page in pages:
        number = page.page << PAGE_BITS
        lost += (
            range(number, number + PAGE)
            if page.lost == PAGE
            else [*range(number, number + PAGE, 2), number + PAGE - 1]
        )
    runs: list[tuple[int, int]] = []
    for number in lost:
        if runs and runs[-1][1] + 1 == number:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs
