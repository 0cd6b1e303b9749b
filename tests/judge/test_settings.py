"""Impossible settings are refused with the reason, and the recipes are those of the definitions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from harness.model.pipeline import Pipeline, SettingsError
from harness.model.scenario import Evidence, NotApplicable, Predicted, RefusedByClient, Scenario
from harness.model.semantics import PROMISES, Anomaly, Semantic, forbids
from harness.stages.consumer_settings import SavePosition
from harness.stages.producer_settings import SaveCursor
from harness.stages.queries import (
    STREAM_TO_FILES,
    STREAM_TO_ICEBERG,
    STREAM_TO_TOPIC,
    STREAMING,
)
from harness.stages.settings import (
    AT_LEAST_ONCE,
    AT_MOST_ONCE,
    EXACTLY_ONCE,
    EXACTLY_ONCE_IN_TRANSACTION,
    EXACTLY_ONCE_WITH_RESULT,
    PIPELINES,
    PLAIN,
    SHARED,
    TOPIC_TO_TOPIC,
    Settings,
    recipe,
)

if TYPE_CHECKING:
    from collections.abc import Callable


class Nothing:
    """A fault that does nothing."""

    id = "nothing"

    def evidence(self) -> Evidence:
        """Nothing is to be seen."""
        return Evidence("none")


def scenario(**changes: Any) -> Scenario:
    """Return a scenario of nothing."""
    fields: dict[str, Any] = {
        "id": "s",
        "failure_point": "none",
        "fault": Nothing(),
        "because": "b",
        "expect": {},
        "pipeline": PLAIN,
    }
    return Scenario(**fields | changes)


def producer(**changes: Any) -> Settings:
    """Return exactly-once with another producer."""
    return replace(EXACTLY_ONCE, producer=replace(EXACTLY_ONCE.producer, **changes))


IMPOSSIBLE: dict[str, tuple[Callable[[], object], str]] = {
    "transactional, not idempotent": (
        lambda: producer(idempotence=False),
        "a transactional producer is always idempotent",
    ),
    "cursor in no transaction": (
        lambda: producer(transactional=False),
        "only by a transactional producer",
    ),
    "resend without acks": (
        lambda: replace(AT_LEAST_ONCE.producer, acks=0),
        "with acks=0 the program cannot know",
    ),
    "no unit": (lambda: replace(AT_LEAST_ONCE.producer, unit=0), "must be at least 1"),
    "no unit that catches up": (lambda: producer(catches_up=0), "must be at least 1"),
    "names in no transaction": (
        lambda: replace(AT_LEAST_ONCE.producer, named=True),
        "named needs a transactional producer",
    ),
    "nothing in flight": (
        lambda: replace(AT_LEAST_ONCE.producer, in_flight=0),
        "must be at least 1",
    ),
    "no poll unit": (lambda: replace(AT_LEAST_ONCE.consumer, unit=0), "must be at least 1"),
    "no consumer": (lambda: replace(AT_LEAST_ONCE.consumer, count=0), "must be at least 1"),
    "a death shared of what everybody shares": (
        lambda: scenario(together="crash"),
        "s: together needs Deployment.OWN and a pipeline with shares_death=True",
    ),
    "offsets in a transaction into a database": (
        lambda: scenario(
            expect={Semantic.EXACTLY_ONCE: Predicted(settings=EXACTLY_ONCE_IN_TRANSACTION)}
        ),
        "s, exactly-once: offsets can be sent in a transaction only from topic to topic; use",
    ),
    "a share group of a pipeline that has none": (
        lambda: scenario(
            expect={
                Semantic.AT_LEAST_ONCE: Predicted(settings=recipe(SHARED, Semantic.AT_LEAST_ONCE))
            }
        ),
        "the pipeline shared is read by a share group",
    ),
    "a consumer group of the pipeline of a share group": (
        lambda: scenario(
            pipeline=SHARED, expect={Semantic.AT_LEAST_ONCE: Predicted(settings=AT_LEAST_ONCE)}
        ),
        "the pipeline shared is read by a share group",
    ),
    "positions of a share group": (
        lambda: scenario(
            pipeline=SHARED,
            expect={
                Semantic.EXACTLY_ONCE: Predicted(
                    settings=replace(
                        recipe(SHARED, Semantic.EXACTLY_ONCE),
                        consumer=replace(
                            recipe(SHARED, Semantic.EXACTLY_ONCE).consumer,
                            position=SavePosition.WITH_RESULT,
                        ),
                    )
                )
            },
        ),
        "must acknowledge records before the work, or after the recording",
    ),
    "the same, to be refused": (
        lambda: scenario(
            expect={Semantic.EXACTLY_ONCE: RefusedByClient(EXACTLY_ONCE_IN_TRANSACTION, "b")}
        ),
        "only from topic to topic",
    ),
}


@pytest.mark.parametrize(("make", "reason"), list(IMPOSSIBLE.values()), ids=list(IMPOSSIBLE))
def test_impossible_settings_are_refused_with_the_reason(
    make: Callable[[], object], reason: str
) -> None:
    """A combination that cannot exist raises SettingsError in one line that says why; none is
    dropped silently.
    """
    with pytest.raises(SettingsError, match=reason) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_possible_settings_are_accepted() -> None:
    """What stands beside the impossible is possible: the checks refuse no more than they say."""
    producer(cursor=SaveCursor.AFTER_COMMIT)
    producer(transactional=False, cursor=SaveCursor.AFTER_ACK)
    replace(AT_MOST_ONCE.producer, acks=0)
    scenario(expect={Semantic.EXACTLY_ONCE: Predicted(settings=EXACTLY_ONCE_WITH_RESULT)})
    scenario(pipeline=TOPIC_TO_TOPIC, expect={Semantic.EXACTLY_ONCE: Predicted()})
    scenario(expect={Semantic.EXACTLY_ONCE: NotApplicable("no transaction")})


def test_what_a_share_group_reads_is_a_queue() -> None:
    """No log is read at the end, but that of a cursor; of everybody else's source one is."""
    assert recipe(SHARED, Semantic.AT_LEAST_ONCE).logs(SHARED) == {}
    assert set(recipe(SHARED, Semantic.EXACTLY_ONCE).logs(SHARED)) == {"cursor"}
    assert set(recipe(PLAIN, Semantic.AT_LEAST_ONCE).logs(PLAIN)) == {"topic"}


def test_a_scenario_has_the_recipe_unless_it_has_its_own() -> None:
    """Settings of an expectation win; without them it is the recipe of pipeline and semantic."""
    other = producer(unit=7)
    found = scenario(
        expect={
            Semantic.EXACTLY_ONCE: Predicted(settings=other),
            Semantic.AT_MOST_ONCE: Predicted(),
        }
    )
    assert found.settings(Semantic.EXACTLY_ONCE) is other
    assert found.settings(Semantic.AT_MOST_ONCE) is AT_MOST_ONCE


def test_at_most_once_saves_first_and_never_resends() -> None:
    """At-most-once: cursor before the send, no retries, position before the work."""
    settings = recipe(PLAIN, Semantic.AT_MOST_ONCE)
    assert (settings.producer.cursor, settings.consumer.position) == (
        SaveCursor.BEFORE_SEND,
        SavePosition.BEFORE_WORK,
    )
    assert (settings.producer.acks, settings.producer.retries, settings.producer.resend) == (
        1,
        False,
        False,
    )
    assert not settings.producer.idempotence


def test_at_least_once_resends_and_saves_last() -> None:
    """At-least-once: acks=all with retries, idempotence off, cursor after the ack, position after
    the recording.
    """
    settings = recipe(PLAIN, Semantic.AT_LEAST_ONCE)
    assert settings.producer.cursor is SaveCursor.AFTER_ACK
    assert settings.consumer.position is SavePosition.AFTER_RECORDING
    assert (settings.producer.acks, settings.producer.retries, settings.producer.resend) == (
        "all",
        True,
        True,
    )
    assert not settings.producer.idempotence
    assert not settings.consumer.idempotent


@pytest.mark.parametrize("pipeline", [*PIPELINES, *STREAMING])
def test_exactly_once_is_transactional_and_reads_committed(pipeline: Pipeline) -> None:
    """Exactly-once: cursor in the transaction, read_committed, and one of the three ways to save
    the position.
    """
    settings = recipe(pipeline, Semantic.EXACTLY_ONCE)
    assert settings.producer.transactional
    assert settings.producer.cursor is SaveCursor.IN_TRANSACTION
    assert settings.consumer.isolation == "read_committed"
    in_transaction = settings.consumer.position is SavePosition.IN_TRANSACTION
    assert in_transaction is (pipeline is TOPIC_TO_TOPIC)
    by_the_engine = pipeline in {STREAM_TO_FILES, STREAM_TO_ICEBERG, STREAM_TO_TOPIC}
    assert in_transaction or by_the_engine or settings.consumer.idempotent


@pytest.mark.parametrize("pipeline", [*PIPELINES, *STREAMING])
@pytest.mark.parametrize("semantic", Semantic)
def test_every_recipe_handles_one_record_at_a_time(pipeline: Pipeline, semantic: Semantic) -> None:
    """The theory's table holds for units of one record and one request in flight; so are all
    recipes.
    """
    settings = recipe(pipeline, semantic)
    assert (settings.producer.unit, settings.producer.in_flight) == (1, 1)
    markers = (
        2 if settings.producer.transactional else 1
    )  # a query plans its batches in offsets, those of markers among them
    assert settings.consumer.unit == (6 * markers if pipeline in STREAMING else 1), (
        "a streaming query works in batches"
    )


@pytest.mark.parametrize(
    ("delivery_ms", "block_ms"), [(5000, 20_000), (45_000, 45_000), (300_000, 60_000)]
)
def test_a_blocked_call_lasts_as_long_as_a_delivery(delivery_ms: int, block_ms: int) -> None:
    """A commit outlives a coordinator that is away for long; none waits for less than a start
    takes, or for ever.
    """
    settings = replace(
        AT_LEAST_ONCE.producer, request_timeout_ms=4000, delivery_timeout_ms=delivery_ms
    )
    assert settings.max_block_ms == block_ms


def test_the_promise_table() -> None:
    """At-most-once forbids duplicates, at-least-once loss, exactly-once both; the rest is forbidden
    everywhere.
    """
    everywhere = {Anomaly.PHANTOM, Anomaly.RESURRECTED, Anomaly.TORN}
    want = {
        Semantic.AT_MOST_ONCE: everywhere | {Anomaly.DUPLICATED},
        Semantic.AT_LEAST_ONCE: everywhere | {Anomaly.LOST},
        Semantic.EXACTLY_ONCE: everywhere | {Anomaly.LOST, Anomaly.DUPLICATED},
    }
    assert want == PROMISES
    assert all(forbids(semantic, anomaly) for semantic in Semantic for anomaly in everywhere)
