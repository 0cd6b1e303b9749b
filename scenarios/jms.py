"""What only a client of JMS can be told: modes of acknowledgement, transactions of one session and of two phases, ``failover:``.

The pipeline is that of :mod:`harness.scenarios.activemq`: outbox → producer → queue → consumer → database.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from harness.controls import InProgram, OnWire
from harness.faults import Drop, Kill, WorkFails
from harness.judge.signs import ABSORBED, DELIVERED_AGAIN, NOT_GIVEN_AGAIN, REPEATED_REQUEST, RESUMED_PAST, TAKEN_AGAIN
from harness.model.prediction import AtLeast, Exactly
from harness.model.scenario import Deployment, NotApplicable, Predicted, Role, Scenario
from harness.protocols.acts import Act
from harness.scenarios.plain import ALO, AMO, DUPLICATES, EOS, LOSES, REQUEST, RESPONSE, holds
from harness.stages.pushing import Acknowledge
from harness.stages.settings import (
    QUEUE_AT_LEAST_ONCE,
    QUEUE_AT_MOST_ONCE,
    QUEUE_EXACTLY_ONCE,
    ProducerSettings,
    SaveCursor,
    SavePosition,
    Settings,
)
from harness.systems.activemq.selections import IN_HAND

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.model.pipeline import Pipeline
    from harness.model.scenario import Expectation, Fault
    from harness.model.semantics import Semantic
    from harness.model.sign import Sign

SEND, SENT = OnWire(Role.PRODUCER, Act.SEND, REQUEST), OnWire(Role.PRODUCER, Act.SENT, RESPONSE)
ACK = OnWire(Role.CONSUMER, Act.ACK, REQUEST)
COMMIT, COMMITTED = OnWire(Role.CONSUMER, Act.COMMIT, REQUEST), OnWire(Role.CONSUMER, Act.COMMITTED, RESPONSE)
FAILS = WorkFails(InProgram(Role.CONSUMER, "before-recording"))
BATCH = 8
LOCAL = replace(
    QUEUE_AT_LEAST_ONCE,
    producer=ProducerSettings(
        acks="all", retries=False, idempotence=True, transactional=True, cursor=SaveCursor.AFTER_COMMIT, resend=True
    ),
)
"""The producer sends in a transaction of its session, and saves its cursor behind the commit."""
TWO_PHASES = replace(LOCAL, producer=replace(LOCAL.producer, cursor=SaveCursor.BETWEEN_PHASES))
"""Two resources, the outbox and the queue, and the producer as their coordinator: prepare at the queue, save the cursor, commit.
Its consumer absorbs nothing."""
OPENWIRE, AMQP, CORE, STOMP = "openwire", "amqp", "core", "stomp.py"
JMS = (OPENWIRE, AMQP, CORE)
ANY = (*JMS, STOMP)
"""STOMP has two of these modes of its own: ``ack:client``, and an ACK, or a SEND, in a transaction."""
PUSHED = (OPENWIRE, AMQP)
"""Whose libraries are given several messages at a time, and give up one that fails too often."""
DISTRIBUTED = (OPENWIRE, CORE)
"""Whose libraries can be one resource of a distributed transaction."""
NOT_JMS = NotApplicable("a scenario of JMS' modes and transactions: what this client's protocol has of its own is no cell here")
NO_XA = NotApplicable("the library that speaks this protocol has no distributed transactions")
AUTO_ELSEWHERE = NotApplicable("over AMQP at-most-once messages are presettled, so there is no acknowledgement")
DUPS_OK_GATHERS = NotApplicable("its library gathers what it acknowledges so: see consumer-crash-before-commit+dups-ok")
DUPS_OK_AT_ONCE = NotApplicable("of a queue its library acknowledges as with AUTO: see consumer-crash-before-recording+dups-ok")
SETTLED_LATER = NotApplicable("it settles nothing when it is sent: see ack-cut+auto-unanswered")
OPTIMIZED_ELSEWHERE = NotApplicable("optimizeAcknowledge is OpenWire's; what Core gathers (ackBatchSize) is no cell here")
WINDOW_ELSEWHERE = NotApplicable("Core's library has a window in bytes (consumerWindowSize): no cell here")
LIMIT_ELSEWHERE = NotApplicable("over Core the broker counts deliveries (max-delivery-attempts): no cell here")
FAILOVER_ELSEWHERE = NotApplicable("its library has a fail-over of its own: no cell here, and not run")


def consuming(recipe: Settings, **more: Any) -> Settings:
    """Return a recipe whose consumer is told something else."""
    return replace(recipe, consumer=replace(recipe.consumer, **more))


def failing_over(recipe: Settings) -> Settings:
    """Return a recipe whose library makes a lost connection again, and sends again what was not answered."""
    return replace(recipe, producer=replace(recipe.producer, retries=True))


def told(theory: Predicted, recipe: Settings) -> Predicted:
    """Return a prediction under other settings."""
    return replace(theory, settings=recipe)


def scenarios(pipeline: Pipeline, clients: tuple[str, ...], exactly_once: Settings = QUEUE_EXACTLY_ONCE) -> tuple[Scenario, ...]:
    """Return the scenarios on a pipeline that has these clients, and whose exactly-once is made so."""

    def one(
        name: str, because: str, fault: Fault, expect: Mapping[Semantic, Predicted | NotApplicable],
        only: tuple[str, ...] = (OPENWIRE,), *, otherwise: NotApplicable = NOT_JMS,
        elsewhere: Mapping[str, Mapping[Semantic, Predicted]] = MappingProxyType({}),
        **more: Any,
    ) -> Scenario:  # fmt: skip
        nobody: dict[str, Mapping[Semantic, Expectation]] = {
            client: dict.fromkeys(expect, otherwise if client in JMS else NOT_JMS) for client in clients if client not in only
        }
        nobody |= {client: theory for client, theory in elsewhere.items() if client in clients}
        return Scenario(pipeline=pipeline, id=name, failure_point=name.partition("+")[0], fault=fault, because=because,
                        expect=expect, by_client=nobody, group="jms", **more)  # fmt: skip

    by_client_mode = consuming(QUEUE_AT_LEAST_ONCE, mode=Acknowledge.CLIENT)

    def each_transacted(theory: Predicted, exactly: Predicted) -> dict[Semantic, Predicted | NotApplicable]:
        return {
            ALO: told(theory, consuming(QUEUE_AT_LEAST_ONCE, mode=Acknowledge.TRANSACTED)),
            EOS: told(exactly, consuming(exactly_once, mode=Acknowledge.TRANSACTED)),
        }

    def each_failing_over(sign: Sign) -> dict[Semantic, Predicted | NotApplicable]:
        return {
            ALO: told(holds(sign), failing_over(QUEUE_AT_LEAST_ONCE)),
            EOS: told(holds(sign), failing_over(exactly_once)),
        }

    asynchronous = consuming(QUEUE_AT_MOST_ONCE, blocking=False)
    lazily = {"position": SavePosition.AUTO, "mode": Acknowledge.DUPS_OK, "unit": BATCH}
    many = {"position": SavePosition.AUTO, "mode": Acknowledge.OPTIMIZED, "unit": 10 * BATCH}
    limited = {"share": replace(QUEUE_AT_LEAST_ONCE.consumer.share, poisoned=True, limit=2)}
    return (
        one("ack-cut+auto", "AUTO_ACKNOWLEDGE, and the library waits for the answer: its acknowledgement never arrives, so it "
            "hands nothing over. The message comes again, to a program that has not seen it.",
            Drop(ACK), {AMO: holds(DELIVERED_AGAIN)}, otherwise=AUTO_ELSEWHERE),
        one("ack-cut+auto-unanswered", "Control: AUTO_ACKNOWLEDGE as the library does it by default, without waiting for an "
            "answer. The program has the message, and works on it; the acknowledgement never arrives, and it comes again: "
            "at-most-once it is only where the acknowledgement blocks.",
            Drop(ACK), {AMO: told(replace(DUPLICATES, control=True), asynchronous)}, otherwise=AUTO_ELSEWHERE),
        one("ack-cut+auto-unsettled", "Control: AUTO_ACKNOWLEDGE over AMQP, where a message is not settled when it is sent. "
            "Nobody answers its acknowledgement, so the library cannot wait: the program works on the message, the "
            "acknowledgement never arrives, and it comes again.",
            Drop(ACK), {AMO: Predicted(duplicated=AtLeast(most=IN_HAND), control=True, settings=asynchronous)}, (AMQP,),
            otherwise=SETTLED_LATER),
        one("commit-lost+client", "CLIENT_ACKNOWLEDGE, one message at a time: as with a mode for single messages. Over AMQP "
            "nobody answers it: the consumer may be at work on the next one when it dies, and that comes twice, too.",
            Kill(ACK, (Role.CONSUMER,)), {
                ALO: told(DUPLICATES, by_client_mode),
                EOS: told(holds(ABSORBED), consuming(exactly_once, mode=Acknowledge.CLIENT)),
            }, ANY, elsewhere={AMQP: {ALO: Predicted(duplicated=AtLeast(most=IN_HAND), settings=by_client_mode)}}),
        one("commit-lost+transacted", "What was received in a transaction of the session is acknowledged by its commit, which "
            "never arrives.", Kill(COMMIT, (Role.CONSUMER,)), each_transacted(DUPLICATES, holds(ABSORBED)), ANY),
        one("commit-ack-lost+transacted", "The commit is taken, and its consumer dies before it learns that: the work was done "
            "before.", Kill(COMMITTED, (Role.CONSUMER,)), each_transacted(holds(NOT_GIVEN_AGAIN), holds(NOT_GIVEN_AGAIN)), ANY),
        one("consumer-crash-before-recording+transacted", "A message is acknowledged in a transaction when it is received, and "
            "its consumer dies before its work: the transaction ends with the connection, and the message is given again.",
            Kill(InProgram(Role.CONSUMER, "before-recording"), (Role.CONSUMER,)),
            each_transacted(holds(DELIVERED_AGAIN), holds(DELIVERED_AGAIN)), ANY),
        one("consumer-crash-before-recording+dups-ok", "Control: DUPS_OK_ACKNOWLEDGE, by which duplicates are allowed, and "
            "losses not. Of a queue these libraries acknowledge as with AUTO, before they hand a message over: the work is "
            "undone, and the message is gone.", Kill(InProgram(Role.CONSUMER, "before-recording"), (Role.CONSUMER,)),
            {ALO: told(replace(LOSES, control=True), consuming(QUEUE_AT_LEAST_ONCE, **lazily))}, PUSHED,
            otherwise=DUPS_OK_GATHERS),
        one("consumer-crash-before-commit+dups-ok", "DUPS_OK_ACKNOWLEDGE over Core: the library gathers what it acknowledges "
            "until that is a megabyte, or its consumer is closed. So everything that was worked on since comes again.",
            Kill(InProgram(Role.CONSUMER, "before-commit"), (Role.CONSUMER,)),
            {ALO: Predicted(duplicated=AtLeast(most=IN_HAND), settings=consuming(QUEUE_AT_LEAST_ONCE, **lazily)),
             EOS: told(holds(ABSORBED), consuming(exactly_once, **lazily))}, (CORE,), otherwise=DUPS_OK_AT_ONCE),
        one("consumer-crash-before-commit+optimized", "optimizeAcknowledge: the library acknowledges two thirds of a window at "
            "once, so everything that was worked on since comes again, and not the target alone.",
            Kill(InProgram(Role.CONSUMER, "before-commit"), (Role.CONSUMER,)),
            {ALO: Predicted(duplicated=AtLeast(most=IN_HAND), settings=consuming(QUEUE_AT_LEAST_ONCE, **many)),
             EOS: told(holds(ABSORBED), consuming(exactly_once, **many))}, otherwise=OPTIMIZED_ELSEWHERE),
        one("consumer-crash-before-commit+prefetch", "Eight messages are the consumer's own when it dies: one is worked on and "
            "not acknowledged, and comes twice; the others come to its successor.",
            Kill(InProgram(Role.CONSUMER, "before-commit"), (Role.CONSUMER,)),
            {ALO: told(DUPLICATES, consuming(QUEUE_AT_LEAST_ONCE, unit=BATCH)),
             EOS: told(holds(ABSORBED), consuming(exactly_once, unit=BATCH))}, PUSHED, otherwise=WINDOW_ELSEWHERE),
        one("work-fails", "The work fails once, and the program asks for the message again (recover): the library has it still. "
            "At-most-once has acknowledged it.", FAILS,
            {AMO: LOSES, ALO: holds(DELIVERED_AGAIN), EOS: holds(DELIVERED_AGAIN)}, JMS),
        one("work-fails+limit", "Control: the work fails always. When the library has given the message as often as may be, it "
            "refuses it, and the broker sets it aside among its dead letters, of which nobody is told.", FAILS,
            {ALO: told(replace(LOSES, control=True), consuming(QUEUE_AT_LEAST_ONCE, **limited)),
             EOS: told(replace(LOSES, control=True), consuming(exactly_once, **limited))}, PUSHED, otherwise=LIMIT_ELSEWHERE),
        one("producer-commit-lost", "A message is sent in a transaction of the session, whose commit never arrives: it ends with "
            "its connection, and the message is taken again.",
            Kill(OnWire(Role.PRODUCER, Act.COMMIT, REQUEST), (Role.PRODUCER,)), {ALO: told(holds(TAKEN_AGAIN), LOCAL)}, ANY),
        one("producer-commit-answer-lost", "The transaction is committed, and its producer dies before it learns that: in doubt "
            "it sends again.", Kill(OnWire(Role.PRODUCER, Act.COMMITTED, RESPONSE), (Role.PRODUCER,)),
            {ALO: told(DUPLICATES, LOCAL)}, ANY),
        one("ack-lost+failover", "The message is stored and its answer is lost with the connection. The library makes another "
            "one and sends it again, by the same name. It says that it has come back, and this broker looks up the last name of "
            "its producer: it answers, and stores nothing.", Drop(SENT), each_failing_over(REPEATED_REQUEST),
            otherwise=FAILOVER_ELSEWHERE),
        one("broker-crash-before-ack+failover", "The same, and the broker has died in between: what it stored of each producer "
            "it knows from its journal.", Kill(SENT, (Role.BROKER,)), each_failing_over(REPEATED_REQUEST),
            otherwise=FAILOVER_ELSEWHERE, deployment=Deployment.OWN),
        one("xa-prepare-lost", "Two phases. The broker is never asked to prepare: what was sent ends with the connection.",
            Kill(OnWire(Role.PRODUCER, Act.PREPARE, REQUEST), (Role.PRODUCER,)),
            {EOS: told(holds(TAKEN_AGAIN), TWO_PHASES)}, DISTRIBUTED, otherwise=NO_XA),
        one("xa-prepare-answer-lost", "The broker has prepared, and nobody has decided: the next program finds the transaction, "
            "rolls it back and sends again.", Kill(OnWire(Role.PRODUCER, Act.PREPARED, RESPONSE), (Role.PRODUCER,)),
            {EOS: told(holds(TAKEN_AGAIN), TWO_PHASES)}, DISTRIBUTED, otherwise=NO_XA),
        one("xa-between-prepare-and-commit", "Prepared and decided, the coordinator dies: the next program finds the transaction "
            "and commits it.", Kill(InProgram(Role.PRODUCER, "between-phases"), (Role.PRODUCER,)),
            {EOS: told(holds(RESUMED_PAST), TWO_PHASES)}, DISTRIBUTED, otherwise=NO_XA),
        one("xa-blocked", "Control: prepared and decided, the coordinator dies, and who comes next does not look for what it has "
            "left. The broker keeps it prepared: no time-out ends it, nobody gets it, and it is not lost. Two phases block.",
            Kill(InProgram(Role.PRODUCER, "between-phases"), (Role.PRODUCER,)),
            {EOS: Predicted(left=Exactly(), control=True, settings=replace(TWO_PHASES, producer=replace(
                TWO_PHASES.producer, recovers=False)))}, DISTRIBUTED, otherwise=NO_XA),
        one("xa-commit-lost", "The second phase never arrives: the next program asks for it again.",
            Kill(OnWire(Role.PRODUCER, Act.DECIDE, REQUEST), (Role.PRODUCER,)),
            {EOS: told(holds(RESUMED_PAST), TWO_PHASES)}, DISTRIBUTED, otherwise=NO_XA),
        one("xa-commit-answer-lost", "Committed, and the coordinator dies before it learns that: the next program finds nothing "
            "that is prepared.", Kill(OnWire(Role.PRODUCER, Act.DECIDED, RESPONSE), (Role.PRODUCER,)),
            {EOS: told(holds(RESUMED_PAST), TWO_PHASES)}, DISTRIBUTED, otherwise=NO_XA),
        one("xa-broker-crash-between-phases", "The broker dies with what is prepared: it is prepared still when it is back, and "
            "committed as was decided. What its consumer has in hand comes again: here it absorbs that.",
            Kill(OnWire(Role.PRODUCER, Act.DECIDE, REQUEST), (Role.BROKER,)),
            {EOS: told(holds(RESUMED_PAST), consuming(TWO_PHASES, idempotent=True))}, DISTRIBUTED, otherwise=NO_XA,
            deployment=Deployment.OWN),
    )  # fmt: skip
