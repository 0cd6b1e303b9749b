"""Spark Structured Streaming: its driver dies at each place of a batch's life, under each sink."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from harness.controls import InProgram, OnWire
from harness.faults import Answer, Drop, Forget, Kill, NoFault, Twice, Withheld
from harness.judge.signs import ABSORBED, DELIVERED_AGAIN, REPEATED_REQUEST, RESUMED_PAST
from harness.model.prediction import AtLeast, Exactly, Permitted, Select, Some, Zero
from harness.model.scenario import (
    Deployment,
    NotApplicable,
    Predicted,
    Role,
    Scenario,
    Suite,
)
from harness.protocols.kafka.steps import Api
from harness.scenarios.plain import ALO, AMO, EOS
from harness.scenarios.streaming_iceberg import ICEBERG_TABLES
from harness.scenarios.streaming_tables import TABLES
from harness.scenarios.streaming_topic import (
    GROWING,
    NO_PLACE,
    OVERTAKEN,
    OVERTAKEN_SILENTLY,
    querying,
)
from harness.stages.queries import (
    STREAM_EXACTLY_ONCE,
    STREAM_TO_DATABASE,
    STREAM_TO_FILES,
    STREAM_TO_STATE,
    STREAM_TO_TOPIC,
)
from harness.stages.querying import QuerySettings
from harness.stages.settings import Settings, TopicSettings, recipe
from harness.systems.kafka.faults import Zombie
from harness.systems.spark.signs import BEYOND, REPLAYED
from harness.wire.rules import Direction

DATABASE, FILES, TOPIC = STREAM_TO_DATABASE, STREAM_TO_FILES, STREAM_TO_TOPIC
STATE = STREAM_TO_STATE


def killed_at(place: str) -> Kill:
    """Return the death of the driver at a failpoint."""
    return Kill(InProgram(Role.DRIVER, place), victims=(Role.DRIVER,))


scenario = partial(Scenario, group="streaming", pipeline=DATABASE)

MID_BATCH = scenario(
    id="driver-crash-mid-batch",
    fault=killed_at("before-recording"),
    because="Part of the batch is recorded. If the position was saved first, the rest is lost. "
    "With a checkpoint the whole batch runs again; a sink that recognises records "
    "absorbs the part that it has.",
    expect={
        AMO: Predicted(lost=Exactly(Select.BATCH_FROM_TARGET)),
        ALO: Predicted(duplicated=Exactly(Select.BATCH_BEFORE_TARGET), sign=DELIVERED_AGAIN),
        EOS: Predicted(sign=DELIVERED_AGAIN),
    },
)
BEFORE_COMMIT_LOG = scenario(
    id="driver-crash-before-commit-log",
    fault=killed_at("before-commit-log"),
    because="The batch is recorded and not committed yet: with a checkpoint all of it runs again.",
    expect={
        AMO: Predicted(sign=RESUMED_PAST),
        ALO: Predicted(duplicated=Exactly(Select.BATCH)),
        EOS: Predicted(sign=ABSORBED),
    },
)
DATABASE_POINTS = (
    scenario(
        id="none",
        fault=NoFault(),
        because="The baseline of the streaming pipeline.",
        expect={AMO: Predicted(), ALO: Predicted(), EOS: Predicted()},
    ),
    scenario(
        id="driver-crash-before-offset-log",
        fault=killed_at("before-offset-log"),
        because=(
            "The batch is planned, but the plan is not stored yet: nothing has happened, and the "
            "batch is planned again."
        ),
        expect={semantic: Predicted(sign=REPLAYED) for semantic in (AMO, ALO, EOS)},
    ),
    scenario(
        id="driver-crash-before-batch",
        fault=killed_at("after-offset-log"),
        because="The batch is in the offset log and has no output yet: when it runs again, it "
        "writes its output for the first time.",
        expect={semantic: Predicted(sign=REPLAYED) for semantic in (AMO, ALO, EOS)},
    ),
    MID_BATCH,
    BEFORE_COMMIT_LOG,
    scenario(
        id="driver-crash-after-commit-log",
        fault=killed_at("after-commit-log"),
        because="The batch is committed: the next driver continues after it.",
        expect={semantic: Predicted(sign=RESUMED_PAST) for semantic in (AMO, ALO, EOS)},
    ),
)

PER_BATCH = replace(
    STREAM_EXACTLY_ONCE,
    consumer=replace(
        STREAM_EXACTLY_ONCE.consumer, idempotent=False, query=QuerySettings(per_batch=True)
    ),
)
TRANSACTIONAL = replace(
    BEFORE_COMMIT_LOG,
    id="driver-crash-before-commit-log+batch-transaction",
    because="The batch and its number were recorded in one database transaction: when the batch "
    "runs again, the sink finds the number.",
    expect={EOS: Predicted(sign=ABSORBED, settings=PER_BATCH)},
)
TRANSACTIONAL_MID = replace(
    MID_BATCH,
    id="driver-crash-mid-batch+batch-transaction",
    because=(
        "Half a batch in an open database transaction is rolled back: the next driver records "
        "the whole batch."
    ),
    expect={EOS: Predicted(sign=DELIVERED_AGAIN, settings=PER_BATCH)},
)

FILE_POINTS = (
    scenario(
        id="driver-crash-before-sink-log",
        pipeline=FILES,
        fault=killed_at("before-sink-log"),
        because="All files of the batch are written, and the sink's log does not list them yet. "
        "The batch runs again: a reader that lists the folder finds both sets of files, "
        "a reader that uses the log finds one.",
        expect={
            AMO: NO_PLACE,
            ALO: Predicted(duplicated=Exactly(Select.BATCH)),
            EOS: Predicted(sign=REPLAYED),
        },
    ),
    scenario(
        id="driver-crash-before-commit-log",
        pipeline=FILES,
        fault=killed_at("before-commit-log"),
        because=(
            "The sink's log lists the batch: when it runs again, the sink finds its number and "
            "leaves it out."
        ),
        expect={AMO: NO_PLACE, ALO: Predicted(sign=REPLAYED), EOS: Predicted(sign=REPLAYED)},
    ),
)

TOPIC_POINTS = (
    scenario(
        id="driver-crash-before-commit-log",
        pipeline=TOPIC,
        fault=killed_at("before-commit-log"),
        because="Spark's Kafka sink is at-least-once by design: the records carry no transaction "
        "and no batch number, and a batch that runs again is stored again (Structured "
        "Streaming + Kafka Integration Guide). Sold as exactly-once it must be convicted.",
        expect={
            AMO: NO_PLACE,
            ALO: Predicted(duplicated=Exactly(Select.BATCH)),
            EOS: Predicted(lost=Zero(), duplicated=Exactly(Select.BATCH), control=True),
        },
    ),
)

PRODUCED = OnWire(Role.DRIVER, Api.PRODUCE, Direction.RESPONSE)
FETCHED = OnWire(Role.DRIVER, Api.FETCH, Direction.RESPONSE)
NETWORK_POINTS = (
    scenario(
        id="delivery-lost",
        fault=Drop(FETCHED),
        because=(
            "The fetch response never reaches the query: the task asks again for the same offsets."
        ),
        expect={semantic: Predicted(sign=DELIVERED_AGAIN) for semantic in (AMO, ALO, EOS)},
    ),
    scenario(
        id="ack-lost",
        pipeline=TOPIC,
        fault=Drop(PRODUCED),
        because="Spark's producer is idempotent, as the Java client is by default: the repeated "
        "request is recognised. What makes the sink at-least-once is the batch that runs "
        "again, not the network.",
        expect={
            AMO: NO_PLACE,
            ALO: Predicted(sign=REPEATED_REQUEST),
            EOS: Predicted(sign=REPEATED_REQUEST),
        },
    ),
    scenario(
        id="request-lost",
        pipeline=TOPIC,
        fault=Drop(replace(PRODUCED, direction=Direction.REQUEST)),
        because="The request never reaches the broker; the client sends it again.",
        expect={
            AMO: NO_PLACE,
            ALO: Predicted(sign=REPEATED_REQUEST),
            EOS: Predicted(sign=REPEATED_REQUEST),
        },
    ),
    scenario(
        id="driver-crash-before-ack",
        pipeline=TOPIC,
        fault=Kill(PRODUCED, victims=(Role.DRIVER,)),
        because=(
            "Part of the batch is stored in the sink's topic when the driver dies: the whole "
            "batch runs again."
        ),
        expect={
            AMO: NO_PLACE,
            ALO: Predicted(duplicated=AtLeast()),
            EOS: Predicted(duplicated=AtLeast(), control=True),
        },
    ),
    scenario(
        id="broker-crash-before-delivery",
        deployment=Deployment.OWN,
        fault=Kill(FETCHED, victims=(Role.BROKER,)),
        because=(
            "The broker dies during the read: the task waits for it, and reads the same offsets "
            "again."
        ),
        expect={semantic: Predicted(sign=DELIVERED_AGAIN) for semantic in (AMO, ALO, EOS)},
    ),
    scenario(
        id="broker-crash-before-ack",
        pipeline=TOPIC,
        deployment=Deployment.OWN,
        fault=Kill(PRODUCED, victims=(Role.BROKER,)),
        because="Stored, and the broker dies before it answers. By theory it knows from its log, "
        "back again, what the idempotent producer has sent. Measured (kafka-clients 3.9, "
        "Kafka 4.3.0): of two requests on their way at once to one partition, both stored, "
        "the first is answered OUT_OF_ORDER_SEQUENCE_NUMBER when it is repeated; the client "
        "takes a new epoch and stores both again. How many are on their way is chance, so "
        "any number is permitted.",
        expect={AMO: NO_PLACE, ALO: Predicted(duplicated=Permitted(), sign=REPEATED_REQUEST)},
    ),
)

SENT = OnWire(Role.DRIVER, Api.PRODUCE, Direction.REQUEST)
GATHERED = replace(
    recipe(TOPIC, ALO),
    producer=replace(recipe(TOPIC, ALO).producer, unit=6, linger_ms=500),
    topic=TopicSettings(partitions=1),
)
"""A batch of the query in one request of the sink: what has one record cannot be split."""
SPLIT = scenario(
    id="batch-split-late",
    pipeline=TOPIC,
    suite=Suite.NIGHT,
    fault=Twice(
        Answer(SENT, "MESSAGE_TOO_LARGE"),
        Withheld(
            replace(SENT, since=SENT), InProgram(Role.DRIVER, "after-commit-log"), patience_s=8.0
        ),
    ),
    because="The sink's request is refused for its size. Its client sends the records again in "
    "parts, and the first part is on its way when the driver is killed behind the batch's commit. "
    "The sink waits for the parts first, so they are stored. (KAFKA-19479: up to kafka-clients "
    "3.9.1, which Spark 4.0.0 brings, flush() does not wait for the parts, so the batch is "
    "committed without them: whatever ends the driver then loses them.)",
    expect={AMO: NO_PLACE, ALO: Predicted(sign=RESUMED_PAST, settings=GATHERED)},
    by_client={
        "spark-sql-kafka==4.2.0+3.9.1": {
            ALO: Predicted(lost=AtLeast(), control=True, settings=GATHERED)
        }
    },
)

LOST_CHECKPOINT = scenario(
    id="checkpoint-lost",
    fault=Kill(
        InProgram(Role.DRIVER, "after-commit-log"), victims=(Role.DRIVER,), forget=Forget.CHECKPOINT
    ),
    because="The checkpoint folder is lost, and with it every position: the query begins at the "
    "first record. Only a sink that recognises records absorbs the repeated ones.",
    expect={
        AMO: NotApplicable("the position is not kept in the checkpoint"),
        ALO: Predicted(duplicated=Exactly(Select.THROUGH_BATCH)),
        EOS: Predicted(sign=ABSORBED),
    },
)
BY_TIMER = replace(
    BEFORE_COMMIT_LOG,
    id="driver-crash-before-commit-log+available-now",
    suite=Suite.NIGHT,
    because="A query that a timer starts (availableNow) plans all that is there as batches of the "
    "usual size, and goes on with its checkpoint: the batch that the commit log does not have "
    "runs again.",
    expect={
        ALO: Predicted(
            duplicated=Exactly(Select.BATCH),
            settings=querying(recipe(DATABASE, ALO), available_now=True),
        ),
        EOS: Predicted(sign=ABSORBED, settings=querying(recipe(DATABASE, EOS), available_now=True)),
    },
)
ZOMBIE = scenario(
    id="zombie-driver",
    fault=Zombie(InProgram(Role.DRIVER, "before-commit-log")),
    because="The driver is paused with a recorded batch that is not committed. Another driver "
    "takes over the checkpoint and does all the rest. When the first one wakes up, it "
    "finds its entry of the commit log taken, and ends. If the position is outside the "
    "checkpoint, nothing fences the first driver: it goes on to the end, beside the "
    "other.",
    expect={
        AMO: Predicted(duplicated=Exactly(BEYOND), control=True),
        ALO: Predicted(duplicated=Exactly(Select.BATCH)),
        EOS: Predicted(sign=ABSORBED),
    },
)


def on_executors(settings: Settings) -> Settings:
    """Return the settings with a JVM for the tasks."""
    return querying(settings, executors=1)


TASK_RETRIED = scenario(
    id="executor-crash-mid-task",
    pipeline=TOPIC,
    fault=Kill(PRODUCED, victims=(Role.EXECUTOR,)),
    because="The executor dies in the middle of a task that has stored a record. The task runs "
    "again, as Spark's tasks do, under the same driver and in the same batch, and stores it "
    "again.",
    expect={
        AMO: NO_PLACE,
        ALO: Predicted(duplicated=AtLeast(), settings=on_executors(recipe(TOPIC, ALO))),
        EOS: Predicted(
            duplicated=AtLeast(), control=True, settings=on_executors(recipe(TOPIC, EOS))
        ),
    },
)
TASK_BEFORE_OUTPUT = scenario(
    id="executor-crash-before-output",
    fault=Kill(FETCHED, victims=(Role.EXECUTOR,)),
    because="The executor dies while its task reads. The task runs again on the next executor and "
    "reads the same offsets; the results reach the database through the driver, once.",
    expect={
        semantic: Predicted(sign=DELIVERED_AGAIN, settings=on_executors(recipe(DATABASE, semantic)))
        for semantic in (AMO, ALO, EOS)
    },
)


STATE_POINTS = (
    scenario(
        id="none",
        pipeline=STATE,
        fault=NoFault(),
        because=(
            "The baseline of the query with state: for each key the state has every copy that "
            "the query has seen."
        ),
        expect={AMO: Predicted(), ALO: Predicted(), EOS: Predicted()},
    ),
    scenario(
        id="driver-crash-mid-batch",
        pipeline=STATE,
        fault=killed_at("before-recording"),
        because="State and offsets go back together to the last committed batch, and the batch "
        "runs again with the state from which it began. Results that replace older ones "
        "do not show that; results that are added show a part twice. Without a "
        "checkpoint the state is lost with its driver.",
        expect={
            AMO: Predicted(lost=AtLeast()),
            ALO: Predicted(duplicated=Exactly(Select.BATCH_BEFORE_TARGET), sign=DELIVERED_AGAIN),
            EOS: Predicted(sign=DELIVERED_AGAIN),
        },
    ),
    scenario(
        id="driver-crash-before-commit-log",
        pipeline=STATE,
        fault=killed_at("before-commit-log"),
        because="The state of the batch is written and not committed: it goes back with the "
        "offsets, so no record counts twice in it. Without a checkpoint the state begins "
        "empty, although the position goes on, and each result that is replaced loses "
        "the records counted before.",
        expect={
            AMO: Predicted(lost=Some()),
            ALO: Predicted(duplicated=Exactly(Select.BATCH)),
            EOS: Predicted(sign=DELIVERED_AGAIN),
        },
    ),
    replace(
        LOST_CHECKPOINT,
        pipeline=STATE,
        because="The state is lost with the offsets: the query begins at the first record, and "
        "rebuilds the state from the log, as long as the log has its records.",
        expect={
            AMO: NotApplicable("neither position nor state is kept in a checkpoint"),
            ALO: Predicted(duplicated=Exactly(Select.THROUGH_BATCH)),
            EOS: Predicted(sign=DELIVERED_AGAIN),
        },
    ),
)


EVERY = (
    *DATABASE_POINTS,
    TRANSACTIONAL,
    TRANSACTIONAL_MID,
    *FILE_POINTS,
    *TOPIC_POINTS,
    *NETWORK_POINTS,
    SPLIT,
    LOST_CHECKPOINT,
    BY_TIMER,
    ZOMBIE,
    TASK_RETRIED,
    TASK_BEFORE_OUTPUT,
    *STATE_POINTS,
    *TABLES,
    *ICEBERG_TABLES,
    OVERTAKEN,
    OVERTAKEN_SILENTLY,
    *GROWING,
)
CORE = {
    DATABASE: {"none", "driver-crash-mid-batch", "driver-crash-before-commit-log", "delivery-lost"},
    TOPIC: {"ack-lost", "driver-crash-before-ack"},
}
"""What the main job shows of them: one of each kind."""
STREAMING = tuple(
    replace(one, suite=Suite.CORE) if one.id in CORE.get(one.pipeline, ()) else one for one in EVERY
)
