"""What happens to the topic of a query while it runs: records are deleted, partitions are added."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.controls import InProgram
from harness.faults import Forget, Kill
from harness.model.prediction import Exactly, Select
from harness.model.scenario import (
    Expectation,
    NotApplicable,
    Predicted,
    Role,
    Scenario,
    Suite,
)
from harness.scenarios.plain import ALO, AMO, EOS
from harness.stages.queries import STREAM_TO_DATABASE as DATABASE
from harness.stages.queries import STREAM_TO_FILES as FILES
from harness.stages.queries import STREAM_TO_STATE as STATE
from harness.stages.queries import STREAM_TO_TOPIC as TOPIC
from harness.stages.settings import (
    Settings,
    recipe,
)
from harness.systems.kafka.faults import PartitionsAdded
from harness.systems.kafka.signs import FOUND

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.model.pipeline import Pipeline
    from harness.model.semantics import Semantic

NO_PLACE = NotApplicable(
    "the sink is Spark's own: there is no place in the program to save a position before it"
)


def querying(settings: Settings, **more: Any) -> Settings:
    """Return settings whose query has these settings of its own."""
    query = replace(settings.consumer.query, **more)
    return replace(settings, consumer=replace(settings.consumer, query=query))


OVERTAKEN = Scenario(
    id="retention-overtakes-query",
    pipeline=DATABASE,
    group="streaming",
    fault=Kill(
        InProgram(Role.DRIVER, "after-offset-log"), victims=(Role.DRIVER,), forget=Forget.RETENTION
    ),
    because="The driver is down for longer than the topic keeps its records: when the next one "
    "starts, the planned batch's records are gone. With failOnDataLoss the query ends with "
    "an error, at each start, until a person decides. It breaks no promise, because it does "
    "not go on: it is stuck, and it says so. No reader can bring the records back.",
    expect=dict.fromkeys(
        (ALO, EOS), Predicted(lost=Exactly(Select.BATCH), control=True, stops="OffsetOutOfRange")
    ),
)


def goes_on(settings: Settings) -> Settings:
    """Return the settings with failOnDataLoss=false."""
    return querying(settings, fail_on_loss=False)


OVERTAKEN_SILENTLY = replace(
    OVERTAKEN,
    id="retention-overtakes-query+go-on",
    because="With failOnDataLoss=false the query writes a warning to its log, continues after the "
    "lost records, and commits the batch. Sold as at-least-once, or exactly-once, it must be "
    "convicted.",
    expect={
        AMO: Predicted(lost=Exactly(Select.BATCH), settings=goes_on(recipe(DATABASE, AMO))),
        ALO: Predicted(
            lost=Exactly(Select.BATCH),
            control=True,
            settings=goes_on(recipe(DATABASE, ALO)),
        ),
        EOS: Predicted(
            lost=Exactly(Select.BATCH),
            control=True,
            settings=goes_on(recipe(DATABASE, EOS)),
        ),
    },
)


def refreshes(settings: Settings) -> Settings:
    """Return the settings with a producer that learns of new partitions in half a second, not in
    five minutes.
    """
    return replace(settings, producer=replace(settings.producer, metadata_max_age_ms=500))


def assigned(settings: Settings) -> Settings:
    """Return the same with a query that was given the partitions that there were."""
    return querying(refreshes(settings), assigned=True)


def found(pipeline: Pipeline, *semantics: Semantic) -> Mapping[Semantic, Expectation]:
    """Nothing is lost: the new partitions are found, and read from their first record on."""
    none = {} if AMO in semantics else {AMO: NO_PLACE}
    return none | {
        semantic: Predicted(sign=FOUND, settings=refreshes(recipe(pipeline, semantic)))
        for semantic in semantics
    }


BEFORE_SEND = InProgram(Role.PRODUCER, "before-send")
PARTITIONS_ADDED = Scenario(
    id="partitions-added",
    pipeline=DATABASE,
    group="streaming",
    source_goes_on=True,
    fault=PartitionsAdded(BEFORE_SEND),
    because="The topic gets partitions while the query runs and records flow, and keys move to "
    "them. A query that subscribes asks for the topic's partitions before each batch, "
    "and reads one that it did not know from its first record.",
    expect=found(DATABASE, AMO, ALO, EOS),
)
PARTITIONS_ADDED_UNSEEN = replace(
    PARTITIONS_ADDED,
    id="partitions-added+unseen",
    suite=Suite.NIGHT,
    fault=PartitionsAdded(BEFORE_SEND, asleep=Role.DRIVER),
    because="The driver stands still (a long pause of its JVM) while the topic grows and all other "
    "records are sent: when it finds the new partitions, they already have records. It reads "
    "them from the earliest record on, wherever the query began.",
)
PARTITIONS_ADDED_ASSIGNED = replace(
    PARTITIONS_ADDED,
    id="partitions-added+assigned",
    because="The query was given a fixed list of partitions (assign), so it never reads the new "
    "ones. It writes no warning and does not end. Records in the new partitions are not "
    "lost, because the topic has them, but they never arrive: convicted of being stuck.",
    expect={
        semantic: Predicted(
            left=Exactly(Select.ADDED),
            control=True,
            settings=assigned(recipe(DATABASE, semantic)),
        )
        for semantic in (ALO, EOS)
    },
)
GROWING = (
    PARTITIONS_ADDED,
    PARTITIONS_ADDED_UNSEEN,
    PARTITIONS_ADDED_ASSIGNED,
    replace(
        PARTITIONS_ADDED,
        pipeline=FILES,
        suite=Suite.NIGHT,
        expect=found(FILES, ALO, EOS),
    ),
    replace(
        PARTITIONS_ADDED,
        pipeline=TOPIC,
        suite=Suite.NIGHT,
        expect=found(TOPIC, ALO, EOS),
    ),
    replace(
        PARTITIONS_ADDED,
        pipeline=STATE,
        suite=Suite.NIGHT,
        expect=found(STATE, AMO, ALO, EOS),
    ),
)
