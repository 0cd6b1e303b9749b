"""Storm: a worker dies at each place of a record's way from the spout to the acknowledgement of its
tree of tuples.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from harness.controls import InProgram, OnWire
from harness.faults import Hold, Kill, NoFault, WorkFails
from harness.judge.signs import DELIVERED_AGAIN, RESUMED_PAST
from harness.model.prediction import AtLeast, Permitted, Some
from harness.model.scenario import Deployment, NotApplicable, Predicted, Role, Scenario, Suite
from harness.protocols.kafka.steps import Api
from harness.protocols.postgres.steps import Database
from harness.protocols.zookeeper.steps import Op
from harness.scenarios.plain import ALO, AMO, DUPLICATES, EOS, REQUEST, RESPONSE, holds
from harness.stages.settings import AT_LEAST_ONCE, EXACTLY_ONCE, TopicSettings
from harness.systems.storm.faults import KillBetween
from harness.systems.storm.settings import (
    ACK_SENT,
    ACKER,
    NIMBUS,
    PROCESSED,
    STORM_AT_LEAST_ONCE,
    SUPERVISOR,
    TOPOLOGY,
    TRIDENT,
    TRIDENT_EXACTLY_ONCE,
    TRIDENT_TO_DATABASE,
    Batches,
    with_topology,
    with_trident,
)
from harness.systems.storm.signs import POLLED_AGAIN, WENT_ON
from harness.wire.rules import How

if TYPE_CHECKING:
    from harness.model.scenario import Fault
    from harness.wire.rules import Direction

WORKER = Role.PROCESSOR
PACE_MS = 100
"""Records come one by one, where the machine is quick enough for that."""
UNFOLLOWED = Predicted(lost=AtLeast())
"""Where nobody follows tuples the spout runs ahead: what else is under way dies with the worker."""
NOT_OFFERED = NotApplicable(
    "bolts that write to a topic have no transactions: Storm's exactly-once is that of Trident's "
    "states"
)
BASELINE = Scenario(
    id="none",
    pipeline=TOPOLOGY,
    group="storm",
    fault=NoFault(),
    pace_ms=PACE_MS,
    because="Without a fault nothing is lost and nothing is duplicated: the baseline.",
    expect={AMO: Predicted(), ALO: Predicted(), EOS: NOT_OFFERED},
)


def dies(api: Api, direction: object) -> Kill:
    """Return the death of the worker at a frame about the target."""
    return Kill(OnWire(WORKER, api, direction), (WORKER,))  # type: ignore[arg-type]  # one of the two there are


AFTER_EMIT = replace(
    BASELINE,
    id="storm-crash-after-emit",
    failure_point="storm-crash-after-emit",
    fault=dies(Api.PRODUCE, REQUEST),
    because="The spout has emitted the record, its result is not written, and the worker dies. The "
    "next worker emits every tree again that was not acknowledged. Without an acker the "
    "position was saved before, and the record is lost.",
    expect={AMO: UNFOLLOWED, ALO: holds(DELIVERED_AGAIN), EOS: NOT_OFFERED},
)
BEFORE_ACK = replace(
    BASELINE,
    id="storm-crash-before-ack",
    failure_point="storm-crash-before-ack",
    fault=dies(Api.PRODUCE, RESPONSE),
    because=(
        "The result is written, its tree not acknowledged yet, and the worker dies: the record "
        "is emitted again."
    ),
    expect={AMO: Predicted(lost=Permitted(), sign=RESUMED_PAST), ALO: DUPLICATES, EOS: NOT_OFFERED},
)
COMMIT_LOST = replace(
    BASELINE,
    id="storm-spout-commit-lost",
    failure_point="storm-spout-commit-lost",
    fault=dies(Api.OFFSET_COMMIT, REQUEST),
    because="The spout's commit never arrives, and the worker dies. If positions are saved first, "
    "the record was not emitted yet. If they are saved after the acknowledgement, its result "
    "is written a second time.",
    expect={AMO: Predicted(lost=Permitted(), sign=POLLED_AGAIN), ALO: DUPLICATES, EOS: NOT_OFFERED},
)
COMMIT_ANSWER_LOST = replace(
    BASELINE,
    id="storm-spout-commit-answer-lost",
    failure_point="storm-spout-commit-answer-lost",
    fault=dies(Api.OFFSET_COMMIT, RESPONSE),
    because="The spout's commit is stored, and the worker dies before it learns that. If positions "
    "are saved first, the position has passed a record that was never emitted. If they are "
    "saved last, the next worker continues after the record.",
    expect={AMO: UNFOLLOWED, ALO: holds(RESUMED_PAST), EOS: NOT_OFFERED},
)
TIMEOUT = replace(
    BASELINE,
    id="storm-tuple-timeout",
    failure_point="storm-tuple-timeout",
    fault=Hold(
        OnWire(WORKER, Api.PRODUCE, RESPONSE), OnWire(WORKER, Api.PRODUCE, REQUEST, occurrence=2)
    ),
    because="The result is written, but the bolt learns that later than "
    "topology.message.timeout.secs. No process has died, and the spout emits the record "
    "again, and also others that wait on the bolt's connection. The time-out must be longer "
    "than the slowest work and its longest wait.",
    expect={
        AMO: NotApplicable("without an acker no tuple times out"),
        ALO: Predicted(
            duplicated=AtLeast(), settings=with_topology(STORM_AT_LEAST_ONCE, timeout_s=2)
        ),
        EOS: NOT_OFFERED,
    },
)
BATCHED = with_topology(STORM_AT_LEAST_ONCE, linger_ms=300, pending=100)
ANCHORED = replace(
    BASELINE,
    id="storm-crash-in-batch",
    failure_point="storm-crash-in-batch",
    fault=dies(Api.OFFSET_COMMIT, RESPONSE),
    because="The bolt's client collects results in a batch. The trees are acknowledged when the "
    "batch is written, and the position is saved after that. The worker dies then, and the "
    "next one continues after the position. Results that were written in the batch, but "
    "whose position was not saved, are written again.",
    expect={
        AMO: NotApplicable("there is no acker, so its tuples are not tracked: see the control"),
        ALO: Predicted(duplicated=Permitted(), sign=RESUMED_PAST, settings=BATCHED),
        EOS: NOT_OFFERED,
    },
)
UNANCHORED = replace(
    ANCHORED,
    id="storm-unanchored",
    failure_point="storm-unanchored",
    pace_ms=0,
    because="The bolt emits without an anchor, so the tree is complete when the bolt is done. The "
    "position is saved, and the result still waits in the client's batch when the worker "
    "dies. Sold as at-least-once it must be convicted.",
    expect={
        ALO: Predicted(
            lost=AtLeast(),
            control=True,
            settings=with_topology(BATCHED, anchored=False, linger_ms=1500),
        )
    },
)
GAPS = replace(
    BASELINE,
    id="none+gaps",
    because="The source is written in transactions: after each record there is a transaction "
    "marker, so the offsets have gaps. Nothing is lost and nothing is duplicated, and "
    "the position still reaches the end. (By its source code, the spout of "
    "storm-kafka-client up to 1.2.2 stands still at the first gap: STORM-3301.)",
    expect={
        AMO: NotApplicable(
            "positions are committed before records are emitted, so they do not depend on "
            "acknowledgements"
        ),
        ALO: Predicted(settings=replace(STORM_AT_LEAST_ONCE, producer=EXACTLY_ONCE.producer)),
        EOS: NOT_OFFERED,
    },
)

# the tree of tuples: who keeps it, and on what way
APART = with_topology(STORM_AT_LEAST_ONCE, apart=True, timeout_s=5)
NO_ACKER = NotApplicable("there is no acker, so its tuples are not tracked")
ACK_LOST = replace(
    BASELINE,
    id="storm-ack-lost",
    failure_point="storm-ack-lost",
    fault=WorkFails(InProgram(WORKER, ACK_SENT)),
    because="The result is written, and the tuple that reports it to the acker in another worker "
    "is lost on its way. No process has died. The tree times out, and the spout emits "
    "the record again.",
    expect={AMO: NO_ACKER, ALO: Predicted(duplicated=AtLeast(), settings=APART), EOS: NOT_OFFERED},
)
ACKER_CRASH = replace(
    BASELINE,
    id="storm-acker-crash",
    failure_point="storm-acker-crash",
    fault=Kill(OnWire(WORKER, Api.PRODUCE, RESPONSE), (ACKER,), held=How.RELEASE),
    because="The acker's worker dies, and with it its state of the record's tree. The next acker "
    "does not know the tree: the result is written, the tree times out, and the spout emits "
    "the record again.",
    expect={AMO: NO_ACKER, ALO: Predicted(duplicated=AtLeast(), settings=APART), EOS: NOT_OFFERED},
)


def without(daemon: Role, because: str) -> Scenario:
    """Return the death of a daemon while the target is on its way."""
    return replace(
        BASELINE,
        id=f"storm-{daemon}-crash",
        failure_point=f"storm-{daemon}-crash",
        deployment=Deployment.OWN,
        suite=Suite.NIGHT,
        fault=Kill(OnWire(WORKER, Api.PRODUCE, REQUEST), (daemon,), held=How.RELEASE),
        because=because,
        expect={AMO: holds(WENT_ON), ALO: holds(WENT_ON), EOS: NOT_OFFERED},
    )


NO_NIMBUS = without(
    NIMBUS, "Nimbus only assigns work: while it is down, the worker goes on with its assignment."
)
NO_SUPERVISOR = without(
    SUPERVISOR,
    (
        "A supervisor only starts and ends workers: without it they go on working, and the next "
        "supervisor finds them running."
    ),
)

# Trident: what the state has, and which transaction is said to be over
TRIDENT_BASELINE = replace(
    BASELINE,
    pipeline=TRIDENT,
    group="trident",
    expect={AMO: NotApplicable("Trident replays what failed"), ALO: Predicted(), EOS: Predicted()},
)
TRANSACTIONAL = with_trident(
    TRIDENT_EXACTLY_ONCE, spout=Batches.TRANSACTIONAL, state=Batches.TRANSACTIONAL
)
SEVERAL = replace(TRANSACTIONAL, topic=TopicSettings(), producer=AT_LEAST_ONCE.producer)
"""Of a source without transactions: behind a marker of one the spout would find no record to emit,
but one that it must not.
"""
SHORT_MS = 5
"""Less than a client needs that has just begun, and enough for one that has its connections."""
MISMATCHED = replace(
    with_trident(TRIDENT_EXACTLY_ONCE, state=Batches.TRANSACTIONAL),
    consumer=replace(TRIDENT_EXACTLY_ONCE.consumer, unit=24),
)


def of_trident(
    point: str, fault: Fault, because: str, *, alo: Predicted, eos: Predicted
) -> tuple[Scenario, Scenario]:
    """Return a scenario for both pairs of spout and state by which Trident promises
    exactly-once.
    """
    opaque = replace(
        TRIDENT_BASELINE,
        id=point,
        failure_point=point,
        fault=fault,
        because=because,
        expect={**TRIDENT_BASELINE.expect, ALO: alo, EOS: eos},
    )
    transactional = replace(
        opaque,
        id=f"{point}+transactional",
        suite=Suite.NIGHT,
        because=f"{because} The spout emits the same batch again, and the state knows its id.",
        expect={EOS: replace(eos, settings=TRANSACTIONAL)},
    )
    return opaque, transactional


AGAIN = holds(DELIVERED_AGAIN)
BEFORE_COMMIT = of_trident(
    "trident-crash-before-commit",
    Kill(InProgram(WORKER, PROCESSED), (WORKER,)),
    "The batch is being processed, its $commit is not sent yet, and the worker dies: the state "
    "has nothing of the batch, which is emitted again.",
    alo=AGAIN,
    eos=AGAIN,
)
BEFORE_STATE = of_trident(
    "trident-crash-before-state",
    dies(Api.PRODUCE, REQUEST),
    "The $commit is sent, but its write to the state never arrives: the batch is emitted again.",
    alo=AGAIN,
    eos=AGAIN,
)
AFTER_STATE = of_trident(
    "trident-crash-after-state",
    dies(Api.PRODUCE, RESPONSE),
    "The state is written, and the worker dies before it learns that. The batch is emitted again "
    "under the same id: a state that keeps ids counts it once, a state without ids counts it "
    "twice.",
    alo=DUPLICATES,
    eos=AGAIN,
)
STATE_DONE = OnWire(WORKER, Api.PRODUCE, RESPONSE)
BEFORE_TXID = of_trident(
    "trident-crash-before-txid",
    KillBetween(
        OnWire(WORKER, Op.SET_DATA, REQUEST, since=STATE_DONE),
        OnWire(WORKER, Op.DELETE, RESPONSE, occurrence=2, since=STATE_DONE),
    ),
    "The state is written. Trident reports the end of the transaction to its spout before it "
    "reports it to ZooKeeper. The spout deletes its data of the transaction before, and then the "
    "worker dies. The next one emits the batch again under the same id.",
    alo=Predicted(duplicated=AtLeast()),
    eos=AGAIN,
)
FORGOTTEN = replace(
    BEFORE_TXID[0],
    because=f"{BEFORE_TXID[0].because} An opaque spout begins a batch after the one before, whose "
    "data is deleted: so it begins at the start of the topic, and emits all records again "
    "under new ids. Sold as exactly-once it must be convicted.",
    expect={**BEFORE_TXID[0].expect, EOS: Predicted(duplicated=Some(), control=True)},
)
AFTER_TXID = of_trident(
    "trident-crash-after-txid",
    Kill(OnWire(WORKER, Op.SET_DATA, RESPONSE, since=STATE_DONE), (WORKER,)),
    "ZooKeeper has stored the end of the transaction, and the worker dies before it learns that: "
    "the next one continues after it.",
    alo=holds(RESUMED_PAST),
    eos=holds(RESUMED_PAST),
)
MISMATCH = replace(
    AFTER_STATE[0],
    id="trident-opaque-spout-transactional-state",
    failure_point="trident-opaque-spout-transactional-state",
    because="An opaque spout emits a batch again under the same id with all records that are there "
    "now, which are more than before. A transactional state has that id already, and leaves "
    "the whole batch out. Sold as exactly-once it must be convicted.",
    expect={EOS: Predicted(lost=Some(), control=True, settings=MISMATCHED)},
)
EMPTY = replace(
    BEFORE_STATE[0],
    id="trident-replay-of-empty-partitions",
    failure_point="trident-replay-of-empty-partitions",
    because="The batch has a record of one partition and none of the others. For those, the "
    "transactional spout stores the offset before as if it were the batch's. When it emits "
    "the batch again, it emits the record at that offset, which an earlier transaction has "
    "counted. The id is another one, so the state counts the record again. Sold as "
    "exactly-once it must be convicted.",
    expect={EOS: Predicted(duplicated=Some(), control=True, settings=SEVERAL)},
)
LATE = replace(
    BEFORE_STATE[0],
    id="trident-replay-polled-late",
    failure_point="trident-replay-polled-late",
    because="For a batch that it must emit again, a spout polls once, for as long as pollTimeoutMs "
    "says. Records that do not arrive in that time are left out of the batch; the batch "
    "completes without them, and the next one begins after them. Sold as exactly-once it "
    "must be convicted.",
    expect={
        EOS: Predicted(
            lost=AtLeast(), control=True, settings=with_trident(TRANSACTIONAL, poll_ms=SHORT_MS)
        )
    },
)

# the state in a database: its commit takes value and id of the transaction at once
DATABASE_BASELINE = replace(TRIDENT_BASELINE, pipeline=TRIDENT_TO_DATABASE)


def in_database(scenario: Scenario, direction: Direction, because: str) -> Scenario:
    """Return a scenario with the commit of the target's batch in the place of its write to the
    topic.
    """
    return replace(
        scenario,
        pipeline=TRIDENT_TO_DATABASE,
        fault=Kill(OnWire(WORKER, Database.COMMIT, direction), (WORKER,)),
        because=f"{because} {scenario.because}",
    )


BEFORE_DATABASE = tuple(
    in_database(
        each,
        REQUEST,
        (
            "The database commits value and id of the transaction together. The commit never "
            "arrives: neither is there."
        ),
    )
    for each in BEFORE_STATE
)
AFTER_DATABASE = tuple(
    in_database(
        each,
        RESPONSE,
        (
            "The database commits value and id of the transaction together. The commit is durable: "
            "both are there."
        ),
    )
    for each in AFTER_STATE
)
MAIN = tuple(replace(each, suite=Suite.CORE) for each in (BASELINE, AFTER_EMIT))
PLAIN = (
    *MAIN,
    GAPS,
    BEFORE_ACK,
    COMMIT_LOST,
    COMMIT_ANSWER_LOST,
    TIMEOUT,
    ANCHORED,
    UNANCHORED,
    ACK_LOST,
    ACKER_CRASH,
    NO_NIMBUS,
    NO_SUPERVISOR,
)
STORM = (
    *PLAIN,
    TRIDENT_BASELINE,
    *BEFORE_COMMIT,
    *BEFORE_STATE,
    *AFTER_STATE,
    FORGOTTEN,
    BEFORE_TXID[1],
    *AFTER_TXID,
    MISMATCH,
    EMPTY,
    LATE,
    DATABASE_BASELINE,
    *BEFORE_DATABASE,
    *AFTER_DATABASE,
)
