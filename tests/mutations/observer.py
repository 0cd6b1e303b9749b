"""What reads the logs, broken: :class:`harness.systems.kafka.observer.Observer`."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.systems.kafka.log_copies import WholeLog
from harness.systems.kafka.observer import Observer
from tests.mutations.registry import cell, mutation

if TYPE_CHECKING:
    from collections.abc import Callable


OBS = "tests/judge/test_observing.py::test_an_observer_says_what_there_is"


def answers(name: str, change: Callable[[Any], Any]) -> None:
    """Let a method of the observer answer something else."""
    owner = next(each for each in Observer.mro() if name in vars(each))
    asked = getattr(owner, name)

    @functools.wraps(asked)
    def wrong(self: Observer, *args: Any, **kwargs: Any) -> Any:
        return change(asked(self, *args, **kwargs))

    setattr(owner, name, wrong)


@mutation(
    {
        OBS: r"assert \{0: 1002\} ==",
        cell(
            "none/at-least-once"
        ): r"the saved position of partition \d is 10\d\d, but its log ends at",
    }
)
def positions_too_high() -> None:
    """Every saved position is 1000 too high."""
    answers(
        "positions", lambda found: {partition: offset + 1000 for partition, offset in found.items()}
    )


@mutation({OBS: r"stable=3, end=3"})
def stable_is_the_end() -> None:
    """The last stable offset is the end: no transaction is ever open."""
    answers(
        "ends",
        lambda found: {
            partition: replace(ends, stable=ends.end) for partition, ends in found.items()
        },
    )


@mutation(
    {
        OBS: r"assert \{1: LogEnds",
        cell("none/at-least-once"): "from partition 0 offset 0, where the log has no copy",
    }
)
def a_partition_not_read() -> None:
    """One partition of every topic is neither asked for its ends nor read."""
    answers(
        "ends",
        lambda found: {
            partition: ends for partition, ends in found.items() if partition or len(found) == 1
        },
    )
    answers("copies", lambda found: [copy for copy in found if copy.partition])


@mutation({OBS: r"assert \{\} ==", cell("none/at-least-once"): "where the log has no copy"})
def a_topic_not_read() -> None:
    """No topic has anything in it: neither partitions nor copies."""
    answers("log", lambda _: WholeLog({}, ()))


@mutation({OBS: r"\(1, 1, False\)\] ==", cell("none/at-least-once"): "where the log has no copy"})
def a_copy_not_read() -> None:
    """The last copy of a log is not seen."""
    answers("copies", lambda found: sorted(found, key=lambda copy: copy.offset)[:-1])


@mutation(
    {
        OBS: r"\(0, 1, True\), \(1, 1, False\)",
        cell("none/at-least-once"): "where the log has no copy",
    }
)
def a_copy_in_the_middle_not_read() -> None:
    """A copy in the middle of a log is not seen."""
    answers("copies", lambda found: found[: len(found) // 2] + found[len(found) // 2 + 1 :])


@mutation(
    {OBS: r"\(1, 2, True\)", cell("producer-crash-before-commit/exactly-once"): "no aborted for"}
)
def all_is_visible() -> None:
    """Copies of transactions that were aborted are seen by everybody."""
    answers("copies", lambda found: [replace(copy, visible=True) for copy in found])
