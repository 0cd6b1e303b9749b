"""A topic that gets more partitions while a group reads it: the group rebalances and
assigns them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from harness.controls import InProgram
from harness.model.prediction import Exactly, Select
from harness.model.scenario import Predicted, Role, Scenario, Suite
from harness.scenarios.heartbeats import by_heartbeats
from harness.scenarios.plain import ALO, AMO, EOS
from harness.stages.settings import AT_LEAST_ONCE, EXACTLY_ONCE, PLAIN, TOPIC_TO_TOPIC, recipe
from harness.systems.kafka.faults import PartitionsAdded
from harness.systems.kafka.signs import FOUND

if TYPE_CHECKING:
    from harness.model.pipeline import Pipeline
    from harness.model.semantics import Semantic
    from harness.stages.settings import Settings

BEFORE_SEND = InProgram(Role.PRODUCER, "before-send")


def refreshes(settings: Settings, reset: Literal["earliest", "latest"] = "earliest") -> Settings:
    """Return the settings with clients that learn of new partitions in half a second, not in five
    minutes.
    """
    return replace(
        settings,
        producer=replace(settings.producer, metadata_max_age_ms=500),
        consumer=replace(settings.consumer, metadata_max_age_ms=500, reset=reset),
    )


def found(pipeline: Pipeline, *semantics: Semantic) -> dict[Semantic, Predicted]:
    """Nothing is lost: the new partitions are found, and read from their first record on."""
    return {
        semantic: Predicted(sign=FOUND, settings=refreshes(recipe(pipeline, semantic)))
        for semantic in semantics
    }


PLAIN_GROWS = Scenario(
    pipeline=PLAIN,
    id="partitions-added",
    group="growing",
    suite=Suite.NIGHT,
    fault=PartitionsAdded(BEFORE_SEND, shared_out=True),
    because="The topic gets partitions between two records, and the group rebalances and assigns "
    "them. The consumer keeps its old partitions and continues in them, and reads the new "
    "ones from their beginning.",
    expect=found(PLAIN, AMO, ALO, EOS),
)
UNSEEN = replace(
    PLAIN_GROWS,
    id="partitions-added+unseen",
    fault=PartitionsAdded(BEFORE_SEND, asleep=Role.CONSUMER),
    because="The consumer stands still while the topic grows and all other records are sent: "
    "when it finds the new partitions, they already have records. It has saved no "
    "position there, so it reads them from the earliest record on.",
)
UNSEEN_LATEST = replace(
    UNSEEN,
    id="partitions-added+latest",
    because="Control: as partitions-added+unseen, but auto.offset.reset is latest. When the "
    "consumer finds the new partitions, they already have records, and it has saved no "
    "position there: it starts at their ends, and never gets those records.",
    expect={
        ALO: Predicted(
            left=Exactly(Select.ADDED), control=True, settings=refreshes(AT_LEAST_ONCE, "latest")
        ),
        EOS: Predicted(
            left=Exactly(Select.ADDED), control=True, settings=refreshes(EXACTLY_ONCE, "latest")
        ),
    },
)
PROCESSOR_GROWS = replace(
    PLAIN_GROWS, pipeline=TOPIC_TO_TOPIC, expect=found(TOPIC_TO_TOPIC, ALO, EOS)
)
PROCESSOR_UNSEEN = replace(
    UNSEEN,
    pipeline=TOPIC_TO_TOPIC,
    fault=PartitionsAdded(BEFORE_SEND, asleep=Role.PROCESSOR),
    expect=found(TOPIC_TO_TOPIC, ALO, EOS),
)

BY_HEARTBEATS = (
    by_heartbeats(
        PLAIN_GROWS,
        "The topic gets partitions between two records. The coordinator notices by itself, and "
        "assigns them in its answer to a heartbeat: the consumer keeps its old partitions, and "
        "reads both.",
    ),
    by_heartbeats(UNSEEN),
)
GROWING = (PLAIN_GROWS, UNSEEN, UNSEEN_LATEST, PROCESSOR_GROWS, PROCESSOR_UNSEEN, *BY_HEARTBEATS)
