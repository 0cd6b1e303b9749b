"""A fault names the abilities that it asks for: exactly these, or a plan says of a cell that it
applies when it does not.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import pytest

from harness import faults, registry
from harness.abilities import ABILITIES, BrokerSettings, needs_of
from harness.controls import InHand, InProgram, OnWire, Role
from harness.faults import (
    Answer,
    CommitOvertakesWork,
    Compacted,
    ContainerFault,
    CrashAtWrite,
    Damaged,
    Drop,
    EndInput,
    Forget,
    Frozen,
    Hold,
    InBacklog,
    InBurst,
    InTurn,
    Kill,
    Late,
    MarkOvertakesAcknowledgement,
    Network,
    NoFault,
    PartedFromWork,
    PartitionFilled,
    Pause,
    PutOutWhileJoining,
    Rebalanced,
    Refuse,
    RetentionPasses,
    Silent,
    Stall,
    StartLate,
    TakenOver,
    Terminate,
    ToldLate,
    TopicAppears,
    TopicMadeAnew,
    Torn,
    Twice,
    Unanswered,
    Until,
    Withheld,
    WorkFails,
)
from harness.faults.triggers import stop_at
from harness.model.bursts import Strike
from harness.model.harms import Damage, Harm
from harness.model.rebalances import Change
from harness.model.takeovers import Turn
from harness.model.writes import Point, Side
from harness.proofs.network import Effect
from harness.protocols.kafka.steps import Api
from harness.services.toxiproxy import Latency, Stream
from harness.systems.kafka import faults as of_kafka
from harness.systems.kafka.faults import (
    LeaderMoved,
    LockExpired,
    MissedRebalance,
    OffsetsExpired,
    PartitionsAdded,
    RollingRestart,
    StaleMember,
    TransactionTimeout,
    Zombie,
)
from harness.wire.rules import Direction
from tests.judge.recording import kill_on_wire, played

if TYPE_CHECKING:
    from harness.controls import Controls

ASKS = OnWire(Role.CONSUMER, Api.OFFSET_COMMIT, Direction.REQUEST)
ANSWER = OnWire(Role.CONSUMER, Api.FETCH, Direction.RESPONSE)
SENDS = OnWire(Role.PRODUCER, Api.PRODUCE, Direction.REQUEST)
STANDS = InProgram(Role.PRODUCER, "before-send")
SLOW = (Latency(Stream.UPSTREAM, 1),)


def network(until: Until) -> Network:
    """Return a bad network that lasts until then, twice."""
    return Network(
        SENDS, SLOW, until, Effect.LATE, times=2, waits_s=1.0 if until is Until.WAITED else 0.0
    )


def kills() -> list[Any]:
    """Return a kill of each kind, and one that is all of them at once."""
    stateful = {Forget.CHECKPOINT, Forget.RETENTION}
    forgets = [
        Kill(ASKS, (Role.DRIVER if each in stateful else Role.BROKER,), forget=each, settle=True)
        for each in Forget
    ]
    ways: list[dict[str, Any]] = [
        {"outlasting": True},
        {"shrunk": True},
        {"stalled": True},
        {"late": Role.LEADER},
    ]
    each = [Kill(SENDS, (Role.LEADER, Role.FOLLOWER), **way) for way in ways]
    every = Kill(
        SENDS,
        (Role.LEADER,),
        forget=Forget.ALL,
        outlasting=True,
        shrunk=True,
        stalled=True,
        settle=True,
    )
    return [Kill(STANDS, (Role.PRODUCER,)), Kill(SENDS, (Role.BROKER,)), *forgets, *each, every]


VARIANTS: list[Any] = [
    Stall(SENDS, Role.DATABASE, 0.01),
    NoFault(),
    NoFault(watched=True),
    MissedRebalance(ANSWER),
    CrashAtWrite(Role.CONSUMER, (Api.FETCH, Direction.RESPONSE), Point("rename", 1, Side.BEFORE)),
    CommitOvertakesWork(ANSWER, InHand(ANSWER, ASKS)),
    MarkOvertakesAcknowledgement(SENDS, SENDS),
    *(Damaged(SENDS, damage) for damage in Damage),
    Drop(SENDS),
    EndInput(SENDS),
    OffsetsExpired(InProgram(Role.CONSUMER, "after-commit"), SENDS),
    PartitionsAdded(STANDS),
    PartitionsAdded(STANDS, asleep=Role.CONSUMER),
    PartitionsAdded(STANDS, shared_out=True),
    *kills(),
    Late(SENDS, OnWire(Role.PRODUCER, Api.PRODUCE, Direction.RESPONSE)),
    Late(SENDS, SENDS, kill=True),
    LeaderMoved(SENDS),
    LeaderMoved(SENDS, preferred=True),
    LeaderMoved(SENDS, stalled=True),
    LeaderMoved(SENDS, preferred=True, stalled=True),
    *map(network, Until),
    TransactionTimeout(SENDS),
    StaleMember(ASKS, SENDS),
    Pause(ASKS),
    Pause(STANDS),
    Pause(ASKS, others_finish=False),
    Pause(ASKS, others_ask=True),
    Pause(ASKS, told=True),
    RollingRestart(SENDS),
    *(ContainerFault(ASKS, harm, Role.CONSUMER, besides=(Role.PRODUCER,)) for harm in Harm),
    Terminate(SENDS),
    Refuse(SENDS),
    Silent(SENDS),
    Torn(SENDS),
    Silent(ANSWER),
    StartLate(SENDS, Role.CONSUMER),
    StartLate(SENDS, Role.CONSUMER, held=True),
    PartitionFilled(SENDS, Role.CONSUMER),
    RetentionPasses(ASKS),
    Compacted(ASKS),
    TopicAppears(SENDS, Role.CONSUMER),
    Frozen(ASKS),
    TopicMadeAnew(SENDS, Role.CONSUMER),
    Answer(SENDS, "NOT_ENOUGH_REPLICAS"),
    Answer(SENDS, "REQUEST_TIMED_OUT", forward=True, times=2),
    Hold(ASKS, ANSWER),
    Hold(ASKS, ANSWER, lost=True),
    Hold(ASKS, ANSWER, errors=True),
    *(Hold(ASKS, until) for until in (Until.EXPELLED, Until.EXHAUSTED, Until.SETTLED)),
    Twice(
        kill_on_wire(SENDS, Role.PRODUCER),
        Drop(OnWire(Role.PRODUCER, Api.INIT_PRODUCER_ID, Direction.RESPONSE, since=SENDS)),
    ),
    Twice(Drop(SENDS), Terminate(ASKS)),
    Terminate(ASKS, replace(ANSWER, since=ASKS)),
    Withheld(ASKS, replace(ANSWER, since=ASKS)),
    Unanswered(ASKS, Api.OFFSET_FETCH),
    WorkFails(STANDS),
    LockExpired(STANDS),
    *(Rebalanced(ANSWER, change) for change in Change),
    Rebalanced(ANSWER, Change.JOINS, dies=True),
    PutOutWhileJoining(ANSWER),
    *(
        PartedFromWork(ANSWER, InHand(ANSWER, ASKS), change)
        for change in (Change.JOINS, Change.OVERDUE)
    ),
    *(ToldLate(ANSWER, answered) for answered in (False, True)),
    *(InBurst(SENDS, strike) for strike in (Strike.REQUESTS_LOST, Strike.FIRST_REFUSED)),
    InBurst(SENDS, Strike.LOST_THEN_REFUSED),
    *(
        InBurst(replace(SENDS, direction=Direction.RESPONSE), strike)
        for strike in (Strike.NOTHING, Strike.SENDER_DIES, Strike.ANSWERS_LOST, Strike.BROKER_DIES)
    ),
    InBacklog(ASKS),
    InTurn(kill_on_wire(ASKS, Role.CONSUMER), 2),
    *(TakenOver(SENDS, turn) for turn in Turn),
    Zombie(SENDS),
    Zombie(STANDS),
]
"""Every fault, with everything that can be said of it."""
OURS = sorted({scenario.fault for scenario in registry.scenarios()}, key=repr)
"""The faults of all scenarios."""


@pytest.mark.parametrize("fault", [*VARIANTS, *OURS], ids=lambda fault: fault.id)
def test_a_fault_asks_for_the_abilities_that_it_names_and_for_no_other(fault: Any) -> None:
    """The controls refuse what is not named; what is named and never asked for would make cells not
    applicable for nothing.
    """
    controls = played(fault)
    assert controls.done[-1:] == ["healed"] or isinstance(fault, NoFault), (
        "it has gone through all of its steps"
    )
    assert controls.asked == set(needs_of(fault))
    assert all(each in ABILITIES or of_an_engine(each) for each in controls.asked)
    assert len(needs_of(fault)) == len(controls.asked), "each is named once"


def test_every_fault_is_tried_and_every_ability_asked_for() -> None:
    """Who adds one adds it here; those of an engine are tried with its scenarios. Settings of its
    broker are what a scenario asks for, and no fault.
    """
    exported = [getattr(each, name) for each in (faults, of_kafka) for name in each.__all__]
    assert {type(fault) for fault in VARIANTS} == {each for each in exported if hasattr(each, "id")}
    asked = set(chain.from_iterable(needs_of(fault) for fault in (*VARIANTS, *OURS)))
    asked = {each for each in asked if not of_an_engine(each)}
    assert asked == set(ABILITIES) - {BrokerSettings}


def of_an_engine(ability: type) -> bool:
    """Whether an ability is one that only an engine knows, and declares of its cells."""
    first, second = ability.__module__.split(".")[:2]
    return second == "systems" or first != "harness"  # an engine in a package of its own


def test_what_lasts_until_something_is_waited_for_each_time() -> None:
    """Each of two times that a network is bad, and before it is mended: else the ability would be
    named for nothing.
    """
    for until, waits in (
        (Until.TOLD, "Ledger.await_told_unknown"),
        (Until.EXPELLED, "Membership.await_expired producer"),
    ):
        found = [step for step in played(network(until)).done if "." in step]
        assert found == ["BadNetwork.worsen", waits, "BadNetwork.mend"] * 2
    assert "Membership.await_expired producer" not in played(network(Until.TOLD)).done


class Greedy:
    """A fault that asks for what it has not named."""

    id = "greedy"

    def arm(self, controls: Controls) -> None:
        """Arm nothing."""
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Ask."""
        stop_at(controls, SENDS)
        controls.ability(next(iter(ABILITIES)))


def test_the_recording_controls_refuse_as_the_real_ones_do() -> None:
    """Or this file could not fail."""
    with pytest.raises(LookupError, match="does not name PowerLoss"):
        played(Greedy())
