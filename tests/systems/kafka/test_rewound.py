"""A position that a late commit has taken back stays there where nothing follows; any other that is
behind is waited for.
"""

from __future__ import annotations

from harness.model import events as kinds
from harness.systems.kafka.rewound import rewound

LAST = {0: 4}
"""The last record of partition 0."""


def commit(t: int, offset: int, *, partition: int = 0) -> kinds.Committed:
    """Return a request to commit ``offset``; its name is its time."""
    return kinds.Committed(t=t, partition=partition, offset=offset, request=str(t))


def answer(
    t: int, to: int, *, error: int = 0, reached: bool = True, partition: int = 0
) -> kinds.CommitAnswer:
    """Return the answer to the request of the time ``to``."""
    return kinds.CommitAnswer(
        t=t, partition=partition, request=str(to), error=error, reached=reached
    )


def node(t: int, phase: kinds.NodePhase, role: str = "consumer") -> kinds.Node:
    """Return what became of a process."""
    return kinds.Node(t=t, node=role, role=role, incarnation=1, phase=phase)


STARTED, EXITED, READY = kinds.NodePhase.STARTED, kinds.NodePhase.EXITED, kinds.NodePhase.READY
BEGAN = node(1, STARTED)
ASKED = [commit(2, 4), commit(3, 5), commit(4, 4)]
"""The commit behind record 3 arrives again behind the one behind record 4."""
LATE = [answer(2, 2), answer(4, 4, reached=False), answer(5, 3)]
"""The later one's answer has waited for it."""


def test_a_late_commit_takes_it_back_for_good() -> None:
    assert rewound(LAST, {0: 4}, ASKED, LATE, [BEGAN, node(7, EXITED, "producer"), node(7, READY)])


def test_what_was_never_saved_is_on_its_way() -> None:
    """No commit past the last record, one that was refused, one whose answer was lost, one of
    another partition.
    """
    assert not rewound(LAST, {0: 4}, ASKED[:1], LATE[:1], [BEGAN])
    assert not rewound(LAST, {0: 4}, ASKED, [*LATE[:2], answer(5, 3, error=25)], [BEGAN])
    assert not rewound(LAST, {0: 4}, ASKED, [*LATE[:2], answer(5, 3, reached=False)], [BEGAN])
    assert not rewound(
        LAST,
        {0: 4},
        [commit(3, 5, partition=1), commit(4, 4)],
        [answer(5, 3, partition=1), LATE[1]],
        [BEGAN],
    )


def test_whoever_starts_or_takes_over_reads_on() -> None:
    """A reader that has started or ended since it was past the last record."""
    assert not rewound(LAST, {0: 4}, ASKED, LATE, [BEGAN, node(7, STARTED)])
    assert not rewound(LAST, {0: 4}, ASKED, LATE, [BEGAN, node(7, EXITED, "processor")])


def test_only_what_was_committed_late_counts() -> None:
    """A position that an administrator has set, or that another partition has lost, is no late
    commit's; nor is one in order.
    """
    assert not rewound(LAST, {0: 2}, ASKED, LATE, [BEGAN])
    assert not rewound(LAST, {}, ASKED, LATE, [BEGAN])
    assert not rewound({0: 4, 1: 9}, {0: 4, 1: 3}, ASKED, LATE, [BEGAN])
    assert not rewound(LAST, {0: 4}, [ASKED[0], ASKED[2], ASKED[1]], LATE, [BEGAN])
