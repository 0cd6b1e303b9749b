"""Saved positions that are lost, because a reader was away for too long or they were deleted, or
that go back.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from harness.controls import InProgram, OnWire
from harness.faults import Late
from harness.judge.signs import ABSORBED, RESUMED_PAST
from harness.model.prediction import AtLeast, Exactly, Select
from harness.model.scenario import Predicted, Role, Scenario, Suite
from harness.protocols.kafka.steps import Api
from harness.scenarios.heartbeats import by_heartbeats
from harness.scenarios.plain import ALO, AMO, EOS, REQUEST
from harness.stages.settings import (
    AT_LEAST_ONCE,
    AT_MOST_ONCE,
    EXACTLY_ONCE,
    EXACTLY_ONCE_IN_TRANSACTION,
    EXACTLY_ONCE_WITH_RESULT,
    PLAIN,
    TOPIC_TO_TOPIC,
    Settings,
    TopicSettings,
)
from harness.systems.kafka.faults import OffsetsExpired

if TYPE_CHECKING:
    from harness.model.semantics import Semantic

T2T = TOPIC_TO_TOPIC
UP_TO_NEXT = OnWire(Role.PRODUCER, Api.PRODUCE, REQUEST, offset=2)
"""While the reader is away one more record is stored, and the request with the one after it waits
for the reader.
"""
REFUSAL = {"kafka-python": "NoOffsetForPartition", "confluent-kafka": "_AUTO_OFFSET_RESET"}
"""The error by which each client says that it has no position to start from."""


def after(settings: Settings, reset: Literal["earliest", "latest", "none"]) -> Settings:
    """Return a recipe with this ``auto.offset.reset``, on one partition: read in the source's
    order.
    """
    return replace(
        settings,
        consumer=replace(settings.consumer, reset=reset),
        topic=TopicSettings(partitions=1),
    )


def begins_anew(settings: Settings, *, forbidden: bool) -> Predicted:
    """Everything that was recorded is recorded again."""
    return Predicted(
        duplicated=Exactly(Select.THROUGH_TARGET),
        control=forbidden,
        settings=after(settings, "earliest"),
    )


def begins_at_end(settings: Settings, *, forbidden: bool) -> Predicted:
    """What was stored while the reader was away is skipped."""
    return Predicted(
        lost=Exactly(Select.NEXT), control=forbidden, settings=after(settings, "latest")
    )


def refuses(*all_settings: tuple[Semantic, Settings]) -> dict[str, dict[Semantic, Predicted]]:
    """The reader ends, and says why; by client."""
    return {
        client: {
            semantic: Predicted(control=True, stops=word, settings=after(settings, "none"))
            for semantic, settings in all_settings
        }
        for client, word in REFUSAL.items()
    }


EARLIEST = Scenario(
    pipeline=PLAIN,
    id="positions-expired+earliest",
    group="offsets",
    fault=OffsetsExpired(InProgram(Role.CONSUMER, "after-commit"), UP_TO_NEXT),
    because="The reader was down for longer than the broker keeps positions, with no record in "
    "hand. It begins at the earliest record: all records that it has recorded are "
    "delivered again, and the idempotent consumer absorbs them. At most once that is a "
    "broken promise: a position saved before the work protects only as long as the "
    "broker keeps it.",
    expect={
        AMO: begins_anew(AT_MOST_ONCE, forbidden=True),
        ALO: begins_anew(AT_LEAST_ONCE, forbidden=False),
        EOS: Predicted(sign=ABSORBED, settings=after(EXACTLY_ONCE, "earliest")),
    },
)

LATEST = replace(
    EARLIEST,
    id="positions-expired+latest",
    because="The reader was down for longer than the broker keeps positions. It begins at the end, "
    "so the records stored meanwhile are skipped without an error. Acks, transactions and an "
    "idempotent consumer do not help against that.",
    expect={
        AMO: begins_at_end(AT_MOST_ONCE, forbidden=False),
        ALO: begins_at_end(AT_LEAST_ONCE, forbidden=True),
        EOS: begins_at_end(EXACTLY_ONCE, forbidden=True),
    },
)

_NONE = refuses((AMO, AT_MOST_ONCE), (ALO, AT_LEAST_ONCE), (EOS, EXACTLY_ONCE))

NONE = replace(
    EARLIEST,
    id="positions-expired+none",
    because=(
        "With auto.offset.reset=none the reader ends with an error. Nothing is lost or recorded "
        "twice until a user decides."
    ),
    expect=_NONE["kafka-python"],
    by_client=_NONE,
)

KEPT_WITH_RESULT = replace(
    EARLIEST,
    id="positions-expired+with-result",
    because="The position is stored with the results, so the group has no saved position to lose: "
    "the reader continues after the record.",
    expect={
        EOS: Predicted(sign=RESUMED_PAST, settings=after(EXACTLY_ONCE_WITH_RESULT, "earliest"))
    },
)

PROCESSOR = OffsetsExpired(InProgram(Role.PROCESSOR, "after-commit"), UP_TO_NEXT)

PROCESSOR_EARLIEST = replace(
    EARLIEST,
    pipeline=T2T,
    fault=PROCESSOR,
    because="The position was committed in the transaction of the results, but the broker keeps it "
    "no longer for that. The processor begins at the earliest record, and each result is "
    "committed a second time: exactly-once ends when the position is lost.",
    expect={
        ALO: begins_anew(AT_LEAST_ONCE, forbidden=False),
        EOS: begins_anew(EXACTLY_ONCE_IN_TRANSACTION, forbidden=True),
    },
)

PROCESSOR_LATEST = replace(
    LATEST,
    pipeline=T2T,
    fault=PROCESSOR,
    expect={
        ALO: begins_at_end(AT_LEAST_ONCE, forbidden=True),
        EOS: begins_at_end(EXACTLY_ONCE_IN_TRANSACTION, forbidden=True),
    },
)

COMMIT = OnWire(Role.CONSUMER, Api.OFFSET_COMMIT, REQUEST)

LATE = Scenario(
    pipeline=PLAIN,
    id="late-position",
    group="offsets",
    fault=Late(replace(COMMIT, offset=-1), replace(COMMIT, offset=1), kill=True),
    because="A commit arrives late: its consumer has sent it again meanwhile, and has committed "
    "the target, too. The commit that arrives last sets the position, so the position "
    "goes back before the target. The consumer dies with its next commit on the way, and "
    "the restarted consumer reads the target again. At most once that is a broken "
    "promise: a position saved before the work protects only if no commit is late.",
    expect={
        AMO: Predicted(
            duplicated=Exactly(), control=True, settings=after(AT_MOST_ONCE, "earliest")
        ),
        ALO: Predicted(duplicated=AtLeast(), settings=after(AT_LEAST_ONCE, "earliest")),
        EOS: Predicted(sign=ABSORBED, settings=after(EXACTLY_ONCE, "earliest")),
    },
)

BY_NIGHT = (EARLIEST, LATEST, NONE, KEPT_WITH_RESULT, PROCESSOR_LATEST, LATE)
BY_HEARTBEATS = tuple(
    by_heartbeats(scenario) for scenario in (EARLIEST, LATEST, NONE, PROCESSOR_EARLIEST)
)
OFFSETS = (
    PROCESSOR_EARLIEST,
    *(replace(scenario, suite=Suite.NIGHT) for scenario in BY_NIGHT),
    *BY_HEARTBEATS,
)
