"""Zombies: a process is paused for longer than its session time-out, another takes over, and the
first wakes up and goes on.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from harness.controls import InProgram, OnWire
from harness.faults import Kill, Pause
from harness.judge.signs import ABORTED, ABSORBED, DELIVERED_AGAIN, RESUMED_PAST
from harness.model.prediction import AtLeast, Exactly, Permitted, Select
from harness.model.scenario import Deployment, Predicted, Role, Scenario, Suite
from harness.protocols.kafka.steps import Api
from harness.scenarios.heartbeats import by_heartbeats
from harness.scenarios.plain import ALO, AMO, EOS, REQUEST, RESPONSE
from harness.stages.consumer_settings import GroupMetadata, Members
from harness.stages.settings import (
    AT_LEAST_ONCE,
    AT_MOST_ONCE,
    EXACTLY_ONCE,
    EXACTLY_ONCE_IN_TRANSACTION,
    PLAIN,
    TOPIC_TO_TOPIC,
    Settings,
    TopicSettings,
)
from harness.systems.kafka.faults import MissedRebalance, StaleMember

if TYPE_CHECKING:
    from harness.model.semantics import Semantic


def pair(settings: Settings) -> Settings:
    """Return the settings with two dynamic members and a session that is soon over, and longer than
    a busy machine's pauses.
    """
    return replace(
        settings,
        consumer=replace(
            settings.consumer, count=2, members=Members.DYNAMIC, session_timeout_ms=3000
        ),
    )


def at_commit(settings: Settings) -> Settings:
    """Return the settings with group metadata taken when the work is done, after some polling."""
    return replace(
        settings, consumer=replace(settings.consumer, group_metadata=GroupMetadata.AT_COMMIT)
    )


def of_two(settings: Settings) -> Settings:
    """Return the settings with two members, and a partition for each."""
    return replace(pair(settings), topic=TopicSettings(partitions=2))


scenario = partial(Scenario, group="zombies", pipeline=PLAIN)

CONSUMER = scenario(
    id="zombie-consumer",
    fault=Pause(InProgram(Role.CONSUMER, "before-recording")),
    because="The consumer is paused after it has processed a record; the group removes it, and the "
    "other consumer takes over; then it wakes up and records its result. If the position was "
    "saved before the work, only one has the record. If it is saved after the work, both "
    "record it; an idempotent consumer absorbs the second result.",
    expect={
        AMO: Predicted(sign=RESUMED_PAST, settings=pair(AT_MOST_ONCE)),
        ALO: Predicted(duplicated=Exactly(), settings=pair(AT_LEAST_ONCE)),
        EOS: Predicted(sign=ABSORBED, settings=pair(EXACTLY_ONCE)),
    },
)

PROCESSOR = scenario(
    id="zombie-processor",
    failure_point="zombie-consumer",
    pipeline=TOPIC_TO_TOPIC,
    fault=Pause(InProgram(Role.PROCESSOR, "before-recording")),
    because="The zombie's transaction carries the group metadata of the poll that gave it the "
    "record: its offsets are refused, and its transaction is aborted. (It then makes a new "
    "producer: kafka-python 3.0.12 would send the refused offsets again in its next "
    "transaction, and set back the position of the member that took over.)",
    expect={EOS: Predicted(sign=ABORTED, settings=pair(EXACTLY_ONCE_IN_TRANSACTION))},
)


def patient(settings: Settings) -> Settings:
    """Return the settings with clients that wait for answers for as long as others do
    their work.
    """
    return replace(settings, producer=replace(settings.producer, request_timeout_ms=50_000))


OVERTAKEN = replace(
    PROCESSOR,
    id="zombie-processor-overtaken",
    suite=Suite.NIGHT,
    fault=StaleMember(
        OnWire(Role.PROCESSOR, Api.PRODUCE, REQUEST),
        until=OnWire(Role.PRODUCER, Api.PRODUCE, REQUEST, offset=1),
    ),
    because="The zombie goes on after another member has done its work, and after the group has "
    "told the zombie that it was removed. The group metadata of its poll is that of a "
    "removed member, so its offsets are refused and its transaction is aborted.",
    expect={EOS: Predicted(sign=ABORTED, settings=patient(pair(EXACTLY_ONCE_IN_TRANSACTION)))},
)

LATE_METADATA = replace(
    OVERTAKEN,
    id="control-group-metadata-at-commit",
    suite=Suite.DAY,
    because="Control: as zombie-processor-overtaken, but the processor takes the group metadata at "
    "commit time, which is that of the new generation. So the zombie is not fenced: its "
    "result is committed as well as that of the member that took over. Records that this "
    "member had in hand during the rebalance may be duplicated in the same way.",
    expect={
        EOS: Predicted(
            duplicated=AtLeast(),
            control=True,
            settings=patient(at_commit(pair(EXACTLY_ONCE_IN_TRANSACTION))),
        )
    },
)


def comes_back(recipes: dict[Semantic, Settings]) -> dict[Semantic, Predicted]:
    """The position counts that was saved, not the one that the member had."""
    return {
        semantic: Predicted(sign=DELIVERED_AGAIN, settings=of_two(each))
        for semantic, each in recipes.items()
    }


def goes_back(expect: dict[Semantic, Predicted]) -> dict[Semantic, Predicted]:
    """The position counts that the member had, and the others' work is done again."""
    return {
        semantic: replace(each, duplicated=AtLeast(), sign=None, control=semantic is not ALO)
        for semantic, each in expect.items()
    }


PLAIN_COMES_BACK = comes_back({AMO: AT_MOST_ONCE, ALO: AT_LEAST_ONCE})
PROCESSOR_COMES_BACK = comes_back({EOS: EXACTLY_ONCE_IN_TRANSACTION})

ABSENT = scenario(
    id="absent-while-others-work",
    failure_point="absent-from-group",
    fault=MissedRebalance(OnWire(Role.CONSUMER, Api.FETCH, RESPONSE)),
    because="A newcomer starts a rebalance, and one member's request to join takes so long that "
    "the group goes on without it. Meanwhile another member has its partition and does "
    "all the work on it. Then the late member joins again, and is given its partition "
    "again: it goes on from the saved position, and has nothing left to do. "
    "(kafka-python 3.0.12 goes on from its own old position: if the group removes it "
    "while it joins, it forgets its membership, but not its partitions.)",
    expect=PLAIN_COMES_BACK,
    by_client={"kafka-python<3": PLAIN_COMES_BACK, "kafka-python": goes_back(PLAIN_COMES_BACK)},
)

ABSENT_PROCESSOR = replace(
    ABSENT,
    pipeline=TOPIC_TO_TOPIC,
    fault=MissedRebalance(OnWire(Role.PROCESSOR, Api.FETCH, RESPONSE)),
    suite=Suite.NIGHT,
    expect=PROCESSOR_COMES_BACK,
    by_client={"kafka-python": goes_back(PROCESSOR_COMES_BACK)},
)

IN_TRANSACTION = scenario(
    id="rebalance-in-transaction",
    pipeline=TOPIC_TO_TOPIC,
    fault=Pause(OnWire(Role.PROCESSOR, Api.END_TXN, REQUEST), others_finish=False, others_ask=True),
    because="A processor is paused between its offsets and its commit. The group removes it, and "
    "another processor asks for the position of its partition. That position is pending, so "
    "the other processor waits until the transaction has ended. The first one wakes up and "
    "commits: the broker took its offsets while it was a member. The other continues after "
    "them.",
    expect={EOS: Predicted(sign=RESUMED_PAST, settings=pair(EXACTLY_ONCE_IN_TRANSACTION))},
)

UNCOMMITTED = pair(
    replace(
        EXACTLY_ONCE_IN_TRANSACTION,
        consumer=replace(EXACTLY_ONCE_IN_TRANSACTION.consumer, isolation="read_uncommitted"),
    )
)

PENDING_IGNORED = replace(
    IN_TRANSACTION,
    id="rebalance-in-transaction+uncommitted",
    suite=Suite.NIGHT,
    because="Control: the processors read uncommitted, and then their clients do not wait for "
    "pending positions. The other processor goes on from the position before, makes the "
    "result again, and both commit. (The Java client always asks for stable positions, so it "
    "waits at any isolation level.)",
    expect={EOS: Predicted(duplicated=Exactly(), control=True, settings=UNCOMMITTED)},
    by_client={"java": {EOS: Predicted(sign=RESUMED_PAST, settings=UNCOMMITTED)}},
)

SHORT_SESSION = replace(
    AT_LEAST_ONCE,
    consumer=replace(AT_LEAST_ONCE.consumer, session_timeout_ms=6000),
    topic=TopicSettings(partitions=1),
)
"""One partition, so that what comes after a record in the source comes after it in the
topic, too.
"""

BROKER_AWAY = scenario(
    id="broker-away-beyond-session",
    deployment=Deployment.OWN,
    fault=Kill(OnWire(Role.CONSUMER, Api.OFFSET_COMMIT, REQUEST), (Role.BROKER,), outlasting=True),
    suite=Suite.NIGHT,
    because="The broker is down for longer than the session of a static member, which is about to "
    "save its position. The group does not remove the member: when the broker is back, the "
    "group is as before, and the session starts anew. The member goes on, possibly with a "
    "record that is delivered once more. (librdkafka ends its session by itself and forgets "
    "its member id; while the commit waits it sends a heartbeat without that id. The broker "
    "refuses it as if another process had the same static id, and the member reads nothing "
    "any more: librdkafka issue 3437.)",
    expect={ALO: Predicted(duplicated=Permitted(), settings=SHORT_SESSION)},
    by_client={
        "confluent-kafka": {
            ALO: Predicted(left=AtLeast(Select.NEXT), control=True, settings=SHORT_SESSION)
        }
    },
)

BY_HEARTBEATS = (
    by_heartbeats(CONSUMER),
    by_heartbeats(
        PROCESSOR,
        "The zombie's transaction carries the group metadata of the poll that gave it the "
        "record, with a member epoch in place of a generation: its offsets are refused, and its "
        "transaction is aborted.",
    ),
    by_heartbeats(
        ABSENT,
        "A newcomer joins, and one member's heartbeats take so long that the group goes on "
        "without that member: in this protocol only heartbeats tell that a member lives. "
        "Meanwhile another member has its partition and does all the work on it. Then the late "
        "heartbeat is refused, and the member joins again. It is given a partition of its own, "
        "and goes on from the saved position. (Assignments are sticky: if there were not more "
        "partitions than other members, it would be given none.)",
        fault=MissedRebalance(
            OnWire(Role.CONSUMER, Api.FETCH, RESPONSE), by=Api.CONSUMER_GROUP_HEARTBEAT
        ),
        expect={
            AMO: Predicted(sign=DELIVERED_AGAIN, settings=pair(AT_MOST_ONCE)),
            ALO: Predicted(sign=DELIVERED_AGAIN, settings=pair(AT_LEAST_ONCE)),
        },
    ),
)

ZOMBIES = (
    *BY_HEARTBEATS,
    BROKER_AWAY,
    CONSUMER,
    PROCESSOR,
    OVERTAKEN,
    LATE_METADATA,
    ABSENT,
    ABSENT_PROCESSOR,
    IN_TRANSACTION,
    PENDING_IGNORED,
)
