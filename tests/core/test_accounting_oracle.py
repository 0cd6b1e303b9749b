"""The account and the brute-force oracle agree on every column and every record of hundreds of histories."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.accounting import Account, account
from harness.core.states import LastHop, State
from tests.core.histories import story_of
from tests.core.oracle import oracle

Row = dict[str, Any]

BATCHES = 14
PER_BATCH = 24
ROUNDS_MAX = 2000
OF_LOGS = (
    LastHop.NEVER_SENT, LastHop.SENT, LastHop.ACKED, LastHop.DELETED, LastHop.ABORTED, LastHop.SKIPPED, LastHop.DELIVERED,
)  # fmt: skip
"""Where a record is lost whose broker keeps a log."""


def figures_of_oracle(events: list[Row]) -> Row:
    """Return the oracle's answer in a form that can be compared."""
    found = oracle(events)
    counts = {name: len(value) if isinstance(value, set) else value for name, value in found.items()}
    counts["left"] = counts["left_in_source"] + counts["left_in_topic"]
    for name in ("states", "last_hops", "duplicated_ids"):
        del counts[name]
    records = {record: (state, found["last_hops"].get(record)) for record, state in found["states"].items()}
    return {"counts": counts, "records": records, "lost": found["lost"], "duplicated": found["duplicated_ids"]}


def figures_of_account(found: Account) -> Row:
    """Return the account's answer in the same form."""
    rows = zip(found.records["record"], found.records["state"], found.records["last_hop"], strict=True)
    records = {record: (str(state), None if hop is None else str(hop)) for record, state, hop in rows}
    return {"counts": found.counts, "records": records, "lost": set(found.lost), "duplicated": set(found.duplicated)}


def differences(events: list[Row]) -> str:
    """Say where the two disagree about one history; empty where they agree."""
    told = figures_of_account(account(events))
    want = figures_of_oracle(events)
    lines = [
        f"{part} {name}: account {told[part].get(name)}, oracle {want[part].get(name)}"
        for part in ("counts", "records")
        for name in {**told[part], **want[part]}
        if told[part].get(name) != want[part].get(name)
    ]
    parts = [part for part in ("lost", "duplicated") if told[part] != want[part]]
    lines += [f"{part}: account {told[part]}, oracle {want[part]}" for part in parts]
    return "\n".join(lines)


def smallest(events: list[Row]) -> list[Row]:
    """Leave out events one by one for as long as the two still disagree."""
    rounds = 0
    at = 0
    while at < len(events) and rounds < ROUNDS_MAX:
        rounds += 1
        fewer = events[:at] + events[at + 1 :]
        if differences(fewer):
            events = fewer
        else:
            at += 1
    return events


@pytest.mark.parametrize("batch", range(BATCHES))
def test_many_cells_agree_with_the_oracle(batch: int) -> None:
    """Every column and every record's state agrees with the oracle."""
    histories = {f"cell-{batch * PER_BATCH + n}": story_of(batch * PER_BATCH + n) for n in range(PER_BATCH)}
    for cell, told in histories.items():
        if figures_of_account(account(told)) != figures_of_oracle(told):
            events = smallest(told)
            pytest.fail(f"{cell}: {differences(events)}\n" + "\n".join(str(row) for row in events), pytrace=False)


@settings(max_examples=settings().max_examples // 4)  # each is an account of its own
@given(seed=st.integers(0, 2**32))
def test_one_cell_agrees_with_the_oracle(seed: int) -> None:
    """``account`` agrees with the oracle on histories of any luck (``--hypothesis-profile=thorough`` for new ones)."""
    events = story_of(seed)
    if said := differences(events):
        events = smallest(events)
        pytest.fail(f"seed {seed}: {said}\n" + "\n".join(str(row) for row in events), pytrace=False)


def test_the_random_histories_hold_everything() -> None:
    """The comparison is no empty one: every column is non-zero, and every state and last hop occurs, many times."""
    found = [figures_of_oracle(story_of(seed)) for seed in range(BATCHES * PER_BATCH)]
    columns = pd.DataFrame([row["counts"] for row in found])
    rare = {name: int((columns[name] > 0).sum()) for name in columns if (columns[name] > 0).sum() < 10}
    assert not rare
    seen = [pair for row in found for pair in row["records"].values()]
    states = {state: sum(1 for pair in seen if pair[0] == state) for state in State}
    hops = {hop: sum(1 for pair in seen if pair[1] == hop) for hop in OF_LOGS}
    assert min(states.values()) >= 10, states
    assert min(hops.values()) >= 10, hops
    assert {state for state, _ in seen} == {str(state) for state in State}
    assert {hop for _, hop in seen if hop} == {str(hop) for hop in OF_LOGS}


def test_an_empty_history_has_an_empty_account() -> None:
    """No events, no counts: nothing fails and nothing is invented."""
    assert not differences([])
    assert set(account([]).counts.values()) == {0}
