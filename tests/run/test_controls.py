"""What a fault can do to a cell through the wire: the eight verbs, and the abilities that it has
named.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field, fields, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.abilities import Checkpoint, Membership, PowerLoss
from harness.controls import AtWrite, Fired, InProgram, NotFiredError, OnWire, Stop
from harness.faults import Kill, NoFault, Pause
from harness.faults.triggers import rule_at
from harness.model import events as kinds
from harness.model.cell import Cell
from harness.model.events import RulePhase
from harness.model.scenario import Role
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.model.writes import Point, Side
from harness.protocols.kafka.steps import Api
from harness.protocols.tcp.steps import Exchange
from harness.run import controls as run_controls
from harness.run.controls import Watching, WireControls
from harness.run.drain import Idle
from harness.run.scene import CellScene
from harness.stages.settings import Settings
from harness.systems.kafka.faults import OffsetsExpired, TransactionTimeout
from harness.wire.messages import Held, Resolved
from harness.wire.rules import Action, Direction, How
from tests.judge.growing import tell
from tests.judge.scenes import CELL, Kept
from tests.narrow import narrow

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from harness.wire.rules import Rule

LOAD = CELL.load()
AT = OnWire(Role.CONSUMER, Api.OFFSET_COMMIT, Direction.REQUEST)
GIVEN = OnWire(Role.CONSUMER, Api.FETCH, Direction.RESPONSE)
IN_HAND = InProgram(Role.CONSUMER, "before-commit")


@dataclass
class Wire:
    """A wire that is told what to do. ``does``: in which order."""

    does: list[str] = field(default_factory=list)
    armed: list[tuple[str, Rule]] = field(default_factory=list)
    held: tuple[Held, ...] = ()
    reached: bool = True

    def arm(self, cell: str, rule: Rule) -> None:
        """Take a rule."""
        self.does.append(f"arm {rule.id}")
        self.armed.append((cell, rule))

    def disarm(self, cell: str, rule: str) -> None:
        """Take it back."""
        assert cell == CELL.id
        self.does.append(f"disarm {rule}")

    def holds(self) -> tuple[Held, ...]:
        """Return what is held."""
        return self.held

    def resolve(self, held: str, how: How) -> Resolved:
        """Say what became of it."""
        self.does.append(f"{how} {held}")
        return Resolved(held, RulePhase.RELEASED, self.reached)

    def check(self) -> None:
        """It is there."""


@dataclass
class Nodes:
    """Who is who in a cell of one process."""

    does: list[str]
    stands: dict[object, Fired] = field(default_factory=dict)

    def target(self, role: Role, node: str | None = None) -> Any:
        """Return the process."""
        return SimpleNamespace(
            name=node, role=role, resume=lambda: self.does.append(f"resume {role} {node}")
        )

    def rule(self, trigger: OnWire, rule: Rule) -> Rule:
        """Note whose it is."""
        return replace(rule, id=f"{rule.id} of {trigger.role}")

    def selector(self, fired: Fired) -> str | None:
        """Select by the process."""
        return f"key.{fired.node}"

    def hit(self, trigger: OnWire, hit: kinds.Rule) -> str:
        """Return its name."""
        return f"{trigger.role}-{hit.conn}"

    def standing(self, trigger: InProgram | AtWrite) -> Fired | None:
        """Return who stands still."""
        return self.stands.get(trigger)

    def arm(self, trigger: InProgram, stop: Stop) -> tuple[str, dict[str, Any]]:
        """Let it stop so, at a place."""
        return str(stop), {"place": (0, 7)} if trigger is IN_HAND else {"record": "another"}


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_controls, "FIRE_S", 0.2)


@pytest.fixture
def wire() -> Wire:
    """Return a wire that holds nothing yet."""
    return Wire()


@pytest.fixture
def nodes(wire: Wire) -> Nodes:
    """Return nodes that nothing has happened to."""
    return Nodes(wire.does)


@pytest.fixture
def controls(tmp_path: Path, wire: Wire, nodes: Nodes) -> WireControls:
    """Return the controls of a cell without a fault, in which nothing moves."""
    return controls_of(tmp_path, wire, nodes)


def controls_of(
    folder: Path, wire: Any, nodes: Nodes, fault: Any = None, **abilities: object
) -> WireControls:
    """Return the controls of a cell with a fault; ``abilities`` by their names."""
    cell, history = replace(CELL, scenario=replace(CELL.scenario, fault=fault or NoFault())), Kept()
    named: Any = {
        kind: abilities[kind.__name__]
        for kind in (PowerLoss, Membership, Checkpoint)
        if kind.__name__ in abilities
    }
    at_rest = Watching(lambda: 0, lambda: True, lambda: True, idle_s=0)
    kept: Any = history
    return WireControls(CellScene(cell, folder, kept), wire, nodes, at_rest, named)


def hits(
    controls: WireControls, rule: str, held: str | None = "h1", record: str | None = None
) -> None:
    """Let the wire see a hit of a rule."""
    tell(
        controls.scene.directory / "history",
        {
            "event": kinds.RULE,
            "rule": rule,
            "phase": "hit",
            "held": held,
            "record": record,
            "conn": 3,
        },
    )


# --- abilities ------------------------------------------------------------------------------------


def test_an_ability_that_was_not_named_is_refused(tmp_path: Path, wire: Wire, nodes: Nodes) -> None:
    """Though the system has it: a plan would not have known that the cell needs it."""
    fault = Kill(AT, (Role.CONSUMER,))
    controls = controls_of(tmp_path, wire, nodes, fault, PowerLoss=object())
    with pytest.raises(LookupError, match="the fault kill does not list PowerLoss among its needs"):
        controls.ability(PowerLoss)


def test_an_ability_that_was_named_is_given_where_it_is_there(
    tmp_path: Path, wire: Wire, nodes: Nodes
) -> None:
    """That one and no other; where it is not there, it is said which and of which cell."""
    members = object()
    controls = controls_of(tmp_path, wire, nodes, Pause(AT), Membership=members, PowerLoss=object())
    assert controls.ability(Membership) is members
    without = controls_of(tmp_path, wire, nodes, Pause(AT), PowerLoss=object())
    with pytest.raises(LookupError, match=f"{CELL.id} has no Membership"):
        without.ability(Membership)


@pytest.mark.parametrize(
    "fault",
    [NoFault(), TransactionTimeout(AT), OffsetsExpired(IN_HAND, AT)],
    ids=lambda fault: fault.id,
)
def test_no_fault_is_given_what_it_says_nothing_of(
    tmp_path: Path, wire: Wire, nodes: Nodes, fault: Any
) -> None:
    """One that says nothing of what it needs needs nothing."""
    controls = controls_of(tmp_path, wire, nodes, fault, Checkpoint=object())
    with pytest.raises(LookupError, match=f"{fault.id} does not list Checkpoint"):
        controls.ability(Checkpoint)


# --- triggers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [-1, 0, 1])
def test_a_rule_is_armed_at_its_record(controls: WireControls, wire: Wire, offset: int) -> None:
    """Counted from the target, by its role, and as the nodes of the cell want it."""
    at = replace(AT, offset=offset)
    controls.arm(at, rule_at(at, Action.HOLD))
    [(cell, rule)] = wire.armed
    assert (cell, rule.id, rule.role) == (CELL.id, "fault of consumer", "consumer")
    assert rule.record == LOAD.records[LOAD.records.index(LOAD.target) + offset].id
    assert rule.client is None


def test_a_program_stops_and_a_frame_does_not(controls: WireControls) -> None:
    with pytest.raises(TypeError, match="stops a program, but the trigger"):
        controls.arm(AT, Stop.PAUSE)


@pytest.mark.parametrize(
    ("trigger", "record"),
    [(IN_HAND, LOAD.target.id), (InProgram(Role.PRODUCER, "before-send"), "another")],
)
def test_a_failpoint_is_armed_as_the_nodes_say(
    controls: WireControls, trigger: InProgram, record: str
) -> None:
    """At the target, unless they know it by another name; with the place that they say."""
    controls.arm(trigger, Stop.KILL)
    armed = json.loads(
        (controls.scene.directory / "failpoints" / f"{trigger.name}.json").read_text()
    )
    assert (armed["action"], armed["record"], armed["cell"]) == ("kill", record, CELL.id)
    assert (armed["partition"], armed["offset"]) == ((0, 7) if trigger is IN_HAND else (-1, -1))
    assert armed["history"] == str(controls.scene.directory / "history" / "failpoint.jsonl")


def test_what_counts_from_a_frame_is_left_to_the_wire(controls: WireControls, wire: Wire) -> None:
    """Both rules are armed at once, the second counts since the first; nothing is held for it."""
    since = replace(AT, api=Api.JOIN_GROUP, since=GIVEN)
    controls.arm(since, rule_at(since, Action.DROP, "joins"))
    assert wire.does == ["arm before-joins of consumer", "arm joins of consumer"]
    (_, mark), (_, joins) = wire.armed
    assert (mark.record, mark.action) == (LOAD.target.id, Action.MARK)
    assert (joins.record, joins.client, joins.action, joins.since) == (
        None,
        None,
        Action.DROP,
        "before-joins of consumer",
    )
    hits(controls, "before-joins of consumer", record=LOAD.target.id, held=None)
    hits(controls, "joins of consumer", held=None)
    assert controls.await_fired(since) == Fired(None, "consumer-3", None)


@pytest.mark.parametrize("node", ["store", "mail"])
def test_what_is_said_to_a_server_counts_when_earlier_records_are_done(
    controls: WireControls, wire: Wire, monkeypatch: pytest.MonkeyPatch, node: str
) -> None:
    """The frame that it counts from is held until the program says nothing more to that server, or
    for the longest time; then the rule is armed, and the frame goes on.
    """
    calm: list[object] = []

    def once(condition: Callable[[], object], **more: Any) -> object:
        if more["because"] == "the consumer to be calm":
            calm.append(condition())
            more["within_s"] = 0.0
        return wait_until(condition, **more)

    monkeypatch.setattr(run_controls, "CALM_S", 60.0)
    monkeypatch.setattr(run_controls, "wait_until", once)
    says = replace(AT, api=Exchange.TURN, since=GIVEN, node="store", occurrence=2)
    controls.arm(says, rule_at(says, Action.HOLD))
    assert wire.does == ["arm before-fault of consumer"]
    [(_, given)] = wire.armed
    assert (given.action, given.record, given.node) == (Action.HOLD, LOAD.target.id, None)
    hits(controls, "before-fault of consumer", record=LOAD.target.id)
    said = {"event": kinds.FRAME, "role": "consumer", "node": node, "t": time.monotonic_ns()}
    tell(controls.scene.directory / "history", said)
    with pytest.raises(NotFiredError):
        controls.await_fired(says)
    assert calm == [node == "mail"]
    assert wire.does[1:] == ["arm fault of consumer", "release h1"]
    rule = wire.armed[1][1]
    assert (rule.node, rule.role, rule.occurrence, rule.since) == ("store", "consumer", 2, None)


def test_programs_are_supervised_while_a_frame_is_awaited_behind_a_fault(
    controls: WireControls,
) -> None:
    """Only a program that is started again may send it. Before the fault nobody is started: a run
    that fails then is void.
    """
    began: list[str] = []

    def begin() -> None:
        if not began:
            hits(controls, "second of consumer")
        began.append("again")

    controls.watching.supervise = begin
    controls.arm(AT, rule_at(AT, Action.HOLD, "second"))
    with pytest.raises(NotFiredError):
        controls.await_fired(AT)
    assert not began
    controls.say("fired")
    assert controls.await_fired(AT) == Fired(None, "consumer-3", "h1")
    assert began == ["again"]


def test_what_counts_from_a_trigger_that_is_armed_needs_no_other(
    controls: WireControls, wire: Wire
) -> None:
    """Its own rule is what the second counts since."""
    since = replace(AT, api=Api.JOIN_GROUP, since=GIVEN)
    controls.arm(GIVEN, rule_at(GIVEN, Action.HOLD))
    controls.arm(since, rule_at(since, Action.HOLD, "joins"))
    assert wire.does == ["arm fault of consumer", "arm joins of consumer"]
    assert wire.armed[1][1].since == "fault of consumer"


def test_what_counts_from_a_failpoint_is_armed_while_its_program_stands_still(
    controls: WireControls, wire: Wire, nodes: Nodes
) -> None:
    """It has stopped itself: nothing is held, and it is woken."""
    since = replace(AT, api=Api.JOIN_GROUP, since=IN_HAND)
    controls.arm(since, rule_at(since, Action.HOLD, "joins"))
    assert (
        json.loads((controls.scene.directory / "failpoints" / "before-commit.json").read_text())[
            "action"
        ]
        == "pause"
    )
    assert not wire.armed
    nodes.stands[IN_HAND] = Fired(LOAD.target.id, "consumer", None)
    hits(controls, "joins of consumer")
    assert controls.await_fired(since) == Fired(None, "consumer-3", "h1")
    assert wire.does == ["arm joins of consumer", "resume consumer consumer"]


def test_what_counts_from_something_that_has_fired_is_armed_at_once(
    controls: WireControls, wire: Wire
) -> None:
    controls.arm(GIVEN, rule_at(GIVEN, Action.HOLD))
    hits(controls, "fault of consumer", record=LOAD.target.id)
    assert controls.await_fired(GIVEN) == Fired(LOAD.target.id, "consumer-3", "h1")
    since = replace(AT, api=Api.JOIN_GROUP, since=GIVEN)
    controls.arm(since, rule_at(since, Action.HOLD, "joins"))
    assert wire.does == ["arm fault of consumer", "arm joins of consumer"]
    assert wire.armed[1][1].client == "key.consumer-3"


def test_what_it_counts_from_is_waited_for_first(controls: WireControls, wire: Wire) -> None:
    """Where that does not fire, it has not fired either, and that is what is said."""
    since = replace(AT, api=Api.JOIN_GROUP, since=GIVEN)
    controls.arm(since, rule_at(since, Action.HOLD, "joins"))
    with pytest.raises(NotFiredError) as told:
        controls.await_fired(since)
    assert told.value.args == (GIVEN,)
    assert wire.does == ["arm before-joins of consumer", "arm joins of consumer"]


def test_an_ability_can_let_a_trigger_count_from_another(
    controls: WireControls, wire: Wire, nodes: Nodes
) -> None:
    """What is to be done there is done before what is held goes on: the durable writes are counted
    from then.
    """
    write = AtWrite(Role.CONSUMER, Point("rename", 1, Side.BEFORE), GIVEN)
    controls.arm(GIVEN, rule_at(GIVEN, Action.HOLD, "given"))

    def trace(near: Fired) -> None:
        wire.does.append(f"trace {near.node}")
        nodes.stands[write] = Fired(None, "consumer", None)

    controls.approach(write, GIVEN, trace)
    hits(controls, "given of consumer")
    assert controls.await_fired(write) == Fired(None, "consumer", None)
    assert wire.does[1:] == ["trace consumer-3", "release h1"]


# --- what is held ---------------------------------------------------------------------------------


@pytest.mark.parametrize("reached", [True, False])
def test_what_the_wire_holds_is_resolved_there(
    controls: WireControls, wire: Wire, reached: bool
) -> None:
    """It may not get to where it was to go: its client has hung up. Of nothing there is nothing to
    be resolved.
    """
    wire.reached = reached
    assert controls.resolve("h1", How.RELEASE) is reached
    assert not controls.resolve(None, How.RELEASE)
    assert wire.does == ["release h1"]


def test_a_program_that_is_held_goes_on_when_it_is_released(
    controls: WireControls, wire: Wire, nodes: Nodes
) -> None:
    """Only the program stood still; the wire knows nothing of it."""
    controls.arm(IN_HAND, Stop.HOLD)
    nodes.stands[IN_HAND] = Fired(LOAD.target.id, "consumer", None)
    fired = controls.await_fired(IN_HAND)
    assert fired.hold is not None
    go = controls.scene.directory / "failpoints" / "before-commit.go"
    assert not controls.resolve(fired.hold, How.DISCARD)
    assert not go.exists()
    assert controls.resolve(fired.hold, How.RELEASE)
    assert go.exists()
    assert not wire.does


@pytest.mark.parametrize("stop", [Stop.KILL, Stop.PAUSE])
def test_a_program_that_stops_itself_is_not_held(
    controls: WireControls, nodes: Nodes, stop: Stop
) -> None:
    controls.arm(IN_HAND, stop)
    nodes.stands[IN_HAND] = Fired(LOAD.target.id, "consumer", None)
    assert controls.await_fired(IN_HAND).hold is None


def test_at_the_end_everything_is_taken_back(controls: WireControls, wire: Wire) -> None:
    """What is held of this cell is discarded first, then its rules go, the last first; what stands
    beside them last of all.
    """
    mine, other = (
        Held(held, "fault", cell, 1, "request", "Fetch", "key.consumer", attached=True)
        for held, cell in (("h1", CELL.id), ("h2", "another"))
    )
    wire.held = (mine, other)
    controls.arm(AT, rule_at(AT, Action.HOLD, "first"))
    controls.put_beside(rule_at(GIVEN, Action.HOLD, "copies"))
    controls.arm(AT, rule_at(AT, Action.HOLD, "second"))
    wire.does.clear()
    controls.disarm()
    assert wire.does == [
        "discard h1",
        "disarm second of consumer",
        "disarm first of consumer",
        "disarm copies",
    ]
    wire.held = ()
    wire.does.clear()
    controls.disarm()
    assert not wire.does


# --- words and waits ------------------------------------------------------------------------------


def test_what_is_said_is_written_down(controls: WireControls) -> None:
    """With the name of the fault; that the fault's own trigger has fired is known from then on."""
    kept: Any = controls.scene.history
    fired = []
    for phase, more in (
        ("armed", {}),
        ("fired", {"record": "k-1", "node": "consumer"}),
        ("healed", {}),
    ):
        controls.say(phase, **more)
        fired.append(controls.has_fired)
    assert fired == [False, True, True]
    assert kept.of(kinds.FAULT, "phase", "fault") == [
        ("armed", "none"),
        ("fired", "none"),
        ("healed", "none"),
    ]
    assert kept.lines[1]["record"] == "k-1"


def test_the_node_of_a_role_is_asked_for(controls: WireControls) -> None:
    found = controls.target(Role.CONSUMER, "consumer-2")
    assert (found.role, found.name) == (Role.CONSUMER, "consumer-2")


def test_waits_are_bounded_and_say_for_what(
    controls: WireControls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source may be as long as its client may take to give a record up, and then
    send it again.
    """
    controls.settle()
    controls.await_exhausted()
    controls.watching = Watching(lambda: 0, settled=lambda: False, exhausted=lambda: False)
    with pytest.raises(WaitTimeoutError, match="everything acknowledged to be recorded"):
        controls.settle()
    asked: list[float] = []
    monkeypatch.setattr(
        run_controls, "wait_until", lambda _, *, within_s, **__: asked.append(within_s)
    )
    controls.await_exhausted()
    assert asked == [0.2 + narrow(CELL.settings, Settings).producer.delivery_timeout_ms / 1000]


def test_whoever_looks_is_asked_each_time_that_a_trigger_is_waited_for(
    controls: WireControls,
) -> None:
    """Whose a new connection is, is learnt while it lives."""
    looks: list[int] = []
    controls.watching = Watching(
        lambda: 0, lambda: True, lambda: True, idle_s=0.05, look=lambda: looks.append(1)
    )
    controls.arm(AT, rule_at(AT, Action.HOLD))
    with pytest.raises(NotFiredError):
        controls.await_fired(AT)
    assert len(looks) > 1


@dataclass(frozen=True, slots=True)
class _Knowing(Cell):
    """A cell that knows for how long nothing may move."""

    @property
    def still_s(self) -> float | None:
        """Not for long."""
        return 0.05


def test_what_counts_from_a_trigger_is_waited_for_as_long_as_nothing_may_move(
    controls: WireControls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the cell knows how long that is: a step that does not come costs a sweep no minute."""
    monkeypatch.setattr(run_controls, "FIRE_S", 60.0)
    controls.scene.cell = _Knowing(**{each.name: getattr(CELL, each.name) for each in fields(CELL)})
    behind = replace(AT, since=replace(AT, direction=Direction.RESPONSE))
    controls.arm(behind, rule_at(behind, Action.HOLD))
    assert behind.since is not None
    controls._reached[behind.since] = Fired(None, "consumer-3", None)
    begun = time.monotonic()
    with pytest.raises(NotFiredError):
        controls.await_fired(behind)
    assert time.monotonic() - begun < 30


def test_what_counts_from_a_trigger_is_waited_for_as_long_as_any_other(
    controls: WireControls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program whose silences are longer than ``FIRE_S`` may be as silent behind a trigger."""
    asked: list[float] = []

    class Asked(Idle):
        """How long nothing may move."""

        def __init__(self, progress: Any, exhausted: Any, idle_s: float) -> None:
            asked.append(idle_s)
            super().__init__(progress, exhausted, 0.0)

    monkeypatch.setattr(run_controls, "Idle", Asked)
    behind = replace(AT, since=replace(AT, direction=Direction.RESPONSE))
    for trigger in (AT, behind):
        controls.arm(trigger, rule_at(trigger, Action.HOLD))
    assert behind.since is not None
    controls._reached[behind.since] = Fired(None, "consumer-3", None)
    for silent_s in (0.05, 80.0):
        controls.watching = Watching(lambda: 0, lambda: True, lambda: True, idle_s=silent_s)
        for trigger in (AT, behind):
            with pytest.raises(NotFiredError):
                controls.await_fired(trigger)
    assert asked == [0.05, run_controls.FIRE_S, 80.0, 80.0]
