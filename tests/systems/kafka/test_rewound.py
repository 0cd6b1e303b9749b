"""A position that a late commit has taken back stays there where nothing follows; any other that is behind is waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.systems.kafka.rewound import rewound

if TYPE_CHECKING:
    from harness.model.history import Event

LAST = {0: 4}
"""The last record of partition 0."""


def answer(t: int, offset: int, *, error: int = 0, reached: bool = True, partition: int = 0) -> Event:
    """Return the answer to a commit of ``offset``."""
    return {"t": t, "partition": partition, "offset": offset, "error": error, "reached": reached}  # type: ignore[return-value]


def node(t: int, phase: str, role: str = "consumer") -> Any:
    """Return what became of a process."""
    return {"t": t, "phase": phase, "role": role}


BEGAN = node(1, "started")
LATE = [answer(3, 4), answer(5, 5), answer(6, 4, reached=False)]
"""The commit behind record 3 arrives again when the one behind record 4 was answered."""


def test_a_late_commit_takes_it_back_for_good() -> None:
    """The reader was told that it is past the last record, and lives."""
    assert rewound(LAST, {0: 4}, LATE, [BEGAN, node(7, "exited", "producer"), node(7, "ready")])


def test_what_was_never_saved_is_on_its_way() -> None:
    """No commit past the last record, one that was refused, and one whose answer was lost."""
    assert not rewound(LAST, {0: 4}, [answer(3, 4)], [BEGAN])
    assert not rewound(LAST, {0: 4}, [answer(5, 5, error=25), answer(6, 4)], [BEGAN])
    assert not rewound(LAST, {0: 4}, [answer(5, 5, reached=False), answer(6, 4)], [BEGAN])
    assert not rewound(LAST, {0: 4}, [answer(5, 5, partition=1), answer(6, 4)], [BEGAN])


def test_whoever_starts_or_takes_over_reads_on() -> None:
    """A reader that has started or ended since it was past the last record."""
    assert not rewound(LAST, {0: 4}, LATE, [BEGAN, node(7, "started")])
    assert not rewound(LAST, {0: 4}, LATE, [BEGAN, node(7, "exited", "processor")])


def test_only_what_was_committed_late_counts() -> None:
    """A position that an administrator has set, or that another partition has lost, is no late commit's."""
    assert not rewound(LAST, {0: 2}, LATE, [BEGAN])
    assert not rewound(LAST, {}, LATE, [BEGAN])
    assert not rewound({0: 4, 1: 9}, {0: 4, 1: 3}, LATE, [BEGAN])
