"""Three brokers: records that a leader has and its followers do not, and which replica may lead after it."""

from __future__ import annotations

from dataclasses import replace

from harness.controls import OnWire
from harness.faults import Forget, Kill
from harness.judge.signs import NOT_RESENT, REPEATED_REQUEST
from harness.model.prediction import AtLeast, Exactly, Permitted, Select
from harness.model.scenario import Deployment, NotApplicable, Predicted, Role, Scenario, Suite
from harness.protocols.kafka.steps import Api
from harness.scenarios.plain import ALO, AMO, EOS
from harness.stages.settings import AT_LEAST_ONCE, AT_MOST_ONCE, EXACTLY_ONCE, PLAIN, Settings, TopicSettings
from harness.systems.kafka.faults import LeaderMoved, RollingRestart
from harness.systems.kafka.signs import ALONE, FLUSHED, REPLICATED, UNGOVERNED
from harness.wire.rules import Direction, How

REQUEST, RESPONSE = Direction.REQUEST, Direction.RESPONSE
IN_THREE = TopicSettings(partitions=3, replicas=3, min_insync=2)


def on_three(base: Settings, topic: TopicSettings = IN_THREE) -> Settings:
    """Return a recipe on a topic with three replicas."""
    return replace(base, topic=topic)


AMO_3, ALO_3, EOS_3 = on_three(AT_MOST_ONCE), on_three(AT_LEAST_ONCE), on_three(EXACTLY_ONCE)
ONE_ACK = replace(ALO_3, producer=replace(ALO_3.producer, acks=1))

LEADER_CRASH_BEFORE_REPLICATION = Scenario(
    pipeline=PLAIN, id="leader-crash-before-replication", failure_point="leader-crash-before-replication",
    group="cluster", deployment=Deployment.CLUSTER,
    fault=Kill(OnWire(Role.BROKER, Api.FETCH, RESPONSE), (Role.LEADER,), late=Role.LEADER),
    because="The leader has appended the record and dies before any follower has it. One ack means the leader's: the "
    "record is gone with it, and nobody sends it again. With all acks it was not acknowledged: the client sends it to the "
    "new leader, whose log never had it, so that it stands there once, without any idempotence; the old leader "
    "truncates its copy when it comes back.",
    expect={
        AMO: Predicted(lost=AtLeast(Select.UNREPLICATED), settings=AMO_3),
        ALO: Predicted(sign=REPEATED_REQUEST, settings=ALO_3),
        EOS: Predicted(sign=REPEATED_REQUEST, settings=EOS_3),
    },
)  # fmt: skip

LEADER_CRASH_AFTER_ACK = Scenario(
    pipeline=PLAIN,
    id="control-one-ack", failure_point="leader-crash-before-replication", group="cluster", deployment=Deployment.CLUSTER,
    fault=Kill(OnWire(Role.PRODUCER, Api.PRODUCE, REQUEST, offset=1), (Role.LEADER,), late=Role.LEADER, stalled=True),
    because="Control: one ack, sold as at-least-once. The producer has the ack and is about to send the next record; no "
    "follower has this one when the leader dies. The new leader never had it, and the old one forgets it.",
    expect={ALO: Predicted(lost=Exactly(Select.UNREPLICATED), control=True, settings=ONE_ACK)},
)  # fmt: skip

IDEMPOTENT_3 = replace(ALO_3, producer=replace(ALO_3.producer, idempotence=True))

LEADER_CRASH_BEFORE_REPLICATION_IDEMPOTENT = replace(
    LEADER_CRASH_BEFORE_REPLICATION, id="leader-crash-before-replication+idempotent",
    because="The sequence number died with the only copy: the new leader takes the repeated request for the first.",
    expect={ALO: Predicted(sign=REPEATED_REQUEST, settings=IDEMPOTENT_3)},
)  # fmt: skip

LEADER_CRASH_BEFORE_ACK = Scenario(
    pipeline=PLAIN,
    id="leader-crash-before-ack", failure_point="leader-crash-before-ack", group="cluster", deployment=Deployment.CLUSTER,
    fault=Kill(OnWire(Role.PRODUCER, Api.PRODUCE, RESPONSE), (Role.LEADER,), late=Role.LEADER),
    because="With all acks the followers have the record when the leader dies before it answers. A retry stores it again "
    "on the new leader, unless that knows the sequence number: producer states are replicated with the log. With one ack a "
    "follower may have it or not, and nobody sends it again.",
    expect={
        AMO: Predicted(lost=Permitted(), sign=NOT_RESENT, settings=AMO_3),
        ALO: Predicted(duplicated=Exactly(), settings=ALO_3),
        EOS: Predicted(sign=REPEATED_REQUEST, settings=EOS_3),
    },
)  # fmt: skip

LEADER_CRASH_BEFORE_ACK_IDEMPOTENT = replace(
    LEADER_CRASH_BEFORE_ACK, id="leader-crash-before-ack+idempotent",
    because="The new leader has the record and its sequence number, and recognises the repeated request.",
    expect={ALO: Predicted(sign=REPEATED_REQUEST, settings=IDEMPOTENT_3)},
)  # fmt: skip

ONE_ACK_WAITS_FOR_NOBODY = NotApplicable("with one ack only the leader itself must be in sync")
TWO = TopicSettings(partitions=3, replicas=2, min_insync=2)

INSYNC_NOT_MET = Scenario(
    pipeline=PLAIN, id="insync-not-met", failure_point="insync-not-met", group="cluster", deployment=Deployment.CLUSTER,
    fault=Kill(OnWire(Role.PRODUCER, Api.PRODUCE, REQUEST), (Role.FOLLOWER,), held=How.RELEASE, shrunk=True),
    because="Two replicas must be in sync and one is dead: the leader refuses the record before it appends anything, and the "
    "client sends it again until the follower is back. Refused is not lost.",
    expect={
        AMO: ONE_ACK_WAITS_FOR_NOBODY,
        ALO: Predicted(sign=REPEATED_REQUEST, settings=on_three(AT_LEAST_ONCE, TWO)),
        EOS: Predicted(sign=REPEATED_REQUEST, settings=on_three(EXACTLY_ONCE, TWO)),
    },
)  # fmt: skip

LONE = TopicSettings(partitions=3, replicas=2, min_insync=1)
NEXT_REQUEST = OnWire(Role.PRODUCER, Api.PRODUCE, REQUEST, offset=1)

LAST_REPLICA_CRASH = Scenario(
    pipeline=PLAIN, id="last-in-sync-crash", failure_point="last-in-sync-crash", group="cluster", deployment=Deployment.CLUSTER,
    fault=Kill(NEXT_REQUEST, (Role.LEADER,), stalled=True),
    because="The follower got nothing for so long that it is no longer in sync, and the leader, alone, acknowledges for "
    "all. When it dies nobody may lead: the partition waits for it, and it comes back with the record.",
    expect={
        AMO: ONE_ACK_WAITS_FOR_NOBODY,
        ALO: Predicted(sign=ALONE, settings=on_three(AT_LEAST_ONCE, LONE)),
        EOS: Predicted(sign=ALONE, settings=on_three(EXACTLY_ONCE, LONE)),
    },
)  # fmt: skip

UNCLEAN = replace(LONE, unclean=True)

UNCLEAN_ELECTION = replace(
    LAST_REPLICA_CRASH, id="control-unclean-election",
    fault=Kill(NEXT_REQUEST, (Role.LEADER,), stalled=True, late=Role.LEADER),
    because="Control: a replica that is not in sync may lead. It does, at once, without the record that was acknowledged "
    "for all; the old leader comes back to a log that goes on without it, and truncates. (Whoever reads later never sees "
    "the record: the consumer starts when the old leader is back. A cursor that is a record itself, as with exactly-once, "
    "may be forgotten together with what it counted, and then all is sent again: it depends on who led it.)",
    consumer_starts_after_fault=True,
    expect={
        ALO: Predicted(lost=Exactly(Select.UNREPLICATED), control=True, settings=on_three(AT_LEAST_ONCE, UNCLEAN)),
    },
)  # fmt: skip

LEADER_MOVED = Scenario(
    pipeline=PLAIN, id="leader-moved", failure_point="leader-moved", group="cluster", deployment=Deployment.CLUSTER,
    fault=LeaderMoved(OnWire(Role.PRODUCER, Api.PRODUCE, REQUEST)),
    because="The request reaches a broker that leads no longer, which refuses it before the append (or appends it in vain, where "
    "it has not heard of that yet: nobody fetches from it). A client that retries asks who leads now; one that does not has lost "
    "the record, and the next ones, until it asks.",
    expect={
        AMO: Predicted(lost=AtLeast(), settings=AMO_3),
        ALO: Predicted(sign=REPEATED_REQUEST, settings=ALO_3),
        EOS: Predicted(sign=REPEATED_REQUEST, settings=EOS_3),
    },
    # librdkafka does not count what a broker that leads no longer has refused: it was never appended, and is sent again
    by_client={"confluent-kafka": {AMO: Predicted(sign=REPEATED_REQUEST, settings=AMO_3)}},
)  # fmt: skip

PREFERRED_LEADER = replace(
    LEADER_MOVED, id="preferred-leader", failure_point="preferred-leader",
    fault=LeaderMoved(OnWire(Role.PRODUCER, Api.PRODUCE, REQUEST), preferred=True),
    because="A partition is led by another than its preferred replica, as after a failover, and while the request is on its "
    "way the preferred one is elected (kafka-leader-election, or the controller's own balancing). Nothing dies and no replica "
    "moves. The request reaches a broker that no longer leads, which refuses it before the append, or appends it in vain.",
)  # fmt: skip

PREFERRED_LEADER_ONE_ACK = Scenario(
    pipeline=PLAIN,
    id="control-preferred-leader-one-ack", failure_point="preferred-leader", group="cluster", deployment=Deployment.CLUSTER,
    fault=LeaderMoved(NEXT_REQUEST, preferred=True, stalled=True),
    because="Control: one ack, sold as at-least-once, and nobody dies. A follower counts as in sync by the clock, not by what it "
    "has: elected in order, it leads without the record that was acknowledged, and the old leader, alive, truncates its own.",
    expect={ALO: Predicted(lost=Exactly(Select.UNREPLICATED), control=True, settings=ONE_ACK)},
)  # fmt: skip


def patient(settings: Settings) -> Settings:
    """Return settings whose client waits for an answer as long as a broker may need to come back."""
    return replace(settings, producer=replace(settings.producer, request_timeout_ms=90_000, delivery_timeout_ms=300_000))


ROLLING_RESTART = Scenario(
    pipeline=PLAIN, id="rolling-restart", failure_point="rolling-restart", group="cluster", deployment=Deployment.CLUSTER,
    fault=RollingRestart(OnWire(Role.PRODUCER, Api.PRODUCE, REQUEST)),
    because="Every broker in turn hands over what it leads, ends and comes back, with a record on its way to the first. That "
    "request ends with its connection, unanswered: sent again, it is stored once, by the next leader; at most once, it is gone. "
    "With all acks no acknowledged record is on one broker only when a leader hands over, and two of three are always in sync. "
    "(A client that timed out while its request waits, and sent it again, would store it twice: this client's time-out is long.)",
    expect={
        AMO: Predicted(lost=AtLeast(), settings=patient(AMO_3)),
        ALO: Predicted(sign=REPEATED_REQUEST, settings=patient(ALO_3)),
        EOS: Predicted(sign=REPEATED_REQUEST, settings=patient(EOS_3)),
    },
)  # fmt: skip

CONTROLLER_CRASH = Scenario(
    pipeline=PLAIN, id="controller-crash", failure_point="controller-crash", group="cluster", deployment=Deployment.CLUSTER,
    fault=Kill(OnWire(Role.PRODUCER, Api.PRODUCE, REQUEST), (Role.CONTROLLER,)),
    because="The leader of the controllers dies, and the request on its way is lost with its connection. Controllers hold no "
    "records: what is sent again is stored once; at most once, it is gone.",
    expect={
        AMO: Predicted(lost=AtLeast(), settings=AMO_3),
        ALO: Predicted(sign=REPEATED_REQUEST, settings=ALO_3),
    },
)  # fmt: skip

CONTROLLER_APART_CRASH = Scenario(
    pipeline=PLAIN, id="controller-apart-crash", failure_point="controller-crash", group="cluster", deployment=Deployment.APART,
    fault=Kill(OnWire(Role.PRODUCER, Api.PRODUCE, REQUEST), (Role.CONTROLLER,), held=How.RELEASE, late=Role.CONTROLLER),
    because="The only controller, a process of its own, dies, and stays away until everything is sent. No client talks to it: "
    "leaders go on leading and followers following, so that not even at most once loses anything.",
    expect={
        AMO: Predicted(sign=UNGOVERNED, settings=AMO_3),
        ALO: Predicted(sign=UNGOVERNED, settings=ALO_3),
        EOS: Predicted(sign=UNGOVERNED, settings=EOS_3),
    },
)  # fmt: skip

UNGOVERNED_LEADER_CRASH = Scenario(
    pipeline=PLAIN,
    id="leader-crash-without-controller", failure_point="controller-crash", group="cluster", deployment=Deployment.APART,
    fault=Kill(OnWire(Role.PRODUCER, Api.PRODUCE, REQUEST), (Role.CONTROLLER, Role.LEADER)),
    because="The only controller dies, and the leader with it: nobody elects another, and the partition waits for both. "
    "A client that goes on asking loses nothing, and what it sends again is stored once; at most once, it is gone.",
    expect={
        AMO: Predicted(lost=AtLeast(), settings=AMO_3),
        ALO: Predicted(sign=REPEATED_REQUEST, settings=ALO_3),
        EOS: Predicted(sign=REPEATED_REQUEST, settings=EOS_3),
    },
)  # fmt: skip

TWO_FLUSHED = replace(TWO, flush_messages=1)

POWER_LOSS_ON_LEADER = Scenario(
    pipeline=PLAIN, id="power-loss-on-leader", failure_point="power-loss", group="cluster", deployment=Deployment.CLUSTER,
    consumer_starts_after_fault=True, fault=Kill(NEXT_REQUEST, (Role.LEADER,), forget=Forget.TOPIC, late=Role.LEADER),
    because="Nothing was flushed, and the leader loses its power: the followers have all that was acknowledged for all, "
    "and one of them leads. Replication is what stands in for the flush, as long as not all replicas are struck at once.",
    expect={
        AMO: ONE_ACK_WAITS_FOR_NOBODY,
        ALO: Predicted(sign=REPLICATED, settings=ALO_3),
    },
)  # fmt: skip

POWER_LOSS_ON_ALL = replace(
    POWER_LOSS_ON_LEADER, id="power-loss-on-all",
    fault=Kill(NEXT_REQUEST, (Role.LEADER, Role.FOLLOWER), forget=Forget.TOPIC),
    because="Both replicas lose their power at once: what was acknowledged for all, and never flushed, is gone from both.",
    expect={
        ALO: Predicted(lost=Exactly(Select.THROUGH_TARGET), control=True, settings=on_three(AT_LEAST_ONCE, TWO)),
    },
)  # fmt: skip

POWER_LOSS_ON_ALL_FLUSHED = replace(
    POWER_LOSS_ON_ALL, id="power-loss-on-all-flushed",
    because="flush.messages=1 on every replica: what all have acknowledged is on every disk.",
    expect={ALO: Predicted(sign=FLUSHED, settings=on_three(AT_LEAST_ONCE, TWO_FLUSHED))},
)  # fmt: skip

BY_DAY = (LEADER_CRASH_BEFORE_REPLICATION, LEADER_CRASH_AFTER_ACK, LEADER_MOVED)
"""What every run has of the clusters; the rest is for the night."""
BY_NIGHT = (
    LEADER_CRASH_BEFORE_REPLICATION_IDEMPOTENT,
    LEADER_CRASH_BEFORE_ACK,
    LEADER_CRASH_BEFORE_ACK_IDEMPOTENT,
    INSYNC_NOT_MET,
    LAST_REPLICA_CRASH,
    UNCLEAN_ELECTION,
    PREFERRED_LEADER,
    PREFERRED_LEADER_ONE_ACK,
    ROLLING_RESTART,
    CONTROLLER_CRASH,
    CONTROLLER_APART_CRASH,
    UNGOVERNED_LEADER_CRASH,
    POWER_LOSS_ON_LEADER,
    POWER_LOSS_ON_ALL,
    POWER_LOSS_ON_ALL_FLUSHED,
)
CLUSTER = (*BY_DAY, *(replace(scenario, suite=Suite.NIGHT) for scenario in BY_NIGHT))
