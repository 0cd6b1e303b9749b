"""Zombies: a process is paused for longer than its session time-out, another takes over, and the first wakes up and goes on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from harness.controls import InProgram, OnWire
from harness.faults import Kill, Pause
from harness.judge.signs import ABORTED, ABSORBED, DELIVERED_AGAIN, RESUMED_PAST
from harness.model.prediction import AtLeast, Exactly, Permitted, Select
from harness.model.scenario import Deployment, Predicted, Role, Scenario, Suite
from harness.protocols.kafka.steps import Api
from harness.scenarios.heartbeats import by_heartbeats
from harness.scenarios.plain import ALO, AMO, EOS, REQUEST, RESPONSE
from harness.stages.settings import (
    AT_LEAST_ONCE,
    AT_MOST_ONCE,
    EXACTLY_ONCE,
    EXACTLY_ONCE_IN_TRANSACTION,
    PLAIN,
    TOPIC_TO_TOPIC,
    GroupMetadata,
    Members,
    Settings,
    TopicSettings,
)  # fmt: skip
from harness.systems.kafka.faults import MissedRebalance, StaleMember

if TYPE_CHECKING:
    from harness.model.semantics import Semantic


def pair(settings: Settings) -> Settings:
    """Return the settings with two dynamic members and a session that is soon over, and longer than a busy machine's pauses."""
    return replace(settings, consumer=replace(settings.consumer, count=2, members=Members.DYNAMIC, session_timeout_ms=3000))


def at_commit(settings: Settings) -> Settings:
    """Return the settings with group metadata taken when the work is done, after some polling."""
    return replace(settings, consumer=replace(settings.consumer, group_metadata=GroupMetadata.AT_COMMIT))


def of_two(settings: Settings) -> Settings:
    """Return the settings with two members, and a partition for each."""
    return replace(pair(settings), topic=TopicSettings(partitions=2))


CONSUMER = Scenario(
    pipeline=PLAIN, id="zombie-consumer", failure_point="zombie-consumer", group="zombies",
    fault=Pause(InProgram(Role.CONSUMER, "before-recording")),
    because="The consumer is paused after it has processed a record; the group removes it, and the other consumer takes over; "
    "then it wakes up and records its result. If the position was saved before the work, only one has the record. If it is saved "
    "after the work, both record it; an idempotent consumer absorbs the second result.",
    expect={
        AMO: Predicted(sign=RESUMED_PAST, settings=pair(AT_MOST_ONCE)),
        ALO: Predicted(duplicated=Exactly(), settings=pair(AT_LEAST_ONCE)),
        EOS: Predicted(sign=ABSORBED, settings=pair(EXACTLY_ONCE)),
    },
)  # fmt: skip

PROCESSOR = Scenario(
    id="zombie-processor", failure_point="zombie-consumer", group="zombies", pipeline=TOPIC_TO_TOPIC,
    fault=Pause(InProgram(Role.PROCESSOR, "before-recording")),
    because="The zombie's transaction carries the group metadata of the poll that gave it the record: its offsets are "
    "refused, its transaction is aborted. (It then takes a new producer: kafka-python 3.0.12 would send the refused offsets "
    "again in its next transaction, and take the position of the one that took over back.)",
    expect={EOS: Predicted(sign=ABORTED, settings=pair(EXACTLY_ONCE_IN_TRANSACTION))},
)  # fmt: skip


def patient(settings: Settings) -> Settings:
    """Return the settings with clients that wait for answers for as long as others do their work."""
    return replace(settings, producer=replace(settings.producer, request_timeout_ms=50_000))


OVERTAKEN = replace(
    PROCESSOR, id="zombie-processor-overtaken", suite=Suite.NIGHT,
    fault=StaleMember(OnWire(Role.PROCESSOR, Api.PRODUCE, REQUEST), until=OnWire(Role.PRODUCER, Api.PRODUCE, REQUEST, offset=1)),
    because="The zombie goes on when another has done its work, and after it was told that its group has removed it. The group "
    "metadata of its poll is that of a removed member, so its offsets are refused and its transaction is aborted.",
    expect={EOS: Predicted(sign=ABORTED, settings=patient(pair(EXACTLY_ONCE_IN_TRANSACTION)))},
)  # fmt: skip

LATE_METADATA = replace(
    OVERTAKEN, id="control-group-metadata-at-commit", suite=Suite.DAY,
    because="Control: as zombie-processor-overtaken, but for group metadata taken at commit time, which is that of the new "
    "generation. The zombie is not fenced: what it commits stands beside the result of the member that took over. What that one "
    "had in hand when the group gathered may go the same way.",
    expect={EOS: Predicted(duplicated=AtLeast(), control=True, settings=patient(at_commit(pair(EXACTLY_ONCE_IN_TRANSACTION))))},
)  # fmt: skip


def comes_back(recipes: dict[Semantic, Settings]) -> dict[Semantic, Predicted]:
    """The position counts that was saved, not the one that the member had."""
    return {semantic: Predicted(sign=DELIVERED_AGAIN, settings=of_two(each)) for semantic, each in recipes.items()}


def goes_back(expect: dict[Semantic, Predicted]) -> dict[Semantic, Predicted]:
    """The position counts that the member had, and the others' work is done again."""
    return {
        semantic: replace(each, duplicated=AtLeast(), sign=None, control=semantic is not ALO) for semantic, each in expect.items()
    }


PLAIN_COMES_BACK = comes_back({AMO: AT_MOST_ONCE, ALO: AT_LEAST_ONCE})
PROCESSOR_COMES_BACK = comes_back({EOS: EXACTLY_ONCE_IN_TRANSACTION})

ABSENT = Scenario(
    pipeline=PLAIN, id="absent-while-others-work", failure_point="absent-from-group", group="zombies",
    fault=MissedRebalance(OnWire(Role.CONSUMER, Api.FETCH, RESPONSE)),
    because="A newcomer makes the group gather, and one member's request to join is on its way for so long that the group goes "
    "on without it. Another has its partition meanwhile, and works on it to the end. Then the member joins anew, and is given "
    "its partition again: it goes on from the position that was saved, and has nothing left to do. (kafka-python 3.0.12 goes on "
    "from the position that it had: put out while it was joining, it forgets its membership, and not its partitions.)",
    expect=PLAIN_COMES_BACK,
    by_client={"kafka-python<3": PLAIN_COMES_BACK, "kafka-python": goes_back(PLAIN_COMES_BACK)},
)  # fmt: skip

ABSENT_PROCESSOR = replace(
    ABSENT, pipeline=TOPIC_TO_TOPIC, fault=MissedRebalance(OnWire(Role.PROCESSOR, Api.FETCH, RESPONSE)),
    suite=Suite.NIGHT,
    expect=PROCESSOR_COMES_BACK,
    by_client={"kafka-python": goes_back(PROCESSOR_COMES_BACK)},
)  # fmt: skip

IN_TRANSACTION = Scenario(
    id="rebalance-in-transaction", failure_point="rebalance-in-transaction", group="zombies",
    pipeline=TOPIC_TO_TOPIC,
    fault=Pause(OnWire(Role.PROCESSOR, Api.END_TXN, REQUEST), others_finish=False, others_ask=True),
    because="A processor is stopped between its offsets and its commit; the group puts it out, and another asks for the position "
    "of its partition. That is pending, and the other waits until the transaction has ended. The first one wakes up and commits: "
    "its offsets were taken while it was a member. The other continues after them.",
    expect={EOS: Predicted(sign=RESUMED_PAST, settings=pair(EXACTLY_ONCE_IN_TRANSACTION))},
)  # fmt: skip

UNCOMMITTED = pair(
    replace(EXACTLY_ONCE_IN_TRANSACTION, consumer=replace(EXACTLY_ONCE_IN_TRANSACTION.consumer, isolation="read_uncommitted"))
)

PENDING_IGNORED = replace(
    IN_TRANSACTION, id="rebalance-in-transaction+uncommitted", suite=Suite.NIGHT,
    because="Control: the processors read uncommitted, and then their clients don't wait for positions that are pending. The "
    "other goes on from the position before, makes the record again, and both commit. (The Java client waits whatever it reads: "
    "it asks for stable positions always.)",
    expect={EOS: Predicted(duplicated=Exactly(), control=True, settings=UNCOMMITTED)},
    by_client={"java": {EOS: Predicted(sign=RESUMED_PAST, settings=UNCOMMITTED)}},
)  # fmt: skip

SHORT_SESSION = replace(
    AT_LEAST_ONCE, consumer=replace(AT_LEAST_ONCE.consumer, session_timeout_ms=6000), topic=TopicSettings(partitions=1)
)  # fmt: skip
"""One partition, so that what comes after a record in the source comes after it in the topic, too."""

BROKER_AWAY = Scenario(
    pipeline=PLAIN,
    id="broker-away-beyond-session", failure_point="broker-away-beyond-session", group="zombies", deployment=Deployment.OWN,
    fault=Kill(OnWire(Role.CONSUMER, Api.OFFSET_COMMIT, REQUEST), (Role.BROKER,), outlasting=True), suite=Suite.NIGHT,
    because="The broker is away for longer than the session of a static member, which is about to save its position. Nobody put "
    "it out: the group is as it was when the broker is back, and gives it as long again. It goes on, if not with a record that "
    "is delivered once more. (librdkafka times its session out by itself and forgets its member id; while the commit waits "
    "it sends a heartbeat without that id, is refused as if another had its place, and reads nothing any more: its issue 3437.)",
    expect={ALO: Predicted(duplicated=Permitted(), settings=SHORT_SESSION)},
    by_client={"confluent-kafka": {ALO: Predicted(left=AtLeast(Select.NEXT), control=True, settings=SHORT_SESSION)}},
)  # fmt: skip

BY_HEARTBEATS = (
    by_heartbeats(CONSUMER),
    by_heartbeats(
        PROCESSOR,
        "The zombie's transaction carries the group metadata of the poll that gave it the record, with a member epoch in the "
        "place of a generation: its offsets are refused, its transaction is aborted.",
    ),
    by_heartbeats(
        ABSENT,
        "A newcomer joins, and one member's heartbeats are on their way for so long that the group goes on without it: they, and "
        "no joining, say that it lives. Another has its partition meanwhile, and works on it to the end. Then its heartbeat is "
        "refused, it joins anew, and is given a partition for itself: it goes on from the position that was saved. (Assignments "
        "are sticky: with no more partitions than others it would be given none.)",
        fault=MissedRebalance(OnWire(Role.CONSUMER, Api.FETCH, RESPONSE), by=Api.CONSUMER_GROUP_HEARTBEAT),
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
