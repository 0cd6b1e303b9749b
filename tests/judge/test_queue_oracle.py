"""The account and the brute-force oracle of queues agree on every column and every record of
hundreds of histories.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from hypothesis import given, settings

from harness.model.places import Removal, Waiting
from harness.model.states import LastHop, State
from tests.judge.agreement import differences, disagreement, figures_of_oracle
from tests.judge.queue_oracle import queue_oracle
from tests.judge.queues import histories, plausible, soup, story_of

if TYPE_CHECKING:
    from collections.abc import Callable

Row = dict[str, Any]

BATCHES = 14
PER_BATCH = 60
SEEDS = range(BATCHES * PER_BATCH)
OFTEN = 10


@pytest.mark.parametrize("batch", range(BATCHES))
def test_many_cells_agree_with_the_oracle(batch: int) -> None:
    for seed in range(batch * PER_BATCH, (batch + 1) * PER_BATCH):
        if said := disagreement(story_of(seed), queue_oracle):
            pytest.fail(f"seed {seed}: {said}", pytrace=False)


@settings(max_examples=settings().max_examples // 4)  # each is an account of its own
@given(events=histories())
def test_one_cell_agrees_with_the_oracle(events: list[Row]) -> None:
    """On histories of any luck, too (``--hypothesis-profile=thorough`` for new ones)."""
    if said := differences(events, queue_oracle):
        pytest.fail(said, pytrace=False)


@pytest.mark.parametrize("make", [soup, plausible])
def test_the_random_histories_hold_everything(make: Any) -> None:
    """The comparison is no empty one: in either sort every column is non-zero, every state and last
    hop occurs, many times; but no queue is compacted by keys.
    """
    found = [
        figures_of_oracle(queue_oracle(story_of(seed)))
        for seed in SEEDS
        if seed % 2 == (make is plausible)
    ]
    columns = pd.DataFrame([row["counts"] for row in found])
    rare = {
        name: int((columns[name] > 0).sum())
        for name in columns.columns.drop("superseded")
        if (columns[name] > 0).sum() < OFTEN
    }
    assert not rare
    seen = [pair for row in found for pair in row["records"].values()]
    of_queues = set(State) - {State.SUPERSEDED}
    states = {state: sum(1 for pair in seen if pair[0] == state) for state in of_queues}
    hops = {hop: sum(1 for pair in seen if pair[1] == hop) for hop in LastHop}
    assert min(states.values()) >= OFTEN, states
    assert min(hops.values()) >= OFTEN, hops
    assert {state for state, _ in seen} == {str(state) for state in of_queues}
    assert {hop for _, hop in seen if hop} == {str(hop) for hop in LastHop}


def _of(events: list[Row], kind: str) -> list[Row]:
    return [row for row in events if row["event"] == kind]


def _hole(events: list[Row]) -> bool:
    """A message waits, and one behind it in its queue was acknowledged."""

    def number(row: Row) -> int:
        return int(row["place"].split(":")[1])

    waits = [
        number(row)
        for row in _of(events, "stored")
        if row["waiting"] == "ready" and str(row["place"]).startswith("q:")
    ]
    acked = [
        number(row)
        for row in _of(events, "removed")
        if row["why"] == "ack" and str(row["place"]).startswith("q:")
    ]
    return bool(waits and acked) and min(waits) < max(acked)


def _moved_on(events: list[Row]) -> bool:
    """A copy was moved to where it was moved on from."""
    return bool(
        {row["to"] for row in _of(events, "moved")} & {row["place"] for row in _of(events, "moved")}
    )


def _recorded(events: list[Row], *, places: int, rows: int) -> bool:
    """A record is recorded so often, of so many copies."""
    of: dict[str, list[str]] = {}
    for row in _of(events, "recorded"):
        of.setdefault(row["record"], []).append(row["place"])
    return any(len(found) >= rows and len(set(found)) == places for found in of.values())


def _some(kind: str, **fields: object) -> Callable[[list[Row]], bool]:
    """Whether some line of a kind has these fields."""
    return lambda events: any(
        all(row[name] == value for name, value in fields.items()) for row in _of(events, kind)
    )


ACCIDENTS: dict[str, Callable[[list[Row]], bool]] = {
    "a hole in the acknowledgements": _hole,
    "a chain of moves": _moved_on,
    "two copies recorded": lambda events: _recorded(events, places=2, rows=2),
    "one copy recorded twice": lambda events: _recorded(events, places=1, rows=2),
    "redelivered": lambda events: any(row["redelivered"] for row in _of(events, "delivered")),
    "dead letters": lambda events: any(row["hop"] == "aside" for row in _of(events, "stored")),
    "the library's word": lambda events: any(
        row["told_by"] == "library" for row in _of(events, "transaction")
    ),
    "several versions": lambda events: len({row["version"] for row in _of(events, "folded")}) > 1,
    **{
        f"removed by {why}": _some("removed", why=why)
        for why in Removal
        if why is not Removal.DELETED  # with its topic: no queue's
    },
    **{f"{waiting}": _some("stored", waiting=waiting) for waiting in Waiting},
    **{f"folded {times} times": _some("folded", times=times) for times in (1, 2, 3)},
}
STORIES = [story_of(seed) for seed in SEEDS if seed % 2]


@pytest.mark.parametrize("accident", ACCIDENTS)
def test_the_stories_have_every_accident(accident: str) -> None:
    assert sum(ACCIDENTS[accident](events) for events in STORIES) >= OFTEN
