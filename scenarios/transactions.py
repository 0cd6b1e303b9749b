"""The transaction protocol's own failure points, on one broker."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from harness.controls import InProgram, OnWire
from harness.faults import Drop, Kill, Late
from harness.judge.signs import ABORTED, END_REFUSED, ENDED_AGAIN, NOT_RESENT, REPEATED_REQUEST
from harness.model.prediction import AtLeast, Exactly, Select
from harness.model.scenario import Deployment, NotApplicable, Predicted, Role, Scenario, Suite
from harness.model.semantics import Anomaly
from harness.protocols.kafka.steps import Api
from harness.scenarios.plain import ALO, AMO, DUPLICATES, EOS, REQUEST, RESPONSE
from harness.stages.producer_settings import SaveCursor
from harness.stages.settings import (
    EXACTLY_ONCE,
    EXACTLY_ONCE_IN_TRANSACTION,
    EXACTLY_ONCE_WITH_RESULT,
    PLAIN,
    TOPIC_TO_TOPIC,
    Settings,
    TopicSettings,
)
from harness.systems.kafka.faults import TransactionTimeout, Zombie
from harness.systems.kafka.signs import ASKED_AGAIN, MARKED_AGAIN

PRODUCER = Role.PRODUCER


def exactly_once(*, aborts_first: bool = False, fresh: bool = False) -> Settings:
    """Return the recipe with a producer that goes in step, and a sink that does not absorb what the
    topic has twice.
    """
    producer = replace(EXACTLY_ONCE.producer, in_step=True, aborts_first=aborts_first, fresh=fresh)
    return replace(EXACTLY_ONCE_WITH_RESULT, producer=producer)


END = OnWire(PRODUCER, Api.END_TXN, REQUEST)
CONVICTED = (
    "(KAFKA-17754; version 2 of the protocol, which the Java client speaks since 4.0, refuses "
    "the late request.)"
)


def convicted(found: Predicted) -> dict[str, Any]:
    """Return the expectations of a control that a client with version 2 of the protocol passes."""
    passes = {EOS: Predicted(sign=END_REFUSED, settings=found.settings)}
    return {"expect": {EOS: found}, "by_client": {"java<4": {EOS: found}, "java": passes}}


scenario = partial(Scenario, group="transactions", pipeline=PLAIN)

LATE_COMMIT = scenario(
    id="late-commit",
    failure_point="late-transaction-end",
    fault=Late(END, OnWire(PRODUCER, Api.PRODUCE, RESPONSE, offset=1), kill=True),
    because="The request to commit arrives late: its producer has sent it again meanwhile, and has "
    "begun the next transaction. The late request commits that one half done. The producer "
    "dies. The restarted producer finds no transaction to abort and a cursor that has not "
    f"passed the record, and sends it again. {CONVICTED}",
    **convicted(Predicted(duplicated=Exactly(Select.NEXT), control=True, settings=exactly_once())),
)

LATE_COMMIT_REVIVES = scenario(
    id="late-commit-of-an-aborted",
    failure_point="late-transaction-end",
    fault=Late(replace(END, occurrence=2), OnWire(PRODUCER, Api.PRODUCE, RESPONSE, offset=1)),
    because="The request to commit arrives late, in the next transaction, which the program then "
    "aborts: its records are visible all the same, as well as those that the program sends "
    f"instead. {CONVICTED}",
    **convicted(
        Predicted(
            duplicated=Exactly(Select.NEXT),
            control=True,
            also=(Anomaly.RESURRECTED,),
            settings=exactly_once(aborts_first=True),
        )
    ),
)

LATE_ABORT = scenario(
    id="late-abort",
    failure_point="late-transaction-end",
    fault=Late(END, OnWire(PRODUCER, Api.PRODUCE, RESPONSE, occurrence=2)),
    because="The request to abort arrives late, in the next transaction, between a record and its "
    "cursor: the record is aborted, the cursor is not, and the program is told that both "
    f"are committed. {CONVICTED}",
    **convicted(Predicted(lost=Exactly(), control=True, settings=exactly_once(aborts_first=True))),
)

LATE_COMMIT_FENCED = replace(
    LATE_COMMIT,
    id="late-commit+fresh",
    because=(
        "Each transaction has a producer of its own, and each of those a higher epoch: the late "
        "request is refused."
    ),
    expect={EOS: Predicted(sign=END_REFUSED, settings=exactly_once(fresh=True))},
    by_client={},
)

END_LOST = scenario(
    id="transaction-end-lost",
    fault=Drop(END),
    because=(
        "The request to commit never arrives. The client sends it again, and nothing else happens."
    ),
    expect={EOS: Predicted(sign=ENDED_AGAIN)},
)

END_ACK_LOST = scenario(
    id="transaction-end-ack-lost",
    fault=Drop(OnWire(PRODUCER, Api.END_TXN, RESPONSE)),
    because="The transaction is committed, and the answer is lost. The client sends the request "
    "again, and a coordinator that has committed gives the same answer again.",
    expect={EOS: Predicted(sign=ENDED_AGAIN)},
)

OFFSETS_CRASH_BEFORE = scenario(
    id="processor-crash-before-offsets",
    failure_point="processor-crash-in-transaction",
    pipeline=TOPIC_TO_TOPIC,
    fault=Kill(OnWire(Role.PROCESSOR, Api.TXN_OFFSET_COMMIT, REQUEST), (Role.PROCESSOR,)),
    because=(
        "The result is in the transaction, its position never arrives, and the processor dies: "
        "both are aborted."
    ),
    expect={EOS: Predicted(sign=ABORTED)},
)

OFFSETS_CRASH_AFTER = replace(
    OFFSETS_CRASH_BEFORE,
    id="processor-crash-after-offsets",
    fault=Kill(OnWire(Role.PROCESSOR, Api.TXN_OFFSET_COMMIT, RESPONSE), (Role.PROCESSOR,)),
    because="Result and position are in the transaction, and the processor dies before it "
    "commits. A pending position does not count as saved, and the restarted processor "
    "aborts it with the result.",
)

BEFORE_SEND = InProgram(PRODUCER, "before-send")
BEFORE_RECORDING = InProgram(Role.PROCESSOR, "before-recording")
PARTITIONS = OnWire(PRODUCER, Api.ADD_PARTITIONS_TO_TXN, REQUEST, since=BEFORE_SEND)
GROUP = OnWire(Role.PROCESSOR, Api.ADD_OFFSETS_TO_TXN, REQUEST, since=BEFORE_RECORDING)
POSITION = OnWire(Role.PROCESSOR, Api.TXN_OFFSET_COMMIT, REQUEST)


def answered(at: OnWire) -> OnWire:
    """Return the answer to a request."""
    return replace(at, direction=RESPONSE)


ASKED = Predicted(sign=ASKED_AGAIN)
IMPLICIT = NotApplicable(
    "version 2 of the protocol has no such request: sending to a partition in a transaction adds "
    "the partition"
)
BY_REQUEST: dict[str, Any] = {
    "expect": {EOS: ASKED},
    "by_client": {"java<4": {EOS: ASKED}, "java": {EOS: IMPLICIT}},
}

PARTITIONS_LOST = scenario(
    id="add-partitions-lost",
    fault=Drop(PARTITIONS),
    because="The request to add the record's partition to the transaction never arrives, and "
    "without it the leader would refuse the record. The client asks again before it "
    "sends the record.",
    **BY_REQUEST,
)

PARTITIONS_ACK_LOST = replace(
    PARTITIONS_LOST,
    id="add-partitions-ack-lost",
    failure_point="add-partitions-ack-lost",
    fault=Drop(answered(PARTITIONS)),
    because="The partition is added to the transaction, and the client does not know. It asks "
    "again; to add a partition twice has no effect.",
)

PARTITIONS_LATE = replace(
    PARTITIONS_LOST,
    id="late-add-partitions",
    failure_point="late-transaction-call",
    fault=Late(PARTITIONS, OnWire(PRODUCER, Api.PRODUCE, RESPONSE, offset=1)),
    because="The request to add a partition arrives late, in the next transaction, which does not "
    "write to that partition (or does, if the next record goes there). The partition is "
    "added, and gets one marker more than necessary: that marker affects no record.",
)

GROUP_LOST = replace(
    PARTITIONS_LOST,
    id="add-offsets-lost",
    failure_point="add-offsets-lost",
    fault=Drop(GROUP),
    pipeline=TOPIC_TO_TOPIC,
    because="The request to add the group's positions to the transaction never arrives. The client "
    "asks again before it sends the positions.",
)

GROUP_ACK_LOST = replace(
    GROUP_LOST,
    id="add-offsets-ack-lost",
    failure_point="add-offsets-ack-lost",
    fault=Drop(answered(GROUP)),
    because=(
        "The group's positions are added to the transaction, and the client does not know. It "
        "asks again."
    ),
)

POSITION_LOST = replace(
    GROUP_LOST,
    id="txn-offset-commit-lost",
    failure_point="txn-offset-commit-lost",
    fault=Drop(POSITION),
    by_client={},
    because="The position never arrives. The client sends it again before it commits.",
)

POSITION_ACK_LOST = replace(
    GROUP_LOST,
    id="txn-offset-commit-ack-lost",
    failure_point="txn-offset-commit-ack-lost",
    fault=Drop(answered(POSITION)),
    by_client={},
    because="The position is pending, and the client does not know. It sends the position again: "
    "to write the same position twice has no effect.",
)

IN_ORDER = replace(EXACTLY_ONCE_IN_TRANSACTION, topic=TopicSettings(partitions=1))
GROUP_LATE = replace(
    GROUP_LOST,
    id="late-add-offsets",
    failure_point="late-transaction-call",
    fault=Late(GROUP, OnWire(Role.PROCESSOR, Api.PRODUCE, RESPONSE, offset=1)),
    because="The request to add the group's positions arrives late, in the next transaction. That "
    "one adds them anyway, because each result brings its position; to add them twice has no "
    "effect.",
    expect={EOS: replace(ASKED, settings=IN_ORDER)},
    by_client={"java<4": {EOS: replace(ASKED, settings=IN_ORDER)}, "java": {EOS: IMPLICIT}},
)

LATE_INTO_NEXT = Late(
    POSITION,
    replace(answered(POSITION), offset=1),
    kill=True,
    dies=OnWire(Role.PROCESSOR, Api.END_TXN, RESPONSE, offset=1),
)

WENT_BACK = Predicted(duplicated=Exactly(Select.NEXT), control=True, settings=IN_ORDER)

POSITION_LATE = replace(
    GROUP_LOST,
    id="late-txn-offset-commit",
    failure_point="late-transaction-call",
    fault=LATE_INTO_NEXT,
    because="The position of one transaction arrives late, in the next one, after its own "
    "position, and is committed with it: the group's position goes back by a record. "
    "The processor goes on without reading it. When it dies, the restarted processor "
    "makes that result again. Nothing in the request says which transaction it belongs "
    f"to. {CONVICTED}",
    expect={EOS: WENT_BACK},
    by_client={"java<4": {EOS: WENT_BACK}, "java": {EOS: replace(ASKED, settings=IN_ORDER)}},
)

REQUEST_LATE = scenario(
    id="request-late",
    fault=Late(
        OnWire(PRODUCER, Api.PRODUCE, REQUEST), OnWire(PRODUCER, Api.PRODUCE, RESPONSE, offset=1)
    ),
    because="The request arrives late: the client has sent the record again meanwhile, and the "
    "next one after it. The late request adds a second copy, unless the broker knows its "
    "sequence number, or its transaction is over. A client that does not send again has "
    "one copy, which is late.",
    expect={
        AMO: Predicted(sign=NOT_RESENT),
        ALO: DUPLICATES,
        EOS: Predicted(sign=REPEATED_REQUEST),
    },
)

COORDINATOR_CRASH_BEFORE_END = scenario(
    id="coordinator-crash-before-end",
    deployment=Deployment.OWN,
    fault=Kill(END, (Role.BROKER,)),
    because="The coordinator dies before it sees the request to commit. After the restart it reads "
    "its log, finds the transaction open, and the client asks again.",
    expect={EOS: Predicted(sign=ENDED_AGAIN, settings=exactly_once())},
)

COORDINATOR_CRASH_BEFORE_END_ACK = replace(
    COORDINATOR_CRASH_BEFORE_END,
    id="coordinator-crash-before-end-ack",
    failure_point="coordinator-crash-before-end-ack",
    fault=Kill(answered(END), (Role.BROKER,)),
    because="The transaction is committed, and the coordinator dies before it answers. The client "
    "asks again, and gets the same outcome.",
)

SOON_GIVEN_UP = replace(
    exactly_once(),
    topic=TopicSettings(partitions=3, replicas=3, min_insync=2),
    producer=replace(exactly_once().producer, request_timeout_ms=5000, delivery_timeout_ms=10_000),
)
"""On three brokers; a client that waits in vain says so long before the harness gives up."""

COORDINATOR_FAILS_OVER = replace(
    COORDINATOR_CRASH_BEFORE_END,
    id="coordinator-fails-over-before-markers",
    deployment=Deployment.CLUSTER,
    failure_point="coordinator-crash-before-markers",
    fault=Kill(
        OnWire(Role.BROKER, Api.WRITE_TXN_MARKERS, REQUEST),
        (Role.COORDINATOR,),
        late=Role.COORDINATOR,
    ),
    because="The decision to commit is in the coordinator's log and its replicas, but no partition "
    "has a marker yet. The coordinator dies. The broker that takes over its log reads the "
    "decision, and has the markers written. (kafka-python 3.0.12 finds that broker but sends "
    "it no request until it gives the next record up; our program then makes a new producer.)",
    expect={EOS: Predicted(sign=MARKED_AGAIN, settings=SOON_GIVEN_UP)},
)

COORDINATOR_FAILS_OVER_LATER = replace(
    COORDINATOR_FAILS_OVER,
    id="coordinator-fails-over-after-markers",
    failure_point="coordinator-crash-after-markers",
    fault=Kill(
        OnWire(Role.BROKER, Api.WRITE_TXN_MARKERS, RESPONSE),
        (Role.COORDINATOR,),
        late=Role.COORDINATOR,
    ),
    because="The markers are written, and the coordinator dies before it knows. The broker that "
    "takes over its log has them written again; a log with two markers of one transaction "
    "shows its records once.",
)

ONE_REPLICA = replace(
    exactly_once(aborts_first=True), topic=TopicSettings(partitions=1, replicas=1)
)

LEADER_CRASH_BEFORE_MARKERS = replace(
    COORDINATOR_FAILS_OVER,
    id="leader-crash-before-markers",
    failure_point="leader-crash-before-markers",
    fault=Kill(OnWire(Role.BROKER, Api.WRITE_TXN_MARKERS, REQUEST, occurrence=2), (Role.LEADER,)),
    because="The decision to commit is in the coordinator's log, and the only replica of the "
    "record's partition dies before it has the marker. The coordinator should send the "
    "marker when that broker is back. But Kafka 4.3 takes a partition without a leader for a "
    "deleted one (KAFKA-20734), and the transaction for complete. The record stays in the "
    "log without a marker. The next transaction of its producer is aborted, and that marker "
    "counts for both: the record was acknowledged and committed, and is lost.",
    expect={EOS: Predicted(lost=Exactly(), control=True, settings=ONE_REPLICA)},
    by_system={"kafka<4.3": {EOS: Predicted(sign=MARKED_AGAIN, settings=ONE_REPLICA)}},
)

SHORT_MS = 3000
"""A time-out of transactions that is longer than any of ours takes, and shorter than the outage."""


def short(settings: Settings) -> Settings:
    """Return the settings with a short time-out of transactions."""
    return replace(settings, transaction_timeout_ms=SHORT_MS)


CURSOR_FIRST = replace(
    exactly_once(), producer=replace(exactly_once().producer, cursor=SaveCursor.BEFORE_SEND)
)

TIMED_OUT = scenario(
    id="transaction-timed-out",
    fault=TransactionTimeout(END),
    because="The producer is paused for longer than its transaction may take, with everything "
    "sent. The coordinator aborts the transaction and fences the producer. When that "
    "wakes up it is told so, ends, and is started again. The cursor was aborted with the "
    "record, so it sends the record again.",
    expect={EOS: Predicted(sign=ABORTED, settings=short(exactly_once()))},
)

TIMED_OUT_CURSOR_OUTSIDE = replace(
    TIMED_OUT,
    id="control-timed-out-cursor-outside",
    because="Control: the cursor is saved before the transaction and outside it. The time-out "
    "aborts the record, the cursor has passed it, and it is not sent again.",
    expect={EOS: Predicted(lost=Exactly(), control=True, settings=short(CURSOR_FIRST))},
)

PROCESSOR_TIMED_OUT = replace(
    TIMED_OUT,
    pipeline=TOPIC_TO_TOPIC,
    fault=TransactionTimeout(OnWire(Role.PROCESSOR, Api.END_TXN, REQUEST)),
    because="The processor is paused for longer than its transaction may take, but not longer than "
    "its session. Results and position are aborted together; the processor is fenced, ends, "
    "and is started again.",
    expect={EOS: Predicted(sign=ABORTED, settings=short(EXACTLY_ONCE_IN_TRANSACTION))},
)

OWN_IDS = replace(exactly_once(), producer=replace(exactly_once().producer, own_id=True))

ZOMBIE = scenario(
    id="zombie-producer",
    fault=Zombie(END),
    because="The producer is paused with its transaction open, and another one begins with the "
    "same transactional id: that aborts the transaction, and fences the first producer. "
    "When that one wakes up and commits, it is refused.",
    expect={EOS: Predicted(sign=ABORTED, settings=exactly_once())},
)

ZOMBIE_WITH_OWN_ID = replace(
    ZOMBIE,
    id="control-zombie-producer-own-id",
    because="Control: each producer has a transactional id of its own (a host name, a process id), "
    "so none fences another. The second one finds the cursor of the last committed "
    "transaction and sends the record. The first one wakes up, commits it too, and goes on.",
    expect={EOS: Predicted(duplicated=AtLeast(), control=True, settings=OWN_IDS)},
)

BY_NIGHT = (
    TIMED_OUT_CURSOR_OUTSIDE,
    PROCESSOR_TIMED_OUT,
    PARTITIONS_LOST,
    PARTITIONS_ACK_LOST,
    PARTITIONS_LATE,
    GROUP_LOST,
    GROUP_ACK_LOST,
    GROUP_LATE,
    POSITION_LOST,
    POSITION_ACK_LOST,
    REQUEST_LATE,
    COORDINATOR_CRASH_BEFORE_END,
    COORDINATOR_CRASH_BEFORE_END_ACK,
    COORDINATOR_FAILS_OVER,
    COORDINATOR_FAILS_OVER_LATER,
)
TRANSACTIONS = (
    LATE_COMMIT,
    LATE_COMMIT_REVIVES,
    LATE_ABORT,
    LATE_COMMIT_FENCED,
    END_LOST,
    END_ACK_LOST,
    OFFSETS_CRASH_BEFORE,
    OFFSETS_CRASH_AFTER,
    POSITION_LATE,
    LEADER_CRASH_BEFORE_MARKERS,
    TIMED_OUT,
    ZOMBIE,
    ZOMBIE_WITH_OWN_ID,
    *(replace(scenario, suite=Suite.NIGHT) for scenario in BY_NIGHT),
)
