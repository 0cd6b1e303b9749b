"""Pulsar at the points of the plain pipeline, by each client, and with acknowledgements that are
answered, by the Java client.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from harness.controls import InProgram, OnWire
from harness.faults import Drop, Kill, NoFault
from harness.judge.queue_selections import IN_HAND
from harness.judge.signs import (
    ABSORBED,
    DELIVERED_AGAIN,
    NOT_GIVEN_AGAIN,
    NOT_RESENT,
    REPEATED_REQUEST,
    TAKEN_AGAIN,
)
from harness.model.prediction import AtLeast, AtMost, Exactly, Select
from harness.model.scenario import NotApplicable, Predicted, Role, Scenario, Suite
from harness.proofs.power import TOLD_TO_FLUSH
from harness.protocols.pulsar.steps import Command
from harness.scenarios.common import Frames
from harness.scenarios.plain import ALO, AMO, DUPLICATES, EOS, LOSES, REQUEST, RESPONSE, holds
from harness.stages.pushing import Cursor
from harness.systems.pulsar.selections import UNWRITTEN
from harness.systems.pulsar.settings import ALO as PULSAR_ALO
from harness.systems.pulsar.settings import (
    ALO_DEDUPLICATED,
    AMO_DEDUPLICATED,
    SUBSCRIPTION,
    answered,
    with_cursor,
)
from harness.systems.pulsar.settings import AMO as PULSAR_AMO
from harness.systems.pulsar.settings import EOS as PULSAR_EOS
from harness.systems.pulsar.signs import (
    DEDUPLICATED,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.model.scenario import Expectation, Fault
    from harness.model.semantics import Semantic

PULSAR_JAVA: Final = "pulsar-java"
SEND = OnWire(Role.PRODUCER, Command.SEND, REQUEST)
RECEIPT = OnWire(Role.PRODUCER, Command.SEND_RECEIPT, RESPONSE)
MESSAGE = OnWire(Role.CONSUMER, Command.MESSAGE, RESPONSE)
ACK = OnWire(Role.CONSUMER, Command.ACK, REQUEST)
FRAMES = Frames(SUBSCRIPTION, SEND, RECEIPT, MESSAGE, ACK)
PLAIN = (
    FRAMES.scenario(
        "none",
        because="Without a fault nothing is lost and nothing is duplicated: the baseline.",
        expect={AMO: Predicted(), ALO: Predicted(), EOS: Predicted()},
    ),
    FRAMES.scenario(
        "power-loss",
        because=(
            "The bookie flushes its journal before the broker answers (journalSyncData, the "
            "default), so whatever has a receipt is on the disk."
        ),
        expect={ALO: holds(TOLD_TO_FLUSH), EOS: holds(TOLD_TO_FLUSH)},
        suite=Suite.NIGHT,
    ),
    FRAMES.scenario(
        "power-loss+unflushed",
        because="Control: the bookie does not flush its journal (journalSyncData=false). A loss of "
        "power takes what had a receipt: all of it, or what came behind one of the few flushes "
        "of the journal that the bookie still does.",
        expect={ALO: Predicted(lost=AtLeast(most=Select.THROUGH_TARGET), control=True)},
        broker_settings={"journalSyncData": "false"},
        suite=Suite.NIGHT,
    ),
    FRAMES.scenario(
        "producer-crash-before-send",
        because=(
            "The producer has the record and has not sent it. A cursor saved before the send "
            "has passed the record; a cursor saved after the receipt has not, and the "
            "restarted producer takes the record again."
        ),
        expect={AMO: LOSES, ALO: holds(TAKEN_AGAIN), EOS: holds(TAKEN_AGAIN)},
    ),
    FRAMES.scenario(
        "producer-crash-before-ack",
        because=(
            "The broker has stored the message, and the producer dies before it reads the "
            "receipt. At-most-once does not send again; at-least-once does, as a new message. If "
            "the broker deduplicates, and the restarted producer has the same name and takes its "
            "sequence ids from the source, the broker answers without storing the message again."
        ),
        expect={AMO: holds(NOT_RESENT), ALO: DUPLICATES, EOS: holds(DEDUPLICATED)},
    ),
    FRAMES.scenario(
        "request-lost",
        because=(
            "The SEND never reaches the broker, and the connection is cut. The library "
            "connects and sends again by itself, and does not tell the program. So "
            "at-most-once loses nothing here, because it never makes only one attempt."
        ),
        expect={
            AMO: holds(REPEATED_REQUEST),
            ALO: holds(REPEATED_REQUEST),
            EOS: holds(REPEATED_REQUEST),
        },
    ),
    FRAMES.scenario(
        "ack-lost",
        because=(
            "The message is stored and its receipt is lost. The library sends it again by "
            "itself, and no setting forbids that: a program that sends once has the message "
            "twice. Only a broker that deduplicates recognises it."
        ),
        expect={
            AMO: Predicted(duplicated=Exactly(), control=True),
            ALO: DUPLICATES,
            EOS: holds(DEDUPLICATED),
        },
    ),
    FRAMES.scenario(
        "ack-lost+deduplicated",
        because=(
            "The same, where the namespace deduplicates: the broker answers it, and stores nothing."
        ),
        expect={
            AMO: Predicted(sign=DEDUPLICATED, settings=AMO_DEDUPLICATED),
            ALO: Predicted(sign=DEDUPLICATED, settings=ALO_DEDUPLICATED),
        },
    ),
    FRAMES.scenario(
        "broker-crash-before-append",
        because=(
            "The broker dies before it sees the SEND; the library sends it again when the "
            "broker is back. Acknowledgements that no cursor had written down are lost with "
            "the broker: their messages are delivered again."
        ),
        expect={
            AMO: NotApplicable(
                "messages delivered again after the broker's death are the subject of another "
                "scenario"
            ),
            ALO: Predicted(duplicated=AtMost(UNWRITTEN), sign=REPEATED_REQUEST),
            EOS: holds(REPEATED_REQUEST),
        },
    ),
    FRAMES.scenario(
        "broker-crash-before-ack",
        because=(
            "The bookie has the message in its journal, and the broker dies before it sends "
            "the receipt. After the restart the message is there, and the library sends it "
            "again. A broker that deduplicates has learnt from its own ledger which messages "
            "it has."
        ),
        expect={
            AMO: Predicted(duplicated=AtLeast(most=UNWRITTEN), control=True),
            ALO: Predicted(duplicated=AtLeast(most=UNWRITTEN)),
            EOS: holds(DEDUPLICATED),
        },
    ),
    FRAMES.scenario(
        "broker-crash-before-ack+snapshot",
        because=(
            "The same, where the broker has written down how far its producer was some "
            "messages ago: it begins there, and learns the rest from its own ledger."
        ),
        expect={
            EOS: Predicted(sign=DEDUPLICATED, settings=with_cursor(PULSAR_EOS, Cursor.SNAPSHOTS))
        },
        suite=Suite.NIGHT,
    ),
    FRAMES.scenario(
        "delivery-lost",
        because=(
            "The message never reaches the consumer, and the connection is cut. When the "
            "library has connected again, all messages that are not acknowledged are "
            "delivered again: this record, and those that the program acknowledged within "
            "the last 100 ms, because these acknowledgements are lost with the connection. "
            "If there are any, a lost connection alone duplicates records, even if the "
            "program acknowledges first."
        ),
        expect={
            AMO: NotApplicable(
                "the library's timer of 100 ms decides which acknowledgements it has sent: see "
                "+answered"
            ),
            ALO: Predicted(duplicated=AtMost(IN_HAND), sign=DELIVERED_AGAIN),
            EOS: holds(DELIVERED_AGAIN),
        },
    ),
    FRAMES.scenario(
        "commit-lost",
        because=(
            "The acknowledgement never arrives, and the consumer dies. The message is "
            "delivered again, although the program was told that it is acknowledged: the "
            "library told it so, not the broker. At-most-once has done the work before."
        ),
        expect={
            AMO: Predicted(duplicated=AtLeast(most=IN_HAND), control=True),
            ALO: Predicted(duplicated=AtLeast(most=IN_HAND)),
            EOS: holds(ABSORBED),
        },
    ),
    FRAMES.scenario(
        "consumer-crash-before-recording",
        because=(
            "The consumer has the message and has not recorded its result. Even an "
            "acknowledgement made before the work may still be in the library, and be lost with "
            "it. Then the record is delivered again, with those that were acknowledged within "
            "the last 100 ms. Whether the library has just sent them depends on its timer."
        ),
        expect={
            AMO: NotApplicable(
                "the library's timer of 100 ms decides which acknowledgements it has sent: see "
                "+answered"
            ),
            ALO: Predicted(duplicated=AtMost(IN_HAND), sign=DELIVERED_AGAIN),
            EOS: holds(DELIVERED_AGAIN),
        },
    ),
    FRAMES.scenario(
        "consumer-crash-before-commit",
        because=(
            "The result is recorded and the message is not acknowledged: it is delivered "
            "again, and with it those whose acknowledgements the library had not sent yet."
        ),
        expect={
            AMO: NotApplicable(
                "the message is acknowledged before the work: there is no acknowledgement after it"
            ),
            ALO: Predicted(duplicated=AtLeast(most=IN_HAND)),
            EOS: holds(ABSORBED),
        },
    ),
)
NO_RECEIPTS = NotApplicable("the client waits for no answer to an acknowledgement")
NO_TRANSACTIONS = NotApplicable("the client has no transactions")
NOT_SENT_IN_ONE = NotApplicable("nothing is sent in a transaction")
ANSWERED_RECIPES = {
    AMO: answered(PULSAR_AMO),
    ALO: answered(PULSAR_ALO),
    EOS: answered(PULSAR_EOS),
}


def by_java(
    name: str,
    fault: Fault,
    because: str,
    expect: Mapping[Semantic, Expectation],
    **more: Any,
) -> Scenario:
    """Return a scenario of a subscription whose acknowledgements are answered, which only the Java
    client can be told.
    """
    told = {
        semantic: replace(each, settings=each.settings or ANSWERED_RECIPES[semantic])
        if isinstance(each, Predicted)
        else each
        for semantic, each in expect.items()
    }
    return Scenario(
        pipeline=SUBSCRIPTION,
        id=name,
        fault=fault,
        because=because,
        expect=dict.fromkeys(expect, NO_RECEIPTS),
        by_client={PULSAR_JAVA: told},
        **more,
    )


ACK_RESPONSE = OnWire(Role.CONSUMER, Command.ACK_RESPONSE, RESPONSE)
ANSWERED = (
    by_java(
        "none+answered",
        NoFault(),
        "Without a fault, where each acknowledgement is sent at once and answered.",
        {AMO: Predicted(), ALO: Predicted(), EOS: Predicted()},
    ),
    by_java(
        "delivery-lost+answered",
        Drop(MESSAGE),
        "The message never reaches the consumer, and the connection is cut. It is delivered "
        "again, and possibly also the message that the consumer has in hand: if the consumer "
        "acknowledges it into the lost connection, it believes that the acknowledgement failed, "
        "whatever the broker has.",
        {
            AMO: Predicted(lost=AtMost(IN_HAND), sign=DELIVERED_AGAIN),
            ALO: Predicted(duplicated=AtMost(IN_HAND), sign=DELIVERED_AGAIN),
            EOS: holds(DELIVERED_AGAIN),
        },
    ),
    by_java(
        "commit-lost+answered",
        Kill(ACK, (Role.CONSUMER,)),
        "The acknowledgement never arrives, and the consumer dies. A consumer that acknowledges "
        "first has not begun the work, because the broker has not answered: at-most-once keeps "
        "its promise.",
        {AMO: holds(DELIVERED_AGAIN), ALO: DUPLICATES, EOS: holds(ABSORBED)},
    ),
    by_java(
        "commit-ack-lost",
        Kill(ACK_RESPONSE, (Role.CONSUMER,)),
        "The broker has taken the acknowledgement, and the consumer dies before it learns that. "
        "If the consumer acknowledges first, the record is lost: the work was never done. If it "
        "acknowledges last, the work is done.",
        {AMO: LOSES, ALO: holds(NOT_GIVEN_AGAIN), EOS: holds(NOT_GIVEN_AGAIN)},
    ),
    by_java(
        "consumer-crash-before-recording+answered",
        Kill(InProgram(Role.CONSUMER, "before-recording"), (Role.CONSUMER,)),
        "The consumer has the message and has not recorded its result. If the message was "
        "acknowledged, and that was answered, before the work, it is lost.",
        {AMO: LOSES, ALO: holds(DELIVERED_AGAIN), EOS: holds(DELIVERED_AGAIN)},
    ),
    by_java(
        "consumer-crash-before-commit+answered",
        Kill(InProgram(Role.CONSUMER, "before-commit"), (Role.CONSUMER,)),
        "The result is recorded and the message is not acknowledged. No other acknowledgement "
        "waits with it: exactly this message is delivered again.",
        {
            AMO: NotApplicable(
                "the message is acknowledged before the work: there is no acknowledgement after it"
            ),
            ALO: DUPLICATES,
            EOS: holds(ABSORBED),
        },
    ),
)
