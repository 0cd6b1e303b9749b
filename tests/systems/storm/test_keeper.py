"""How far Trident has come, as its nodes in ZooKeeper say."""

from __future__ import annotations

import json

from harness.systems.storm.keeper import positions_in


def tree(
    current: int | None, batches: dict[tuple[int, int], int], topic: str = "k.in"
) -> dict[str, str]:
    """Return nodes: the current transaction, and by partition and transaction the last offset of a
    batch.
    """
    nodes = {} if current is None else {"/k.worker/in/coordinator/currtx": str(current)}
    nodes["/k.worker/in/coordinator/currattempts"] = "{}"
    for (partition, transaction), last in batches.items():
        nodes[f"/k.worker/in/user/{topic}@{partition}/{transaction}"] = json.dumps(
            {"firstOffset": last, "lastOffset": last}
        )
    return nodes


def test_a_position_is_behind_the_last_batch_that_is_over() -> None:
    """What the current transaction has is told before it is over, and may be emitted again."""
    assert positions_in(tree(4, {(0, 2): 6, (0, 3): 7, (0, 4): 9, (1, 3): -1}), "k.in") == {
        0: 8,
        1: 0,
    }


def test_transactions_are_compared_as_numbers() -> None:
    assert positions_in(tree(12, {(0, 11): 5, (0, 9): 4}), "k.in") == {0: 6}


def test_nothing_is_over_at_the_beginning() -> None:
    assert positions_in(tree(None, {(0, 1): 3}), "k.in") == {}
    assert positions_in(tree(9, {(0, 1): 3}, topic="j.in"), "k.in") == {}
