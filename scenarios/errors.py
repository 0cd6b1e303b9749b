"""Legal refusals: lostack answers a request by an error in the broker's name; the broker does not
do the request, or does it.

What is retriable is asked again, by the client or by the program; what is not, the program meets
with what its semantic says.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.controls import InProgram, OnWire
from harness.faults import Answer, Hold, Unanswered, Until
from harness.judge.signs import (
    ABORTED,
    ABSORBED,
    DELIVERED_AGAIN,
    ENDED_AGAIN,
    NOT_RESENT,
    REPEATED_REQUEST,
    SENT_ANEW,
)
from harness.model.prediction import AtLeast, Exactly, Permitted
from harness.model.scenario import NotApplicable, Predicted, Role, Scenario, Suite
from harness.proofs.answer import ASKED_ANEW
from harness.protocols.kafka.steps import Api
from harness.scenarios.plain import ALO, AMO, DUPLICATES, EOS, LOSES, REQUEST, RESPONSE, holds
from harness.scenarios.transactions import ASKED, IMPLICIT, answered
from harness.scenarios.zombies import pair
from harness.stages.settings import AT_LEAST_ONCE, AT_MOST_ONCE, EXACTLY_ONCE, PLAIN, TOPIC_TO_TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from harness.model.pipeline import Pipeline
    from harness.model.scenario import Expectation, Fault
    from harness.model.semantics import Semantic
    from harness.stages.settings import Settings

    Expected = Mapping[Semantic, Expectation]

PRODUCER, CONSUMER, PROCESSOR = Role.PRODUCER, Role.CONSUMER, Role.PROCESSOR
NOT_DONE = {
    "UNKNOWN_TOPIC_OR_PARTITION": "the broker has no such partition (yet)",
    "NOT_LEADER_OR_FOLLOWER": "another broker leads it",
    "NOT_ENOUGH_REPLICAS": "too few replicas are in sync",
    "KAFKA_STORAGE_ERROR": "its disk fails",
    "REQUEST_TIMED_OUT": "the replicas did not answer in time",
}
"""Why a broker has not stored a record and the client may ask again."""
DONE = ("NOT_ENOUGH_REPLICAS_AFTER_APPEND", "REQUEST_TIMED_OUT", "NOT_LEADER_OR_FOLLOWER")


OF_REPLICAS = frozenset({"NOT_ENOUGH_REPLICAS", "REQUEST_TIMED_OUT"})
"""What only a leader says that waits for replicas."""
ELSEWHERE = frozenset({"UNKNOWN_TOPIC_OR_PARTITION", "NOT_LEADER_OR_FOLLOWER"})


def told_elsewhere(error: str) -> str:
    """Return what is to be said of a client besides."""
    own = (
        " (librdkafka does not count this as a retry: it sends the record again, also with "
        "message.send.max.retries=0.)"
    )
    return own if error in ELSEWHERE else ""


def refused(
    step: str,
    fault: Fault,
    because: str,
    expect: Expected,
    *,
    pipeline: Pipeline = PLAIN,
    error: str,
    done: bool = False,
    by_client: Mapping[str, Expected] | None = None,
    pace_ms: int = 0,
) -> Scenario:
    """Return the scenario of a refusal; ``done``: what was asked was done all the same."""
    name = error.lower().replace("_", "-")
    return Scenario(
        id=f"{step}-refused+{name}{'+done' if done else ''}",
        group="errors",
        pipeline=pipeline,
        fault=fault,
        because=because,
        expect=expect,
        by_client=by_client or {},
        pace_ms=pace_ms,
        suite=Suite.NIGHT,
    )


def of_all(recipe: Settings) -> Settings:
    """Return the settings with acks=all: no leader waits for replicas otherwise."""
    return replace(recipe, producer=replace(recipe.producer, acks="all"))


def at_produce(role: Role, pipeline: Pipeline, at_most_once: Settings) -> Iterator[Scenario]:
    """Yield the refusals of a record."""
    sends = OnWire(role, Api.PRODUCE, REQUEST)
    waits = of_all(at_most_once)

    def told(
        error: str, because: str, expect: Expected, *, done: bool = False, **more: Any
    ) -> Scenario:
        fault = Answer(sends, error, forward=done)
        return refused(
            "produce", fault, because, expect, pipeline=pipeline, error=error, done=done, **more
        )

    again = {ALO: holds(REPEATED_REQUEST), EOS: holds(REPEATED_REQUEST)}
    for error, why in NOT_DONE.items():
        replicated = error in OF_REPLICAS
        yield told(
            error,
            f"The record was not stored: {why}. Without retries it is lost; with retries the "
            f"client sends it again.{told_elsewhere(error)}",
            {AMO: replace(LOSES, settings=waits) if replicated else LOSES, **again},
            by_client={"confluent-kafka": {AMO: holds(REPEATED_REQUEST)}}
            if error in ELSEWHERE
            else {},
        )
    for error in DONE:
        yield told(
            error,
            "The record is stored, and the leader cannot say that it will stay. A retry is "
            "stored again, unless the broker knows its number.",
            {
                AMO: Predicted(sign=NOT_RESENT, settings=waits),
                ALO: DUPLICATES,
                EOS: holds(REPEATED_REQUEST),
            },
            done=True,
        )
    yield told(
        "MESSAGE_TOO_LARGE",
        "No retry helps: the client gives the record up at once. The program sends it anew, or "
        "aborts and makes the transaction anew; the broker takes it then.",
        {AMO: LOSES, ALO: holds(SENT_ANEW), EOS: holds(ABORTED)},
    )
    numbered = NotApplicable(
        "a producer without idempotence has no numbers that a broker could miss"
    )
    anew: Expected = {AMO: numbered, ALO: numbered, EOS: holds(SENT_ANEW)}
    yield told(
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
        "The broker misses a number. That ends the whole transaction, which the program "
        "sends again.",
        anew,
    )
    yield told(
        "UNKNOWN_PRODUCER_ID",
        "The broker has forgotten the producer. That ends the whole transaction, which the "
        "program sends again. (The Java client sends the record again, where the broker does not "
        "say where its log begins.)",
        anew,
        by_client={"java": {EOS: holds(REPEATED_REQUEST)}},
    )


COORDINATING: dict[str, str] = {
    "COORDINATOR_LOAD_IN_PROGRESS": "is reading its log",
    "COORDINATOR_NOT_AVAILABLE": "cannot write its log",
    "NOT_COORDINATOR": "is another broker now",
}
MEMBERS = ("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS")
MOVED = (
    "FETCH_SESSION_ID_NOT_FOUND",
    "NOT_LEADER_OR_FOLLOWER",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "FENCED_LEADER_EPOCH",
)
NO_COMMIT = NotApplicable(
    "the position is sent in the transaction of the results: there is no OffsetCommit"
)


def at_commit(
    role: Role, pipeline: Pipeline, exactly_once: Expectation, put_out: Expectation
) -> Iterator[Scenario]:
    """Yield the refusals of a position."""
    asks = OnWire(role, Api.OFFSET_COMMIT, REQUEST)

    def told(
        error: str, because: str, expect: Expected, *, done: bool = False, **more: Any
    ) -> Scenario:
        fault = Answer(asks, error, forward=done)
        return refused(
            "commit", fault, because, expect, pipeline=pipeline, error=error, done=done, **more
        )

    again = {AMO: holds(ASKED_ANEW), ALO: holds(ASKED_ANEW), EOS: exactly_once}
    for error, why in COORDINATING.items():
        yield told(
            error,
            f"The coordinator of the group {why}. The client looks for it and asks again.",
            again,
        )
    yield told(
        "COORDINATOR_NOT_AVAILABLE",
        "The position is saved, and the coordinator cannot say that it will stay. It is "
        "saved again.",
        again,
        done=True,
    )
    goes_on: Expected = {ALO: holds(ASKED_ANEW), EOS: exactly_once}
    again_worked_on = {AMO: holds(DELIVERED_AGAIN), ALO: DUPLICATES, EOS: put_out}
    for error in ("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"):
        yield told(
            error,
            "The position is refused, because the group has removed this member. It joins again "
            "and continues from the saved position, before the record: the work on it is done "
            "for the first time, or again.",
            again_worked_on,
        )
    yield told(
        "REBALANCE_IN_PROGRESS",
        "The position is refused, because the group rebalances. The member joins again and "
        "continues from the saved position, before the record: the work on it is done for the "
        "first time, or again. (kafka-python 3.0.12 continues from its old position, if it is "
        "given its partitions again; librdkafka does not join again.)",
        again_worked_on,
        by_client={"kafka-python": goes_on, "confluent-kafka": goes_on},
    )


def at_heartbeat(role: Role, pipeline: Pipeline) -> Iterator[Scenario]:
    """Yield the refusals of a member's first sign of life behind the record."""
    beats = OnWire(role, Api.HEARTBEAT, REQUEST, since=OnWire(role, Api.FETCH, RESPONSE))
    for error in ("COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", *MEMBERS):
        gives = (
            "looks for the coordinator"
            if "COORDINATOR" in error
            else "joins again, and goes on from its saved positions"
        )
        yield refused(
            "heartbeat",
            Answer(beats, error),
            (
                f"The first heartbeat after the record is refused. The member {gives}: records in "
                "hand may be delivered again."
            ),
            {
                AMO: holds(ASKED_ANEW),
                ALO: Predicted(duplicated=Permitted(), sign=ASKED_ANEW),
                EOS: holds(ASKED_ANEW),
            },
            pipeline=pipeline,
            error=error,
            pace_ms=150,
        )


def at_join(role: Role, pipeline: Pipeline) -> Iterator[Scenario]:
    """Yield the refusals of a member that joins again after a crash."""
    for error in (
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "NOT_COORDINATOR",
        "UNKNOWN_MEMBER_ID",
    ):
        fault = Unanswered(OnWire(role, Api.FETCH, RESPONSE), Api.JOIN_GROUP, told=error)
        yield refused(
            "join",
            fault,
            "The consumer is killed before it is given the record. It starts again, and its "
            "request to join is refused. It asks again, and goes on where it was.",
            dict.fromkeys((AMO, ALO, EOS), holds(DELIVERED_AGAIN)),
            pipeline=pipeline,
            error=error,
        )


def at_fetch(
    role: Role, pipeline: Pipeline, done: OnWire, exactly_once: Expectation
) -> Iterator[Scenario]:
    """Yield the refusals of the first request for more behind the record, whose position is saved
    (``done``: exactly-once).
    """
    saved = OnWire(role, Api.OFFSET_COMMIT, RESPONSE)
    for since, semantics in (
        ((saved, (AMO, ALO, EOS)),) if done == saved else ((saved, (AMO, ALO)), (done, (EOS,)))
    ):
        fetches = OnWire(role, Api.FETCH, REQUEST, since=since)
        variant = "" if since == saved else "+in-transaction"
        for error in MOVED:
            yield refused(
                "fetch",
                Answer(fetches, error),
                (
                    "The broker gives no records, and says that the client asks the wrong broker. "
                    "The client refreshes its metadata."
                ),
                dict.fromkeys(semantics, holds(ASKED_ANEW)),
                pipeline=pipeline,
                error=error + variant,
            )
        back = {
            AMO: Predicted(duplicated=AtLeast(), control=True),
            ALO: Predicted(duplicated=AtLeast()),
            EOS: exactly_once,
        }
        yield refused(
            "fetch",
            Answer(fetches, "OFFSET_OUT_OF_RANGE"),
            "The broker says that it has no record at the consumer's position. By "
            "auto.offset.reset=earliest the consumer starts at the first record: all records are "
            "delivered again, and only an idempotent consumer absorbs them.",
            {semantic: back[semantic] for semantic in semantics},
            pipeline=pipeline,
            error="OFFSET_OUT_OF_RANGE" + variant,
        )


def in_transaction() -> Iterator[Scenario]:
    """Yield the refusals of what a transaction asks of its coordinators."""
    adds = OnWire(
        PRODUCER, Api.ADD_PARTITIONS_TO_TXN, REQUEST, since=InProgram(PRODUCER, "before-send")
    )
    sends = OnWire(PROCESSOR, Api.TXN_OFFSET_COMMIT, REQUEST)
    implicit: dict[str, Expected] = {"java<4": {EOS: ASKED}, "java": {EOS: IMPLICIT}}
    busy = {**COORDINATING, "CONCURRENT_TRANSACTIONS": "still ends the transaction before"}
    for error, why in busy.items():
        yield refused(
            "add-partitions",
            Answer(adds, error),
            f"The coordinator {why}. The client asks again.",
            {EOS: ASKED},
            error=error,
            by_client=implicit,
        )
    for error, why in COORDINATING.items():
        yield refused(
            "txn-offset-commit",
            Answer(sends, error),
            f"The coordinator of the group {why}. The client asks again.",
            {EOS: ASKED},
            pipeline=TOPIC_TO_TOPIC,
            error=error,
        )
    yield refused(
        "txn-offset-commit",
        Answer(sends, "COORDINATOR_NOT_AVAILABLE", forward=True),
        (
            "The position is pending, and the coordinator cannot say that it will stay. It is sent "
            "again."
        ),
        {EOS: ASKED},
        pipeline=TOPIC_TO_TOPIC,
        error="COORDINATOR_NOT_AVAILABLE",
        done=True,
    )
    for error in ("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"):
        yield refused(
            "txn-offset-commit",
            Answer(sends, error),
            "The position is refused, because the group has removed this member. Its transaction "
            "is aborted, with its results, and the work on the record is done again.",
            {EOS: holds(ABORTED)},
            pipeline=TOPIC_TO_TOPIC,
            error=error,
        )
    for role, pipeline in ((PRODUCER, PLAIN), (PROCESSOR, TOPIC_TO_TOPIC)):
        ends = OnWire(role, Api.END_TXN, REQUEST)
        for error, why in busy.items():
            yield refused(
                "transaction-end",
                Answer(ends, error),
                f"The coordinator {why}. The client asks again.",
                {EOS: holds(ENDED_AGAIN)},
                pipeline=pipeline,
                error=error,
            )
        for error in ("COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"):
            yield refused(
                "transaction-end",
                Answer(ends, error, forward=True),
                "The transaction is committed, and the coordinator cannot say that it will stay "
                "so. The client asks again, and is told the same once more.",
                {EOS: holds(ENDED_AGAIN)},
                pipeline=pipeline,
                error=error,
                done=True,
            )


HELD = Scenario(
    pipeline=PLAIN,
    id="commit-held-beyond-session",
    failure_point="commit-held",
    group="errors",
    suite=Suite.NIGHT,
    fault=Hold(OnWire(CONSUMER, Api.OFFSET_COMMIT, REQUEST), Until.EXPELLED),
    because="The request to save the position takes longer than the session lasts, and so do the "
    "heartbeats after it. When it arrives, the group has given the partition, and the "
    "record, to another member, so the broker refuses the request. By then the first member "
    "alone has done the work on the record, or both have, or the idempotent consumer absorbs "
    "the second result.",
    expect={
        AMO: Predicted(sign=DELIVERED_AGAIN, settings=pair(AT_MOST_ONCE)),
        ALO: Predicted(duplicated=Exactly(), settings=pair(AT_LEAST_ONCE)),
        EOS: Predicted(sign=ABSORBED, settings=pair(EXACTLY_ONCE)),
    },
)

ACK_HELD = Scenario(
    pipeline=PLAIN,
    id="ack-held-until-consumed",
    failure_point="ack-held",
    group="errors",
    suite=Suite.NIGHT,
    fault=Hold(
        OnWire(PRODUCER, Api.PRODUCE, RESPONSE), OnWire(CONSUMER, Api.OFFSET_COMMIT, REQUEST)
    ),
    because="The record is consumed, and its position is about to be saved, before its producer "
    "gets the ack. A late ack alone does no harm.",
    expect={
        AMO: Predicted(),
        ALO: Predicted(),
        EOS: NotApplicable("a consumer does not read a record whose transaction is open"),
    },
)

MAIN = frozenset(
    {
        "produce-refused+not-enough-replicas",
        "produce-refused+request-timed-out+done",
        "ack-held-until-consumed",
    }
)
"""One of each kind."""
ALL = (
    *at_produce(PRODUCER, PLAIN, AT_MOST_ONCE),
    *at_produce(PROCESSOR, TOPIC_TO_TOPIC, AT_MOST_ONCE),
    *at_commit(CONSUMER, PLAIN, holds(ASKED_ANEW), holds(ABSORBED)),
    *at_commit(PROCESSOR, TOPIC_TO_TOPIC, NO_COMMIT, NO_COMMIT),
    *at_heartbeat(CONSUMER, PLAIN),
    *at_heartbeat(PROCESSOR, TOPIC_TO_TOPIC),
    *at_join(CONSUMER, PLAIN),
    *at_join(PROCESSOR, TOPIC_TO_TOPIC),
    *at_fetch(CONSUMER, PLAIN, OnWire(CONSUMER, Api.OFFSET_COMMIT, RESPONSE), holds(ABSORBED)),
    *at_fetch(
        PROCESSOR,
        TOPIC_TO_TOPIC,
        answered(OnWire(PROCESSOR, Api.END_TXN, REQUEST)),
        Predicted(duplicated=AtLeast(), control=True),
    ),
    *in_transaction(),
    HELD,
    ACK_HELD,
)
ERRORS = tuple(
    replace(each, suite=Suite.CORE) if each.pipeline is PLAIN and each.id in MAIN else each
    for each in ALL
)
