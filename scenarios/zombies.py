"""Zombies: a process is stopped beyond its session time-out, another takes over, and the first wakes up and goes on."""

from __future__ import annotations

from dataclasses import replace

from harness.bench import InProgram
from harness.core.prediction import AtLeast, Exactly
from harness.core.scenario import Predicted, Role, Scenario
from harness.core.settings import (
    AT_LEAST_ONCE,
    AT_MOST_ONCE,
    EXACTLY_ONCE,
    EXACTLY_ONCE_IN_TRANSACTION,
    GroupMetadata,
    Members,
    PipelineKind,
    Settings,
)  # fmt: skip
from harness.core.sign import Sign
from harness.faults import Pause
from scenarios.plain import ALO, AMO, EOS


def pair(settings: Settings, group_metadata: GroupMetadata = GroupMetadata.AT_POLL) -> Settings:
    """Return the settings with two dynamic members and a short session."""
    consumer = replace(
        settings.consumer, count=2, members=Members.DYNAMIC, session_timeout_ms=1000, group_metadata=group_metadata
    )
    return replace(settings, consumer=consumer)


CONSUMER = Scenario(
    id="zombie-consumer", failure_point="zombie-consumer", group="zombies",
    fault=Pause(InProgram(Role.CONSUMER, "before-recording")),
    because="The consumer is stopped with a processed record in hand; the group puts it out, the other one takes over; "
    "then it wakes up and records its result. Saved before the work, nobody else was given the record; saved after it, "
    "both record it; the idempotent consumer absorbs whoever comes second.",
    expect={
        AMO: Predicted(sign=Sign.RESUMED_PAST, settings=pair(AT_MOST_ONCE)),
        ALO: Predicted(duplicated=Exactly(), settings=pair(AT_LEAST_ONCE)),
        EOS: Predicted(sign=Sign.ABSORBED, settings=pair(EXACTLY_ONCE)),
    },
)  # fmt: skip

PROCESSOR = Scenario(
    id="zombie-processor", failure_point="zombie-consumer", group="zombies", pipeline=PipelineKind.TOPIC_TO_TOPIC,
    fault=Pause(InProgram(Role.PROCESSOR, "before-recording")),
    because="The zombie's transaction carries the group metadata of the poll that gave it the record: its offsets are "
    "refused, its transaction is aborted. (It then takes a new producer: kafka-python 3.0.12 would send the refused offsets "
    "again in its next transaction, and take the position of the one that took over back.)",
    expect={EOS: Predicted(sign=Sign.ABORTED, settings=pair(EXACTLY_ONCE_IN_TRANSACTION))},
)  # fmt: skip

LATE_METADATA = replace(
    PROCESSOR, id="control-group-metadata-at-commit",
    # woken while there is work left: what it commits takes a position back, and with nothing left nobody would move it again
    fault=Pause(InProgram(Role.PROCESSOR, "before-recording"), others_finish=False),
    because="Control: group metadata taken at commit time is that of the new generation, so the zombie is not fenced, "
    "and its results are committed beside those of the member that took over; whatever else is in hand at a rebalance "
    "may go the same way.",
    expect={EOS: Predicted(duplicated=AtLeast(), control=True,
                           settings=pair(EXACTLY_ONCE_IN_TRANSACTION, GroupMetadata.AT_COMMIT))},
)  # fmt: skip

ZOMBIES = (CONSUMER, PROCESSOR, LATE_METADATA)
