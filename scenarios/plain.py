"""The plain pipeline at every failure point: outbox → producer → topic → consumer → database.

One record per send, poll and commit, one request in flight. Every restart is after SIGKILL.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from harness.controls import InProgram, OnWire
from harness.faults import Kill
from harness.judge.signs import (
    ABORTED,
    ABSORBED,
    DELIVERED_AGAIN,
    NOT_RESENT,
    REPEATED_REQUEST,
    RESUMED_PAST,
    TAKEN_AGAIN,
)
from harness.model.prediction import AtLeast, Exactly, Permitted
from harness.model.scenario import NotApplicable, Predicted, Role, Scenario
from harness.model.semantics import Semantic
from harness.protocols.kafka.steps import Api
from harness.scenarios.common import Frames
from harness.stages.producer_settings import SaveCursor
from harness.stages.settings import EXACTLY_ONCE, EXACTLY_ONCE_WITH_RESULT, PLAIN
from harness.wire.rules import Direction

if TYPE_CHECKING:
    from harness.model.sign import Sign

AMO, ALO, EOS = Semantic.AT_MOST_ONCE, Semantic.AT_LEAST_ONCE, Semantic.EXACTLY_ONCE
REQUEST, RESPONSE = Direction.REQUEST, Direction.RESPONSE
LOSES, DUPLICATES = Predicted(lost=Exactly()), Predicted(duplicated=Exactly())


def holds(sign: Sign) -> Predicted:
    """Predict zero, proved by a sign."""
    return Predicted(sign=sign)


FRAMES = Frames(
    PLAIN,
    send=OnWire(Role.PRODUCER, Api.PRODUCE, REQUEST),
    receipt=OnWire(Role.PRODUCER, Api.PRODUCE, RESPONSE),
    message=OnWire(Role.CONSUMER, Api.FETCH, RESPONSE),
    ack=OnWire(Role.CONSUMER, Api.OFFSET_COMMIT, REQUEST),
    ack_receipt=OnWire(Role.CONSUMER, Api.OFFSET_COMMIT, RESPONSE),
)
NO_TRANSACTION = NotApplicable("there is no transaction under this semantic")

NONE = FRAMES.scenario(
    "none",
    because="Without a fault nothing is lost and nothing is duplicated: the baseline.",
    expect={AMO: Predicted(), ALO: Predicted(), EOS: Predicted()},
)

PRODUCER_CRASH_BEFORE_SEND = FRAMES.scenario(
    "producer-crash-before-send",
    because=(
        "The producer has read the record and not sent it. A cursor saved before the send has "
        "passed the record; one saved after the ack, or in the transaction, has not, and the "
        "restarted producer reads the record again."
    ),
    expect={AMO: LOSES, ALO: holds(TAKEN_AGAIN), EOS: holds(TAKEN_AGAIN)},
)

PRODUCER_CRASH_BEFORE_ACK = FRAMES.scenario(
    "producer-crash-before-ack",
    because=(
        "The broker has stored the record and its producer dies before it reads the ack. "
        "At-most-once does not send again; at-least-once does, as a new record; a transaction is "
        "aborted by the restarted producer and sent again."
    ),
    expect={AMO: holds(NOT_RESENT), ALO: DUPLICATES, EOS: holds(ABORTED)},
)

REQUEST_LOST = FRAMES.scenario(
    "request-lost",
    because=(
        "The request never reaches the broker. Without retries the record is gone; with them "
        "the client sends it again, and since the first was never stored this does not "
        "duplicate, whatever the textbooks say."
    ),
    expect={AMO: LOSES, ALO: holds(REPEATED_REQUEST), EOS: holds(REPEATED_REQUEST)},
)

ACK_LOST = FRAMES.scenario(
    "ack-lost",
    because=(
        "The record is stored and its ack is lost. Without retries nothing more happens; with "
        "them the client sends it again: a second copy, unless the broker knows producer id and "
        "sequence number already."
    ),
    expect={AMO: holds(NOT_RESENT), ALO: DUPLICATES, EOS: holds(REPEATED_REQUEST)},
)

BROKER_CRASH_BEFORE_APPEND = FRAMES.scenario(
    "broker-crash-before-append",
    because=(
        "The broker dies before it sees the request. A producer without retries loses the "
        "record, and more records while the broker is down; one with retries sends it again."
    ),
    expect={
        AMO: Predicted(lost=AtLeast()),
        ALO: holds(REPEATED_REQUEST),
        EOS: holds(REPEATED_REQUEST),
    },
    together="crash",
)

BROKER_CRASH_BEFORE_ACK = FRAMES.scenario(
    "broker-crash-before-ack",
    because=(
        "The broker has stored the record and dies before it answers. SIGKILL keeps the page "
        "cache, so the copy is there after the restart: a retry stores it again, unless the "
        "recovered log knows the sequence number."
    ),
    expect={
        AMO: Predicted(lost=Permitted(), sign=NOT_RESENT),
        ALO: DUPLICATES,
        EOS: holds(REPEATED_REQUEST),
    },
    together="crash",
)

BROKER_CRASH_BEFORE_POSITION = FRAMES.scenario(
    "broker-crash-before-position",
    because=(
        "The position is not stored when broker and consumer die. At-most-once has not "
        "worked on the record yet; at-least-once has, and does it again; the idempotent "
        "consumer absorbs the second delivery. A record of the producer that the dying "
        "broker had stored and not acknowledged is stored again besides."
    ),
    expect={
        AMO: Predicted(lost=Permitted(), sign=DELIVERED_AGAIN),
        ALO: Predicted(duplicated=AtLeast()),
        EOS: holds(ABSORBED),
    },
    together="crash",
)

DELIVERY_LOST = FRAMES.scenario(
    "delivery-lost",
    because=(
        "The fetch response is lost. A pull broker keeps no record of deliveries: the consumer "
        "asks again."
    ),
    expect={semantic: holds(DELIVERED_AGAIN) for semantic in (AMO, ALO, EOS)},
)

COMMIT_LOST = FRAMES.scenario(
    "commit-lost",
    because=(
        "The commit never arrives and the consumer dies. (To drop the commit alone has no "
        "effect: the client commits again.) The record is delivered again, and is then recorded "
        "for the first time, recorded twice, or absorbed."
    ),
    expect={AMO: holds(DELIVERED_AGAIN), ALO: DUPLICATES, EOS: holds(ABSORBED)},
)

COMMIT_ACK_LOST = FRAMES.scenario(
    "commit-ack-lost",
    because=(
        "The commit is stored and the consumer dies before it learns that. A position saved "
        "before the work has passed a record that was not worked on. If it was saved after the "
        "work, the restarted consumer continues after the record."
    ),
    expect={AMO: LOSES, ALO: holds(RESUMED_PAST), EOS: holds(RESUMED_PAST)},
)

CONSUMER_CRASH_BEFORE_PROCESSING = FRAMES.scenario(
    "consumer-crash-before-processing",
    because=(
        "The consumer dies after it has received the record and before the work. The record is "
        "lost only if its position was saved before."
    ),
    expect={AMO: LOSES, ALO: holds(DELIVERED_AGAIN), EOS: holds(DELIVERED_AGAIN)},
)

CONSUMER_CRASH_BEFORE_RECORDING = FRAMES.scenario(
    "consumer-crash-before-recording",
    because=(
        "The record is processed and its result is not recorded: for the sink that is the same "
        "as no processing."
    ),
    expect={AMO: LOSES, ALO: holds(DELIVERED_AGAIN), EOS: holds(DELIVERED_AGAIN)},
)

CONSUMER_CRASH_BEFORE_COMMIT = FRAMES.scenario(
    "consumer-crash-before-commit",
    because="The result is recorded and the position is not saved: the record is delivered again.",
    expect={
        AMO: NotApplicable("the position is saved before the work: there is no commit after it"),
        ALO: DUPLICATES,
        EOS: holds(ABSORBED),
    },
)

PRODUCER_CRASH_BEFORE_COMMIT = Scenario(
    pipeline=PLAIN,
    id="producer-crash-before-commit",
    fault=Kill(OnWire(Role.PRODUCER, Api.END_TXN, REQUEST), (Role.PRODUCER,)),
    because="The request that ends the transaction never arrives. The restarted producer, with the "
    "same transactional id, aborts the transaction, reads the cursor of the last committed "
    "one, and sends the record again.",
    expect={AMO: NO_TRANSACTION, ALO: NO_TRANSACTION, EOS: holds(ABORTED)},
)

PRODUCER_CRASH_BEFORE_COMMIT_ACK = Scenario(
    pipeline=PLAIN,
    id="producer-crash-before-commit-ack",
    fault=Kill(OnWire(Role.PRODUCER, Api.END_TXN, RESPONSE), (Role.PRODUCER,)),
    because="The transaction is committed and the producer dies before it learns that. Its "
    "cursor is in the same transaction: the restarted producer reads it and continues "
    "after the record.",
    expect={AMO: NO_TRANSACTION, ALO: NO_TRANSACTION, EOS: holds(RESUMED_PAST)},
)

NO_DATABASE_TRANSACTION = NotApplicable(
    "result and position do not share a database transaction under this semantic"
)

CONSUMER_CRASH_BEFORE_DATABASE_COMMIT = Scenario(
    pipeline=PLAIN,
    id="consumer-crash-before-database-commit",
    failure_point="consumer-crash-around-database-commit",
    fault=Kill(InProgram(Role.CONSUMER, "before-database-commit"), (Role.CONSUMER,)),
    because="Result and position are in one database transaction, rolled back when its consumer "
    "dies: neither is stored, and the record is delivered again.",
    expect={
        AMO: NO_DATABASE_TRANSACTION,
        ALO: NO_DATABASE_TRANSACTION,
        EOS: Predicted(sign=DELIVERED_AGAIN, settings=EXACTLY_ONCE_WITH_RESULT),
    },
)

CONSUMER_CRASH_AFTER_DATABASE_COMMIT = replace(
    CONSUMER_CRASH_BEFORE_DATABASE_COMMIT,
    id="consumer-crash-after-database-commit",
    fault=Kill(InProgram(Role.CONSUMER, "after-database-commit"), (Role.CONSUMER,)),
    because="Result and position became durable together, and the consumer dies before it learns "
    "that: the restarted consumer reads the position from the database and continues after "
    "the record.",
    expect={
        AMO: NO_DATABASE_TRANSACTION,
        ALO: NO_DATABASE_TRANSACTION,
        EOS: Predicted(sign=RESUMED_PAST, settings=EXACTLY_ONCE_WITH_RESULT),
    },
)

CURSOR_OUTSIDE = replace(
    EXACTLY_ONCE, producer=replace(EXACTLY_ONCE.producer, cursor=SaveCursor.AFTER_COMMIT)
)

CURSOR_OUTSIDE_THE_TRANSACTION = replace(
    PRODUCER_CRASH_BEFORE_COMMIT_ACK,
    id="control-cursor-outside-the-transaction",
    because="Control: the cursor is saved after the transaction and outside it. The transaction is "
    "committed, the cursor is not, and the restarted producer sends the record again, in a "
    "new transaction that commits too.",
    expect={
        EOS: Predicted(
            duplicated=Exactly(),
            control=True,
            settings=replace(
                CURSOR_OUTSIDE,
                consumer=EXACTLY_ONCE_WITH_RESULT.consumer,
            ),
        )
    },
)

PLAIN_SCENARIOS = (
    NONE,
    PRODUCER_CRASH_BEFORE_SEND,
    PRODUCER_CRASH_BEFORE_ACK,
    REQUEST_LOST,
    ACK_LOST,
    BROKER_CRASH_BEFORE_APPEND,
    BROKER_CRASH_BEFORE_ACK,
    BROKER_CRASH_BEFORE_POSITION,
    DELIVERY_LOST,
    COMMIT_LOST,
    COMMIT_ACK_LOST,
    CONSUMER_CRASH_BEFORE_PROCESSING,
    CONSUMER_CRASH_BEFORE_RECORDING,
    CONSUMER_CRASH_BEFORE_COMMIT,
    PRODUCER_CRASH_BEFORE_COMMIT,
    PRODUCER_CRASH_BEFORE_COMMIT_ACK,
    CONSUMER_CRASH_BEFORE_DATABASE_COMMIT,
    CONSUMER_CRASH_AFTER_DATABASE_COMMIT,
    CURSOR_OUTSIDE_THE_TRANSACTION,
)
