"""Spark Structured Streaming: its driver dies at each place of a batch's life, under each sink."""

from __future__ import annotations

from dataclasses import replace

from harness.bench import InProgram
from harness.core.prediction import Exactly, Select, Zero
from harness.core.scenario import NotApplicable, Predicted, Role, Scenario
from harness.core.settings import STREAM_EXACTLY_ONCE, PipelineKind
from harness.core.sign import Sign
from harness.faults import Kill, NoFault
from scenarios.plain import ALO, AMO, EOS

DATABASE, FILES, TOPIC = PipelineKind.STREAM_TO_DATABASE, PipelineKind.STREAM_TO_FILES, PipelineKind.STREAM_TO_TOPIC
NO_PLACE = NotApplicable("the sink is Spark's own: there is no place before it where a position could be saved")


def killed_at(place: str) -> Kill:
    """Return the death of the driver at a failpoint."""
    return Kill(InProgram(Role.DRIVER, place), victims=(Role.DRIVER,))


MID_BATCH = Scenario(
    id="driver-crash-mid-batch", failure_point="driver-crash-mid-batch", pipeline=DATABASE, group="streaming",
    fault=killed_at("before-recording"),
    because="Part of the batch is recorded. A position saved first gives up the rest; a checkpoint runs the whole "
    "batch again; a sink that knows what it has absorbs that part.",
    expect={
        AMO: Predicted(lost=Exactly(Select.BATCH_FROM_TARGET)),
        ALO: Predicted(duplicated=Exactly(Select.BATCH_BEFORE_TARGET), sign=Sign.DELIVERED_AGAIN),
        EOS: Predicted(sign=Sign.DELIVERED_AGAIN),
    },
)  # fmt: skip
BEFORE_COMMIT_LOG = Scenario(
    id="driver-crash-before-commit-log", failure_point="driver-crash-before-commit-log", pipeline=DATABASE,
    group="streaming", fault=killed_at("before-commit-log"),
    because="The batch is recorded and not yet committed: a checkpoint runs all of it again.",
    expect={
        AMO: Predicted(sign=Sign.RESUMED_PAST),
        ALO: Predicted(duplicated=Exactly(Select.BATCH)),
        EOS: Predicted(sign=Sign.ABSORBED),
    },
)  # fmt: skip
DATABASE_POINTS = (
    Scenario(
        id="none", failure_point="none", pipeline=DATABASE, group="streaming", fault=NoFault(),
        because="The baseline of the streaming pipeline.",
        expect={AMO: Predicted(), ALO: Predicted(), EOS: Predicted()},
    ),
    Scenario(
        id="driver-crash-before-offset-log", failure_point="driver-crash-before-offset-log", pipeline=DATABASE,
        group="streaming", fault=killed_at("before-offset-log"),
        because="The batch is planned and not yet written down: nothing of it has happened, and it is planned again.",
        expect={semantic: Predicted(sign=Sign.REPLAYED) for semantic in (AMO, ALO, EOS)},
    ),
    Scenario(
        id="driver-crash-before-batch", failure_point="driver-crash-before-batch", pipeline=DATABASE, group="streaming",
        fault=killed_at("after-offset-log"),
        because="The batch stands in the offset log and has no output yet: it is run again, for the first time.",
        expect={semantic: Predicted(sign=Sign.REPLAYED) for semantic in (AMO, ALO, EOS)},
    ),
    MID_BATCH,
    BEFORE_COMMIT_LOG,
    Scenario(
        id="driver-crash-after-commit-log", failure_point="driver-crash-after-commit-log", pipeline=DATABASE,
        group="streaming", fault=killed_at("after-commit-log"),
        because="The batch is committed: the next driver goes on behind it.",
        expect={semantic: Predicted(sign=Sign.RESUMED_PAST) for semantic in (AMO, ALO, EOS)},
    ),
)  # fmt: skip

PER_BATCH = replace(STREAM_EXACTLY_ONCE, consumer=replace(STREAM_EXACTLY_ONCE.consumer, idempotent=False, per_batch=True))
TRANSACTIONAL = replace(
    BEFORE_COMMIT_LOG, id="driver-crash-before-commit-log+batch-transaction",
    because="The batch and its number were recorded in one database transaction: run again, the number is known.",
    expect={EOS: Predicted(sign=Sign.ABSORBED, settings=PER_BATCH)},
)  # fmt: skip
TRANSACTIONAL_MID = replace(
    MID_BATCH, id="driver-crash-mid-batch+batch-transaction",
    because="Half a batch in an open database transaction is nothing: the batch is recorded whole by the next driver.",
    expect={EOS: Predicted(sign=Sign.DELIVERED_AGAIN, settings=PER_BATCH)},
)  # fmt: skip

FILE_POINTS = (
    Scenario(
        id="driver-crash-before-sink-log", failure_point="driver-crash-before-sink-log", pipeline=FILES, group="streaming",
        fault=killed_at("before-sink-log"),
        because="All files of the batch are written, and the sink's log does not name them yet. The batch runs again: who "
        "lists the folder reads both, who reads by the log reads one.",
        expect={AMO: NO_PLACE, ALO: Predicted(duplicated=Exactly(Select.BATCH)), EOS: Predicted(sign=Sign.REPLAYED)},
    ),
    Scenario(
        id="driver-crash-before-commit-log", failure_point="driver-crash-before-commit-log", pipeline=FILES, group="streaming",
        fault=killed_at("before-commit-log"),
        because="The sink's log names the batch: run again, it is left out by its number.",
        expect={AMO: NO_PLACE, ALO: Predicted(sign=Sign.REPLAYED), EOS: Predicted(sign=Sign.REPLAYED)},
    ),
)  # fmt: skip

TOPIC_POINTS = (
    Scenario(
        id="driver-crash-before-commit-log", failure_point="driver-crash-before-commit-log", pipeline=TOPIC, group="streaming",
        fault=killed_at("before-commit-log"),
        because="Spark's Kafka sink is at-least-once by design: no transaction and no number of the batch goes with the "
        "records, and a batch that runs again is stored again (Structured Streaming + Kafka Integration Guide). Sold as "
        "exactly-once it must be convicted.",
        expect={
            AMO: NO_PLACE,
            ALO: Predicted(duplicated=Exactly(Select.BATCH)),
            EOS: Predicted(lost=Zero(), duplicated=Exactly(Select.BATCH), control=True),
        },
    ),
)  # fmt: skip

STREAMING = (*DATABASE_POINTS, TRANSACTIONAL, TRANSACTIONAL_MID, *FILE_POINTS, *TOPIC_POINTS)
