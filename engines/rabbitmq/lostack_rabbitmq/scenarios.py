"""RabbitMQ at the failure points of the plain pipeline, outbox → producer → quorum queue → consumer
→ database, and at its own.

One publish at a time, one unacknowledged message at a consumer. Every restart is after SIGKILL.
What differs from other queues: ``basic.ack`` has no answer. Who acknowledges before the work cannot
wait until the broker has taken it, so that "acknowledge first" is not at-most-once here.

At-most-once is taken as the protocol gives it: a publish without a confirm, and automatic
acknowledgement, where the broker is done with a message when it has written it to a socket. Where a
point needs a confirm, it is awaited, and the message is sent once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from harness.controls import OnWire
from harness.faults import Drop
from harness.judge.queue_selections import IN_HAND, ON_THE_WAY, OUTLIVED
from harness.judge.signs import ABSORBED, DELIVERED_AGAIN, NOT_RESENT, SENT_ANEW, TAKEN_AGAIN
from harness.model.pipeline import Pipeline
from harness.model.prediction import AtLeast, AtMost, Exactly
from harness.model.scenario import NotApplicable, Predicted, Role, Suite
from harness.scenarios.common import ALL_ANSWERED, Frames
from harness.scenarios.plain import ALO, AMO, DUPLICATES, EOS, LOSES, REQUEST, RESPONSE, holds
from harness.stages.settings import (
    QUEUE_AT_MOST_ONCE,
    QUEUE_AT_MOST_ONCE_ANSWERED,
    QUEUE_RECIPES,
)
from lostack_rabbitmq.broker import YOUNG as YOUNG_NAME
from lostack_rabbitmq.steps import Op

QUORUM: Final = Pipeline("quorum", "rabbitmq", QUEUE_RECIPES)
YOUNG: Final = Pipeline(YOUNG_NAME, "rabbitmq", QUEUE_RECIPES)
PUBLISH = OnWire(Role.PRODUCER, Op.PUBLISH, REQUEST)
CONFIRM = OnWire(Role.PRODUCER, Op.ACK, RESPONSE)
DELIVER = OnWire(Role.CONSUMER, Op.DELIVER, RESPONSE)
ACK = OnWire(Role.CONSUMER, Op.ACK, REQUEST)
FRAMES: Final = Frames(QUORUM, PUBLISH, CONFIRM, DELIVER, ACK)
PACE_MS: Final = 40
"""Who waits for no answer has sent everything before a fault has come and gone: its source gives a
record every so often.
"""
FIRST: Final = QUEUE_AT_MOST_ONCE_ANSWERED
"""A confirm is awaited, and nothing is sent again; the acknowledgement comes before the work."""
CONFIRMED: Final = replace(FIRST, consumer=QUEUE_AT_MOST_ONCE.consumer)
"""A confirm is awaited, and nothing is sent again; acknowledgement is automatic."""
LOSES_MORE: Final = Predicted(lost=AtLeast(most=ON_THE_WAY))
"""What is behind the target on its connection, and nobody has asked for an answer to, goes with
it.
"""
UNANSWERED: Final = NotApplicable(
    "basic.ack has no answer, so that nobody can await it before the work: whether the work was "
    "done is a race with the kill (see commit-lost+cut)"
)

_ALL = (
    FRAMES.scenario(
        "none",
        because="Without a fault nothing is lost and nothing is duplicated: the baseline.",
        expect={AMO: Predicted(), ALO: Predicted(), EOS: Predicted()},
    ),
    FRAMES.scenario(
        "producer-crash-before-send",
        because="The producer has the record and has not published it. A cursor saved before the "
        "publish has passed the record; a cursor saved after the confirm has not, and the "
        "restarted producer takes the record again.",
        expect={AMO: LOSES, ALO: holds(TAKEN_AGAIN), EOS: holds(TAKEN_AGAIN)},
        pace_ms=PACE_MS,
    ),
    FRAMES.scenario(
        "producer-crash-before-ack",
        because="The queue has the message and the producer dies before it reads the confirm. "
        "At-most-once does not publish again; at-least-once does, as a new message, for the broker "
        "knows no record ids; the sink absorbs it.",
        expect={
            AMO: Predicted(sign=NOT_RESENT, settings=CONFIRMED),
            ALO: DUPLICATES,
            EOS: holds(ABSORBED),
        },
    ),
    FRAMES.scenario(
        "request-lost",
        because="The publish never reaches the broker, and the connection is cut. Who asks for no "
        "confirm notices nothing, and loses also what was written after it. Who waits for the "
        "confirm publishes again; the first one was never stored.",
        expect={AMO: LOSES_MORE, ALO: holds(SENT_ANEW), EOS: holds(SENT_ANEW)},
        pace_ms=PACE_MS,
    ),
    FRAMES.scenario(
        "ack-lost",
        because="The message is stored and its confirm is lost. Published again it is a second "
        "message: a classic or quorum queue drops no duplicates. The sink absorbs the second.",
        expect={
            AMO: Predicted(sign=NOT_RESENT, settings=CONFIRMED),
            ALO: DUPLICATES,
            EOS: holds(ABSORBED),
        },
    ),
    FRAMES.scenario(
        "broker-crash-before-append",
        because="The broker dies with the publish not yet seen. Without a confirm it is lost, with "
        "what was on its way; with one it is published again. A record whose ack died with the "
        "broker is delivered again.",
        expect={
            AMO: LOSES_MORE,
            ALO: Predicted(duplicated=AtMost(IN_HAND), sign=SENT_ANEW),
            EOS: holds(SENT_ANEW),
        },
        pace_ms=3 * PACE_MS,
    ),
    FRAMES.scenario(
        "broker-crash-before-ack",
        because="The message is in the queue's log, flushed, and the broker dies before the "
        "confirm is out. It is there after the restart; published again it is there twice. The "
        "consumer starts after that: what it had in hand would come again, which nobody who "
        "acknowledges first, or automatically, can know.",
        expect={
            AMO: Predicted(sign=NOT_RESENT, settings=CONFIRMED),
            ALO: DUPLICATES,
            EOS: holds(ABSORBED),
        },
        consumer_starts_after_fault=True,
    ),
    FRAMES.scenario(
        "broker-crash-before-position",
        because="The ack is on its way, and broker and consumer die: the message is in the "
        "queue's log, and its settlement is not. It is delivered again, and "
        "so may be those whose acks came just before, and which the broker had not written.",
        expect={
            AMO: UNANSWERED,
            ALO: Predicted(duplicated=AtLeast(most=IN_HAND)),
            EOS: holds(ABSORBED),
        },
        pace_ms=3 * PACE_MS,
    ),
    FRAMES.scenario(
        "delivery-lost",
        because="The message never reaches the consumer, and the connection is cut. With automatic "
        "acknowledgement the broker is done with it when it has written it to the socket: the "
        "record is lost, with what was behind it. What must be acknowledged is requeued when its "
        "connection ends.",
        expect={AMO: LOSES_MORE, ALO: holds(DELIVERED_AGAIN), EOS: holds(DELIVERED_AGAIN)},
        pace_ms=PACE_MS,
    ),
    FRAMES.scenario(
        "delivery-lost+acknowledged-first",
        because="A message that has not arrived is not acknowledged, so the lost delivery does no "
        "harm to who acknowledges before the work: automatic acknowledgement loses records, and "
        "pushing does not.",
        expect={AMO: Predicted(sign=DELIVERED_AGAIN, settings=FIRST)},
    ),
    FRAMES.scenario(
        "commit-lost",
        because="The ack never arrives and the consumer dies. The message is requeued: recorded a "
        "second time, or absorbed.",
        expect={AMO: UNANSWERED, ALO: DUPLICATES, EOS: holds(ABSORBED)},
    ),
    FRAMES.scenario(
        "commit-lost+cut",
        because="Control for at-most-once: the ack is lost with its connection, and the consumer "
        "lives. basic.ack has no answer, so the program that acknowledges before the work has "
        "done the work; the message comes again, and it does it again. Acknowledging first is not "
        "at-most-once over AMQP 0-9-1; automatic acknowledgement is.",
        expect={
            AMO: Predicted(duplicated=Exactly(), control=True, settings=FIRST),
            ALO: DUPLICATES,
            EOS: holds(ABSORBED),
        },
        fault=Drop(ACK),
    ),
    FRAMES.scenario(
        "consumer-crash-before-recording",
        because="The consumer has the message and has not recorded its result. With automatic "
        "acknowledgement the broker is done with it, and with what was pushed behind it; else it "
        "is requeued when the connection ends.",
        expect={AMO: LOSES_MORE, ALO: holds(DELIVERED_AGAIN), EOS: holds(DELIVERED_AGAIN)},
        pace_ms=PACE_MS,
    ),
    FRAMES.scenario(
        "consumer-crash-before-commit",
        because="The result is recorded and the message is not acknowledged: it is requeued.",
        expect={
            AMO: NotApplicable("acknowledged automatically, or before the work"),
            ALO: DUPLICATES,
            EOS: holds(ABSORBED),
        },
    ),
)
POINTS: Final = tuple(
    replace(each, suite=Suite.CORE) if each.id in {"none", "delivery-lost"} else each
    for each in _ALL
)
"""Those that other systems have, too."""
_OWN = (
    FRAMES.scenario(
        "restarted+young-queue",
        pipeline=YOUNG,
        because="The producer declares the queue, and its messages are confirmed: written to "
        "the queue's log, and flushed. Killed at once, the node has not written that the log is "
        "this queue's, which it does half a second later: it begins the queue anew, and the "
        "confirmed messages are gone. Nobody publishes them again.",
        expect=dict.fromkeys((ALO, EOS), ALL_ANSWERED),
        suite=Suite.NIGHT,
    ),
    FRAMES.scenario(
        "restarted",
        because="Twin of restarted+young-queue: the queue's name was written before the first "
        "message. The same kill takes nothing.",
        expect={each: holds(OUTLIVED) for each in (ALO, EOS)},
        suite=Suite.NIGHT,
    ),
)
SCENARIOS: Final = POINTS + _OWN
