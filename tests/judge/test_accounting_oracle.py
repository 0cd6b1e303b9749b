"""The account and the brute-force oracle agree on every column and every record of hundreds of
histories.
"""

from __future__ import annotations

from collections import Counter

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.model.states import LastHop, State
from tests.events import account
from tests.judge.agreement import differences, disagreement, figures_of_oracle
from tests.judge.histories import story_of
from tests.judge.oracle import in_time, is_aborted, is_from, is_given_away, is_ours, of, oracle

BATCHES = 14
PER_BATCH = 24
OF_LOGS = (
    LastHop.NEVER_SENT,
    LastHop.SENT,
    LastHop.ACKED,
    LastHop.DELETED,
    LastHop.COMPACTED,
    LastHop.ABORTED,
    LastHop.SKIPPED,
    LastHop.DELIVERED,
)
"""Where a record is lost whose broker keeps a log."""


@pytest.mark.parametrize("batch", range(BATCHES))
def test_many_cells_agree_with_the_oracle(batch: int) -> None:
    histories = {
        f"cell-{batch * PER_BATCH + n}": story_of(batch * PER_BATCH + n) for n in range(PER_BATCH)
    }
    for cell, told in histories.items():
        if said := disagreement(told, oracle):
            pytest.fail(f"{cell}: {said}", pytrace=False)


@settings(max_examples=settings().max_examples // 4)  # each is an account of its own
@given(seed=st.integers(0, 2**32))
def test_one_cell_agrees_with_the_oracle(seed: int) -> None:
    """``account`` agrees with the oracle on histories of any luck
    (``--hypothesis-profile=thorough`` for new ones).
    """
    if said := disagreement(story_of(seed), oracle):
        pytest.fail(f"seed {seed}: {said}", pytrace=False)


def test_the_random_histories_hold_everything() -> None:
    """The comparison is no empty one: every column is non-zero, and every state and last hop
    occurs, many times.
    """
    found = [figures_of_oracle(oracle(story_of(seed))) for seed in range(BATCHES * PER_BATCH)]
    columns = pd.DataFrame([row["counts"] for row in found])
    rare = {
        name: int((columns[name] > 0).sum()) for name in columns if (columns[name] > 0).sum() < 10
    }
    assert not rare
    seen = [pair for row in found for pair in row["records"].values()]
    states = {state: sum(1 for pair in seen if pair[0] == state) for state in State}
    hops = {hop: sum(1 for pair in seen if pair[1] == hop) for hop in OF_LOGS}
    assert min(states.values()) >= 10, states
    assert min(hops.values()) >= 10, hops
    assert {state for state, _ in seen} == {str(state) for state in State}
    assert {hop for _, hop in seen if hop} == {str(hop) for hop in OF_LOGS}


def test_the_random_histories_give_aborted_copies_away() -> None:
    """In many ways: to readers of committed records, into the sink, and to those who may have
    them.
    """
    ways: Counter[str] = Counter()
    for seed in range(BATCHES * PER_BATCH):
        rows = in_time(story_of(seed))
        offered = {row["record"]: row for row in of(rows, "offered")}
        for copy in of(rows, "stored"):
            if not is_ours(copy, offered) or not is_aborted(copy, rows):
                continue
            for kind in ("fetched", "recorded", "delivered"):
                if any(is_from(row, copy) for row in of(rows, kind)):
                    ways[f"{kind} {is_given_away(copy, rows, offered)}"] += 1
    assert len(ways) == 6
    assert min(ways.values()) >= 10, ways


def test_an_empty_history_has_an_empty_account() -> None:
    """No events, no counts: nothing fails and nothing is invented."""
    assert not differences([], oracle)
    assert set(account([]).counts.values()) == {0}
