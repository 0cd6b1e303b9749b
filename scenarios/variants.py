"""Variants of the recipes with their own predictions, and recipes from published texts, because
people copy them.
"""

from __future__ import annotations

from dataclasses import replace

from harness.judge.signs import NOT_RESENT, REPEATED_REQUEST
from harness.model.prediction import AtLeast, Exactly, Select
from harness.model.scenario import (
    Expectation,
    NotApplicable,
    Predicted,
    RefusedByClient,
    Scenario,
    Suite,
)
from harness.scenarios.plain import (
    ACK_LOST,
    ALO,
    AMO,
    BROKER_CRASH_BEFORE_ACK,
    COMMIT_LOST,
    CONSUMER_CRASH_BEFORE_COMMIT,
    DUPLICATES,
    NONE,
    PRODUCER_CRASH_BEFORE_ACK,
    REQUEST_LOST,
)
from harness.stages.consumer_settings import SavePosition
from harness.stages.settings import AT_LEAST_ONCE, AT_MOST_ONCE, TopicSettings

IDEMPOTENT = replace(AT_LEAST_ONCE, producer=replace(AT_LEAST_ONCE.producer, idempotence=True))
NO_ACKS = replace(AT_MOST_ONCE, producer=replace(AT_MOST_ONCE.producer, acks=0))
ONE_PARTITION = TopicSettings(partitions=1)
BATCHES_AMO = replace(
    AT_MOST_ONCE, producer=replace(AT_MOST_ONCE.producer, unit=4), topic=ONE_PARTITION
)
BATCHES_ALO = replace(
    AT_LEAST_ONCE, producer=replace(AT_LEAST_ONCE.producer, unit=4), topic=ONE_PARTITION
)
PIPELINED = replace(AT_LEAST_ONCE, producer=replace(AT_LEAST_ONCE.producer, unit=6, in_flight=5))
POLLS_OF_FOUR = replace(AT_LEAST_ONCE, consumer=replace(AT_LEAST_ONCE.consumer, unit=4))
TWO_CONSUMERS = replace(AT_LEAST_ONCE, consumer=replace(AT_LEAST_ONCE.consumer, count=2))
AUTO_COMMIT = replace(
    AT_MOST_ONCE,
    consumer=replace(
        AT_MOST_ONCE.consumer, position=SavePosition.AUTO, auto_commit_interval_ms=2000
    ),
)
ONE_ACK_IDEMPOTENT = replace(
    AT_MOST_ONCE, producer=replace(AT_MOST_ONCE.producer, idempotence=True)
)
NO_ACK = NotApplicable("acks=0: there is no ack that could be lost or awaited")


def variant(base: Scenario, name: str, because: str, **expect: Expectation) -> Scenario:
    """Return ``base`` under other settings, named after it; ``expect``: at_most_once=,
    at_least_once=.
    """
    semantics = {"at_most_once": AMO, "at_least_once": ALO}
    return replace(
        base,
        id=f"{base.id}+{name}",
        group="variants",
        because=because,
        expect={semantics[word]: expectation for word, expectation in expect.items()},
    )


VARIANTS = (
    replace(
        NONE,
        id="none+paced",
        group="variants",
        pace_ms=100,
        suite=Suite.NIGHT,
        because=(
            "Without a fault nothing is lost and nothing is duplicated. No records queue up, so "
            "latencies are pure."
        ),
    ),
    variant(
        ACK_LOST,
        "idempotent",
        "With idempotence the broker recognises the repeated request by its sequence number.",
        at_least_once=Predicted(sign=REPEATED_REQUEST, settings=IDEMPOTENT),
    ),
    variant(
        BROKER_CRASH_BEFORE_ACK,
        "idempotent",
        "The recovered log knows the sequence number, so the repeated request is not stored again.",
        at_least_once=Predicted(sign=REPEATED_REQUEST, settings=IDEMPOTENT),
    ),
    variant(
        PRODUCER_CRASH_BEFORE_ACK,
        "idempotent",
        (
            "Idempotence ends with the producer: its successor has another producer id, and the "
            "record is stored again."
        ),
        at_least_once=replace(DUPLICATES, settings=IDEMPOTENT),
    ),
    variant(
        NONE,
        "no-acks",
        "Without a fault acks=0 loses nothing either.",
        at_most_once=Predicted(settings=NO_ACKS),
    ),
    variant(
        REQUEST_LOST,
        "no-acks",
        "No error is reported: the record is lost, and the program assumes that it was sent.",
        at_most_once=Predicted(lost=AtLeast(), settings=NO_ACKS),
    ),
    variant(ACK_LOST, "no-acks", "There is no ack.", at_most_once=NO_ACK),
    variant(PRODUCER_CRASH_BEFORE_ACK, "no-acks", "There is no ack.", at_most_once=NO_ACK),
    variant(
        REQUEST_LOST,
        "batch",
        "The unit of a send is the batch: all of it is lost, or all of it sent again.",
        at_most_once=Predicted(lost=Exactly(Select.UNIT), settings=BATCHES_AMO),
        at_least_once=Predicted(sign=REPEATED_REQUEST, settings=BATCHES_ALO),
    ),
    variant(
        ACK_LOST,
        "batch",
        "The unit of a send is the batch: all of it is stored twice.",
        at_most_once=Predicted(sign=NOT_RESENT, settings=BATCHES_AMO),
        at_least_once=Predicted(duplicated=Exactly(Select.UNIT), settings=BATCHES_ALO),
    ),
    variant(
        ACK_LOST,
        "pipelined",
        "All answers on the way are lost with the connection: at least the target is stored twice.",
        at_least_once=Predicted(duplicated=AtLeast(), settings=PIPELINED),
    ),
    variant(
        COMMIT_LOST,
        "polls-of-four",
        "The unit of a commit is the poll: at least the target is recorded again.",
        at_least_once=Predicted(duplicated=AtLeast(), settings=POLLS_OF_FOUR),
    ),
    variant(
        COMMIT_LOST,
        "two-consumers",
        "Two consumers share the group; only the one that has the target dies.",
        at_least_once=replace(DUPLICATES, settings=TWO_CONSUMERS),
    ),
    variant(
        CONSUMER_CRASH_BEFORE_COMMIT,
        "auto-commit",
        "Control, a published recipe: auto-commit, sold as at-most-once. It saves the position "
        "of an earlier poll's records, some time later: records recorded since the last save are "
        "recorded again.",
        at_most_once=Predicted(duplicated=AtLeast(), control=True, settings=AUTO_COMMIT),
    ),
    variant(
        NONE,
        "one-ack-idempotent",
        "A published recipe: acks=1 together with idempotence. The client refuses it.",
        at_most_once=RefusedByClient(
            ONE_ACK_IDEMPOTENT, "idempotence needs the acks of all in-sync replicas"
        ),
    ),
)
