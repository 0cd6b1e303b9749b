"""Three brokers: records that a leader has and its followers do not, and which replica may lead
after it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from harness.controls import OnWire
from harness.faults import Forget, Kill
from harness.judge.signs import NOT_RESENT, REPEATED_REQUEST
from harness.model.prediction import AtLeast, Exactly, Permitted, Select
from harness.model.scenario import Deployment, NotApplicable, Predicted, Role, Scenario, Suite
from harness.protocols.kafka.steps import Api
from harness.scenarios.plain import ALO, AMO, EOS
from harness.stages.settings import (
    AT_LEAST_ONCE,
    AT_MOST_ONCE,
    EXACTLY_ONCE,
    PLAIN,
    Settings,
    TopicSettings,
)
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

scenario = partial(Scenario, group="cluster", pipeline=PLAIN, deployment=Deployment.CLUSTER)

LEADER_CRASH_BEFORE_REPLICATION = scenario(
    id="leader-crash-before-replication",
    fault=Kill(OnWire(Role.BROKER, Api.FETCH, RESPONSE), (Role.LEADER,), late=Role.LEADER),
    because="The leader has appended the record and dies before any follower has it. With one ack "
    "only the leader has acknowledged: the record is lost with it, and the client does not "
    "send it again. With all acks the record was not acknowledged: the client sends it to "
    "the new leader, whose log never had it, so it is stored there once, even without "
    "idempotence. When the old leader comes back, it truncates its copy.",
    expect={
        AMO: Predicted(lost=AtLeast(Select.UNREPLICATED), settings=AMO_3),
        ALO: Predicted(sign=REPEATED_REQUEST, settings=ALO_3),
        EOS: Predicted(sign=REPEATED_REQUEST, settings=EOS_3),
    },
)

LEADER_CRASH_AFTER_ACK = scenario(
    id="control-one-ack",
    failure_point="leader-crash-before-replication",
    fault=Kill(
        OnWire(Role.PRODUCER, Api.PRODUCE, REQUEST, offset=1),
        (Role.LEADER,),
        late=Role.LEADER,
        stalled=True,
    ),
    because="Control: one ack, sold as at-least-once. The producer has the ack and is about to "
    "send the next record. No follower has this record when the leader dies. The new "
    "leader never had it, and the old leader truncates it when it comes back.",
    expect={ALO: Predicted(lost=Exactly(Select.UNREPLICATED), control=True, settings=ONE_ACK)},
)

IDEMPOTENT_3 = replace(ALO_3, producer=replace(ALO_3.producer, idempotence=True))

LEADER_CRASH_BEFORE_REPLICATION_IDEMPOTENT = replace(
    LEADER_CRASH_BEFORE_REPLICATION,
    id="leader-crash-before-replication+idempotent",
    because="The sequence number was lost with the only copy: the new leader stores the repeated "
    "request as if it were the first.",
    expect={ALO: Predicted(sign=REPEATED_REQUEST, settings=IDEMPOTENT_3)},
)

LEADER_CRASH_BEFORE_ACK = scenario(
    id="leader-crash-before-ack",
    fault=Kill(OnWire(Role.PRODUCER, Api.PRODUCE, RESPONSE), (Role.LEADER,), late=Role.LEADER),
    because="With all acks the followers have the record when the leader dies before it answers. "
    "The client's retry stores the record again on the new leader, unless that knows the "
    "sequence number: producer states are replicated with the log. With one ack a "
    "follower may have the record or not, and the client does not send it again.",
    expect={
        AMO: Predicted(lost=Permitted(), sign=NOT_RESENT, settings=AMO_3),
        ALO: Predicted(duplicated=Exactly(), settings=ALO_3),
        EOS: Predicted(sign=REPEATED_REQUEST, settings=EOS_3),
    },
)

LEADER_CRASH_BEFORE_ACK_IDEMPOTENT = replace(
    LEADER_CRASH_BEFORE_ACK,
    id="leader-crash-before-ack+idempotent",
    because=(
        "The new leader has the record and its sequence number, and recognises the repeated "
        "request."
    ),
    expect={ALO: Predicted(sign=REPEATED_REQUEST, settings=IDEMPOTENT_3)},
)

ONE_ACK_WAITS_FOR_NOBODY = NotApplicable("with one ack only the leader itself must be in sync")
TWO = TopicSettings(partitions=3, replicas=2, min_insync=2)

INSYNC_NOT_MET = scenario(
    id="insync-not-met",
    fault=Kill(
        OnWire(Role.PRODUCER, Api.PRODUCE, REQUEST), (Role.FOLLOWER,), held=How.RELEASE, shrunk=True
    ),
    because="Two replicas must be in sync and one is dead: the leader refuses the record before it "
    "appends anything, and the client sends it again until the follower is back. A refused "
    "record is not lost.",
    expect={
        AMO: ONE_ACK_WAITS_FOR_NOBODY,
        ALO: Predicted(sign=REPEATED_REQUEST, settings=on_three(AT_LEAST_ONCE, TWO)),
        EOS: Predicted(sign=REPEATED_REQUEST, settings=on_three(EXACTLY_ONCE, TWO)),
    },
)

LONE = TopicSettings(partitions=3, replicas=2, min_insync=1)
NEXT_REQUEST = OnWire(Role.PRODUCER, Api.PRODUCE, REQUEST, offset=1)

LAST_REPLICA_CRASH = scenario(
    id="last-in-sync-crash",
    fault=Kill(NEXT_REQUEST, (Role.LEADER,), stalled=True),
    because="The follower got nothing for so long that it is no longer in sync, so the leader's "
    "own copy counts as all acks. When the leader dies, no other replica may lead: the "
    "partition waits until the leader comes back with the record.",
    expect={
        AMO: ONE_ACK_WAITS_FOR_NOBODY,
        ALO: Predicted(sign=ALONE, settings=on_three(AT_LEAST_ONCE, LONE)),
        EOS: Predicted(sign=ALONE, settings=on_three(EXACTLY_ONCE, LONE)),
    },
)

UNCLEAN = replace(LONE, unclean=True)

UNCLEAN_ELECTION = replace(
    LAST_REPLICA_CRASH,
    id="control-unclean-election",
    fault=Kill(NEXT_REQUEST, (Role.LEADER,), stalled=True, late=Role.LEADER),
    because="Control: a replica that is not in sync may lead. It becomes the leader at once, "
    "without the record that was acknowledged with all acks. The old leader comes back "
    "as a follower and truncates the record. (The consumer starts when the old leader is "
    "back, so it never reads the record. With exactly-once the cursor is a record, too, "
    "and may be lost with the records that it counted; then the producer sends all of "
    "them again. That depends on which broker led the cursor's partition.)",
    consumer_starts_after_fault=True,
    expect={
        ALO: Predicted(
            lost=Exactly(Select.UNREPLICATED),
            control=True,
            settings=on_three(AT_LEAST_ONCE, UNCLEAN),
        ),
    },
)

LEADER_MOVED = scenario(
    id="leader-moved",
    fault=LeaderMoved(OnWire(Role.PRODUCER, Api.PRODUCE, REQUEST)),
    because="The request reaches a broker that is no longer the leader. The broker refuses it "
    "before the append. (If the broker has not heard of the new leader yet, it appends "
    "the record, but nobody fetches it from there.) A client that retries asks which "
    "broker leads now. A client that does not retry loses the record, and the next ones, "
    "until it asks.",
    expect={
        AMO: Predicted(lost=AtLeast(), settings=AMO_3),
        ALO: Predicted(sign=REPEATED_REQUEST, settings=ALO_3),
        EOS: Predicted(sign=REPEATED_REQUEST, settings=EOS_3),
    },
    # librdkafka does not count what a broker that leads no longer has refused: it was never
    # appended, and is sent again
    by_client={"confluent-kafka": {AMO: Predicted(sign=REPEATED_REQUEST, settings=AMO_3)}},
)

PREFERRED_LEADER = replace(
    LEADER_MOVED,
    id="preferred-leader",
    failure_point="preferred-leader",
    fault=LeaderMoved(OnWire(Role.PRODUCER, Api.PRODUCE, REQUEST), preferred=True),
    because="A partition is led by another replica than its preferred one, as after a failover. "
    "While the request is on its way, the preferred replica is elected "
    "(kafka-leader-election, or the controller's own balancing). No broker dies and no "
    "replica moves. The request reaches a broker that no longer leads. The broker refuses it "
    "before the append, or appends a record that nobody fetches from there.",
)

PREFERRED_LEADER_ONE_ACK = scenario(
    id="control-preferred-leader-one-ack",
    failure_point="preferred-leader",
    fault=LeaderMoved(NEXT_REQUEST, preferred=True, stalled=True),
    because="Control: one ack, sold as at-least-once, and no broker dies. A follower counts as in "
    "sync by the clock, not by the records that it has: elected in an orderly way, it leads "
    "without the acknowledged record, and the old leader, alive, truncates its copy.",
    expect={ALO: Predicted(lost=Exactly(Select.UNREPLICATED), control=True, settings=ONE_ACK)},
)


def patient(settings: Settings) -> Settings:
    """Return settings whose client waits for an answer as long as a broker may need to
    come back.
    """
    return replace(
        settings,
        producer=replace(settings.producer, request_timeout_ms=90_000, delivery_timeout_ms=300_000),
    )


ROLLING_RESTART = scenario(
    id="rolling-restart",
    fault=RollingRestart(OnWire(Role.PRODUCER, Api.PRODUCE, REQUEST)),
    because="Every broker in turn hands over its partitions, shuts down and comes back. A record "
    "is on its way to the first one. Its connection ends before the answer: a client "
    "that retries sends the record again, and the next leader stores it once; at most "
    "once, it is lost. With all acks no acknowledged record is on one broker only when a "
    "leader hands over, and two of three replicas are always in sync. (If the client's "
    "request timed out while it waits, the client would send it again, and it would be "
    "stored twice. So this client has a long time-out.)",
    expect={
        AMO: Predicted(lost=AtLeast(), settings=patient(AMO_3)),
        ALO: Predicted(sign=REPEATED_REQUEST, settings=patient(ALO_3)),
        EOS: Predicted(sign=REPEATED_REQUEST, settings=patient(EOS_3)),
    },
)

CONTROLLER_CRASH = scenario(
    id="controller-crash",
    fault=Kill(OnWire(Role.PRODUCER, Api.PRODUCE, REQUEST), (Role.CONTROLLER,)),
    because="The leader of the controllers dies, and the request on its way is lost with its "
    "connection. Controllers store no records: a record that the client sends again is "
    "stored once; at most once, it is lost.",
    expect={
        AMO: Predicted(lost=AtLeast(), settings=AMO_3),
        ALO: Predicted(sign=REPEATED_REQUEST, settings=ALO_3),
    },
)

CONTROLLER_APART_CRASH = scenario(
    id="controller-apart-crash",
    failure_point="controller-crash",
    deployment=Deployment.APART,
    fault=Kill(
        OnWire(Role.PRODUCER, Api.PRODUCE, REQUEST),
        (Role.CONTROLLER,),
        held=How.RELEASE,
        late=Role.CONTROLLER,
    ),
    because="The only controller, a process of its own, dies, and stays down until all records are "
    "sent. No client talks to the controller: leaders go on leading and followers go on "
    "following, so even at most once loses nothing.",
    expect={
        AMO: Predicted(sign=UNGOVERNED, settings=AMO_3),
        ALO: Predicted(sign=UNGOVERNED, settings=ALO_3),
        EOS: Predicted(sign=UNGOVERNED, settings=EOS_3),
    },
)

UNGOVERNED_LEADER_CRASH = scenario(
    id="leader-crash-without-controller",
    failure_point="controller-crash",
    deployment=Deployment.APART,
    fault=Kill(OnWire(Role.PRODUCER, Api.PRODUCE, REQUEST), (Role.CONTROLLER, Role.LEADER)),
    because="The only controller dies, and the leader with it. Without a controller no new "
    "leader is elected, so the partition waits until both are back. A client that "
    "retries until then loses nothing, and the record is stored once; at most once, it "
    "is lost.",
    expect={
        AMO: Predicted(lost=AtLeast(), settings=AMO_3),
        ALO: Predicted(sign=REPEATED_REQUEST, settings=ALO_3),
        EOS: Predicted(sign=REPEATED_REQUEST, settings=EOS_3),
    },
)

TWO_FLUSHED = replace(TWO, flush_messages=1)

POWER_LOSS_ON_LEADER = scenario(
    id="power-loss-on-leader",
    failure_point="power-loss",
    consumer_starts_after_fault=True,
    fault=Kill(NEXT_REQUEST, (Role.LEADER,), forget=Forget.TOPIC, late=Role.LEADER),
    because="Nothing was flushed, and the leader loses its power. The followers have every record "
    "that was acknowledged with all acks, and one of them leads. Replication takes the place "
    "of the flush, as long as not all replicas lose their power at once.",
    expect={
        AMO: ONE_ACK_WAITS_FOR_NOBODY,
        ALO: Predicted(sign=REPLICATED, settings=ALO_3),
    },
)

POWER_LOSS_ON_ALL = replace(
    POWER_LOSS_ON_LEADER,
    id="power-loss-on-all",
    fault=Kill(NEXT_REQUEST, (Role.LEADER, Role.FOLLOWER), forget=Forget.TOPIC),
    because="Both replicas lose their power at once: records that were acknowledged with all acks, "
    "but never flushed, are lost on both.",
    expect={
        ALO: Predicted(
            lost=Exactly(Select.THROUGH_TARGET), control=True, settings=on_three(AT_LEAST_ONCE, TWO)
        ),
    },
)

POWER_LOSS_ON_ALL_FLUSHED = replace(
    POWER_LOSS_ON_ALL,
    id="power-loss-on-all-flushed",
    because=(
        "flush.messages=1 on every replica: a record that all replicas have acknowledged is on "
        "every disk."
    ),
    expect={ALO: Predicted(sign=FLUSHED, settings=on_three(AT_LEAST_ONCE, TWO_FLUSHED))},
)

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
