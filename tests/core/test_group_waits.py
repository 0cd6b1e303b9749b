"""What a cell waits for is waited for in its history: the word of a group, what a client asks for, what a program was told."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from harness.systems.kafka.bench import KafkaBench

from harness.controls import Fired, OnWire
from harness.core import events as kinds
from harness.core.history import HistoryWriter
from harness.core.scenario import Role
from harness.core.tail import SoFar
from harness.core.waiting import WaitTimeoutError
from harness.systems.kafka import bench
from harness.systems.kafka.nodes import StageNode
from harness.wire.messages import WireError
from harness.wire.rules import Api, Direction

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CLIENT = "key.processor-1"


@pytest.fixture
def cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KafkaBench:
    """Return the bench of a cell whose group put a member out, and whose topic grew, before now."""
    monkeypatch.setattr(bench, "FIRE_S", 0.1)
    found = object.__new__(KafkaBench)
    found.events, found.so_far = tmp_path, SoFar(tmp_path)
    found.cell, found.load = SimpleNamespace(key="key"), SimpleNamespace(target=SimpleNamespace(id="k-7"))  # type: ignore[assignment]
    found.stages = (member(1), member(2))
    found._put_out_ns = found._grows_ns = time.monotonic_ns()
    return found


def tell(cell: KafkaBench, kind: str, *, by: str = "wire", early: bool = False, **fields: Any) -> None:
    """Write a line into the cell's history; ``early``: before what is waited for began."""
    with HistoryWriter(cell.events / f"{by}.jsonl", cell="cell", by=by) as history:
        history.write(kind, **fields)
    if early:
        cell._put_out_ns = cell._grows_ns = time.monotonic_ns()


def member(number: int) -> Any:
    """Return a processor that lives."""
    node: Any = object.__new__(StageNode)
    name = f"processor-{number}"
    node.stage, node.role, node.ended = SimpleNamespace(client_id=f"key.{name}", name=name), Role.PROCESSOR, lambda: None
    return node


def comes(wait: Callable[..., None], *args: Any, **more: Any) -> bool:
    """Whether what is waited for is there."""
    try:
        wait(*args, **more)
    except WaitTimeoutError:
        return False
    return True


def heard(cell: KafkaBench) -> bool:
    """Whether the member counts as told that it was put out."""
    return comes(cell.await_put_out, member(1))


def shared_out(cell: KafkaBench) -> bool:
    """Whether the new partitions count as shared out."""
    return comes(cell.await_shared_out)


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


def asks(cell: KafkaBench, api: str, number: int = 1, way: str = "request") -> None:
    """Let the wire see a request of a member, or the answer to one."""
    tell(cell, kinds.FRAME, api=api, dir=way, client=f"key.processor-{number}.1")


def test_who_reads_asks_for_records(cell: KafkaBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that was started again once; one that was not, twice more than it has asked before."""
    asks(cell, "Fetch", 2)
    asks(cell, "Fetch", way="response")
    asks(cell, "Metadata")
    assert not comes(cell.await_reading, member(1))
    asks(cell, "Fetch")
    assert comes(cell.await_reading, member(1))
    assert not comes(cell.await_reading, member(1), anew=True)
    reader, polls = member(1), itertools.count(1)
    reader.ended = lambda: asks(cell, "Fetch") if next(polls) <= 2 else None
    monkeypatch.setattr(bench, "FIRE_S", 20)
    assert comes(cell.await_reading, reader, anew=True)
    assert next(polls) == 3, "it was looked at twice: with the second it was there"


def test_another_asks_for_positions_after_the_sleeper_was_stopped(cell: KafkaBench) -> None:
    """Not the sleeper itself, and not before."""
    asks(cell, "OffsetFetch", 2)
    tell(cell, kinds.NODE, by="runner", node="processor-1", phase="paused")
    asks(cell, "OffsetFetch", 1)
    asks(cell, "Fetch", 2)
    assert not comes(cell.await_asked, Role.PROCESSOR, member(1))
    asks(cell, "OffsetFetch", 2)
    assert comes(cell.await_asked, Role.PROCESSOR, member(1))


def test_who_asked_twice_for_metadata_was_answered_once(cell: KafkaBench) -> None:
    """Since the topic grew."""
    for _ in range(2):
        asks(cell, "Metadata")
    tell(cell, kinds.ADDED, by="runner", topic="in", partition=3, before=3)
    asks(cell, "Metadata")
    asks(cell, "Metadata", 2)
    assert not comes(cell.await_metadata, member(1))
    asks(cell, "Metadata")
    assert comes(cell.await_metadata, member(1))


def test_a_program_is_told_that_the_targets_fate_is_not_known(cell: KafkaBench) -> None:
    """By its ledger; another record's fate is nothing to wait for."""
    tell(cell, kinds.UNKNOWN, by="producer-1", record="k-6", attempt="1", error="timeout")
    assert not comes(cell.await_told)
    tell(cell, kinds.UNKNOWN, by="producer-1", record="k-7", attempt="2", error="timeout")
    assert comes(cell.await_told)


def test_each_hit_of_a_rule_is_taken_once(cell: KafkaBench) -> None:
    """In order, and only of that trigger's rule; where there is none, the wire must still be there."""
    trigger, checks = OnWire(Role.PROCESSOR, Api.FETCH, Direction.REQUEST), itertools.count(1)

    def check() -> None:
        if next(checks) > 2:
            raise WireError("the wire is gone")

    cell.deployed = SimpleNamespace(wire=SimpleNamespace(check=check))  # type: ignore[assignment]
    cell._rule_of, cell._taken = {trigger: "fault"}, Counter()
    of = {"role": "processor", "node": "broker-1", "client": "key.processor-1.1"}
    tell(cell, kinds.RULE, rule="fault", phase="armed")
    tell(cell, kinds.RULE, rule="until", phase="hit", held="h1", record="k-7", **of)
    assert cell._fired(trigger) is None
    for held in ("h2", "h3"):
        tell(cell, kinds.RULE, rule="fault", phase="hit", held=held, **of)
        tell(cell, kinds.RULE, rule="fault", phase="held", held=held, **of)
    assert cell._fired(trigger) == Fired(None, "processor-1", "h2")
    assert cell._fired(trigger) == Fired(None, "processor-1", "h3")
    assert cell._hit is not None
    assert cell._hit["held"] == "h3"
    assert cell._fired(trigger) is None
    tell(cell, kinds.RULE, rule="fault", phase="hit", held="h4", record="k-7", **of)
    assert cell._fired(trigger) == Fired("k-7", "processor-1", "h4"), "what is written is seen, though the wire may be gone"
    with pytest.raises(WireError, match="the wire is gone"):
        cell._fired(trigger)
