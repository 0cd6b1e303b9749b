"""Pulsar: outbox → producer → topic → subscription → database, at the points of the plain pipeline
and at its own.

One message per SEND, one in flight per consumer, a shared subscription. Every restart is after
SIGKILL. Two things differ from other brokers. A client's library makes a lost connection again by
itself and sends again what was not answered: a program that sends once has no say in that. And a
library gathers acknowledgements for 100 ms, and hears no answer to them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.controls import InProgram, OnWire
from harness.faults import Drop, Kill, NoFault, WorkFails
from harness.judge.queue_selections import IN_HAND
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
from harness.scenarios.pulsar_plain import (
    ACK_RESPONSE,
    ANSWERED,
    ANSWERED_RECIPES,
    MESSAGE,
    NO_TRANSACTIONS,
    NOT_SENT_IN_ONE,
    PLAIN,
    PULSAR_JAVA,
    RECEIPT,
    SEND,
    by_java,
)
from harness.stages.pushing import Cursor, PushSettings, Subscription
from harness.systems.pulsar.selections import BEHIND_CHUNK, UNWRITTEN
from harness.systems.pulsar.settings import ALO as PULSAR_ALO
from harness.systems.pulsar.settings import EOS as PULSAR_EOS
from harness.systems.pulsar.settings import (
    SUBSCRIPTION,
    TRANSFORM,
    in_parts,
    with_cursor,
)
from harness.systems.pulsar.signs import (
    ABORTED_OR_ASKED,
    DEDUPLICATED,
    ENDED_UNHEARD,
    HELD_BACK,
    PART_AGAIN,
    TOLD_AGAIN,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.model.scenario import Expectation, Fault
    from harness.model.semantics import Semantic
    from harness.stages.settings import Settings
    from harness.wire.rules import Direction


def _in_parts(
    name: str,
    fault: Fault,
    because: str,
    expect: Mapping[Semantic, Expectation],
    *,
    recipes: Mapping[Semantic, Settings] = ANSWERED_RECIPES,
    point: str = "",
) -> Scenario:
    """Return a scenario of messages in parts, which only the Java client can be told to make of
    small ones.
    """
    told = {
        semantic: replace(each, settings=in_parts(recipes[semantic]))
        if isinstance(each, Predicted)
        else each
        for semantic, each in expect.items()
    }
    return Scenario(
        pipeline=SUBSCRIPTION,
        id=name,
        failure_point=point,
        fault=fault,
        because=because,
        group="parts",
        suite=Suite.NIGHT,
        expect=dict.fromkeys(expect, WHOLE_ONLY),
        by_client={PULSAR_JAVA: told},
    )


STANDS_STILL = Predicted(left=Some(most=BEHIND_CHUNK), control=True)
_FIRST_THIRD, _ALL_OF_THEM = 8, 24
_PUT_OFF = {
    semantic: with_cursor(each, Cursor.LAZY, puts_off=_FIRST_THIRD)
    for semantic, each in ANSWERED_RECIPES.items()
}
"""Some messages are not acknowledged when the connection is cut."""
WHOLE_ONLY = NotApplicable(
    "the client splits only messages that are larger than the broker's limit"
)
FIRST_PART = OnWire(Role.PRODUCER, Command.SEND, REQUEST, since=replace(RECEIPT, offset=-1))
FIRST_PART_GIVEN = OnWire(
    Role.CONSUMER, Command.MESSAGE, RESPONSE, since=replace(MESSAGE, offset=-1)
)
"""The last part carries the record, as the wire says it; the first comes next behind the record
before.
"""
_PARTS = (
    _in_parts(
        "none+parts",
        NoFault(),
        "Without a fault, where each record is sent in several parts (Pulsar calls them chunks).",
        {AMO: Predicted(), ALO: Predicted(), EOS: Predicted()},
    ),
    _in_parts(
        "request-lost+first-part",
        Drop(FIRST_PART),
        (
            "The first part never reaches the broker, and the connection is cut. The library sends "
            "all parts again, in order."
        ),
        {AMO: holds(PART_AGAIN), ALO: holds(PART_AGAIN), EOS: holds(PART_AGAIN)},
    ),
    _in_parts(
        "request-lost+last-part",
        Drop(SEND),
        (
            "All parts but the last are stored, and the last never arrives. The library sends it "
            "again, and completes the message."
        ),
        {AMO: holds(REPEATED_REQUEST), ALO: holds(REPEATED_REQUEST), EOS: holds(REPEATED_REQUEST)},
    ),
    _in_parts(
        "ack-lost+last-part",
        Drop(RECEIPT),
        "The message is complete, and the receipt of its last part is lost. The library sends "
        "only that part again. A broker that deduplicates compares last parts, and recognises "
        "it. Another broker stores it, never delivers it, and then delivers nothing after it "
        "either (apache/pulsar#26395).",
        {AMO: STANDS_STILL, ALO: STANDS_STILL, EOS: holds(DEDUPLICATED)},
    ),
    _in_parts(
        "producer-crash-between-parts",
        Kill(SEND, (Role.PRODUCER,)),
        "All parts but the last are stored when the producer dies. At-most-once does not send "
        "them again; the other semantics send all parts again. The consumer acknowledges the "
        "parts of a message that is never completed when the next message begins.",
        {AMO: LOSES, ALO: holds(TAKEN_AGAIN), EOS: holds(TAKEN_AGAIN)},
        point="producer-crash-before-send",
    ),
    _in_parts(
        "producer-crash-before-ack+parts",
        Kill(RECEIPT, (Role.PRODUCER,)),
        "The message is complete, and its producer dies before it learns that. Sent again, it is "
        "a second message. If the broker deduplicates, it recognises the last part and does not "
        "store it, and the consumer acknowledges the other parts when the next message begins.",
        {AMO: holds(NOT_RESENT), ALO: DUPLICATES, EOS: holds(DEDUPLICATED)},
    ),
    _in_parts(
        "delivery-lost+first-part",
        Drop(FIRST_PART_GIVEN),
        (
            "The first part never reaches the consumer, and the connection is cut. All parts are "
            "delivered again."
        ),
        {AMO: holds(PART_AGAIN), ALO: holds(PART_AGAIN), EOS: holds(PART_AGAIN)},
    ),
    _in_parts(
        "delivery-lost+last-part",
        Drop(MESSAGE),
        "The consumer has all parts but the last, and the connection is cut. All parts are "
        "delivered again, and put together anew. If the message before is not acknowledged yet, "
        "see +put-off.",
        {AMO: holds(DELIVERED_AGAIN), ALO: holds(DELIVERED_AGAIN), EOS: holds(DELIVERED_AGAIN)},
    ),
    _in_parts(
        "delivery-lost+last-part+put-off",
        Drop(MESSAGE),
        "Control: the consumer has all parts but the last, the connection is cut, and every "
        "second of the first eight messages is not acknowledged yet. These are delivered again "
        "first. The library still has the target's parts from the old connection, which is one "
        "unfinished message more than the consumer may keep. So it gives the target up and "
        "acknowledges its parts, as configured. Then the broker has only the last part. It never "
        "delivers that part, and nothing after it (apache/pulsar#26395). Messages that the "
        "consumer has in hand are recorded twice.",
        {
            ALO: Predicted(
                left=AtLeast(most=BEHIND_CHUNK), duplicated=AtMost(IN_HAND), control=True
            ),
            EOS: Predicted(left=AtLeast(most=BEHIND_CHUNK), control=True),
        },
        recipes=_PUT_OFF,
    ),
)


def _transform(
    name: str,
    fault: Fault,
    because: str,
    exactly: Expectation,
    *,
    amo: Expectation = NOT_SENT_IN_ONE,
    alo: Expectation = NOT_SENT_IN_ONE,
    **more: Any,
) -> Scenario:
    """Return a scenario of the processor: exactly-once by transactions."""
    expect = {AMO: amo, ALO: alo, EOS: exactly}
    return Scenario(
        pipeline=TRANSFORM,
        id=f"transform-{name}",
        failure_point=name,
        fault=fault,
        because=because,
        group="transactions",
        expect=dict.fromkeys(expect, NO_TRANSACTIONS),
        by_client={PULSAR_JAVA: expect},
        **more,
    )


def _on(command: Command, direction: Direction = REQUEST) -> OnWire:
    return OnWire(Role.PROCESSOR, command, direction)


_TRANSACTIONS = (
    _transform(
        "none",
        NoFault(),
        "Without a fault: each result is sent, and its message acknowledged, in one transaction.",
        Predicted(),
        amo=Predicted(),
        alo=Predicted(),
    ),
    _transform(
        "txn-send-lost",
        Kill(_on(Command.SEND), (Role.PROCESSOR,)),
        "The processor dies before it sends its result. Its transaction times out, with nothing "
        "in it. The message was not acknowledged, and is delivered again.",
        holds(DELIVERED_AGAIN),
        amo=LOSES,
        alo=holds(DELIVERED_AGAIN),
    ),
    _transform(
        "txn-sent",
        Kill(_on(Command.SEND_RECEIPT, RESPONSE), (Role.PROCESSOR,)),
        "The result is stored in the open transaction, and the processor dies before it learns "
        "that. No reader sees the result: the transaction is aborted when it times out. The "
        "message is delivered again, and its result is sent in another transaction.",
        holds(ABORTED),
        amo=holds(NOT_RESENT),
        alo=DUPLICATES,
    ),
    _transform(
        "txn-ack-registered",
        Kill(_on(Command.ACK), (Role.PROCESSOR,)),
        "The subscription is in the transaction (ADD_SUBSCRIPTION_TO_TXN is answered), and the "
        "acknowledgement is on its way when the processor dies: it is aborted with the rest.",
        holds(ABORTED),
    ),
    _transform(
        "txn-end-lost",
        Kill(_on(Command.END_TXN), (Role.PROCESSOR,)),
        "The processor asks to commit and dies, and the request never arrives. The message stays "
        "acknowledged in an open transaction, and is not delivered to any reader until the "
        "transaction times out. Then it is aborted, and the work is done again.",
        holds(ABORTED),
    ),
    _transform(
        "txn-end-answer-lost",
        Kill(_on(Command.END_TXN_RESPONSE, RESPONSE), (Role.PROCESSOR,)),
        "The transaction is committed, and the processor dies before it learns that. Its message "
        "is acknowledged, and never delivered again.",
        holds(ENDED_UNHEARD),
    ),
    _transform(
        "txn-end-answer-dropped",
        Drop(_on(Command.END_TXN_RESPONSE, RESPONSE)),
        "The transaction is committed, and the connection is cut before the answer, but the "
        "processor lives on. The library asks again, and the broker no longer knows the "
        "transaction: it answers TransactionNotFound although the transaction is committed. The "
        "message is never delivered again.",
        holds(ENDED_UNHEARD),
    ),
    *(
        _transform(
            f"txn-end-on-{whom}-lost",
            Drop(OnWire(Role.BROKER, command, REQUEST, since=_on(Command.END_TXN))),
            "The coordinator has written down that the transaction is to be committed, and "
            f"tells the {whom} so; that is lost, with the connection. It asks again when its "
            "time-out is over (3 s), and the processor waits so long.",
            holds(TOLD_AGAIN),
            deployment=Deployment.OWN,
        )
        for whom, command in (
            ("partition", Command.END_TXN_ON_PARTITION),
            ("subscription", Command.END_TXN_ON_SUBSCRIPTION),
        )
    ),
    _transform(
        "txn-coordinator-crash-before-commit",
        Kill(_on(Command.END_TXN), (Role.BROKER,)),
        "The coordinator dies before it sees the request to commit. After the restart it finds "
        "the transaction open. If it has timed out by then, it is aborted, and the work is done "
        "again. If the library, which asks again over a new connection, comes first, the "
        "transaction is committed.",
        holds(ABORTED_OR_ASKED),
        deployment=Deployment.OWN,
    ),
    _transform(
        "txn-coordinator-crash-after-commit",
        Kill(_on(Command.END_TXN_RESPONSE, RESPONSE), (Role.BROKER,)),
        "The transaction is committed, on its partition and its subscription, and the "
        "coordinator dies before the processor learns so. What was acknowledged in it is in a "
        "log of its own, whatever the cursor has written down: nobody is given it again.",
        holds(ENDED_UNHEARD),
        deployment=Deployment.OWN,
    ),
)
_WRITTEN = {
    semantic: with_cursor(each, Cursor.WRITTEN) for semantic, each in ANSWERED_RECIPES.items()
}
_BROKER = Kill(ACK_RESPONSE, (Role.BROKER,))
_AFTER_ACK = (
    by_java(
        "broker-crash-after-ack",
        _BROKER,
        "The broker has taken the acknowledgement and dies before it sends the answer. It writes "
        "acknowledgements down at most once a second, but answers them at once: messages whose "
        "acknowledgements it answered since then are delivered again, although a program was "
        "told that they are acknowledged.",
        {
            AMO: Predicted(duplicated=Some(most=UNWRITTEN), control=True),
            ALO: Predicted(duplicated=AtLeast(most=UNWRITTEN)),
            EOS: holds(ABSORBED),
        },
        deployment=Deployment.OWN,
    ),
    by_java(
        "broker-crash-after-ack+written",
        _BROKER,
        "As broker-crash-after-ack, in a namespace without a limit on how often acknowledgements "
        "are written down (managedLedgerMaxMarkDeleteRate 0): an acknowledgement is written down "
        "before it is answered. The record is never delivered again, and a consumer that "
        "acknowledges first has never worked on it. Other messages that the consumer had in hand "
        "are delivered again. The broker deduplicates here, so messages on their way to it do "
        "not matter.",
        {
            AMO: Predicted(lost=Exactly(), settings=_WRITTEN[AMO]),
            ALO: Predicted(
                duplicated=AtMost(IN_HAND), sign=NOT_GIVEN_AGAIN, settings=_WRITTEN[ALO]
            ),
        },
        deployment=Deployment.OWN,
    ),
)


def _with_holes(cursor: Cursor, up_to: int) -> Mapping[Semantic, Settings]:
    return {
        semantic: with_cursor(each, cursor, puts_off=up_to)
        for semantic, each in ANSWERED_RECIPES.items()
    }


_FEW, _PAUSING = _with_holes(Cursor.FEW, _FIRST_THIRD), _with_holes(Cursor.PAUSING, _ALL_OF_THEM)
_HOLES = (
    by_java(
        "broker-crash-after-ack+holes",
        _BROKER,
        "Every second of the first eight messages is not acknowledged yet, so the acknowledged "
        "ones form ranges with gaps between them. The broker writes down only three ranges here, "
        "and has a fourth. It answers all acknowledgements, but it keeps the fourth range in "
        "memory only: when it dies, those messages are delivered again.",
        {
            AMO: Predicted(
                lost=AtMost(Select.TARGET), duplicated=Some(), settings=_FEW[AMO], control=True
            ),
            ALO: Predicted(duplicated=Some(), settings=_FEW[ALO]),
        },
        deployment=Deployment.OWN,
        suite=Suite.NIGHT,
    ),
    by_java(
        "broker-crash-after-ack+holes+pausing",
        _BROKER,
        "With PIP-299, and every second of all messages not acknowledged yet: a broker that has "
        "more ranges than it can write down delivers no more messages until a gap is filled. So "
        "only a message whose acknowledgement it answered just before its death is delivered "
        "again, because it answers before it writes (seen once in ten runs: 0.3 s before).",
        {
            AMO: Predicted(
                lost=AtMost(Select.TARGET),
                duplicated=AtMost(UNWRITTEN),
                sign=HELD_BACK,
                settings=_PAUSING[AMO],
            ),
            ALO: Predicted(duplicated=AtMost(UNWRITTEN), sign=HELD_BACK, settings=_PAUSING[ALO]),
        },
        deployment=Deployment.OWN,
        suite=Suite.NIGHT,
    ),
)


def _read_by(kind: Subscription, count: int, *, cumulative: bool = False) -> Scenario:
    """Return the crash before the acknowledgement with another kind of subscription."""
    push = PushSettings(subscription=kind, cumulative=cumulative)
    told = {
        semantic: replace(each, consumer=replace(each.consumer, push=push, count=count))
        for semantic, each in ((ALO, PULSAR_ALO), (EOS, PULSAR_EOS))
    }
    return Scenario(
        pipeline=SUBSCRIPTION,
        id=f"consumer-crash-before-commit+{'cumulative' if cumulative else kind}",
        failure_point="consumer-crash-before-commit",
        fault=Kill(InProgram(Role.CONSUMER, "before-commit"), (Role.CONSUMER,)),
        because="The result is recorded and the message not acknowledged: to whomever the "
        "subscription gives it next, it is given again, and with it what the library had not "
        "yet said.",
        expect={
            ALO: Predicted(duplicated=AtLeast(most=IN_HAND), settings=told[ALO]),
            EOS: Predicted(sign=ABSORBED, settings=told[EOS]),
        },
        suite=Suite.NIGHT,
        group="subscriptions",
    )


_KINDS = (
    _read_by(Subscription.EXCLUSIVE, 1),
    _read_by(Subscription.FAILOVER, 2),
    _read_by(Subscription.KEY_SHARED, 2),
    _read_by(Subscription.EXCLUSIVE, 1, cumulative=True),
)
_REFUSED = Scenario(
    pipeline=SUBSCRIPTION,
    id="work-fails",
    fault=WorkFails(InProgram(Role.CONSUMER, "before-recording")),
    because="The work fails, and the consumer refuses the message (a negative acknowledgement): it "
    "is delivered again, and the work succeeds. If the message was acknowledged before the "
    "work, there is nothing to refuse.",
    expect={AMO: LOSES, ALO: holds(DELIVERED_AGAIN), EOS: holds(DELIVERED_AGAIN)},
    suite=Suite.NIGHT,
    group="subscriptions",
)
_CORE = {"none", "ack-lost"}
_EVERY = (*PLAIN, *ANSWERED, *_AFTER_ACK, *_HOLES, *_PARTS, *_TRANSACTIONS, *_KINDS, _REFUSED)
SCENARIOS = tuple(replace(each, suite=Suite.CORE) if each.id in _CORE else each for each in _EVERY)
