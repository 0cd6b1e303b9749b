"""Waiting with a time limit, by a clock of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.model import waiting
from harness.model.waiting import WaitTimeoutError, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Clock:
    """A clock that only moves when somebody sleeps, or takes time."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        """Return the time."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds

    def taking(self, seconds: float, values: Iterator[object]) -> Callable[[], object]:
        """Return a function that takes time and returns the next value."""

        def asked() -> object:
            self.now += seconds
            return next(values)

        return asked


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock by which is waited."""
    clock = Clock()
    monkeypatch.setattr(waiting, "time", clock)
    return clock


def test_it_is_asked_once_more_behind_the_limit(clock: Clock) -> None:
    """An answer that takes longer than the limit is not lost."""
    asked = clock.taking(7, iter([False, True]))
    assert wait_until(asked, within_s=5, because="an answer") is True


def test_the_limit_begins_when_the_advance_was_asked_for(clock: Clock) -> None:
    looks = clock.taking(20, iter([1, 1, 1, 1, 1]))
    begun = iter([False, True])
    assert wait_until(lambda: next(begun), within_s=15, because="it", advance=looks) is True


def test_it_ends_when_nothing_comes_further(clock: Clock) -> None:
    grows = iter([0, 1, 2, 3])
    with pytest.raises(WaitTimeoutError, match="waited 5 s for the end"):
        wait_until(
            lambda: False,
            within_s=5,
            because="the end",
            poll_s=4,
            advance=lambda: next(grows, 3),
        )
    assert clock.now == 16, "it last came further after 8 s, and is asked every 4 s"
