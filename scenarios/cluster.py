"""Three brokers: what a leader has and its followers do not, and who may lead after it."""

from __future__ import annotations

from dataclasses import replace

from harness.bench import OnWire
from harness.core.prediction import AtLeast, Exactly, Select
from harness.core.scenario import Deployment, Predicted, Role, Scenario
from harness.core.settings import AT_LEAST_ONCE, AT_MOST_ONCE, EXACTLY_ONCE, Settings, TopicSettings
from harness.core.sign import Sign
from harness.faults import Kill
from harness.wire.rules import Api, Direction
from scenarios.plain import ALO, AMO, EOS

REQUEST, RESPONSE = Direction.REQUEST, Direction.RESPONSE
REPLICATED = TopicSettings(partitions=3, replicas=3, min_insync=2)


def on_three(base: Settings, topic: TopicSettings = REPLICATED) -> Settings:
    """Return a recipe on a topic with three replicas."""
    return replace(base, topic=topic)


AMO_3, ALO_3, EOS_3 = on_three(AT_MOST_ONCE), on_three(AT_LEAST_ONCE), on_three(EXACTLY_ONCE)
ONE_ACK = replace(ALO_3, producer=replace(ALO_3.producer, acks=1))

LEADER_CRASH_BEFORE_REPLICATION = Scenario(
    id="leader-crash-before-replication", failure_point="leader-crash-before-replication",
    group="cluster", deployment=Deployment.CLUSTER,
    fault=Kill(OnWire(Role.BROKER, Api.FETCH, RESPONSE), (Role.LEADER,), late=Role.LEADER),
    because="The leader has appended the record and dies before any follower has it. One ack means the leader's: the "
    "record is gone with it, and nobody sends it again. With all acks it was not acknowledged: the client sends it to the "
    "new leader, whose log never had it, so that it stands there once, without any idempotence; the old leader "
    "truncates its copy when it comes back.",
    expect={
        AMO: Predicted(lost=AtLeast(Select.UNREPLICATED), settings=AMO_3),
        ALO: Predicted(sign=Sign.REPEATED_REQUEST, settings=ALO_3),
        EOS: Predicted(sign=Sign.REPEATED_REQUEST, settings=EOS_3),
    },
)  # fmt: skip

LEADER_CRASH_AFTER_ACK = Scenario(
    id="control-one-ack", failure_point="leader-crash-before-replication", group="cluster", deployment=Deployment.CLUSTER,
    fault=Kill(OnWire(Role.PRODUCER, Api.PRODUCE, REQUEST, offset=1), (Role.LEADER,), late=Role.LEADER, stalled=True),
    because="Control: one ack, sold as at-least-once. The producer has the ack and is about to send the next record; no "
    "follower has this one when the leader dies. The new leader never had it, and the old one forgets it.",
    expect={ALO: Predicted(lost=Exactly(Select.UNREPLICATED), control=True, settings=ONE_ACK)},
)  # fmt: skip

CLUSTER = (LEADER_CRASH_BEFORE_REPLICATION, LEADER_CRASH_AFTER_ACK)
