"""The transaction protocol's own failure points, on one broker."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness.controls import InProgram, OnWire
from harness.faults import Drop, Kill, Late
from harness.judge.signs import ABORTED, END_REFUSED, ENDED_AGAIN, NOT_RESENT, REPEATED_REQUEST
from harness.model.prediction import AtLeast, Exactly, Select
from harness.model.scenario import Deployment, NotApplicable, Predicted, Role, Scenario, Suite
from harness.model.semantics import Anomaly
from harness.protocols.kafka.steps import Api
from harness.scenarios.plain import ALO, AMO, DUPLICATES, EOS, REQUEST, RESPONSE
from harness.stages.settings import (
    EXACTLY_ONCE,
    EXACTLY_ONCE_IN_TRANSACTION,
    EXACTLY_ONCE_WITH_RESULT,
    PLAIN,
    TOPIC_TO_TOPIC,
    SaveCursor,
    Settings,
    TopicSettings,
)  # fmt: skip
from harness.systems.kafka.faults import TransactionTimeout, Zombie
from harness.systems.kafka.signs import ASKED_AGAIN, MARKED_AGAIN

PRODUCER = Role.PRODUCER


def exactly_once(*, aborts_first: bool = False, fresh: bool = False) -> Settings:
    """Return the recipe with a producer that goes in step, and a sink that does not absorb what the topic has twice."""
    producer = replace(EXACTLY_ONCE.producer, in_step=True, aborts_first=aborts_first, fresh=fresh)
    return replace(EXACTLY_ONCE_WITH_RESULT, producer=producer)


END = OnWire(PRODUCER, Api.END_TXN, REQUEST)
CONVICTED = "(KAFKA-17754; version 2 of the protocol, which the Java client speaks since 4.0, refuses the late request.)"


def convicted(found: Predicted) -> dict[str, Any]:
    """Return the expectations of a control that a client with version 2 of the protocol passes."""
    passes = {EOS: Predicted(sign=END_REFUSED, settings=found.settings)}
    return {"expect": {EOS: found}, "by_client": {"java<4": {EOS: found}, "java": passes}}


LATE_COMMIT = Scenario(
    pipeline=PLAIN, id="late-commit", failure_point="late-transaction-end", group="transactions",
    fault=Late(END, OnWire(PRODUCER, Api.PRODUCE, RESPONSE, offset=1), kill=True),
    because="The request to commit arrives when its producer has asked again, and has begun the next transaction: that one "
    "is committed by it, half done. Its producer dies; the successor finds nothing to abort and a cursor that is not past "
    f"the record, and sends it again. {CONVICTED}",
    **convicted(Predicted(duplicated=Exactly(Select.NEXT), control=True, settings=exactly_once())),
)  # fmt: skip

LATE_COMMIT_REVIVES = Scenario(
    pipeline=PLAIN, id="late-commit-of-an-aborted", failure_point="late-transaction-end", group="transactions",
    fault=Late(replace(END, occurrence=2), OnWire(PRODUCER, Api.PRODUCE, RESPONSE, offset=1)),
    because="The request to commit arrives in the next transaction, which the program then aborts: what had been sent in it "
    f"is visible all the same, beside what the program sends in its place. {CONVICTED}",
    **convicted(Predicted(duplicated=Exactly(Select.NEXT), control=True, also=(Anomaly.RESURRECTED,),
                          settings=exactly_once(aborts_first=True))),
)  # fmt: skip

LATE_ABORT = Scenario(
    pipeline=PLAIN, id="late-abort", failure_point="late-transaction-end", group="transactions",
    fault=Late(END, OnWire(PRODUCER, Api.PRODUCE, RESPONSE, occurrence=2)),
    because="The request to abort arrives in the next transaction, between a record and its cursor: the record is aborted, "
    f"the cursor is not, and the program is told that both are committed. {CONVICTED}",
    **convicted(Predicted(lost=Exactly(), control=True, settings=exactly_once(aborts_first=True))),
)  # fmt: skip

LATE_COMMIT_FENCED = replace(
    LATE_COMMIT, id="late-commit+fresh",
    because="Each transaction has a producer of its own, and each of those a higher epoch: the late request is refused.",
    expect={EOS: Predicted(sign=END_REFUSED, settings=exactly_once(fresh=True))}, by_client={},
)  # fmt: skip

END_LOST = Scenario(
    pipeline=PLAIN, id="transaction-end-lost", failure_point="transaction-end-lost", group="transactions", fault=Drop(END),
    because="The request to commit never arrives. The client asks again, and that is all.",
    expect={EOS: Predicted(sign=ENDED_AGAIN)},
)  # fmt: skip

END_ACK_LOST = Scenario(
    pipeline=PLAIN, id="transaction-end-ack-lost", failure_point="transaction-end-ack-lost", group="transactions",
    fault=Drop(OnWire(PRODUCER, Api.END_TXN, RESPONSE)),
    because="The transaction is committed and the answer lost. The client asks again, and a coordinator that has committed "
    "says so once more.",
    expect={EOS: Predicted(sign=ENDED_AGAIN)},
)  # fmt: skip

OFFSETS_CRASH_BEFORE = Scenario(
    id="processor-crash-before-offsets", failure_point="processor-crash-in-transaction", group="transactions",
    pipeline=TOPIC_TO_TOPIC, fault=Kill(OnWire(Role.PROCESSOR, Api.TXN_OFFSET_COMMIT, REQUEST), (Role.PROCESSOR,)),
    because="The result is in the transaction, its position never gets there, and the processor dies: both are aborted.",
    expect={EOS: Predicted(sign=ABORTED)},
)  # fmt: skip

OFFSETS_CRASH_AFTER = replace(
    OFFSETS_CRASH_BEFORE, id="processor-crash-after-offsets",
    fault=Kill(OnWire(Role.PROCESSOR, Api.TXN_OFFSET_COMMIT, RESPONSE), (Role.PROCESSOR,)),
    because="Result and position are in the transaction, and the processor dies before it commits: a position that is "
    "pending is not a position, and the successor aborts it with the result.",
)  # fmt: skip

BEFORE_SEND = InProgram(PRODUCER, "before-send")
BEFORE_RECORDING = InProgram(Role.PROCESSOR, "before-recording")
PARTITIONS = OnWire(PRODUCER, Api.ADD_PARTITIONS_TO_TXN, REQUEST, since=BEFORE_SEND)
GROUP = OnWire(Role.PROCESSOR, Api.ADD_OFFSETS_TO_TXN, REQUEST, since=BEFORE_RECORDING)
POSITION = OnWire(Role.PROCESSOR, Api.TXN_OFFSET_COMMIT, REQUEST)


def answered(at: OnWire) -> OnWire:
    """Return the answer to a request."""
    return replace(at, direction=RESPONSE)


ASKED = Predicted(sign=ASKED_AGAIN)
IMPLICIT = NotApplicable("version 2 of the protocol has no such request: what is sent in a transaction is part of it")
BY_REQUEST: dict[str, Any] = {"expect": {EOS: ASKED}, "by_client": {"java<4": {EOS: ASKED}, "java": {EOS: IMPLICIT}}}

PARTITIONS_LOST = Scenario(
    pipeline=PLAIN, id="add-partitions-lost", failure_point="add-partitions-lost", group="transactions", fault=Drop(PARTITIONS),
    because="The coordinator is not told that the record's partition takes part, and the leader would refuse the record. The "
    "client asks again before it sends it.",
    **BY_REQUEST,
)  # fmt: skip

PARTITIONS_ACK_LOST = replace(
    PARTITIONS_LOST, id="add-partitions-ack-lost", failure_point="add-partitions-ack-lost", fault=Drop(answered(PARTITIONS)),
    because="The partition takes part, and the client does not know. It asks again; a partition takes part once.",
)  # fmt: skip

PARTITIONS_LATE = replace(
    PARTITIONS_LOST, id="late-add-partitions", failure_point="late-transaction-call",
    fault=Late(PARTITIONS, OnWire(PRODUCER, Api.PRODUCE, RESPONSE, offset=1)),
    because="The request to add a partition arrives in the next transaction, of which that is no part (or it is, where the next "
    "record goes there too). It is added, and gets a marker more than it needs: nothing of the next transaction is there to be "
    "shown or hidden.",
)  # fmt: skip

GROUP_LOST = replace(
    PARTITIONS_LOST, id="add-offsets-lost", failure_point="add-offsets-lost", fault=Drop(GROUP),
    pipeline=TOPIC_TO_TOPIC,
    because="The coordinator is not told that the group's positions take part. The client asks again before it sends them.",
)  # fmt: skip

GROUP_ACK_LOST = replace(
    GROUP_LOST, id="add-offsets-ack-lost", failure_point="add-offsets-ack-lost", fault=Drop(answered(GROUP)),
    because="The group's positions take part, and the client does not know. It asks again.",
)  # fmt: skip

POSITION_LOST = replace(
    GROUP_LOST, id="txn-offset-commit-lost", failure_point="txn-offset-commit-lost", fault=Drop(POSITION), by_client={},
    because="The position never arrives. The client sends it again before it commits.",
)  # fmt: skip

POSITION_ACK_LOST = replace(
    GROUP_LOST, id="txn-offset-commit-ack-lost", failure_point="txn-offset-commit-ack-lost", fault=Drop(answered(POSITION)),
    by_client={},
    because="The position is pending, and the client does not know. It sends it again: a position written twice is the same one.",
)  # fmt: skip

IN_ORDER = replace(EXACTLY_ONCE_IN_TRANSACTION, topic=TopicSettings(partitions=1))
GROUP_LATE = replace(
    GROUP_LOST, id="late-add-offsets", failure_point="late-transaction-call",
    fault=Late(GROUP, OnWire(Role.PROCESSOR, Api.PRODUCE, RESPONSE, offset=1)),
    because="The request that the group's positions take part arrives in the next transaction. There they take part anyway: each "
    "result brings its position, and what takes part takes part once.",
    expect={EOS: replace(ASKED, settings=IN_ORDER)},
    by_client={"java<4": {EOS: replace(ASKED, settings=IN_ORDER)}, "java": {EOS: IMPLICIT}},
)  # fmt: skip

LATE_INTO_NEXT = Late(
    POSITION, replace(answered(POSITION), offset=1), kill=True,
    dies=OnWire(Role.PROCESSOR, Api.END_TXN, RESPONSE, offset=1),
)  # fmt: skip

WENT_BACK = Predicted(duplicated=Exactly(Select.NEXT), control=True, settings=IN_ORDER)

POSITION_LATE = replace(
    GROUP_LOST, id="late-txn-offset-commit", failure_point="late-transaction-call", fault=LATE_INTO_NEXT,
    because="The position of one transaction arrives in the next, behind that one's own, and is committed with it: the group's "
    "position goes back by a record. The processor goes on and never looks; when it dies, its successor makes that record "
    f"again. Nothing in the request says which transaction it belongs to. {CONVICTED}",
    expect={EOS: WENT_BACK}, by_client={"java<4": {EOS: WENT_BACK}, "java": {EOS: replace(ASKED, settings=IN_ORDER)}},
)  # fmt: skip

REQUEST_LATE = Scenario(
    pipeline=PLAIN, id="request-late", failure_point="request-late", group="transactions",
    fault=Late(OnWire(PRODUCER, Api.PRODUCE, REQUEST), OnWire(PRODUCER, Api.PRODUCE, RESPONSE, offset=1)),
    because="The record arrives when its client has sent it again, and the next one after it: a second copy, unless the broker "
    "knows its sequence number, or its transaction is over. Where nobody sends again, it is merely late.",
    expect={AMO: Predicted(sign=NOT_RESENT), ALO: DUPLICATES, EOS: Predicted(sign=REPEATED_REQUEST)},
)  # fmt: skip

COORDINATOR_CRASH_BEFORE_END = Scenario(
    pipeline=PLAIN, id="coordinator-crash-before-end", failure_point="coordinator-crash-before-end", group="transactions",
    deployment=Deployment.OWN, fault=Kill(END, (Role.BROKER,)),
    because="The coordinator dies with the request to commit not yet seen. It reads its log, finds the transaction open, and is "
    "asked again.",
    expect={EOS: Predicted(sign=ENDED_AGAIN, settings=exactly_once())},
)  # fmt: skip

COORDINATOR_CRASH_BEFORE_END_ACK = replace(
    COORDINATOR_CRASH_BEFORE_END, id="coordinator-crash-before-end-ack", failure_point="coordinator-crash-before-end-ack",
    fault=Kill(answered(END), (Role.BROKER,)),
    because="The transaction is committed and the coordinator dies before it says so. The client asks again, and is told of the "
    "same end.",
)  # fmt: skip

SOON_GIVEN_UP = replace(
    exactly_once(), topic=TopicSettings(partitions=3, replicas=3, min_insync=2),
    producer=replace(exactly_once().producer, request_timeout_ms=5000, delivery_timeout_ms=10_000),
)  # fmt: skip
"""On three brokers; a client that waits in vain says so long before the harness gives up."""

COORDINATOR_FAILS_OVER = replace(
    COORDINATOR_CRASH_BEFORE_END, id="coordinator-fails-over-before-markers", deployment=Deployment.CLUSTER,
    failure_point="coordinator-crash-before-markers",
    fault=Kill(OnWire(Role.BROKER, Api.WRITE_TXN_MARKERS, REQUEST), (Role.COORDINATOR,), late=Role.COORDINATOR),
    because="The decision to commit is in the coordinator's log and its replicas; no marker is in any other. The coordinator "
    "dies, and the broker that leads the log after it reads the decision, and has the markers written. (kafka-python 3.0.12 "
    "finds that broker and asks it nothing, until it gives the next record up; our program then takes a new producer.)",
    expect={EOS: Predicted(sign=MARKED_AGAIN, settings=SOON_GIVEN_UP)},
)  # fmt: skip

COORDINATOR_FAILS_OVER_LATER = replace(
    COORDINATOR_FAILS_OVER, id="coordinator-fails-over-after-markers", failure_point="coordinator-crash-after-markers",
    fault=Kill(OnWire(Role.BROKER, Api.WRITE_TXN_MARKERS, RESPONSE), (Role.COORDINATOR,), late=Role.COORDINATOR),
    because="The markers are written, and the coordinator dies before it knows. The broker that leads its log after it has them "
    "written again, and a log with two markers of one transaction shows its records once.",
)  # fmt: skip

ONE_REPLICA = replace(exactly_once(aborts_first=True), topic=TopicSettings(partitions=1, replicas=1))

LEADER_CRASH_BEFORE_MARKERS = replace(
    COORDINATOR_FAILS_OVER, id="leader-crash-before-markers", failure_point="leader-crash-before-markers",
    fault=Kill(OnWire(Role.BROKER, Api.WRITE_TXN_MARKERS, REQUEST, occurrence=2), (Role.LEADER,)),
    because="The decision to commit is in the coordinator's log, and the only replica of the record's partition dies before it "
    "has the marker. The coordinator should send it again when that broker is back; Kafka 4.3 takes a partition without a "
    "leader for a deleted one (KAFKA-20734), and the transaction for complete. The record waits in the log without a marker; "
    "the next transaction of its producer is aborted, and that marker counts for both: acknowledged, committed and gone.",
    expect={EOS: Predicted(lost=Exactly(), control=True, settings=ONE_REPLICA)},
    by_system={"kafka<4.3": {EOS: Predicted(sign=MARKED_AGAIN, settings=ONE_REPLICA)}},
)  # fmt: skip

SHORT_MS = 3000
"""A time-out of transactions that is longer than any of ours takes, and shorter than the outage."""


def short(settings: Settings) -> Settings:
    """Return the settings with a short time-out of transactions."""
    return replace(settings, transaction_timeout_ms=SHORT_MS)


CURSOR_FIRST = replace(exactly_once(), producer=replace(exactly_once().producer, cursor=SaveCursor.BEFORE_SEND))

TIMED_OUT = Scenario(
    pipeline=PLAIN, id="transaction-timed-out", failure_point="transaction-timed-out", group="transactions",
    fault=TransactionTimeout(END),
    because="The producer is stopped for longer than its transaction may take, with everything sent: the coordinator aborts it, "
    "and fences whoever wakes up. It is told so, ends, and is started again: the cursor was aborted with the record.",
    expect={EOS: Predicted(sign=ABORTED, settings=short(exactly_once()))},
)  # fmt: skip

TIMED_OUT_CURSOR_OUTSIDE = replace(
    TIMED_OUT, id="control-timed-out-cursor-outside",
    because="Control: the cursor is saved before the transaction and outside it. The record is aborted by the time-out, the "
    "cursor is past it, and nobody sends it again.",
    expect={EOS: Predicted(lost=Exactly(), control=True, settings=short(CURSOR_FIRST))},
)  # fmt: skip

PROCESSOR_TIMED_OUT = replace(
    TIMED_OUT, pipeline=TOPIC_TO_TOPIC, fault=TransactionTimeout(OnWire(Role.PROCESSOR, Api.END_TXN, REQUEST)),
    because="The processor is stopped for longer than its transaction may take, and for less than its session: results and "
    "position are aborted together, it is fenced, ends, and is started again.",
    expect={EOS: Predicted(sign=ABORTED, settings=short(EXACTLY_ONCE_IN_TRANSACTION))},
)  # fmt: skip

OWN_IDS = replace(exactly_once(), producer=replace(exactly_once().producer, own_id=True))

ZOMBIE = Scenario(
    pipeline=PLAIN, id="zombie-producer", failure_point="zombie-producer", group="transactions", fault=Zombie(END),
    because="The producer is stopped with its transaction open, and another begins with the same transactional id: that aborts "
    "the transaction, and fences the first. When that one wakes up and commits, it is refused.",
    expect={EOS: Predicted(sign=ABORTED, settings=exactly_once())},
)  # fmt: skip

ZOMBIE_WITH_OWN_ID = replace(
    ZOMBIE, id="control-zombie-producer-own-id",
    because="Control: each producer has a transactional id of its own (a host name, a process id), and none fences another. The "
    "second finds the cursor of the last committed transaction and sends the record; the first wakes up, commits it too, and "
    "goes on.",
    expect={EOS: Predicted(duplicated=AtLeast(), control=True, settings=OWN_IDS)},
)  # fmt: skip

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
