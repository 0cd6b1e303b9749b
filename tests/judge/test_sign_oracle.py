"""Signs and the brute-force look at them agree on every record of hundreds of histories, of logs
and of queues.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.judge.rows import Rows
from harness.judge.verdict import signs_of
from harness.knowledge import knowledge
from tests.events import a_history, events_of, placed, plain
from tests.judge import histories, queues
from tests.judge.of_engines import signs_of_engines
from tests.judge.sign_oracle import SHOWS, protect, sign_oracle

if TYPE_CHECKING:
    from harness.model.events import Event
    from tests.judge.histories import Row

SEEDS = 800
OFTEN = 20
OF_LOGS = {"flushed", "replayed", "found"}
"""What nothing can show that stands in a queue."""


def story_of(seed: int) -> list[Row]:
    """Return random history number ``seed``: even ones are of logs, odd ones of queues; with lines
    about protections.
    """
    dice = random.Random(seed)
    of_queue = bool(seed % 2)
    story = queues.QueueStory() if of_queue else histories.Story()
    told = (queues if of_queue else histories).story_of(seed // 2)
    story.events += [
        row for row in told if row["event"] not in ("sent", "unsent", "log")
    ]  # of requests and ends told below
    story.now = max((row["t"] for row in told), default=0)
    records = [row["record"] for row in told if row["event"] == "offered"]
    protect(story, dice, records, logs=not of_queue)
    told = sorted(placed(histories.shuffled(story.events, dice)), key=lambda event: event.t)
    return [_nulls(event) | row for event, row in zip(told, plain(told), strict=True)]


def _nulls(event: Event) -> Row:
    """Return the fields that the line of an event has no value for: the oracle reads them, too."""
    return {name: None for name in event.__struct_fields__ if getattr(event, name) is None}


def differences(events: list[Row]) -> list[str]:
    """Say where the two disagree."""
    signs = signs_of(Rows(events_of(events)), a_history(tuple(events)), knowledge())
    told = {
        record: (seen, set(map(str, signs.of(record))) - signs_of_engines())
        for record, seen in sign_oracle(events).items()
    }
    return [
        f"{record}: {sorted(have ^ want)}, oracle {sorted(want)}"
        for record, (want, have) in told.items()
        if have != want
    ]


@pytest.mark.parametrize("seed", range(0, SEEDS, SEEDS // 10))
def test_many_histories_agree_with_the_oracle(seed: int) -> None:
    for each in range(seed, seed + SEEDS // 10):
        assert not differences(story_of(each)), each


@settings(max_examples=settings().max_examples // 4)
@given(seed=st.integers(0, 2**32))
def test_one_history_agrees_with_the_oracle(seed: int) -> None:
    """Of any luck, too (``--hypothesis-profile=thorough`` for new ones)."""
    assert not differences(story_of(seed))


def test_the_oracle_knows_every_sign_there_is() -> None:
    known = signs_of(Rows(()), a_history((), ()), knowledge())
    assert set(map(str, known.seen)) - signs_of_engines() == set(SHOWS)


@pytest.mark.parametrize("of_queue", [False, True])
def test_the_random_histories_show_everything(*, of_queue: bool) -> None:
    """The comparison is no empty one: every sign is seen, many times, and is missing, many times;
    of queues none of logs.
    """
    shown: Counter[str] = Counter()
    records = 0
    for seed in range(int(of_queue), SEEDS, 2):
        for signs in sign_oracle(story_of(seed)).values():
            shown.update(signs)
            records += 1
    possible = SHOWS.keys() - (OF_LOGS if of_queue else set())
    assert {
        sign: count for sign in possible if not OFTEN <= (count := shown[sign]) <= records - OFTEN
    } == {}
    assert not of_queue or not OF_LOGS & shown.keys()


def test_what_a_log_says_is_nothing_to_a_queue() -> None:
    """The numbers of logs that lie beside a queue show nothing of its messages,
    whatever they are.
    """
    queue = queues.QueueStory()
    queue.offered("a-1", "a", 1)
    queue.copy("a-1", "q:1", "ready")
    queue.result("a-1", 1, "q:1")
    queue.tell("flushed", partition=0, offset=9)
    queue.tell("added", topic="t", partition=0, before=1)
    for driver in ("driver-1", "driver-2"):
        queue.tell("batch", driver, batch=0, partition=0, offset=0, position=9)
        queue.tell("resumed", driver, where="query", partition=0, position=9)
    assert (
        signs_of(Rows(events_of(queue.events)), a_history(tuple(queue.events)), knowledge()).of(
            "a-1"
        )
        == frozenset()
    )
