"""What counts as the word of a group: answers since a member was put out, and partitions that members say they were given."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.core import events as kinds
from harness.core.history import HistoryWriter
from harness.core.waiting import WaitTimeoutError
from harness.systems.kafka import bench
from harness.systems.kafka.bench import KafkaBench
from harness.systems.kafka.nodes import StageNode

if TYPE_CHECKING:
    from pathlib import Path

CLIENT = "key.processor-1"


@pytest.fixture
def cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KafkaBench:
    """Return the bench of a cell whose group put a member out, and whose topic grew, before now."""
    monkeypatch.setattr(bench, "FIRE_S", 0.1)
    found = object.__new__(KafkaBench)
    found.events = tmp_path
    found._put_out_ns = found._grows_ns = time.monotonic_ns()
    return found


def tell(cell: KafkaBench, kind: str, *, by: str = "wire", early: bool = False, **fields: Any) -> None:
    """Write a line into the cell's history; ``early``: before what is waited for began."""
    with HistoryWriter(cell.events / f"{by}.jsonl", cell="cell", by=by) as history:
        history.write(kind, **fields)
    if early:
        cell._put_out_ns = cell._grows_ns = time.monotonic_ns()


def heard(cell: KafkaBench) -> bool:
    """Whether the member counts as told that it was put out."""
    node: Any = object.__new__(StageNode)
    node.stage = SimpleNamespace(client_id=CLIENT, name="processor-1")
    try:
        cell.await_put_out(node)
    except WaitTimeoutError:
        return False
    return True


def shared_out(cell: KafkaBench) -> bool:
    """Whether the new partitions count as shared out."""
    try:
        cell.await_shared_out()
    except WaitTimeoutError:
        return False
    return True


@pytest.mark.parametrize(
    ("frame", "counts"),
    [
        ({"api": "Heartbeat", "dir": "response", "client": f"{CLIENT}.1"}, True),
        ({"api": "JoinGroup", "dir": "response", "client": f"{CLIENT}.1"}, True),
        ({"api": "Heartbeat", "dir": "request", "client": f"{CLIENT}.1"}, False),
        ({"api": "Heartbeat", "dir": "response", "client": "key.processor-2.1"}, False),
        ({"api": "Fetch", "dir": "response", "client": f"{CLIENT}.1"}, False),
        ({"api": "Heartbeat", "dir": "response", "client": f"{CLIENT}.1", "early": True}, False),
    ],
    ids=["heartbeat", "join", "only asked", "another's", "no word of the group", "before"],
)
def test_who_was_put_out_has_been_told_by_an_answer_since(cell: KafkaBench, frame: dict[str, Any], counts: bool) -> None:
    """Its coordinator knows it no more, whatever it asks."""
    tell(cell, kinds.FRAME, **frame)
    assert heard(cell) is counts


def test_new_partitions_are_shared_out_when_the_members_have_them_all(cell: KafkaBench) -> None:
    """What each was given last counts; what was given before the topic grew does not."""
    for partition in (3, 4):
        tell(cell, kinds.ADDED, by="runner", topic="in", partition=partition, before=3)
    tell(cell, kinds.READY, by="old", role="consumer", partitions=[0, 1, 2, 3, 4], early=True)
    assert not shared_out(cell)
    tell(cell, kinds.READY, by="consumer-1", role="consumer", partitions=[0, 3])
    assert not shared_out(cell)
    tell(cell, kinds.READY, by="consumer-2", role="consumer", partitions=[1, 2, 4])
    assert shared_out(cell)
    tell(cell, kinds.READY, by="consumer-2", role="consumer", partitions=[1, 2])
    assert not shared_out(cell)
