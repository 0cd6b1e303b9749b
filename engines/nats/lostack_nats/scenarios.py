"""NATS JetStream at the failure points of the plain pipeline, outbox → producer → stream →
consumer → database, and at its own.

One publish at a time, one message pulled at a time, a durable consumer. Every restart is after
SIGKILL. What differs from a queue: acknowledged messages stay in the stream, and a consumer's
connection holds nothing, so that a message which was not acknowledged comes again by the broker's
clock (``ack_wait``, here 2 s) and never sooner.

At-most-once is taken as the protocol gives it: a core publish, which asks for no answer, and a
consumer without acknowledgements (``AckNone``). Where a point needs an answer that this has not,
the publish is JetStream's, sent once, and a *double ack* comes before the work.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from harness.controls import OnWire
from harness.faults import Drop, Hold, Kill
from harness.judge.queue_selections import IN_HAND, ON_THE_WAY, OUTLIVED
from harness.judge.signs import (
    ABSORBED,
    DELIVERED_AGAIN,
    NOT_GIVEN_AGAIN,
    NOT_RESENT,
    SENT_ANEW,
    TAKEN_AGAIN,
)
from harness.model.pipeline import Pipeline
from harness.model.prediction import AtLeast, AtMost, Exactly
from harness.model.scenario import Deployment, NotApplicable, Predicted, Role, Scenario, Suite
from harness.model.semantics import Semantic
from harness.proofs.damage import FROM_DAMAGED
from harness.proofs.power import TOLD_TO_FLUSH
from harness.scenarios.common import ALL_ANSWERED, BROKER, Frames
from harness.scenarios.plain import ALO, AMO, DUPLICATES, EOS, LOSES, REQUEST, RESPONSE, holds
from harness.stages.pushing import PushSettings
from harness.stages.settings import (
    QUEUE_AT_LEAST_ONCE,
    QUEUE_AT_MOST_ONCE,
    QUEUE_AT_MOST_ONCE_ANSWERED,
    QUEUE_EXACTLY_ONCE_BY_ID,
    Settings,
)
from harness.wire.rules import After
from lostack_nats.broker import WORK_QUEUE as WORK_QUEUE_NAME
from lostack_nats.knowledge import DEDUPLICATED, ENDED, UNWRITTEN
from lostack_nats.steps import Op


def answered(recipe: Settings, count: int = 1) -> Settings:
    """Return a recipe whose consumer waits for the answer to its acknowledgement: a double ack."""
    consumer = replace(recipe.consumer, push=PushSettings(receipts=True), count=count)
    return replace(recipe, consumer=consumer)


def shared(recipe: Settings) -> Settings:
    """Return a recipe with two programs that pull from the one consumer."""
    return replace(recipe, consumer=replace(recipe.consumer, count=2))


ONCE: Final = QUEUE_AT_MOST_ONCE_ANSWERED
EXACTLY: Final = answered(QUEUE_EXACTLY_ONCE_BY_ID)
RECIPES: Final = {
    Semantic.AT_MOST_ONCE: QUEUE_AT_MOST_ONCE,
    Semantic.AT_LEAST_ONCE: QUEUE_AT_LEAST_ONCE,
    Semantic.EXACTLY_ONCE: EXACTLY,
}
STREAM: Final = Pipeline("stream", "nats", RECIPES)
WORK_QUEUE: Final = Pipeline(WORK_QUEUE_NAME, "nats", {**RECIPES, Semantic.AT_MOST_ONCE: ONCE})
PUBLISH = OnWire(Role.PRODUCER, Op.PUBLISH, REQUEST)
PUBACK = OnWire(Role.PRODUCER, Op.PUBACK, RESPONSE)
MESSAGE = OnWire(Role.CONSUMER, Op.DELIVERY, RESPONSE)
ACK = OnWire(Role.CONSUMER, Op.ACK, REQUEST)
ACKED = OnWire(Role.CONSUMER, Op.ACKED, RESPONSE)
FRAMES: Final = Frames(STREAM, PUBLISH, PUBACK, MESSAGE, ACK, ACKED)
PACE_MS: Final = 20
"""Who waits for no answer has sent everything before a fault has come and gone: its source gives a
record every so often.
"""
WRITTEN_MS: Final = 120
"""Longer than the server takes until it writes how far a consumer is."""
RACE: Final = NotApplicable(
    "the server answers an acknowledgement up to 100 ms before it writes it: whether the last ones "
    "come again, which at-most-once forbids, is a race with the kill"
)
LOSES_MORE: Final = Predicted(lost=AtLeast(most=ON_THE_WAY))

_ALL = (
    FRAMES.scenario(
        "none",
        because="Without a fault nothing is lost and nothing is duplicated: the baseline.",
        expect={AMO: Predicted(), ALO: Predicted(), EOS: Predicted()},
    ),
    FRAMES.scenario(
        "producer-crash-before-send",
        because="The producer has the record and has not published it. A cursor saved before the "
        "publish has passed the record; a cursor saved after the PubAck has not, and the "
        "restarted producer takes the record again.",
        expect={AMO: LOSES, ALO: holds(TAKEN_AGAIN), EOS: holds(TAKEN_AGAIN)},
        pace_ms=PACE_MS,
    ),
    FRAMES.scenario(
        "producer-crash-before-ack",
        because="The stream has the message and the producer dies before it reads the PubAck. "
        "At-most-once does not publish again; at-least-once does, and the stream has it twice; "
        "with the record's id in Nats-Msg-Id the stream answers as a duplicate and stores nothing.",
        expect={
            AMO: Predicted(sign=NOT_RESENT, settings=ONCE),
            ALO: DUPLICATES,
            EOS: holds(DEDUPLICATED),
        },
    ),
    FRAMES.scenario(
        "request-lost",
        because="The publish never reaches the server, and the connection is cut. A core publish "
        "notices nothing, and loses also what it wrote after it. Who waits for a PubAck publishes "
        "again; the first one was never stored.",
        expect={AMO: LOSES_MORE, ALO: holds(SENT_ANEW), EOS: holds(SENT_ANEW)},
        pace_ms=PACE_MS,
    ),
    FRAMES.scenario(
        "ack-lost",
        because="The message is stored and its PubAck is lost. Published again it is a second "
        "message, unless it carries an id that the stream has had within its duplicate window.",
        expect={
            AMO: Predicted(sign=NOT_RESENT, settings=ONCE),
            ALO: DUPLICATES,
            EOS: holds(DEDUPLICATED),
        },
    ),
    FRAMES.scenario(
        "broker-crash-before-append",
        because="The server dies with the publish not yet seen. A core publish is lost; who waits "
        "for a PubAck publishes again. An acknowledgement that died with the server lets its "
        "message come again.",
        expect={
            ALO: Predicted(duplicated=AtMost(UNWRITTEN), sign=SENT_ANEW),
            EOS: holds(SENT_ANEW),
        },
    ),
    FRAMES.scenario(
        "broker-crash-before-append+no-answers",
        because="A core publish that dies with the server is lost. The records come slower than "
        "the server writes how far a consumer is (ten times a second), so that none comes twice.",
        expect={AMO: LOSES_MORE},
        pace_ms=WRITTEN_MS,
    ),
    FRAMES.scenario(
        "broker-crash-before-ack",
        because="The server has written and flushed the message (sync_interval: always), and dies "
        "before the PubAck is out. It is there after the restart; published again it is there "
        "twice, unless its id is known: the server finds the ids of the stored messages again. How "
        "far a consumer is, it writes later than it answers acknowledgements: the last of them "
        "come again, which nobody who acknowledges first can know.",
        expect={
            AMO: RACE,
            ALO: Predicted(duplicated=AtLeast(most=UNWRITTEN)),
            EOS: holds(DEDUPLICATED),
        },
    ),
    FRAMES.scenario(
        "delivery-lost",
        because="The message never reaches the consumer, and the connection is cut. With AckNone "
        "the server is done with what it has sent, and the record is lost. What must be "
        "acknowledged comes again after ack_wait.",
        expect={AMO: LOSES, ALO: holds(DELIVERED_AGAIN), EOS: holds(DELIVERED_AGAIN)},
    ),
    FRAMES.scenario(
        "delivery-lost+acknowledged-first",
        because="At-most-once in which the program acknowledges before its work. What has not "
        "arrived is not acknowledged, so the lost delivery does no harm.",
        expect={AMO: Predicted(sign=DELIVERED_AGAIN, settings=ONCE)},
    ),
    FRAMES.scenario(
        "commit-lost",
        because="The acknowledgement never arrives and the consumer dies. After ack_wait the "
        "message comes again: not worked on yet, recorded a second time, or absorbed.",
        expect={
            AMO: Predicted(sign=DELIVERED_AGAIN, settings=ONCE),
            ALO: DUPLICATES,
            EOS: holds(ABSORBED),
        },
    ),
    FRAMES.scenario(
        "commit-ack-lost",
        because="The server has taken the acknowledgement, and the consumer dies before it learns "
        "so. Only a double ack has an answer. Who acknowledges first has not worked; who "
        "acknowledges last has.",
        expect={
            AMO: Predicted(lost=Exactly(), settings=ONCE),
            ALO: Predicted(sign=NOT_GIVEN_AGAIN, settings=answered(QUEUE_AT_LEAST_ONCE)),
            EOS: holds(NOT_GIVEN_AGAIN),
        },
    ),
    FRAMES.scenario(
        "consumer-crash-before-recording",
        because="The consumer has the message and has not recorded its result. With AckNone the "
        "server is done with it; else it comes again after ack_wait.",
        expect={AMO: LOSES, ALO: holds(DELIVERED_AGAIN), EOS: holds(DELIVERED_AGAIN)},
    ),
    FRAMES.scenario(
        "consumer-crash-before-commit",
        because="The result is recorded and the message is not acknowledged: it comes again.",
        expect={
            AMO: NotApplicable("acknowledged before the work, or not at all"),
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
AFTER_ACK: Final = OnWire(Role.CONSUMER, Op.PULL, REQUEST, since=ACKED)
"""The server has answered the acknowledgement, and the program asks for the next message."""
OWN: Final = (
    Scenario(
        pipeline=WORK_QUEUE,
        id="broker-crash-after-acknowledgement",
        because="The server has answered a double ack, and its program has gone on; then the "
        "server is killed. A work queue removes the message before it answers, and the removal is "
        "written: the message does not come again.",
        expect={
            AMO: Predicted(lost=AtMost(ON_THE_WAY), sign=ENDED),
            ALO: Predicted(
                duplicated=AtMost(UNWRITTEN), sign=ENDED, settings=answered(QUEUE_AT_LEAST_ONCE)
            ),
            EOS: holds(ENDED),
        },
        fault=Kill(AFTER_ACK, BROKER),
        deployment=Deployment.OWN,
    ),
    FRAMES.scenario(
        "commit-lost+unnoticed",
        because="The acknowledgement is lost, and its connection lives on. A plain ack has no "
        "answer that could be missed: the program goes on, and after ack_wait the message comes "
        "again to a program that has done it. A double ack times out: who acknowledges first does "
        "not work on it, and gets it again.",
        expect={
            AMO: Predicted(sign=DELIVERED_AGAIN, settings=ONCE),
            ALO: DUPLICATES,
            EOS: holds(ABSORBED),
        },
        fault=Drop(ACK, After.GO_ON),
    ),
    Scenario(
        pipeline=STREAM,
        id="ack-late",
        because="The acknowledgement is under way for longer than ack_wait, and the message is "
        "given to a second program before it arrives: ack_wait shorter than the work duplicates, "
        "without any crash.",
        expect={
            ALO: Predicted(duplicated=Exactly(), settings=shared(QUEUE_AT_LEAST_ONCE)),
            EOS: Predicted(sign=ABSORBED, settings=shared(EXACTLY)),
        },
        fault=Hold(ACK, until=replace(MESSAGE, occurrence=2)),
    ),
    FRAMES.scenario(
        "none",
        pipeline=WORK_QUEUE,
        because="The baseline of a stream that forgets what is acknowledged.",
        expect={AMO: Predicted(), ALO: Predicted(), EOS: Predicted()},
    ),
    FRAMES.scenario(
        "commit-lost",
        pipeline=WORK_QUEUE,
        because="As on a stream with limits: what is not acknowledged is still there.",
        expect={AMO: holds(DELIVERED_AGAIN), ALO: DUPLICATES, EOS: holds(ABSORBED)},
    ),
    FRAMES.scenario(
        "broker-crash-before-ack",
        pipeline=WORK_QUEUE,
        because="As on a stream with limits, as long as the message is still in the stream when "
        "the server dies.",
        expect={
            AMO: Predicted(lost=AtMost(IN_HAND), sign=NOT_RESENT),
            ALO: Predicted(duplicated=AtLeast(most=IN_HAND)),
            EOS: holds(DEDUPLICATED),
        },
    ),
)
_POWER: Final = (
    FRAMES.scenario(
        "power-loss",
        because="With sync_interval: always the server flushes a message before it answers: what "
        "was answered is there when the power comes back.",
        expect={ALO: holds(TOLD_TO_FLUSH), EOS: holds(TOLD_TO_FLUSH)},
        suite=Suite.NIGHT,
        group="power",
    ),
    FRAMES.scenario(
        "power-loss+default",
        because="Control: by default the server flushes every two minutes and answers before. A "
        "loss of power takes all that was answered, and the stream itself.",
        expect=dict.fromkeys((ALO, EOS), ALL_ANSWERED),
        suite=Suite.NIGHT,
        group="power",
        broker_settings={"sync_interval": "2m"},
    ),
)
LOSES_FROM: Final = dict.fromkeys((ALO, EOS), Predicted(lost=Exactly(FROM_DAMAGED), control=True))
AT_REST: Final = {"suite": Suite.NIGHT, "group": "at-rest"}
_AT_REST: Final = (
    FRAMES.scenario(
        "restarted",
        because="The server is killed and started again; its files are as it left them: what was "
        "answered is there. The twin of those whose files are damaged.",
        expect={ALO: holds(OUTLIVED), EOS: holds(OUTLIVED)},
        **AT_REST,
    ),
    FRAMES.scenario(
        "bit-flipped",
        because="Control: a bit of one message is another one, in the stream's only block. The "
        "server drops that message and all behind it, in its file, too, and logs nothing "
        "(nats-server #7549, open).",
        expect=LOSES_FROM,
        **AT_REST,
    ),
    FRAMES.scenario(
        "tail-cut",
        because="Control: the block ends within a message. The server drops what is left of that, "
        "and logs nothing; what was behind is gone with the damage itself.",
        expect=LOSES_FROM,
        **AT_REST,
    ),
)
BY_STREAM: Final = replace(EXACTLY, consumer=answered(QUEUE_AT_LEAST_ONCE).consumer)
"""Exactly-once by the stream alone: the sink absorbs nothing."""
ACKNOWLEDGED: Final = Kill(PUBACK, BROKER, settle=True)
"""The server dies when the message is done and gone, and its PubAck is still on its way."""
_PUBLISHED: Final = (
    FRAMES.scenario(
        "broker-crash-before-append+first-sequence",
        because="The stream begins at a later sequence (first_seq), and its server is killed. All "
        "that was answered is there when it is back: before 2.11.11 the stream was empty "
        "(nats-server PR #6753).",
        fault=Kill(replace(PUBLISH, offset=1), BROKER),
        expect={ALO: holds(OUTLIVED)},
        by_system={"nats<2.11.11": {ALO: ALL_ANSWERED}},
        consumer_starts_after_fault=True,
        broker_settings={"stream.first_seq": "10"},
        suite=Suite.NIGHT,
        group="published",
    ),
    FRAMES.scenario(
        "broker-crash-before-ack+acknowledged",
        because="The message was done and acknowledged before its PubAck went out, and the server "
        "dies then. A stream with limits still has the message, and finds its Nats-Msg-Id in it.",
        fault=ACKNOWLEDGED,
        expect={EOS: holds(DEDUPLICATED)},
        suite=Suite.NIGHT,
        group="published",
    ),
    FRAMES.scenario(
        "broker-crash-before-ack+acknowledged",
        pipeline=WORK_QUEUE,
        because="Control: a work queue has removed the message, and knows its Nats-Msg-Id only as "
        "long as the server lives. Published again, it is stored and done again (nats-server "
        "#3272, open): exactly-once needs a sink that knows the ids it has.",
        fault=ACKNOWLEDGED,
        expect={EOS: Predicted(duplicated=Exactly(), control=True, settings=BY_STREAM)},
        suite=Suite.NIGHT,
        group="published",
    ),
)
SCENARIOS: Final = (*POINTS, *OWN, *_POWER, *_AT_REST, *_PUBLISHED)
