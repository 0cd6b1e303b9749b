"""ActiveMQ Artemis over STOMP, Core, OpenWire and AMQP, at every point of the plain pipeline, and
what JMS can be told besides.

The points are those of ActiveMQ Classic, and so is most of what is predicted. What differs is
exactly-once: each message carries its record's id (``_AMQ_DUPL_ID``), which the broker writes down
with the message and takes no second time, so that the queue itself has the record once; what is
delivered twice is absorbed by the sink, as there.

Over Core, Artemis' own protocol, a library of JMS acknowledges before it hands a message over
(AUTO_ACKNOWLEDGE), or sends an acknowledgement and a commit behind it when the program says so; it
asks for one message at a time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from harness.controls import OnWire
from harness.faults import Drop, Hold, Kill, Refuse
from harness.judge.queue_selections import IN_HAND
from harness.judge.signs import DELIVERED_AGAIN, SENT_ANEW, TAKEN_AGAIN
from harness.model.prediction import AtLeast, Exactly, Select, Zero
from harness.model.scenario import NotApplicable, Predicted, Role, Scenario, Suite
from harness.protocols.acts import Act
from harness.protocols.core.steps import Packet
from harness.scenarios import activemq, jms
from harness.scenarios.plain import ALO, AMO, DUPLICATES, EOS, LOSES, REQUEST, RESPONSE, holds
from harness.stages.pushing import Acknowledge, AcknowledgeSettings
from harness.stages.settings import (
    QUEUE_AT_LEAST_ONCE,
    QUEUE_AT_MOST_ONCE,
    QUEUE_EXACTLY_ONCE_BY_ID,
    queue_pipeline,
)
from harness.systems.artemis.signs import KEPT_ONCE, UNBOUND

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.model.scenario import Fault
    from harness.model.semantics import Semantic

QUEUE = queue_pipeline("artemis", by_id=True)
FEW = {"none", "ack-lost"}
STOMP, CORE, OPENWIRE, AMQP = CLIENTS = ("stomp.py", "core", "openwire", "amqp")
BY_ID = replace(
    QUEUE_AT_LEAST_ONCE, producer=replace(QUEUE_AT_LEAST_ONCE.producer, idempotence=True)
)
"""At-least-once whose messages carry their records' ids, and a sink that absorbs nothing."""
_AGAIN = {
    "producer-crash-before-ack": "The broker has stored the message and its producer dies before "
    "it reads the receipt. At-most-once does not send again; "
    "at-least-once does, as a new message; one that carries the id "
    "of the first is answered by a receipt, too, and not kept.",
    "ack-lost": "The message is stored and its receipt is lost. Sent again it is a second "
    "message, but for the id that it carries: the broker has that already, and takes "
    "it with a receipt, as if it were new.",
    "broker-crash-before-ack": "The broker has the message in its journal, and dies before the "
    "receipt is out. It is there after the restart, and so is its id, "
    "which was written in the same transaction.",
}
"""Where a message is sent again that the broker has."""


_ACKNOWLEDGED_FIRST = (
    "At-most-once in which the program acknowledges before its work. The lost delivery does no "
    "harm. But this broker sends the next message when it has an ACK, and the receipt of that "
    "ACK only when its journal is flushed: the connection may be cut in between. Then the "
    "message before is acknowledged, but its program does not know that, and does not do the "
    "work."
)


_FLUSHED = (
    "The journal is flushed before a receipt goes out (journal-sync-non-transactional, the "
    "default): whatever has a receipt is in the flushed part of its preallocated files."
)
# OpenWire's library acknowledges first, too: what is said there is true of it where a delivery is
# lost.
_BY_CORE: dict[str, dict[Semantic, Predicted | NotApplicable]] = {
    "delivery-lost": {AMO: holds(DELIVERED_AGAIN)},
    "delivery-lost+connection-lives": dict.fromkeys(
        (AMO, ALO, EOS),
        NotApplicable("both sides count packets, so none can vanish while its connection lives"),
    ),
    "consumer-crash-before-recording": {AMO: LOSES},
}
"""Where the library's word on a message makes another thing of at-most-once than the broker's."""


def _here(scenario: Scenario) -> Scenario:
    """Return a scenario of Classic as it is here."""
    if scenario.id == "power-loss":
        return replace(scenario, pipeline=QUEUE, because=_FLUSHED)
    suite = Suite.CORE if scenario.id in FEW else Suite.DAY
    if scenario.id == "delivery-lost+acknowledged-first":
        expect, nobody = {AMO: activemq.UNHEARD}, {AMQP: scenario.by_client[AMQP]}
        return replace(
            scenario,
            pipeline=QUEUE,
            suite=suite,
            because=_ACKNOWLEDGED_FIRST,
            expect=expect,
            by_client=nobody,
        )
    if scenario.id not in _AGAIN:
        told = {**scenario.by_client, CORE: _BY_CORE.get(scenario.id, {})}
        if scenario.id == "delivery-lost":
            told[OPENWIRE] = {**told[OPENWIRE], AMO: replace(activemq.UNHEARD, settings=None)}
        return replace(scenario, pipeline=QUEUE, suite=suite, by_client=told)
    again = {**scenario.expect, EOS: holds(KEPT_ONCE)}
    return replace(scenario, pipeline=QUEUE, suite=suite, because=_AGAIN[scenario.id], expect=again)


_ALIKE = {scenario.id: _here(scenario) for scenario in activemq.POINTS}
_VARIANTS = (
    replace(
        activemq.UNFLUSHED,
        pipeline=QUEUE,
        because="Control: the journal is not flushed (journalSyncNonTransactional=false). A loss "
        "of power takes all that had a receipt.",
        broker_settings={
            "journalSyncNonTransactional": "false",
            "journalSyncTransactional": "false",
        },
    ),
    replace(
        _ALIKE["ack-lost"],
        id="ack-lost+by-id",
        suite=Suite.DAY,
        because=(
            "At-least-once whose messages carry their records' ids: the broker alone absorbs a "
            "record that is sent twice."
        ),
        expect={ALO: Predicted(sign=KEPT_ONCE, settings=BY_ID)},
    ),
    replace(
        _ALIKE["commit-lost"],
        id="commit-lost+by-id",
        because=(
            "These ids do not protect a delivery: a message whose ACK was lost is delivered "
            "again, and recorded again."
        ),
        expect={ALO: Predicted(duplicated=Exactly(), settings=BY_ID)},
        by_client={AMQP: {ALO: Predicted(duplicated=AtLeast(most=IN_HAND), settings=BY_ID)}},
    ),
)
LISTENED = replace(jms.LOCAL, producer=replace(jms.LOCAL.producer, in_flight=2))
"""What is sent in a transaction is answered to a listener, and the program waits for the commit
alone.
"""
_ACKNOWLEDGES = OnWire(Role.CONSUMER, Packet.ACKNOWLEDGE, REQUEST)
NOT_CORE = {
    "ack-cut+auto": NotApplicable(
        "shown over OpenWire on ActiveMQ Classic; over AMQP at-most-once is presettled: no cell "
        "here"
    ),
    "delivery-lost+pre-acknowledged": NotApplicable(
        "PRE_ACKNOWLEDGE is a mode of Artemis' own library"
    ),
    "producer-commit-lost+listened": NotApplicable(
        "this scenario is about a bug in Core's library (ARTEMIS-3729)"
    ),
}
"""Why what Core's library is told is no cell of the others, by the beginning of its name."""


def _over_core(
    name: str, because: str, fault: Fault, expect: Mapping[Semantic, Predicted]
) -> Scenario:
    """Return a scenario that only a client over Core can run."""
    reason = next(why for begins, why in NOT_CORE.items() if name.startswith(begins))
    return Scenario(
        pipeline=QUEUE,
        id=name,
        fault=fault,
        because=because,
        expect=expect,
        by_client={
            client: dict.fromkeys(expect, jms.NOT_JMS if client == STOMP else reason)
            for client in CLIENTS
            if client != CORE
        },
        group="jms",
        pace_ms=activemq.PACE_MS,
    )


_OVER_CORE = (
    _over_core(
        "ack-cut+auto",
        "AUTO_ACKNOWLEDGE, and the library waits for the answer (blockOnAcknowledge). The "
        "acknowledgement never arrives, so the library does not hand the message over. It is "
        "delivered again, to a program that has not seen it.",
        Drop(_ACKNOWLEDGES),
        {AMO: holds(DELIVERED_AGAIN)},
    ),
    _over_core(
        "ack-cut+auto-unanswered",
        "Control: AUTO_ACKNOWLEDGE with its defaults, where the library does not wait for the "
        "answer. The program works on the message, the acknowledgement never arrives, and the "
        "message is delivered again: it is at-most-once only if the acknowledgement blocks.",
        Drop(_ACKNOWLEDGES),
        {
            AMO: replace(
                DUPLICATES,
                control=True,
                settings=jms.consuming(
                    QUEUE_AT_MOST_ONCE, acknowledging=AcknowledgeSettings(blocking=False)
                ),
            )
        },
    ),
    _over_core(
        "delivery-lost+pre-acknowledged",
        "PRE_ACKNOWLEDGE: the broker removes the message from its queue before it sends it. A "
        "message that is lost on the way is lost for good.",
        Drop(activemq.MESSAGE),
        {
            AMO: replace(
                LOSES,
                settings=jms.consuming(
                    QUEUE_AT_MOST_ONCE, acknowledging=AcknowledgeSettings(mode=Acknowledge.BEFORE)
                ),
            )
        },
    ),
    _over_core(
        "producer-commit-lost+listened",
        "A listener gets the answer to a message sent in a transaction. That answer comes while "
        "the program waits for the answer to its commit, which is lost with the connection. The "
        "library must not take one answer for the other: the program is told that its commit "
        "failed, and sends the message again.",
        Hold(jms.SENT, OnWire(Role.PRODUCER, Act.COMMIT, REQUEST), lost=True),
        {ALO: replace(holds(SENT_ANEW), settings=LISTENED)},
    ),
)
OLD_CORE = f"{CORE}==2.20.0"
"""Whose library takes the one answer for the other (ARTEMIS-3729)."""
_BY_LIBRARY = tuple(
    each
    if each.id != "producer-commit-lost+listened"
    else replace(
        each,
        by_client={
            **each.by_client,
            OLD_CORE: {ALO: Predicted(lost=Exactly(), control=True, settings=LISTENED)},
        },
    )
    for each in _OVER_CORE
)
_LEFT_BY_AMQP = (
    " Over AMQP qpid-jms says that the message cannot be delivered *here*: this broker keeps it "
    "for another consumer, and where there is none it waits for ever."
)


_TRAP = (
    " Over STOMP this broker does an ACK at once, whatever becomes of the transaction in which "
    "it is: control, where that loses."
)
_UNBOUND = {
    "commit-lost+transacted": holds(UNBOUND),
    "consumer-crash-before-recording+transacted": replace(LOSES, control=True),
}
"""What comes of an acknowledgement that is bound to no transaction."""


def _of_any(scenario: Scenario) -> Scenario:
    """Return what any client of JMS can be told as it is here."""
    if scenario.id in _UNBOUND:
        unbound = {
            semantic: replace(_UNBOUND[scenario.id], settings=theory.settings)
            for semantic, theory in scenario.expect.items()
            if isinstance(theory, Predicted)
        }
        return replace(
            scenario,
            because=scenario.because + _TRAP,
            by_client={**scenario.by_client, STOMP: unbound},
        )
    if scenario.id != "work-fails+limit":
        return scenario
    left = {
        semantic: replace(theory, lost=Zero(), left=Exactly())
        for semantic, theory in scenario.expect.items()
        if isinstance(theory, Predicted)
    }
    return replace(
        scenario,
        because=scenario.because + _LEFT_BY_AMQP,
        by_client={**scenario.by_client, AMQP: left},
    )


_OF_ANY = tuple(
    _of_any(each)
    for each in jms.scenarios(QUEUE, CLIENTS, QUEUE_EXACTLY_ONCE_BY_ID)
    if each.id not in {own.id for own in _BY_LIBRARY}
)
"""What any client of JMS can be told, as on Classic."""
NOT_AMQP = NotApplicable(
    "this scenario refuses a message by an AMQP disposition, which other protocols do not have"
)
_REFUSED = Scenario(
    pipeline=QUEUE,
    id="send-refused",
    fault=Refuse(jms.SEND),
    group="jms",
    because="The broker refuses a message in a transaction, as one of its plugins may, and the "
    "producer does not wait for the answers to single messages. So the commit must fail, or "
    "the message is lost without an error. The program is told, and sends the message again.",
    expect={ALO: replace(holds(SENT_ANEW), settings=LISTENED)},
    by_client={
        client: {ALO: jms.NOT_JMS if client == STOMP else NOT_AMQP}
        for client in CLIENTS
        if client != AMQP
    },
    by_system={"artemis<2.39": {ALO: Predicted(lost=Exactly(), control=True, settings=LISTENED)}},
)
IN_DOUBT = replace(
    QUEUE_EXACTLY_ONCE_BY_ID, producer=replace(jms.LOCAL.producer, named=True, resend=False)
)
"""Each message of a transaction carries its record's id, and whose commit is refused takes it for
one that is there already.
"""
_REFUSED_AGAIN = (
    Scenario(
        pipeline=QUEUE,
        id="producer-commit-answer-lost+by-id",
        group="jms",
        suite=Suite.NIGHT,
        fault=Kill(OnWire(Role.PRODUCER, Act.COMMITTED, RESPONSE), (Role.PRODUCER,)),
        because="The transaction is committed, and its producer dies before it learns that. Each "
        "message carries its record's id. The restarted program sends a transaction with an "
        "id that the broker has, and its commit is refused. The program concludes that the "
        "record is stored already, and goes on. That is right: both transactions have the "
        "same record.",
        expect={EOS: Predicted(sign=TAKEN_AGAIN, settings=IN_DOUBT)},
    ),
    Scenario(
        pipeline=QUEUE,
        id="producer-commit-answer-lost+by-id+more",
        group="jms",
        suite=Suite.NIGHT,
        fault=Kill(OnWire(Role.PRODUCER, Act.COMMITTED, RESPONSE), (Role.PRODUCER,)),
        because="Control: the transaction is committed, and its producer dies before it learns "
        "that. Another record has come meanwhile, and the restarted program sends both "
        "in one transaction. One id that the broker has is enough: it refuses the whole "
        "transaction. The program concludes that its records are stored already, and the "
        "new record is lost.",
        expect={
            EOS: Predicted(
                lost=Exactly(Select.NEXT),
                control=True,
                settings=replace(IN_DOUBT, producer=replace(IN_DOUBT.producer, catches_up=2)),
            )
        },
    ),
)
SCENARIOS = (*_ALIKE.values(), *_VARIANTS, *_BY_LIBRARY, _REFUSED, *_REFUSED_AGAIN, *_OF_ANY)
