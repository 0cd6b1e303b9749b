"""What only a client of JMS can be told: modes of acknowledgement, transactions of one session and
of two phases, ``failover:``.

The pipeline is that of :mod:`harness.scenarios.activemq`: outbox → producer → queue → consumer →
database.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from harness.controls import InProgram, OnWire
from harness.faults import Drop, Kill, WorkFails
from harness.judge.queue_selections import IN_HAND
from harness.judge.signs import (
    ABSORBED,
    DELIVERED_AGAIN,
    NOT_GIVEN_AGAIN,
    REPEATED_REQUEST,
    RESUMED_PAST,
    TAKEN_AGAIN,
)
from harness.model.prediction import AtLeast, Exactly
from harness.model.scenario import Deployment, NotApplicable, Predicted, Role, Scenario
from harness.protocols.acts import Act
from harness.scenarios.plain import ALO, AMO, DUPLICATES, EOS, LOSES, REQUEST, RESPONSE, holds
from harness.stages.consumer_settings import SavePosition
from harness.stages.producer_settings import ProducerSettings, SaveCursor
from harness.stages.pushing import Acknowledge, AcknowledgeSettings
from harness.stages.settings import (
    QUEUE_AT_LEAST_ONCE,
    QUEUE_AT_MOST_ONCE,
    QUEUE_EXACTLY_ONCE,
    Settings,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.model.pipeline import Pipeline
    from harness.model.scenario import Expectation, Fault
    from harness.model.semantics import Semantic
    from harness.model.sign import Sign

SEND, SENT = OnWire(Role.PRODUCER, Act.SEND, REQUEST), OnWire(Role.PRODUCER, Act.SENT, RESPONSE)
ACK = OnWire(Role.CONSUMER, Act.ACK, REQUEST)
COMMIT = OnWire(Role.CONSUMER, Act.COMMIT, REQUEST)
COMMITTED = OnWire(Role.CONSUMER, Act.COMMITTED, RESPONSE)
FAILS = WorkFails(InProgram(Role.CONSUMER, "before-recording"))
BATCH = 8
LOCAL = replace(
    QUEUE_AT_LEAST_ONCE,
    producer=ProducerSettings(
        acks="all",
        retries=False,
        idempotence=True,
        transactional=True,
        cursor=SaveCursor.AFTER_COMMIT,
        resend=True,
    ),
)
"""The producer sends in a transaction of its session, and saves its cursor behind the commit."""
TWO_PHASES = replace(LOCAL, producer=replace(LOCAL.producer, cursor=SaveCursor.BETWEEN_PHASES))
"""Two resources, the outbox and the queue, and the producer as their coordinator: prepare at the
queue, save the cursor, commit. Its consumer absorbs nothing.
"""
OPENWIRE, AMQP, CORE, STOMP = "openwire", "amqp", "core", "stomp.py"
JMS = (OPENWIRE, AMQP, CORE)
ANY = (*JMS, STOMP)
"""STOMP has two of these modes of its own: ``ack:client``, and an ACK, or a SEND, in a
transaction.
"""
PUSHED = (OPENWIRE, AMQP)
"""Whose libraries are given several messages at a time, and give up one that fails too often."""
DISTRIBUTED = (OPENWIRE, CORE)
"""Whose libraries can be one resource of a distributed transaction."""
NOT_JMS = NotApplicable(
    "this scenario is about JMS' modes and transactions, which this client's protocol does not have"
)
NO_XA = NotApplicable("the library that speaks this protocol has no distributed transactions")
AUTO_ELSEWHERE = NotApplicable(
    "over AMQP at-most-once messages are presettled, so there is no acknowledgement"
)
DUPS_OK_GATHERS = NotApplicable(
    "its library collects these acknowledgements: see consumer-crash-before-commit+dups-ok"
)
DUPS_OK_AT_ONCE = NotApplicable(
    "for a queue its library acknowledges as with AUTO: see consumer-crash-before-recording+dups-ok"
)
SETTLED_LATER = NotApplicable(
    "here a message is not settled when it is sent: see ack-cut+auto-unanswered"
)
OPTIMIZED_ELSEWHERE = NotApplicable("optimizeAcknowledge is an option of OpenWire's library only")
WINDOW_ELSEWHERE = NotApplicable(
    "Core's library has a window in bytes (consumerWindowSize), not in messages"
)
LIMIT_ELSEWHERE = NotApplicable(
    "over Core the broker counts deliveries (max-delivery-attempts), not the library"
)
FAILOVER_ELSEWHERE = NotApplicable(
    "its library has a fail-over of its own, which lostack does not test"
)


def consuming(recipe: Settings, **more: Any) -> Settings:
    """Return a recipe whose consumer is told something else."""
    return replace(recipe, consumer=replace(recipe.consumer, **more))


def failing_over(recipe: Settings) -> Settings:
    """Return a recipe whose library makes a lost connection again, and sends again what was not
    answered.
    """
    return replace(recipe, producer=replace(recipe.producer, retries=True))


def told(theory: Predicted, recipe: Settings) -> Predicted:
    """Return a prediction under other settings."""
    return replace(theory, settings=recipe)


def scenarios(
    pipeline: Pipeline, clients: tuple[str, ...], exactly_once: Settings = QUEUE_EXACTLY_ONCE
) -> tuple[Scenario, ...]:
    """Return the scenarios on a pipeline that has these clients, and whose
    exactly-once is made so.
    """

    def one(
        name: str,
        because: str,
        fault: Fault,
        expect: Mapping[Semantic, Predicted | NotApplicable],
        only: tuple[str, ...] = (OPENWIRE,),
        *,
        otherwise: NotApplicable = NOT_JMS,
        elsewhere: Mapping[str, Mapping[Semantic, Predicted]] = MappingProxyType({}),
        **more: Any,
    ) -> Scenario:
        nobody: dict[str, Mapping[Semantic, Expectation]] = {
            client: dict.fromkeys(expect, otherwise if client in JMS else NOT_JMS)
            for client in clients
            if client not in only
        }
        nobody |= {client: theory for client, theory in elsewhere.items() if client in clients}
        return Scenario(
            pipeline=pipeline,
            id=name,
            fault=fault,
            because=because,
            expect=expect,
            by_client=nobody,
            group="jms",
            **more,
        )

    by_client_mode = consuming(
        QUEUE_AT_LEAST_ONCE, acknowledging=AcknowledgeSettings(mode=Acknowledge.CLIENT)
    )

    def each_transacted(
        theory: Predicted, exactly: Predicted
    ) -> dict[Semantic, Predicted | NotApplicable]:
        return {
            ALO: told(
                theory,
                consuming(
                    QUEUE_AT_LEAST_ONCE,
                    acknowledging=AcknowledgeSettings(mode=Acknowledge.TRANSACTED),
                ),
            ),
            EOS: told(
                exactly,
                consuming(
                    exactly_once, acknowledging=AcknowledgeSettings(mode=Acknowledge.TRANSACTED)
                ),
            ),
        }

    def each_failing_over(sign: Sign) -> dict[Semantic, Predicted | NotApplicable]:
        return {
            ALO: told(holds(sign), failing_over(QUEUE_AT_LEAST_ONCE)),
            EOS: told(holds(sign), failing_over(exactly_once)),
        }

    asynchronous = consuming(QUEUE_AT_MOST_ONCE, acknowledging=AcknowledgeSettings(blocking=False))
    lazily = {
        "position": SavePosition.AUTO,
        "acknowledging": AcknowledgeSettings(Acknowledge.DUPS_OK),
        "unit": BATCH,
    }
    many = {
        "position": SavePosition.AUTO,
        "acknowledging": AcknowledgeSettings(Acknowledge.OPTIMIZED),
        "unit": 10 * BATCH,
    }
    limited = {"share": replace(QUEUE_AT_LEAST_ONCE.consumer.share, poisoned=True, limit=2)}
    return (
        one(
            "ack-cut+auto",
            "AUTO_ACKNOWLEDGE, and the library waits for the answer. The acknowledgement never "
            "arrives, so the library does not hand the message over. It is delivered again, to a "
            "program that has not seen it.",
            Drop(ACK),
            {AMO: holds(DELIVERED_AGAIN)},
            otherwise=AUTO_ELSEWHERE,
        ),
        one(
            "ack-cut+auto-unanswered",
            "Control: AUTO_ACKNOWLEDGE with the library's defaults, where it does not wait for "
            "the answer. The program works on the message, the acknowledgement never arrives, "
            "and the message is delivered again: it is at-most-once only if the acknowledgement "
            "blocks.",
            Drop(ACK),
            {AMO: told(replace(DUPLICATES, control=True), asynchronous)},
            otherwise=AUTO_ELSEWHERE,
        ),
        one(
            "ack-cut+auto-unsettled",
            "Control: AUTO_ACKNOWLEDGE over AMQP, where a message is not settled when it is "
            "sent. The broker does not answer acknowledgements, so the library cannot wait: the "
            "program works on the message, the acknowledgement never arrives, and the message is "
            "delivered again.",
            Drop(ACK),
            {AMO: Predicted(duplicated=AtLeast(most=IN_HAND), control=True, settings=asynchronous)},
            (AMQP,),
            otherwise=SETTLED_LATER,
        ),
        one(
            "commit-lost+client",
            "CLIENT_ACKNOWLEDGE, one message at a time: the same as with a mode for single "
            "messages. Over AMQP the broker does not answer an acknowledgement: the consumer may "
            "be working on the next message when it dies, and that is recorded twice, too.",
            Kill(ACK, (Role.CONSUMER,)),
            {
                ALO: told(DUPLICATES, by_client_mode),
                EOS: told(
                    holds(ABSORBED),
                    consuming(
                        exactly_once, acknowledging=AcknowledgeSettings(mode=Acknowledge.CLIENT)
                    ),
                ),
            },
            ANY,
            elsewhere={
                AMQP: {ALO: Predicted(duplicated=AtLeast(most=IN_HAND), settings=by_client_mode)}
            },
        ),
        one(
            "commit-lost+transacted",
            "The session's commit acknowledges the messages received in its transaction. It never "
            "arrives.",
            Kill(COMMIT, (Role.CONSUMER,)),
            each_transacted(DUPLICATES, holds(ABSORBED)),
            ANY,
        ),
        one(
            "commit-ack-lost+transacted",
            "The broker has taken the commit, and the consumer dies before it learns that. The "
            "work was done "
            "before.",
            Kill(COMMITTED, (Role.CONSUMER,)),
            each_transacted(holds(NOT_GIVEN_AGAIN), holds(NOT_GIVEN_AGAIN)),
            ANY,
        ),
        one(
            "consumer-crash-before-recording+transacted",
            "A message is acknowledged in a transaction when it is received, and the consumer "
            "dies before the work: the transaction ends with the connection, and the message is "
            "delivered again.",
            Kill(InProgram(Role.CONSUMER, "before-recording"), (Role.CONSUMER,)),
            each_transacted(holds(DELIVERED_AGAIN), holds(DELIVERED_AGAIN)),
            ANY,
        ),
        one(
            "consumer-crash-before-recording+dups-ok",
            "Control: DUPS_OK_ACKNOWLEDGE, which permits duplicates but no losses. For a queue "
            "these libraries acknowledge as with AUTO, before they hand a message over: the work "
            "is not done, and the message is lost.",
            Kill(InProgram(Role.CONSUMER, "before-recording"), (Role.CONSUMER,)),
            {ALO: told(replace(LOSES, control=True), consuming(QUEUE_AT_LEAST_ONCE, **lazily))},
            PUSHED,
            otherwise=DUPS_OK_GATHERS,
        ),
        one(
            "consumer-crash-before-commit+dups-ok",
            "DUPS_OK_ACKNOWLEDGE over Core: the library collects acknowledgements until they "
            "cover a megabyte, or until its consumer is closed. So all messages that were worked "
            "on since then are delivered again.",
            Kill(InProgram(Role.CONSUMER, "before-commit"), (Role.CONSUMER,)),
            {
                ALO: Predicted(
                    duplicated=AtLeast(most=IN_HAND),
                    settings=consuming(QUEUE_AT_LEAST_ONCE, **lazily),
                ),
                EOS: told(holds(ABSORBED), consuming(exactly_once, **lazily)),
            },
            (CORE,),
            otherwise=DUPS_OK_AT_ONCE,
        ),
        one(
            "consumer-crash-before-commit+optimized",
            "optimizeAcknowledge: the library acknowledges two thirds of a window at once. So "
            "all messages that were worked on since then are delivered again, not only the "
            "target.",
            Kill(InProgram(Role.CONSUMER, "before-commit"), (Role.CONSUMER,)),
            {
                ALO: Predicted(
                    duplicated=AtLeast(most=IN_HAND),
                    settings=consuming(QUEUE_AT_LEAST_ONCE, **many),
                ),
                EOS: told(holds(ABSORBED), consuming(exactly_once, **many)),
            },
            otherwise=OPTIMIZED_ELSEWHERE,
        ),
        one(
            "consumer-crash-before-commit+prefetch",
            "The consumer has eight messages when it dies. One was worked on and not "
            "acknowledged, and is recorded twice; the others are delivered to the restarted "
            "consumer.",
            Kill(InProgram(Role.CONSUMER, "before-commit"), (Role.CONSUMER,)),
            {
                ALO: told(DUPLICATES, consuming(QUEUE_AT_LEAST_ONCE, unit=BATCH)),
                EOS: told(holds(ABSORBED), consuming(exactly_once, unit=BATCH)),
            },
            PUSHED,
            otherwise=WINDOW_ELSEWHERE,
        ),
        one(
            "work-fails",
            "The work fails once, and the program asks for the message again (recover): the "
            "library still has it. At-most-once has acknowledged the message already, and loses "
            "it.",
            FAILS,
            {AMO: LOSES, ALO: holds(DELIVERED_AGAIN), EOS: holds(DELIVERED_AGAIN)},
            JMS,
        ),
        one(
            "work-fails+limit",
            "Control: the work always fails. When the library has delivered the message as often "
            "as permitted, it refuses it, and the broker moves it to its dead letters. No "
            "program is told.",
            FAILS,
            {
                ALO: told(replace(LOSES, control=True), consuming(QUEUE_AT_LEAST_ONCE, **limited)),
                EOS: told(replace(LOSES, control=True), consuming(exactly_once, **limited)),
            },
            PUSHED,
            otherwise=LIMIT_ELSEWHERE,
        ),
        one(
            "producer-commit-lost",
            "A message is sent in a transaction of the session, whose commit never arrives: the "
            "transaction ends with its connection, and the producer takes the record again.",
            Kill(OnWire(Role.PRODUCER, Act.COMMIT, REQUEST), (Role.PRODUCER,)),
            {ALO: told(holds(TAKEN_AGAIN), LOCAL)},
            ANY,
        ),
        one(
            "producer-commit-answer-lost",
            "The transaction is committed, and its producer dies before it learns that. In doubt, "
            "the restarted producer sends the record "
            "again.",
            Kill(OnWire(Role.PRODUCER, Act.COMMITTED, RESPONSE), (Role.PRODUCER,)),
            {ALO: told(DUPLICATES, LOCAL)},
            ANY,
        ),
        one(
            "ack-lost+failover",
            "The message is stored, and its answer is lost with the connection. The library "
            "makes a new connection and sends the message again with the same id. It marks the "
            "connection as a fail-over, so this broker looks up the last id of that producer, "
            "and answers without storing the message.",
            Drop(SENT),
            each_failing_over(REPEATED_REQUEST),
            otherwise=FAILOVER_ELSEWHERE,
        ),
        one(
            "broker-crash-before-ack+failover",
            "The message is stored, and the broker dies before it answers. The library sends the "
            "message again with the same id; the restarted broker knows from its journal what it "
            "has stored of each producer.",
            Kill(SENT, (Role.BROKER,)),
            each_failing_over(REPEATED_REQUEST),
            otherwise=FAILOVER_ELSEWHERE,
            deployment=Deployment.OWN,
        ),
        one(
            "xa-prepare-lost",
            "Two-phase commit. The request to prepare never arrives: the transaction ends with the "
            "connection.",
            Kill(OnWire(Role.PRODUCER, Act.PREPARE, REQUEST), (Role.PRODUCER,)),
            {EOS: told(holds(TAKEN_AGAIN), TWO_PHASES)},
            DISTRIBUTED,
            otherwise=NO_XA,
        ),
        one(
            "xa-prepare-answer-lost",
            "The broker has prepared the transaction, and the coordinator dies before its "
            "decision: the restarted program finds the transaction, rolls it back and sends the "
            "record again.",
            Kill(OnWire(Role.PRODUCER, Act.PREPARED, RESPONSE), (Role.PRODUCER,)),
            {EOS: told(holds(TAKEN_AGAIN), TWO_PHASES)},
            DISTRIBUTED,
            otherwise=NO_XA,
        ),
        one(
            "xa-between-prepare-and-commit",
            "The transaction is prepared, and the coordinator dies after its decision to "
            "commit: the restarted program finds the transaction and commits "
            "it.",
            Kill(InProgram(Role.PRODUCER, "between-phases"), (Role.PRODUCER,)),
            {EOS: told(holds(RESUMED_PAST), TWO_PHASES)},
            DISTRIBUTED,
            otherwise=NO_XA,
        ),
        one(
            "xa-blocked",
            "Control: the transaction is prepared, the coordinator dies after its decision to "
            "commit, and the restarted program does not look for prepared transactions. The "
            "broker keeps the transaction prepared: no time-out ends it, no consumer gets the "
            "message, and it is not lost. Two-phase commit can block.",
            Kill(InProgram(Role.PRODUCER, "between-phases"), (Role.PRODUCER,)),
            {
                EOS: Predicted(
                    left=Exactly(),
                    control=True,
                    settings=replace(
                        TWO_PHASES, producer=replace(TWO_PHASES.producer, recovers=False)
                    ),
                )
            },
            DISTRIBUTED,
            otherwise=NO_XA,
        ),
        one(
            "xa-commit-lost",
            "The request of the second phase never arrives: the restarted program sends it again.",
            Kill(OnWire(Role.PRODUCER, Act.DECIDE, REQUEST), (Role.PRODUCER,)),
            {EOS: told(holds(RESUMED_PAST), TWO_PHASES)},
            DISTRIBUTED,
            otherwise=NO_XA,
        ),
        one(
            "xa-commit-answer-lost",
            "The transaction is committed, and the coordinator dies before it learns that: the "
            "restarted program finds no prepared "
            "transaction.",
            Kill(OnWire(Role.PRODUCER, Act.DECIDED, RESPONSE), (Role.PRODUCER,)),
            {EOS: told(holds(RESUMED_PAST), TWO_PHASES)},
            DISTRIBUTED,
            otherwise=NO_XA,
        ),
        one(
            "xa-broker-crash-between-phases",
            "The broker dies with a prepared transaction. When it is back, the transaction is "
            "still prepared, and is committed as the coordinator decided. Messages that the "
            "consumer has in hand are delivered again, and it absorbs them here.",
            Kill(OnWire(Role.PRODUCER, Act.DECIDE, REQUEST), (Role.BROKER,)),
            {EOS: told(holds(RESUMED_PAST), consuming(TWO_PHASES, idempotent=True))},
            DISTRIBUTED,
            otherwise=NO_XA,
            deployment=Deployment.OWN,
        ),
    )
