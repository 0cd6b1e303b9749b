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
from typing import TYPE_CHECKING, Any, Final

from harness.controls import InProgram, OnWire
from harness.faults import Drop, Hold, StartLate, WorkFails
from harness.judge.queue_selections import IN_HAND, ON_THE_WAY, OUTLIVED, UNFINISHED
from harness.judge.signs import (
    ABSORBED,
    DELIVERED_AGAIN,
    NOT_GIVEN_AGAIN,
    NOT_RESENT,
    SENT_ANEW,
    TAKEN_AGAIN,
)
from harness.model.pipeline import Pipeline
from harness.model.prediction import AtLeast, AtMost, Exactly, Select
from harness.model.scenario import (
    Deployment,
    Edge,
    NotApplicable,
    Predicted,
    Role,
    Scenario,
    Suite,
)
from harness.proofs.power import TOLD_TO_FLUSH
from harness.protocols.acts import Act
from harness.scenarios.common import ALL_ANSWERED, Frames
from harness.scenarios.plain import ALO, AMO, DUPLICATES, EOS, LOSES, REQUEST, RESPONSE, holds
from harness.stages.settings import (
    QUEUE_AT_LEAST_ONCE,
    QUEUE_AT_MOST_ONCE,
    QUEUE_AT_MOST_ONCE_ANSWERED,
    QUEUE_EXACTLY_ONCE,
    QUEUE_RECIPES,
)
from lostack_rabbitmq import queues
from lostack_rabbitmq.knowledge import SET_ASIDE
from lostack_rabbitmq.steps import Op

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from harness.model.semantics import Semantic
    from harness.stages.settings import Settings

QUORUM, LATE, LIMITED, ASIDE = (
    Pipeline(name, "rabbitmq", QUEUE_RECIPES)
    for name in (queues.QUORUM, queues.LATE, queues.LIMITED, queues.ASIDE)
)
PUBLISH = OnWire(Role.PRODUCER, Act.SEND, REQUEST)
CONFIRM = OnWire(Role.PRODUCER, Act.SENT, RESPONSE)
DELIVER = OnWire(Role.CONSUMER, Act.GIVE, RESPONSE)
ACK = OnWire(Role.CONSUMER, Act.ACK, REQUEST)
ACKED = OnWire(Role.CONSUMER, Act.ACKED, RESPONSE)
FRAMES: Final = Frames(QUORUM, PUBLISH, CONFIRM, DELIVER, ACK, ACKED)
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

STOMP: Final = "stomp.py"
EVERY: Final = (AMO, ALO, EOS)
BY_STOMP: Final[Mapping[str, Mapping[Semantic, Predicted]]] = {
    "none": {AMO: Predicted(settings=CONFIRMED)},
    "producer-crash-before-send": {AMO: replace(LOSES, settings=CONFIRMED)},
    "request-lost": {AMO: replace(LOSES, settings=CONFIRMED)},
    "broker-crash-before-append": {AMO: replace(LOSES_MORE, settings=CONFIRMED)},
    "delivery-lost": {AMO: replace(LOSES_MORE, settings=CONFIRMED)},
    "consumer-crash-before-recording": {AMO: replace(LOSES_MORE, settings=CONFIRMED)},
    "broker-crash-before-position": {
        # what its producer awaits a receipt for as the node dies is not sent again
        AMO: Predicted(lost=AtMost(ON_THE_WAY), sign=DELIVERED_AGAIN, settings=FIRST)
    },
    "commit-lost": {AMO: Predicted(sign=DELIVERED_AGAIN, settings=FIRST)},
    "commit-lost+cut": {AMO: Predicted(sign=DELIVERED_AGAIN, settings=FIRST)},
    "commit-ack-lost": {
        AMO: replace(LOSES, settings=FIRST),
        ALO: holds(NOT_GIVEN_AGAIN),
        EOS: holds(NOT_GIVEN_AGAIN),
    },
}
"""What theory says otherwise over STOMP. Its ACK has an answer: who waits for it before the work
has not worked on what comes again. A SEND without a receipt may be lost without any fault:
DISCONNECT closes the channel on what it has not come to. So at-most-once awaits a receipt, too.
"""
BY_AMQP: Final = NotApplicable("its client declares the queue, and consumes, over AMQP 0-9-1 alone")

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
        "commit-ack-lost",
        because="The broker has taken the acknowledgement, and the consumer dies before it learns "
        "so. Who acknowledges before the work has not done it; else it was done before.",
        expect=dict.fromkeys(EVERY, NotApplicable("basic.ack has no answer")),
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
    replace(
        each,
        suite=Suite.CORE if each.id in {"none", "delivery-lost"} else each.suite,
        by_client={STOMP: BY_STOMP[each.id]} if each.id in BY_STOMP else {},
    )
    for each in _ALL
)
"""Those that other systems have, too."""
_OWN = (
    FRAMES.scenario(
        "restarted",
        because="The node is killed, and what it has confirmed is in the queue's log: that takes "
        "nothing. The queue's name was written before its first message.",
        expect={each: holds(OUTLIVED) for each in (ALO, EOS)},
        suite=Suite.NIGHT,
    ),
)
AT_LEAST: Final = {ALO: QUEUE_AT_LEAST_ONCE, EOS: QUEUE_EXACTLY_ONCE}


def told(
    theory: Callable[[Semantic], Predicted], change: Callable[[Settings], Settings]
) -> dict[Semantic, Predicted | NotApplicable]:
    """Return a prediction for each semantic that loses nothing, under changed settings."""
    return {
        each: replace(theory(each), settings=change(recipe)) for each, recipe in AT_LEAST.items()
    }


def consuming(**more: Any) -> Callable[[Settings], Settings]:
    """Return what gives a recipe's consumer other settings."""
    return lambda recipe: replace(recipe, consumer=replace(recipe.consumer, **more))


def failing(**more: Any) -> Callable[[Settings], Settings]:
    """Return what makes a recipe's consumer fail otherwise."""
    share = QUEUE_AT_LEAST_ONCE.consumer.share
    return consuming(share=replace(share, **more))


def _doubled(semantic: Semantic) -> Predicted:
    return DUPLICATES if semantic == ALO else holds(ABSORBED)


FAILS: Final = WorkFails(InProgram(Role.CONSUMER, "before-recording"))
POISONED, REJECTED = failing(poisoned=True), failing(rejects=True)


def refused(
    name: str,
    pipeline: Pipeline,
    because: str,
    expect: dict[Semantic, Predicted | NotApplicable],
    *,
    aside: bool = False,
) -> Scenario:
    """Return a scenario in which the work fails."""
    return Scenario(
        pipeline=pipeline,
        id=name,
        fault=FAILS,
        because=because,
        expect=expect,
        group="refused",
        dead_letters=aside,
    )


_REFUSED = (
    refused(
        "work-fails",
        ASIDE,
        "The work fails once, and the program gives the message back (basic.nack, requeue): it is "
        "delivered again, which a queue with a limit counts. Acknowledged automatically, it is "
        "gone.",
        {AMO: LOSES, ALO: holds(DELIVERED_AGAIN), EOS: holds(DELIVERED_AGAIN)},
    ),
    refused(
        "work-fails+poisoned",
        ASIDE,
        "The work always fails, and the program gives the message back each time. Given more often "
        "than the queue's x-delivery-limit, it goes to the dead letters, where somebody can find "
        "it.",
        told(lambda _: holds(SET_ASIDE), POISONED),
        aside=True,
    ),
    refused(
        "work-fails+rejected",
        ASIDE,
        "The work fails, and the program says basic.nack without requeue: the message goes to the "
        "dead letters at once.",
        told(lambda _: holds(SET_ASIDE), REJECTED),
        aside=True,
    ),
    refused(
        "work-fails+poisoned",
        LIMITED,
        "Control: the queue has an x-delivery-limit and no dead-letter exchange. Given too often, "
        "the message is dropped, and nobody is told.",
        told(lambda _: replace(LOSES, control=True), POISONED),
    ),
    refused(
        "work-fails+rejected",
        LIMITED,
        "Control: the program says basic.nack without requeue, to a queue without a dead-letter "
        "exchange. The message is dropped, and nobody is told.",
        told(lambda _: replace(LOSES, control=True), REJECTED),
    ),
)


def _unrouted(recipe: Settings) -> Settings:
    return replace(recipe, producer=replace(recipe.producer, acks=1))


DECLARED: Final = StartLate(PUBLISH, Role.CONSUMER, held=True)
"""The record waits on its way until its reader has declared the queue."""
_UNROUTED = (
    Scenario(
        pipeline=LATE,
        id="unroutable",
        fault=replace(DECLARED, at=replace(PUBLISH, occurrence=2)),
        because="The reader declares the queue, and is not there yet when the first record is "
        "published: no queue takes it. A mandatory message comes back, and is published again.",
        expect={each: holds(SENT_ANEW) for each in AT_LEAST},
        group="unroutable",
        edge=Edge.FIRST,
    ),
    Scenario(
        pipeline=LATE,
        id="unroutable+not-mandatory",
        fault=DECLARED,
        because="Control: what is published before the reader has declared the queue is not "
        "mandatory. The broker confirms what no queue takes, for it has dealt with it: all of that "
        "is lost, and confirmed. Who asks for no confirm, loses it, too.",
        expect={
            AMO: Predicted(lost=Exactly(Select.BEFORE_TARGET)),
            **told(
                lambda _: Predicted(lost=Exactly(Select.BEFORE_TARGET), control=True), _unrouted
            ),
        },
        group="unroutable",
    ),
)
PREFETCH: Final = 8
CLOSED: Final = OnWire(Role.CONSUMER, Op.CHANNEL_CLOSE, RESPONSE, since=ACK)
_IN_HAND = (
    FRAMES.scenario(
        "consumer-crash-before-commit+prefetch",
        because="The consumer has eight messages when it dies (basic.qos). One was worked on and "
        "not acknowledged, and is done again; the others are requeued, and done once.",
        expect=told(_doubled, consuming(unit=PREFETCH)),
        group="prefetch",
    ),
    FRAMES.scenario(
        "broker-crash-before-position+prefetch",
        because="The consumer has eight messages when the node dies with one's ack on its way, and "
        "so does the consumer. All eight are delivered again; what was worked on is done twice. So "
        "is what the node had just taken, if its producer was not told: it publishes that again.",
        expect=told(
            lambda semantic: (
                Predicted(duplicated=AtLeast(most=UNFINISHED))
                if semantic == ALO
                else holds(ABSORBED)
            ),
            consuming(unit=PREFETCH),
        ),
        group="prefetch",
    ),
    Scenario(
        pipeline=QUORUM,
        id="ack-late",
        fault=Hold(ACK, until=CLOSED, errors=True),
        because="The acknowledgement is on its way for longer than consumer_timeout (30 minutes by "
        "default): the broker closes the channel, and gives the message again to the next one. The "
        "work was done, and is done twice, without any crash.",
        expect={ALO: DUPLICATES, EOS: holds(ABSORBED)},
        group="timeout",
        deployment=Deployment.OWN,
        broker_settings={
            "consumer_timeout": "1000",
            "advanced.rabbit.channel_tick_interval": "200",
        },
        suite=Suite.NIGHT,
    ),
)
_POWER = (
    FRAMES.scenario(
        "power-loss",
        because="A quorum queue flushes its write-ahead log before it confirms: what was confirmed "
        "is there when the power comes back.",
        expect={each: holds(TOLD_TO_FLUSH) for each in AT_LEAST},
        suite=Suite.NIGHT,
        group="power",
    ),
    FRAMES.scenario(
        "power-loss+unflushed",
        because="Control: the write-ahead log is never flushed (wal_sync_method none). A loss of "
        "power takes all that was confirmed.",
        expect=dict.fromkeys(AT_LEAST, ALL_ANSWERED),
        broker_settings={"advanced.ra.wal_sync_method": "none"},
        suite=Suite.NIGHT,
        group="power",
    ),
)
_BY_AMQP = tuple(
    replace(each, by_client={STOMP: dict.fromkeys(each.expect, BY_AMQP)})
    for each in (*_OWN, *_REFUSED, *_UNROUTED, *_IN_HAND, *_POWER)
)
SCENARIOS: Final = (*POINTS, *_BY_AMQP)
