"""A topic that gets partitions while a group reads it: the group gathers again and shares them out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from harness.bench import InProgram
from harness.core.scenario import Predicted, Role, Scenario, Suite
from harness.core.settings import PipelineKind, recipe
from harness.core.sign import Sign
from harness.faults import Grow
from scenarios.plain import ALO, AMO, EOS

if TYPE_CHECKING:
    from harness.core.semantics import Semantic
    from harness.core.settings import Settings

BEFORE_SEND = InProgram(Role.PRODUCER, "before-send")


def refreshes(settings: Settings) -> Settings:
    """Return the settings with clients that learn of new partitions in half a second, not in five minutes."""
    return replace(
        settings,
        producer=replace(settings.producer, metadata_max_age_ms=500),
        consumer=replace(settings.consumer, metadata_max_age_ms=500),
    )


def found(pipeline: PipelineKind, *semantics: Semantic) -> dict[Semantic, Predicted]:
    """Nothing is lost: the new partitions are found, and read from their first record on."""
    return {semantic: Predicted(sign=Sign.FOUND, settings=refreshes(recipe(pipeline, semantic))) for semantic in semantics}


PLAIN_GROWS = Scenario(
    id="partitions-added", failure_point="partitions-added", group="growing", suite=Suite.NIGHT,
    fault=Grow(BEFORE_SEND, shared_out=Role.CONSUMER),
    because="The topic gets partitions while a consumer reads it and records flow, and keys move to them. The consumer learns of "
    "them, joins its group again, and reads them from the earliest record on.",
    expect=found(PipelineKind.PLAIN, AMO, ALO, EOS),
)  # fmt: skip
UNSEEN = replace(
    PLAIN_GROWS, id="partitions-added+unseen", fault=Grow(BEFORE_SEND, asleep=Role.CONSUMER),
    because="The consumer stands still while the topic grows and all the rest is sent: the partitions that it finds have records "
    "in them. It reads them from the earliest on, for nobody has saved a position there.",
)  # fmt: skip
PROCESSOR_GROWS = replace(
    PLAIN_GROWS, pipeline=PipelineKind.TOPIC_TO_TOPIC, fault=Grow(BEFORE_SEND, shared_out=Role.PROCESSOR),
    expect=found(PipelineKind.TOPIC_TO_TOPIC, ALO, EOS),
)  # fmt: skip

GROWING = (PLAIN_GROWS, UNSEEN, PROCESSOR_GROWS)
