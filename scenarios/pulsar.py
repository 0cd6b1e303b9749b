"""Pulsar: outbox → producer → topic → subscription → database, at the points of the plain pipeline and at its own.

One message per SEND, one in flight per consumer, a shared subscription. Every restart is after SIGKILL. Two things differ from
other brokers. A client's library makes a lost connection again by itself and sends again what was not answered: a program that
sends once has no say in that. And a library gathers acknowledgements for 100 ms, and hears no answer to them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from harness.controls import InProgram, OnWire
from harness.faults import Drop, Kill, NoFault, WorkFails
from harness.judge.signs import (
    ABORTED,
    ABSORBED,
    DELIVERED_AGAIN,
    NOT_GIVEN_AGAIN,
    NOT_RESENT,
    REPEATED_REQUEST,
    TAKEN_AGAIN,
)
from harness.model.prediction import AtLeast, AtMost, Exactly, Select, Some
from harness.model.scenario import Deployment, NotApplicable, Predicted, Role, Scenario, Suite
from harness.protocols.pulsar.steps import Command
from harness.scenarios.plain import ALO, AMO, DUPLICATES, EOS, LOSES, REQUEST, RESPONSE, holds
from harness.stages.pushing import Cursor, PushSettings, Subscription
from harness.systems.activemq.selections import IN_HAND
from harness.systems.pulsar.selections import UNWRITTEN
from harness.systems.pulsar.settings import ALO as PULSAR_ALO
from harness.systems.pulsar.settings import (
    ALO_DEDUPLICATED,
    AMO_DEDUPLICATED,
    SUBSCRIPTION,
    TRANSFORM,
    answered,
    in_parts,
    with_cursor,
)
from harness.systems.pulsar.settings import AMO as PULSAR_AMO
from harness.systems.pulsar.settings import EOS as PULSAR_EOS
from harness.systems.pulsar.signs import ABORTED_OR_ASKED, DEDUPLICATED, ENDED_UNHEARD, HELD_BACK, PART_AGAIN, TOLD_AGAIN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.model.scenario import Expectation, Fault
    from harness.model.semantics import Semantic
    from harness.stages.settings import Settings
    from harness.wire.rules import Direction

PULSAR_JAVA: Final = "pulsar-java"

SEND, RECEIPT = OnWire(Role.PRODUCER, Command.SEND, REQUEST), OnWire(Role.PRODUCER, Command.SEND_RECEIPT, RESPONSE)
MESSAGE, ACK = OnWire(Role.CONSUMER, Command.MESSAGE, RESPONSE), OnWire(Role.CONSUMER, Command.ACK, REQUEST)

_ALL = (
    Scenario(
        pipeline=SUBSCRIPTION, id="none", failure_point="none", fault=NoFault(),
        because="Without a fault nothing is lost and nothing is duplicated: the baseline.",
        expect={AMO: Predicted(), ALO: Predicted(), EOS: Predicted()},
    ),
    Scenario(
        pipeline=SUBSCRIPTION, id="producer-crash-before-send", failure_point="producer-crash-before-send",
        fault=Kill(InProgram(Role.PRODUCER, "before-send"), (Role.PRODUCER,)),
        because="The record is in hand and not sent. A cursor saved before the send has passed it; one saved after the receipt "
        "has not, and the restarted producer takes the record again.",
        expect={AMO: LOSES, ALO: holds(TAKEN_AGAIN), EOS: holds(TAKEN_AGAIN)},
    ),
    Scenario(
        pipeline=SUBSCRIPTION, id="producer-crash-before-ack", failure_point="producer-crash-before-ack",
        fault=Kill(RECEIPT, (Role.PRODUCER,)),
        because="The broker has stored the message and its producer dies before it reads the receipt. At-most-once does not send "
        "again; at-least-once does, as a new message. Where the broker deduplicates, and the new process has the name of the old "
        "one and takes its sequence ids from the source, it answers without storing anything.",
        expect={AMO: holds(NOT_RESENT), ALO: DUPLICATES, EOS: holds(DEDUPLICATED)},
    ),
    Scenario(
        pipeline=SUBSCRIPTION, id="request-lost", failure_point="request-lost", fault=Drop(SEND),
        because="The SEND never reaches the broker, and the connection is cut. The library makes it again, and sends again, "
        "without a word to the program: at-most-once does not lose here, for it was never only one attempt.",
        expect={AMO: holds(REPEATED_REQUEST), ALO: holds(REPEATED_REQUEST), EOS: holds(REPEATED_REQUEST)},
    ),
    Scenario(
        pipeline=SUBSCRIPTION, id="ack-lost", failure_point="ack-lost", fault=Drop(RECEIPT),
        because="The message is stored and its receipt is lost. The library sends it again by itself, and nobody can forbid "
        "that: a program that sends once has it twice. Only a broker that deduplicates takes it for what it is.",
        expect={
            AMO: Predicted(duplicated=Exactly(), control=True), ALO: DUPLICATES, EOS: holds(DEDUPLICATED),
        },
    ),
    Scenario(
        pipeline=SUBSCRIPTION, id="ack-lost+deduplicated", failure_point="ack-lost", fault=Drop(RECEIPT),
        because="The same, where the namespace deduplicates: the broker answers it, and stores nothing.",
        expect={
            AMO: Predicted(sign=DEDUPLICATED, settings=AMO_DEDUPLICATED),
            ALO: Predicted(sign=DEDUPLICATED, settings=ALO_DEDUPLICATED),
        },
    ),
    Scenario(
        pipeline=SUBSCRIPTION, id="broker-crash-before-append", failure_point="broker-crash-before-append",
        deployment=Deployment.OWN, fault=Kill(SEND, (Role.BROKER,)),
        because="The broker dies with the SEND not yet seen; the library sends it again when it is back. Acknowledgements that "
        "no cursor had written down die with it: what they were of is given again.",
        expect={
            AMO: NotApplicable("what is given again after the broker's death is another point"),
            ALO: Predicted(duplicated=AtMost(UNWRITTEN), sign=REPEATED_REQUEST), EOS: holds(REPEATED_REQUEST),
        },
    ),
    Scenario(
        pipeline=SUBSCRIPTION, id="broker-crash-before-ack", failure_point="broker-crash-before-ack",
        deployment=Deployment.OWN, fault=Kill(RECEIPT, (Role.BROKER,)),
        because="The bookie has the message in its journal and the broker dies before the receipt is out. It is there after the "
        "restart, and the library sends it again; a broker that deduplicates has learnt from its own ledger what it has.",
        expect={
            AMO: Predicted(duplicated=AtLeast(most=UNWRITTEN), control=True),
            ALO: Predicted(duplicated=AtLeast(most=UNWRITTEN)), EOS: holds(DEDUPLICATED),
        },
    ),
    Scenario(
        pipeline=SUBSCRIPTION, id="broker-crash-before-ack+snapshot", failure_point="broker-crash-before-ack",
        deployment=Deployment.OWN, fault=Kill(RECEIPT, (Role.BROKER,)), suite=Suite.NIGHT,
        because="The same, where the broker has written down how far its producer was some messages ago: it begins there, and "
        "learns the rest from its own ledger.",
        expect={EOS: Predicted(sign=DEDUPLICATED, settings=with_cursor(PULSAR_EOS, Cursor.SNAPSHOTS))},
    ),
    Scenario(
        pipeline=SUBSCRIPTION, id="delivery-lost", failure_point="delivery-lost", fault=Drop(MESSAGE),
        because="The message never reaches the consumer, and the connection is cut. What is not acknowledged is given again when "
        "the library has made the connection again: this record, and what the program has acknowledged within the last 100 ms, "
        "for that goes with the connection. Where there is any of it, a lost connection is enough to duplicate, whoever "
        "acknowledges first.",
        expect={
            AMO: NotApplicable("what the library has said by then its clock of 100 ms decides: see +answered"),
            ALO: Predicted(duplicated=AtMost(IN_HAND), sign=DELIVERED_AGAIN), EOS: holds(DELIVERED_AGAIN),
        },
    ),
    Scenario(
        pipeline=SUBSCRIPTION, id="commit-lost", failure_point="commit-lost", fault=Kill(ACK, (Role.CONSUMER,)),
        because="The acknowledgement never arrives and the consumer dies. The message is given again, although the program was "
        "told that it is acknowledged: the library has answered, and not the broker. At-most-once has worked on it.",
        expect={
            AMO: Predicted(duplicated=AtLeast(most=IN_HAND), control=True),
            ALO: Predicted(duplicated=AtLeast(most=IN_HAND)), EOS: holds(ABSORBED),
        },
    ),
    Scenario(
        pipeline=SUBSCRIPTION, id="consumer-crash-before-recording", failure_point="consumer-crash-before-recording",
        fault=Kill(InProgram(Role.CONSUMER, "before-recording"), (Role.CONSUMER,)),
        because="The message is in hand and its result not recorded. Even where it was acknowledged before, that may still be "
        "with the library, and die with it: then the record comes again, with those that were acknowledged within the last "
        "100 ms. Whether the library has just said all that is up to its clock.",
        expect={
            AMO: NotApplicable("what the library has said when it dies its clock of 100 ms decides: see +answered"),
            ALO: Predicted(duplicated=AtMost(IN_HAND), sign=DELIVERED_AGAIN), EOS: holds(DELIVERED_AGAIN),
        },
    ),
    Scenario(
        pipeline=SUBSCRIPTION, id="consumer-crash-before-commit", failure_point="consumer-crash-before-commit",
        fault=Kill(InProgram(Role.CONSUMER, "before-commit"), (Role.CONSUMER,)),
        because="The result is recorded and the message not acknowledged: it is given again, and with it what the library had "
        "not yet said.",
        expect={
            AMO: NotApplicable("the message is acknowledged before the work: there is no acknowledgement after it"),
            ALO: Predicted(duplicated=AtLeast(most=IN_HAND)), EOS: holds(ABSORBED),
        },
    ),
)  # fmt: skip
NO_RECEIPTS = NotApplicable("the client waits for no answer to an acknowledgement")
NO_TRANSACTIONS = NotApplicable("the client has no transactions")
NOT_SENT_IN_ONE = NotApplicable("nothing is sent in a transaction")
_ANSWERED_RECIPES = {AMO: answered(PULSAR_AMO), ALO: answered(PULSAR_ALO), EOS: answered(PULSAR_EOS)}


def _by_java(name: str, point: str, fault: Fault, because: str, expect: Mapping[Semantic, Expectation], **more: Any) -> Scenario:
    """Return a scenario of a subscription whose acknowledgements are answered, which only the Java client can be told."""
    told = {
        semantic: replace(each, settings=each.settings or _ANSWERED_RECIPES[semantic]) if isinstance(each, Predicted) else each
        for semantic, each in expect.items()
    }
    return Scenario(
        pipeline=SUBSCRIPTION, id=name, failure_point=point, fault=fault, because=because,
        expect=dict.fromkeys(expect, NO_RECEIPTS), by_client={PULSAR_JAVA: told}, **more,
    )  # fmt: skip


ACK_RESPONSE = OnWire(Role.CONSUMER, Command.ACK_RESPONSE, RESPONSE)
_ANSWERED = (
    _by_java(
        "none+answered", "none", NoFault(), "Without a fault, where each acknowledgement goes at once and is answered.",
        {AMO: Predicted(), ALO: Predicted(), EOS: Predicted()},
    ),
    _by_java(
        "delivery-lost+answered", "delivery-lost", Drop(MESSAGE),
        "The message never reaches the consumer, and the connection is cut. It is given again, and so may be what the consumer "
        "has in hand: what it acknowledges into the lost connection it takes for not acknowledged, whatever the broker knows.",
        {
            AMO: Predicted(lost=AtMost(IN_HAND), sign=DELIVERED_AGAIN),
            ALO: Predicted(duplicated=AtMost(IN_HAND), sign=DELIVERED_AGAIN),
            EOS: holds(DELIVERED_AGAIN),
        },
    ),
    _by_java(
        "commit-lost+answered", "commit-lost", Kill(ACK, (Role.CONSUMER,)),
        "The acknowledgement never arrives and the consumer dies. Who acknowledges first has not begun to work, since nobody has "
        "answered: at-most-once is what it says.",
        {AMO: holds(DELIVERED_AGAIN), ALO: DUPLICATES, EOS: holds(ABSORBED)},
    ),
    _by_java(
        "commit-ack-lost", "commit-ack-lost", Kill(ACK_RESPONSE, (Role.CONSUMER,)),
        "The broker has taken the acknowledgement and the consumer dies before it learns that. Acknowledged first, nobody has "
        "worked on the message, and nobody will; acknowledged last, the work is done.",
        {AMO: LOSES, ALO: holds(NOT_GIVEN_AGAIN), EOS: holds(NOT_GIVEN_AGAIN)},
    ),
    _by_java(
        "consumer-crash-before-recording+answered", "consumer-crash-before-recording",
        Kill(InProgram(Role.CONSUMER, "before-recording"), (Role.CONSUMER,)),
        "The message is in hand and its result not recorded. Acknowledged, and answered, before the work it is gone.",
        {AMO: LOSES, ALO: holds(DELIVERED_AGAIN), EOS: holds(DELIVERED_AGAIN)},
    ),
    _by_java(
        "consumer-crash-before-commit+answered", "consumer-crash-before-commit",
        Kill(InProgram(Role.CONSUMER, "before-commit"), (Role.CONSUMER,)),
        "The result is recorded and the message not acknowledged. Nothing else waits with it: exactly this one is given again.",
        {
            AMO: NotApplicable("the message is acknowledged before the work: there is no acknowledgement after it"),
            ALO: DUPLICATES, EOS: holds(ABSORBED),
        },
    ),
)  # fmt: skip


def _in_parts(
    name: str, point: str, fault: Fault, because: str, expect: Mapping[Semantic, Expectation], *,
    recipes: Mapping[Semantic, Settings] = _ANSWERED_RECIPES,
) -> Scenario:  # fmt: skip
    """Return a scenario of messages in parts, which only the Java client can be told to make of small ones."""
    told = {
        semantic: replace(each, settings=in_parts(recipes[semantic])) if isinstance(each, Predicted) else each
        for semantic, each in expect.items()
    }
    return Scenario(
        pipeline=SUBSCRIPTION, id=name, failure_point=point, fault=fault, because=because, group="parts", suite=Suite.NIGHT,
        expect=dict.fromkeys(expect, WHOLE_ONLY), by_client={PULSAR_JAVA: told},
    )  # fmt: skip


STANDS_STILL = Predicted(left=Some(), control=True)
_FIRST_THIRD, _ALL_OF_THEM = 8, 24
_PUT_OFF = {semantic: with_cursor(each, Cursor.LAZY, puts_off=_FIRST_THIRD) for semantic, each in _ANSWERED_RECIPES.items()}
"""Some messages are not acknowledged when the connection is cut."""
WHOLE_ONLY = NotApplicable("the client makes parts only of what is larger than its broker takes")
FIRST_PART = OnWire(Role.PRODUCER, Command.SEND, REQUEST, since=replace(RECEIPT, offset=-1))
FIRST_PART_GIVEN = OnWire(Role.CONSUMER, Command.MESSAGE, RESPONSE, since=replace(MESSAGE, offset=-1))
"""The last part carries the record, as the wire says it; the first comes next behind the record before."""
_PARTS = (
    _in_parts(
        "none+parts", "none", NoFault(), "Without a fault, where each record goes in parts, chunks to Pulsar.",
        {AMO: Predicted(), ALO: Predicted(), EOS: Predicted()},
    ),
    _in_parts(
        "request-lost+first-part", "request-lost", Drop(FIRST_PART),
        "The first part never reaches the broker, and the connection is cut. The library sends all parts again, in order.",
        {AMO: holds(PART_AGAIN), ALO: holds(PART_AGAIN), EOS: holds(PART_AGAIN)},
    ),
    _in_parts(
        "request-lost+last-part", "request-lost", Drop(SEND),
        "The parts before are stored, the last never arrives. The library sends again what was not answered, and the message is "
        "whole with it.",
        {AMO: holds(REPEATED_REQUEST), ALO: holds(REPEATED_REQUEST), EOS: holds(REPEATED_REQUEST)},
    ),
    _in_parts(
        "ack-lost+last-part", "ack-lost", Drop(RECEIPT),
        "The message is whole, and the receipt of its last part is lost. The library sends that part again, and that alone: a "
        "broker that deduplicates looks at last parts, and has it. Another one stores it, and gives it to nobody, and nothing "
        "behind it either (apache/pulsar#26395).",
        {AMO: STANDS_STILL, ALO: STANDS_STILL, EOS: holds(DEDUPLICATED)},
    ),
    _in_parts(
        "producer-crash-between-parts", "producer-crash-before-send", Kill(SEND, (Role.PRODUCER,)),
        "All parts but the last are stored when the producer dies. At-most-once does not send them again; else all are sent "
        "again. Parts that nothing completes the consumer acknowledges when the next message begins.",
        {AMO: LOSES, ALO: holds(TAKEN_AGAIN), EOS: holds(TAKEN_AGAIN)},
    ),
    _in_parts(
        "producer-crash-before-ack+parts", "producer-crash-before-ack", Kill(RECEIPT, (Role.PRODUCER,)),
        "The message is whole, and its producer dies before it reads so. Sent again it is a second one; where the broker "
        "deduplicates, its last part is known and not stored, and the consumer acknowledges the others with the next one.",
        {AMO: holds(NOT_RESENT), ALO: DUPLICATES, EOS: holds(DEDUPLICATED)},
    ),
    _in_parts(
        "delivery-lost+first-part", "delivery-lost", Drop(FIRST_PART_GIVEN),
        "The first part never reaches the consumer, and the connection is cut. All parts are given again.",
        {AMO: holds(PART_AGAIN), ALO: holds(PART_AGAIN), EOS: holds(PART_AGAIN)},
    ),
    _in_parts(
        "delivery-lost+last-part", "delivery-lost", Drop(MESSAGE),
        "The consumer has all parts but the last, and the connection is cut. All are given again, and put together anew. Where "
        "the message before is not acknowledged yet, see +put-off.",
        {AMO: holds(DELIVERED_AGAIN), ALO: holds(DELIVERED_AGAIN), EOS: holds(DELIVERED_AGAIN)},
    ),
    _in_parts(
        "delivery-lost+last-part+put-off", "delivery-lost", Drop(MESSAGE),
        "Control: the same, and every second of the first eight messages is not acknowledged yet. They come again first. The "
        "library still has the parts of the target from the connection before: one unfinished message more than its consumer may "
        "keep. So it gives the target up and acknowledges its parts, as it is told to. The broker has the last part alone "
        "then, gives it to nobody, and nothing behind it (apache/pulsar#26395). What the consumer has in hand comes twice.",
        {
            ALO: Predicted(left=AtLeast(), duplicated=AtMost(IN_HAND), control=True),
            EOS: Predicted(left=AtLeast(), control=True),
        }, recipes=_PUT_OFF,
    ),
)  # fmt: skip


def _transform(
    name: str, fault: Fault, because: str, exactly: Expectation, *, amo: Expectation = NOT_SENT_IN_ONE,
    alo: Expectation = NOT_SENT_IN_ONE, **more: Any,
) -> Scenario:  # fmt: skip
    """Return a scenario of the processor: exactly-once by transactions."""
    expect = {AMO: amo, ALO: alo, EOS: exactly}
    return Scenario(
        pipeline=TRANSFORM, id=f"transform-{name}", failure_point=name, fault=fault, because=because, group="transactions",
        expect=dict.fromkeys(expect, NO_TRANSACTIONS), by_client={PULSAR_JAVA: expect}, **more,
    )  # fmt: skip


def _on(command: Command, direction: Direction = REQUEST) -> OnWire:
    return OnWire(Role.PROCESSOR, command, direction)


_TRANSACTIONS = (
    _transform(
        "none", NoFault(), "Without a fault: each result is sent, and its message acknowledged, in one transaction.", Predicted(),
        amo=Predicted(), alo=Predicted(),
    ),
    _transform(
        "txn-send-lost", Kill(_on(Command.SEND), (Role.PROCESSOR,)),
        "The processor dies with its result not sent. Its transaction ends when its time is over, without anything in it; the "
        "message was not acknowledged, and is given again.",
        holds(DELIVERED_AGAIN), amo=LOSES, alo=holds(DELIVERED_AGAIN),
    ),
    _transform(
        "txn-sent", Kill(_on(Command.SEND_RECEIPT, RESPONSE), (Role.PROCESSOR,)),
        "The result is stored in the open transaction, and the processor dies before it learns that. No reader sees it: the "
        "transaction is aborted when its time is over. The message is given again, and its result sent in another one.",
        holds(ABORTED), amo=holds(NOT_RESENT), alo=DUPLICATES,
    ),
    _transform(
        "txn-ack-registered", Kill(_on(Command.ACK), (Role.PROCESSOR,)),
        "The subscription is in the transaction (ADD_SUBSCRIPTION_TO_TXN is answered), and the acknowledgement on its way when "
        "the processor dies: aborted with the rest.",
        holds(ABORTED),
    ),
    _transform(
        "txn-end-lost", Kill(_on(Command.END_TXN), (Role.PROCESSOR,)),
        "The processor has asked to commit and dies; the request never arrives. The message stays acknowledged by a transaction "
        "that is open, and is given to nobody until its time is over; then it is aborted, and all is done again.",
        holds(ABORTED),
    ),
    _transform(
        "txn-end-answer-lost", Kill(_on(Command.END_TXN_RESPONSE, RESPONSE), (Role.PROCESSOR,)),
        "The transaction is committed, and the processor dies before it learns that. Its message is acknowledged, and given to "
        "nobody again.",
        holds(ENDED_UNHEARD),
    ),
    _transform(
        "txn-end-answer-dropped", Drop(_on(Command.END_TXN_RESPONSE, RESPONSE)),
        "The same, and the processor lives on: its connection is cut. The library asks again, and the broker no longer knows "
        "the transaction: the program is told TransactionNotFound of one that is committed. Nobody is given its message again.",
        holds(ENDED_UNHEARD),
    ),
    *(
        _transform(
            f"txn-end-on-{whom}-lost", Drop(OnWire(Role.BROKER, command, REQUEST, since=_on(Command.END_TXN))),
            f"The coordinator has written down that the transaction is to be committed, and tells the {whom} so; that is lost, "
            "with the connection. It asks again when its time-out is over (3 s), and the processor waits so long.",
            holds(TOLD_AGAIN), deployment=Deployment.OWN,
        )
        for whom, command in
        (("partition", Command.END_TXN_ON_PARTITION), ("subscription", Command.END_TXN_ON_SUBSCRIPTION))
    ),
    _transform(
        "txn-coordinator-crash-before-commit", Kill(_on(Command.END_TXN), (Role.BROKER,)),
        "The coordinator dies with the request to commit not yet seen. Restarted, it finds the transaction open and its time "
        "over: it is aborted, and all is done again. Or the library, which asks again over a new connection, comes first: then "
        "it is committed.",
        holds(ABORTED_OR_ASKED), deployment=Deployment.OWN,
    ),
    _transform(
        "txn-coordinator-crash-after-commit", Kill(_on(Command.END_TXN_RESPONSE, RESPONSE), (Role.BROKER,)),
        "The transaction is committed, on its partition and its subscription, and the coordinator dies before the processor "
        "learns so. What was acknowledged in it is in a log of its own, whatever the cursor has written down: nobody is "
        "given it again.",
        holds(ENDED_UNHEARD), deployment=Deployment.OWN,
    ),
)  # fmt: skip
_WRITTEN = {semantic: with_cursor(each, Cursor.WRITTEN) for semantic, each in _ANSWERED_RECIPES.items()}
_BROKER = Kill(ACK_RESPONSE, (Role.BROKER,))
_AFTER_ACK = (
    _by_java(
        "broker-crash-after-ack", "broker-crash-after-ack", _BROKER,
        "The broker has taken the acknowledgement and dies before its answer is out. It writes down what is acknowledged once a "
        "second at most, and answers all the same: what it had answered since is given again, whoever was told that it is done.",
        {
            AMO: Predicted(duplicated=Some(most=UNWRITTEN), control=True),
            ALO: Predicted(duplicated=AtLeast(most=UNWRITTEN)), EOS: holds(ABSORBED),
        }, deployment=Deployment.OWN,
    ),
    _by_java(
        "broker-crash-after-ack+written", "broker-crash-after-ack", _BROKER,
        "The same in a namespace without that limit (managedLedgerMaxMarkDeleteRate 0): an acknowledgement is written down "
        "before it is answered. The record is taken off for good, and whoever acknowledges first has never worked on it. "
        "What the consumer had in hand besides is given again. The broker deduplicates here, so what was under way is no matter.",
        {
            AMO: Predicted(lost=Exactly(), settings=_WRITTEN[AMO]),
            ALO: Predicted(duplicated=AtMost(IN_HAND), sign=NOT_GIVEN_AGAIN, settings=_WRITTEN[ALO]),
        }, deployment=Deployment.OWN,
    ),
)  # fmt: skip


def _with_holes(cursor: Cursor, up_to: int) -> Mapping[Semantic, Settings]:
    return {semantic: with_cursor(each, cursor, puts_off=up_to) for semantic, each in _ANSWERED_RECIPES.items()}


_FEW, _PAUSING = _with_holes(Cursor.FEW, _FIRST_THIRD), _with_holes(Cursor.PAUSING, _ALL_OF_THEM)
_HOLES = (
    _by_java(
        "broker-crash-after-ack+holes", "broker-crash-after-ack", _BROKER,
        "Every second of the first eight messages is put off, so what is acknowledged is in ranges with holes between them, and "
        "the broker, which writes down three ranges here, has a fourth. It answers all the same: what is in the fourth it knows "
        "until it dies, and gives it again.",
        {
            AMO: Predicted(lost=AtMost(Select.TARGET), duplicated=Some(), settings=_FEW[AMO], control=True),
            ALO: Predicted(duplicated=Some(), settings=_FEW[ALO]),
        }, deployment=Deployment.OWN, suite=Suite.NIGHT,
    ),
    _by_java(
        "broker-crash-after-ack+holes+pausing", "broker-crash-after-ack", _BROKER,
        "The same with PIP-299, and every second of all messages put off: a broker that has more ranges than it can write down "
        "gives nothing more out until a hole is filled. So only what it answered just before its death is given again, for it "
        "answers before it has written down (seen once in ten runs: 0.3 s before).",
        {
            AMO: Predicted(lost=AtMost(Select.TARGET), duplicated=AtMost(UNWRITTEN), sign=HELD_BACK, settings=_PAUSING[AMO]),
            ALO: Predicted(duplicated=AtMost(UNWRITTEN), sign=HELD_BACK, settings=_PAUSING[ALO]),
        }, deployment=Deployment.OWN, suite=Suite.NIGHT,
    ),
)  # fmt: skip


def _read_by(kind: Subscription, count: int, *, cumulative: bool = False) -> Scenario:
    """Return the crash before the acknowledgement with another kind of subscription."""
    push = PushSettings(subscription=kind, cumulative=cumulative)
    told = {
        semantic: replace(each, consumer=replace(each.consumer, push=push, count=count))
        for semantic, each in ((ALO, PULSAR_ALO), (EOS, PULSAR_EOS))
    }
    return Scenario(
        pipeline=SUBSCRIPTION, id=f"consumer-crash-before-commit+{'cumulative' if cumulative else kind}",
        failure_point="consumer-crash-before-commit", fault=Kill(InProgram(Role.CONSUMER, "before-commit"), (Role.CONSUMER,)),
        because="The result is recorded and the message not acknowledged: to whomever the subscription gives it next, it is "
        "given again, and with it what the library had not yet said.",
        expect={
            ALO: Predicted(duplicated=AtLeast(most=IN_HAND), settings=told[ALO]),
            EOS: Predicted(sign=ABSORBED, settings=told[EOS]),
        },
        suite=Suite.NIGHT, group="subscriptions",
    )  # fmt: skip


_KINDS = (
    _read_by(Subscription.EXCLUSIVE, 1), _read_by(Subscription.FAILOVER, 2), _read_by(Subscription.KEY_SHARED, 2),
    _read_by(Subscription.EXCLUSIVE, 1, cumulative=True),
)  # fmt: skip
_REFUSED = Scenario(
    pipeline=SUBSCRIPTION,
    id="work-fails",
    failure_point="work-fails",
    fault=WorkFails(InProgram(Role.CONSUMER, "before-recording")),
    because="The work fails, and the consumer refuses the message (a negative acknowledgement): it is given again, and the work "
    "succeeds. Acknowledged before, there is nothing to refuse.",
    expect={AMO: LOSES, ALO: holds(DELIVERED_AGAIN), EOS: holds(DELIVERED_AGAIN)},
    suite=Suite.NIGHT,
    group="subscriptions",
)
_CORE = {"none", "ack-lost"}
_EVERY = (*_ALL, *_ANSWERED, *_AFTER_ACK, *_HOLES, *_PARTS, *_TRANSACTIONS, *_KINDS, _REFUSED)
SCENARIOS = tuple(replace(each, suite=Suite.CORE) if each.id in _CORE else each for each in _EVERY)
