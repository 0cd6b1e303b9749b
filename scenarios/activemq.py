"""ActiveMQ Classic at every failure point of the plain pipeline: outbox → producer → queue →
consumer → database.

Over STOMP, OpenWire or AMQP, as the client has it: a scenario names acts, and by_client what theory
says of one otherwise.

One record per SEND, one message in flight per consumer. Every restart is after SIGKILL. What
differs from a log: the broker pushes, remembers to whom it has given a message until that is
acknowledged for itself, and then forgets it.

At-most-once is taken as the protocol gives it: SEND without a receipt, and ``ack:auto``, where the
broker takes a message off the queue when it has written it to a socket. Where a point needs an
answer that this has not (a receipt, an acknowledgement), everything is answered instead: a SEND is
sent once, receipt or not, and ACK comes, and is taken, before the work.
"""

from __future__ import annotations

from dataclasses import replace

from harness.controls import InProgram, OnWire
from harness.faults import Drop, WorkFails
from harness.judge.queue_selections import IN_HAND, ON_THE_WAY
from harness.judge.signs import (
    ABSORBED,
    DELIVERED_AGAIN,
    NOT_GIVEN_AGAIN,
    NOT_RESENT,
    SENT_ANEW,
    TAKEN_AGAIN,
)
from harness.model.prediction import AtLeast, AtMost, Exactly
from harness.model.scenario import Deployment, NotApplicable, Predicted, Role, Scenario, Suite
from harness.proofs.power import TOLD_TO_FLUSH
from harness.protocols.acts import Act
from harness.scenarios import jms
from harness.scenarios.common import ALL_ANSWERED, Frames
from harness.scenarios.plain import ALO, AMO, DUPLICATES, EOS, LOSES, REQUEST, RESPONSE, holds
from harness.stages.pushing import Acknowledge, AcknowledgeSettings
from harness.stages.settings import (
    QUEUE_AT_LEAST_ONCE,
    QUEUE_AT_MOST_ONCE,
    QUEUE_AT_MOST_ONCE_ANSWERED,
    QUEUE_EXACTLY_ONCE,
    queue_pipeline,
)
from harness.systems.activemq.faults import IndexRebuilt
from harness.systems.activemq.signs import REMEMBERED
from harness.wire.rules import After

QUEUE = queue_pipeline("activemq")
SEND = OnWire(Role.PRODUCER, Act.SEND, REQUEST)
RECEIPT_OF_SEND = OnWire(Role.PRODUCER, Act.SENT, RESPONSE)
MESSAGE = OnWire(Role.CONSUMER, Act.GIVE, RESPONSE)
ACK = OnWire(Role.CONSUMER, Act.ACK, REQUEST)
RECEIPT_OF_ACK = OnWire(Role.CONSUMER, Act.ACKED, RESPONSE)
FRAMES = Frames(QUEUE, SEND, RECEIPT_OF_SEND, MESSAGE, ACK, RECEIPT_OF_ACK)
PACE_MS = 40
"""Who waits for no answer has sent everything before a fault has come and gone: its source gives a
record every so often.
"""
ANSWERED = QUEUE_AT_MOST_ONCE_ANSWERED
SENT_ANSWERED = replace(ANSWERED, consumer=QUEUE_AT_MOST_ONCE.consumer)
"""Over AMQP an acknowledgement may wait in its library while the program works: there a message is
settled when it is sent.
"""
OPENWIRE, AMQP = "openwire", "amqp"
NO_WORD = NotApplicable(
    "JMS has no word by which a program refuses a message for good: see work-fails"
)
NUMBERED = NotApplicable(
    "what is given is numbered by its link: where a frame is missing, its connection ends"
)
UNANSWERED = NotApplicable(
    "an acknowledgement settles the message without an answer, so it cannot be awaited"
)
WAITS = Predicted(left=AtLeast(), control=True)
LOSES_MORE = Predicted(lost=AtLeast(most=ON_THE_WAY))
"""What is behind the target on its connection, and nobody has asked for an answer to,
goes with it.
"""
AND_IN_HAND = Predicted(duplicated=AtLeast(most=IN_HAND))
"""What a consumer has in hand when its broker dies, or its connection is cut, comes twice, too, and
nothing else does.
"""
WORKED_ON = Predicted(duplicated=AtMost(IN_HAND), sign=DELIVERED_AGAIN)
"""A library of JMS has the next message while its program works on the one before: that is in hand
when the connection is cut.
"""
UNHEARD = Predicted(lost=AtMost(IN_HAND), sign=DELIVERED_AGAIN, settings=ANSWERED)
"""The same, where the one before is acknowledged, its program does not learn so, and does not work
on it.
"""

_ALL = (
    FRAMES.scenario(
        "none",
        because="Without a fault nothing is lost and nothing is duplicated: the baseline.",
        expect={AMO: Predicted(), ALO: Predicted(), EOS: Predicted()},
    ),
    FRAMES.scenario(
        "producer-crash-before-send",
        because=(
            "The producer has the record and has not sent it. A cursor saved before the send "
            "has passed the record; a cursor saved after the receipt has not, and the "
            "restarted producer takes the record again."
        ),
        expect={AMO: LOSES, ALO: holds(TAKEN_AGAIN), EOS: holds(TAKEN_AGAIN)},
        pace_ms=PACE_MS,
    ),
    FRAMES.scenario(
        "producer-crash-before-ack",
        because=(
            "The broker has stored the message and its producer dies before it reads the "
            "receipt. At-most-once does not send again; at-least-once does, as a new message, "
            "for the broker knows no record ids; the consumer absorbs it."
        ),
        expect={
            AMO: Predicted(sign=NOT_RESENT, settings=ANSWERED),
            ALO: DUPLICATES,
            EOS: holds(ABSORBED),
        },
    ),
    FRAMES.scenario(
        "request-lost",
        because=(
            "The SEND never reaches the broker, and the connection is cut. A producer that "
            "asks for no receipt notices nothing, and loses also what it wrote after the "
            "SEND. A producer that waits for the receipt sends the message again; the first "
            "one was never stored, so this does not duplicate."
        ),
        expect={AMO: LOSES_MORE, ALO: holds(SENT_ANEW), EOS: holds(SENT_ANEW)},
        pace_ms=PACE_MS,
    ),
    FRAMES.scenario(
        "ack-lost",
        because=(
            "The message is stored and its receipt is lost. The message that the producer "
            "sends again is a second one for the broker, which has no producer ids by which "
            "to recognise it. Exactly-once is up to the sink, which absorbs the second."
        ),
        expect={
            AMO: Predicted(sign=NOT_RESENT, settings=ANSWERED),
            ALO: DUPLICATES,
            EOS: holds(ABSORBED),
        },
    ),
    FRAMES.scenario(
        "broker-crash-before-append",
        because=(
            "The broker dies with the SEND not yet seen. Without a receipt that is lost, with "
            "what was on its way to the consumer and forgotten already; with one it is sent "
            "again. A record whose ACK died with the broker is delivered again."
        ),
        expect={
            AMO: LOSES_MORE,
            ALO: Predicted(duplicated=AtMost(IN_HAND), sign=SENT_ANEW),
            EOS: holds(SENT_ANEW),
        },
        pace_ms=3 * PACE_MS,
    ),
    FRAMES.scenario(
        "broker-crash-before-ack",
        because=(
            "The broker has the message in its journal, flushed, and dies before the receipt "
            "is out. It is there after the restart; sent again it is there twice. Over AMQP "
            "nobody answers an acknowledgement: one that its library had not sent yet dies "
            "with the connection, and its message would come again to who acknowledges "
            "first. So at-most-once takes there what is settled when it is sent."
        ),
        expect={
            AMO: Predicted(lost=AtMost(IN_HAND), sign=NOT_RESENT, settings=ANSWERED),
            ALO: AND_IN_HAND,
            EOS: holds(ABSORBED),
        },
        by_client={
            AMQP: {AMO: Predicted(lost=AtMost(ON_THE_WAY), sign=NOT_RESENT, settings=SENT_ANSWERED)}
        },
    ),
    FRAMES.scenario(
        "delivery-lost",
        because=(
            "The message never reaches the consumer, and the connection is cut. The texts say "
            "that a lost delivery does nothing: so it is where a broker is asked. This one "
            "pushes, and with ack:auto it has taken the message off its queue when it has "
            "written it to the socket: the record is gone, with what was behind it; so it is "
            "with what AMQP settles at once. What must be acknowledged for itself is given again "
            "when its connection has ended, and OpenWire's library acknowledges by itself only "
            "what it has. A library of JMS has the next message while its program works on the "
            "one before: that may be given again, too."
        ),
        expect={AMO: LOSES_MORE, ALO: holds(DELIVERED_AGAIN), EOS: holds(DELIVERED_AGAIN)},
        pace_ms=PACE_MS,
        by_client={OPENWIRE: {AMO: holds(DELIVERED_AGAIN), ALO: WORKED_ON}, AMQP: {ALO: WORKED_ON}},
    ),
    FRAMES.scenario(
        "delivery-lost+acknowledged-first",
        because=(
            "At-most-once in which the program acknowledges before its work. A message that "
            "has not arrived is not acknowledged, so the lost delivery does no harm here: "
            "ack:auto loses records, and pushing does not. A JMS library has the next "
            "message before the one in hand is acknowledged. If the answer to that "
            "acknowledgement is lost with the connection, the program does not know that it "
            "was taken, and does not do the work."
        ),
        expect={AMO: Predicted(sign=DELIVERED_AGAIN, settings=ANSWERED)},
        by_client={OPENWIRE: {AMO: UNHEARD}, AMQP: {AMO: UNANSWERED}},
    ),
    FRAMES.scenario(
        "delivery-lost+connection-lives",
        because=(
            "The message never reaches the consumer, and its connection lives on. With "
            "ack:auto that one record is lost. What must be acknowledged stays in flight, at "
            "a consumer that has not got it: nothing times that out, and where one may be in "
            "flight it is the last that is given. It is not lost: it comes again when the "
            "connection ends, and all waits for that."
        ),
        expect={
            AMO: LOSES,
            ALO: WAITS,
            EOS: WAITS,
        },
        fault=Drop(MESSAGE, After.GO_ON),
        pace_ms=PACE_MS,
        by_client={OPENWIRE: {AMO: WAITS}, AMQP: dict.fromkeys((AMO, ALO, EOS), NUMBERED)},
    ),
    FRAMES.scenario(
        "commit-lost",
        because=(
            "The ACK never arrives and the consumer dies. The message is given again: not "
            "worked on yet, recorded a second time, or absorbed. Over AMQP nobody answers "
            "it: the consumer may be at work on the next one when it dies, and that comes "
            "twice, too."
        ),
        expect={
            AMO: Predicted(sign=DELIVERED_AGAIN, settings=ANSWERED),
            ALO: DUPLICATES,
            EOS: holds(ABSORBED),
        },
        by_client={AMQP: {AMO: UNANSWERED, ALO: AND_IN_HAND}},
    ),
    FRAMES.scenario(
        "commit-ack-lost",
        because=(
            "The broker has taken the ACK, and the consumer dies before it learns that. If the "
            "consumer acknowledges first, the message is forgotten and the work was never done; "
            "if it acknowledges last, the work is done."
        ),
        expect={
            AMO: Predicted(lost=Exactly(), settings=ANSWERED),
            ALO: holds(NOT_GIVEN_AGAIN),
            EOS: holds(NOT_GIVEN_AGAIN),
        },
        by_client={AMQP: dict.fromkeys((AMO, ALO, EOS), UNANSWERED)},
    ),
    FRAMES.scenario(
        "consumer-crash-before-recording",
        because=(
            "The consumer has the message and has not recorded its result. With ack:auto the "
            "broker has forgotten the message, and also those that wait in the consumer's "
            "buffers: prefetch 1 does not limit how many messages are acknowledged as they are "
            "written to the socket. OpenWire's library has acknowledged only the one message "
            "that it has handed over."
        ),
        expect={AMO: LOSES_MORE, ALO: holds(DELIVERED_AGAIN), EOS: holds(DELIVERED_AGAIN)},
        pace_ms=PACE_MS,
        by_client={OPENWIRE: {AMO: LOSES}},
    ),
    FRAMES.scenario(
        "consumer-crash-before-commit",
        because=(
            "The result is recorded and the message is not acknowledged: the broker delivers it "
            "again."
        ),
        expect={
            AMO: NotApplicable(
                "the message is acknowledged before the work: there is no acknowledgement after it"
            ),
            ALO: DUPLICATES,
            EOS: holds(ABSORBED),
        },
    ),
    FRAMES.scenario(
        "power-loss",
        because=(
            "The journal is flushed before a receipt goes out (KahaDB's default), so the power may "
            "go at any time: whatever has a receipt is in the flushed part of the journal. The "
            "index, which is flushed later, is made again from the journal."
        ),
        expect={ALO: holds(TOLD_TO_FLUSH), EOS: holds(TOLD_TO_FLUSH)},
        suite=Suite.NIGHT,
    ),
)
POINTS = tuple(
    replace(each, suite=Suite.CORE) if each.id in {"none", "delivery-lost"} else each
    for each in _ALL
)
"""Those of the plain pipeline, whatever a client speaks."""
_REJECTS = {
    semantic: Predicted(
        lost=Exactly(),
        control=True,
        settings=replace(
            recipe,
            consumer=replace(recipe.consumer, share=replace(recipe.consumer.share, rejects=True)),
        ),
    )
    for semantic, recipe in ((ALO, QUEUE_AT_LEAST_ONCE), (EOS, QUEUE_EXACTLY_ONCE))
}
REJECTED = Scenario(
    pipeline=QUEUE,
    id="work-fails+rejected",
    group="refused",
    fault=WorkFails(InProgram(Role.CONSUMER, "before-recording")),
    because="Control: the work fails, and the program says NACK. The broker moves the message to "
    "its dead letters at once, and never delivers it again.",
    expect=_REJECTS,
    by_client={client: dict.fromkeys(_REJECTS, NO_WORD) for client in (OPENWIRE, AMQP)},
)
_TRANSACTED = {
    semantic: jms.consuming(recipe, acknowledging=AcknowledgeSettings(Acknowledge.TRANSACTED))
    for semantic, recipe in ((AMO, ANSWERED), (ALO, QUEUE_AT_LEAST_ONCE), (EOS, QUEUE_EXACTLY_ONCE))
}
REBUILT = Scenario(
    pipeline=QUEUE,
    id="broker-crash-after-compaction",
    group="jms",
    fault=IndexRebuilt(jms.COMMIT),
    deployment=Deployment.OWN,
    suite=Suite.NIGHT,
    because="A session's commit acknowledges the messages that it has received, and the broker has "
    "answered it. KahaDB compacts the journal file with these acknowledgements: it copies "
    "them to another file, and removes the first one. Then the broker dies, its index is "
    "lost, and it makes a new one from the journal. Before 5.16.2 (AMQ-8201) compaction does "
    "not copy the commit of a local transaction: the acknowledgement is forgotten, and the "
    "message is delivered again.",
    expect={
        semantic: jms.told(holds(REMEMBERED), recipe) for semantic, recipe in _TRANSACTED.items()
    },
    by_client={"stomp.py": dict.fromkeys(_TRANSACTED, jms.NOT_JMS)},
    by_system={
        "activemq<5.16.2": {
            AMO: jms.told(Predicted(duplicated=AtLeast(), control=True), _TRANSACTED[AMO]),
            ALO: jms.told(Predicted(duplicated=AtLeast()), _TRANSACTED[ALO]),
            EOS: jms.told(holds(ABSORBED), _TRANSACTED[EOS]),
        }
    },
)
UNFLUSHED = FRAMES.scenario(
    "power-loss+unflushed",
    because="Control: the journal is never flushed (kahadb.enableJournalDiskSyncs=false). A loss "
    "of power takes all that had a receipt.",
    expect={ALO: ALL_ANSWERED},
    broker_settings={"kahadb.enableJournalDiskSyncs": "false"},
    suite=Suite.NIGHT,
)
SCENARIOS = (
    *POINTS,
    UNFLUSHED,
    REJECTED,
    REBUILT,
    *jms.scenarios(QUEUE, ("stomp.py", "openwire", "amqp")),
)
