"""What a cell waits for is waited for in its history: the word of a group, what a client asks for,
what a program was told.
"""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.controls import Fired, NotFiredError, OnWire
from harness.faults.triggers import rule_at
from harness.model import events as kinds
from harness.model.history import HistoryWriter
from harness.model.scenario import Role
from harness.model.waiting import WaitTimeoutError
from harness.model.writing import LedgerWriter
from harness.protocols.kafka.steps import Api
from harness.run.controls import Watching, WireControls
from harness.run.who import CellNodes
from harness.stages.settings import Settings
from harness.systems.kafka import abilities
from harness.systems.kafka.abilities import (
    GroupMembership,
    GroupPositions,
    GroupRebalance,
    Ledgers,
    SourceTopic,
)
from harness.wire.messages import WireError
from harness.wire.rules import Action, Direction
from tests.events import fields as fields_of
from tests.judge.scenes import CELL, living, scene_of
from tests.narrow import narrow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from harness.run.nodes import StageNode
    from harness.systems.kafka.scene import Scene

CLIENT = f"{CELL.key}.processor-1"


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """Return the scene of a cell whose group has put out everybody, and whose topic can grow."""
    monkeypatch.setattr(abilities, "WITHIN_S", 0.1)
    with HistoryWriter(tmp_path / "history" / "runner.jsonl", cell=CELL.id, by="runner") as history:
        yield scene_of(tmp_path, history=history, members=lambda *_: {}, grow=lambda *_: None)


@pytest.fixture
def members(scene: Scene) -> tuple[StageNode, ...]:
    """Return two processors that live."""
    return tuple(living(scene, Role.PROCESSOR, f"processor-{number}") for number in (1, 2))


@pytest.fixture
def reading(members: tuple[StageNode, ...]) -> Any:
    """Return the reading side."""
    return SimpleNamespace(nodes=members)


def tell(scene: Scene, kind: str, *, by: str = "wire", **fields: Any) -> None:
    """Write a line into the cell's history."""
    with LedgerWriter(scene.history_folder / f"{by}.jsonl", cell="cell", by=by) as history:
        history.write(kind, **fields_of(kind, **fields))


def comes(wait: Callable[..., None], *args: Any, **more: Any) -> bool:
    """Whether what is waited for is there."""
    try:
        wait(*args, **more)
    except WaitTimeoutError:
        return False
    return True


@pytest.mark.parametrize(
    ("frame", "early", "counts"),
    [
        ({"api": "Heartbeat", "dir": "response", "client": f"{CLIENT}.1"}, False, True),
        ({"api": "JoinGroup", "dir": "response", "client": f"{CLIENT}.1"}, False, True),
        ({"api": "Heartbeat", "dir": "request", "client": f"{CLIENT}.1"}, False, False),
        (
            {"api": "Heartbeat", "dir": "response", "client": f"{CELL.key}.processor-2.1"},
            False,
            False,
        ),
        ({"api": "Fetch", "dir": "response", "client": f"{CLIENT}.1"}, False, False),
        ({"api": "Heartbeat", "dir": "response", "client": f"{CLIENT}.1"}, True, False),
    ],
    ids=["heartbeat", "join", "only asked", "another's", "no word of the group", "before"],
)
def test_who_was_put_out_has_been_told_by_an_answer_since(
    scene: Scene, reading: Any, frame: dict[str, Any], early: bool, counts: bool
) -> None:
    membership = GroupMembership(scene, reading)
    if early:
        tell(scene, kinds.FRAME, **frame)
    membership.await_expired(Role.PROCESSOR)
    if not early:
        tell(scene, kinds.FRAME, **frame)
    assert comes(membership.await_put_out, reading.nodes[0]) is counts


@pytest.mark.parametrize(("left", "expired"), [(0, True), (1, True), (2, False)])
def test_a_group_has_put_out_a_member_when_it_has_one_less_than_the_cell(
    scene: Scene, reading: Any, monkeypatch: pytest.MonkeyPatch, left: int, expired: bool
) -> None:
    monkeypatch.setattr(abilities, "EXPULSION_S", 0.1)
    there = {f"m-{number}": "client" for number in range(left)}
    scene.observer.members = lambda *_: there  # type: ignore[method-assign]
    assert comes(GroupMembership(scene, reading).await_expired, Role.PROCESSOR) is expired


def test_new_partitions_are_shared_out_when_the_members_have_them_all(scene: Scene) -> None:
    """What each was given last counts; what was given before the topic grew does not."""
    source, every = SourceTopic(scene), [*range(200)]
    tell(scene, kinds.READY, by="old", role="consumer", partitions=every)
    source.add()
    before, *_ = added = [event.partition for event in scene.so_far.of(kinds.Added)]
    assert before == narrow(CELL.settings, Settings).topic.partitions
    assert len(added) == scene.added > 1, (
        "else the shares of two members would say no more than that of one"
    )
    assert not comes(source.await_shared_out)
    tell(scene, kinds.READY, by="consumer-1", role="consumer", partitions=[0, before])
    assert not comes(source.await_shared_out)
    tell(scene, kinds.READY, by="consumer-2", role="consumer", partitions=[1, 2, *added[1:]])
    assert comes(source.await_shared_out)
    tell(scene, kinds.READY, by="consumer-2", role="consumer", partitions=[1, 2])
    assert not comes(source.await_shared_out)


def test_a_topic_grows_by_what_puts_the_target_into_a_new_partition(scene: Scene) -> None:
    """As often as it is told to: each time from what it has."""
    grown: list[int] = []
    scene.observer.grow = lambda topic, partitions: grown.append(partitions)  # type: ignore[method-assign]  # noqa: ARG005
    source, first = SourceTopic(scene), narrow(CELL.settings, Settings).topic.partitions
    for number in (1, 2):
        source.add()
        assert len(grown) == number
        assert scene.added == grown[-1] - first
        assert len(scene.every_partition({})) == grown[-1]
    added = scene.so_far.of(kinds.Added)
    assert [event.partition for event in added] == [*range(first, grown[-1])]
    assert {event.before for event in added} == {first, grown[0]}


def asks(scene: Scene, api: str, number: int = 1, way: str = "request") -> None:
    """Let the wire see a request of a member, or the answer to one."""
    tell(scene, kinds.FRAME, api=api, dir=way, client=f"{CELL.key}.processor-{number}.1")


class Polled:
    """A reader that asks for records when it is looked at, twice."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.polls = itertools.count(1)

    @property
    def exit(self) -> None:
        """It lives."""
        if next(self.polls) <= 2:
            asks(self._scene, "Fetch")


def test_who_reads_asks_for_records(
    scene: Scene, members: tuple[StageNode, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that was started again once; one that was not, twice more than it has
    asked before.
    """
    positions, reader = GroupPositions(scene), members[0]
    asks(scene, "Fetch", 2)
    asks(scene, "Fetch", way="response")
    asks(scene, "Metadata")
    assert not comes(positions.await_reading, reader)
    asks(scene, "Fetch")
    assert comes(positions.await_reading, reader)
    assert not comes(positions.await_reading, reader, anew=True)
    polled: Any = Polled(scene)
    reader.node = polled
    monkeypatch.setattr(abilities, "WITHIN_S", 20)
    assert comes(positions.await_reading, reader, anew=True)
    assert next(polled.polls) == 3, "it was looked at twice: with the second it was there"


def test_another_asks_for_positions_after_the_sleeper_was_stopped(
    scene: Scene, members: tuple[StageNode, ...], reading: Any
) -> None:
    """Not the sleeper itself, and not before."""
    rebalance = GroupRebalance(scene, reading)
    asks(scene, "OffsetFetch", 2)
    tell(scene, kinds.NODE, by="runner", node="processor-1", phase="paused")
    asks(scene, "OffsetFetch", 1)
    asks(scene, "Fetch", 2)
    assert not comes(rebalance.await_asked, Role.PROCESSOR, members[0])
    asks(scene, "OffsetFetch", 2)
    assert comes(rebalance.await_asked, Role.PROCESSOR, members[0])


def test_who_asked_twice_for_metadata_was_answered_once(
    scene: Scene, members: tuple[StageNode, ...]
) -> None:
    source = SourceTopic(scene)
    for _ in range(2):
        asks(scene, "Metadata")
    source.add()
    asks(scene, "Metadata")
    asks(scene, "Metadata", 2)
    assert not comes(source.await_known, members[0])
    asks(scene, "Metadata")
    assert comes(source.await_known, members[0])


def test_a_program_is_told_that_the_targets_fate_is_not_known(scene: Scene) -> None:
    """By its ledger; another record's fate is nothing to wait for."""
    ledger = Ledgers(scene)
    other = next(record.id for record in scene.load.records if record is not scene.load.target)
    tell(scene, kinds.UNKNOWN, by="producer-1", record=other, attempt="1", error="timeout")
    assert not comes(ledger.await_told_unknown)
    tell(
        scene,
        kinds.UNKNOWN,
        by="producer-1",
        record=scene.load.target.id,
        attempt="2",
        error="timeout",
    )
    assert comes(ledger.await_told_unknown)


class Wire:
    """A wire that takes rules, until it is gone."""

    gone = False

    def __init__(self) -> None:
        self.armed: list[Any] = []

    def arm(self, cell: str, rule: Any) -> None:
        """Keep it."""
        self.armed.append((cell, rule))

    def check(self) -> None:
        """Say whether it is there."""
        if self.gone:
            raise WireError("the wire is gone")


def test_each_hit_of_a_rule_is_taken_once(scene: Scene, members: tuple[StageNode, ...]) -> None:
    """In order, and only of that trigger's rule; where there is none, the wire must
    still be there.
    """
    trigger, target = OnWire(Role.PROCESSOR, Api.FETCH, Direction.RESPONSE), scene.load.target.id
    wire, nodes = Wire(), CellNodes(scene, lambda: members, {})
    at_rest = Watching(lambda: 0, lambda: True, lambda: True, idle_s=0)
    spoken: Any = wire
    controls = WireControls(scene, spoken, nodes, at_rest)
    controls.arm(trigger, rule_at(trigger, Action.HOLD))
    [(cell, rule)] = wire.armed
    assert (cell, rule.record, rule.role) == (CELL.id, target, "processor")
    of = {"role": "processor", "node": "broker-1", "client": f"{CLIENT}.1"}
    tell(scene, kinds.RULE, rule="fault", phase="armed")
    tell(scene, kinds.RULE, rule="until", phase="hit", held="h1", record=target, **of)
    with pytest.raises(NotFiredError):
        controls.await_fired(trigger)
    for held in ("h2", "h3"):
        tell(scene, kinds.RULE, rule="fault", phase="hit", held=held, **of)
        tell(scene, kinds.RULE, rule="fault", phase="held", held=held, **of)
    assert controls.await_fired(trigger) == Fired(None, "processor-1", "h2")
    assert controls.await_fired(trigger) == Fired(None, "processor-1", "h3")
    assert nodes.last_hit.event is not None
    assert nodes.last_hit.event.held == "h3"
    with pytest.raises(NotFiredError):
        controls.await_fired(trigger)
    wire.gone = True
    tell(scene, kinds.RULE, rule="fault", phase="hit", held="h4", record=target, **of)
    assert controls.await_fired(trigger) == Fired(target, "processor-1", "h4"), (
        "what is written is seen, though the wire is gone"
    )
    with pytest.raises(WireError, match="the wire is gone"):
        controls.await_fired(trigger)
