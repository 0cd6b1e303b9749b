"""Kafka's own queues: a share group (KIP-932) reads the topic, and every record has an
acknowledgement of its own.

One record per send, poll and acknowledgement; what a reader is given is its own until it
acknowledges, its lock expires, or its connection ends. The Java client knows share groups, and
librdkafka from 2.16 on, as a preview.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from harness.controls import InProgram, OnWire
from harness.faults import Drop, Kill, NoFault, WorkFails
from harness.judge.signs import ABSORBED, DELIVERED_AGAIN, NOT_GIVEN_AGAIN
from harness.model.prediction import AtLeast, Exactly, Permitted
from harness.model.scenario import Deployment, NotApplicable, Predicted, Role, Scenario, Suite
from harness.protocols.kafka.steps import Api
from harness.scenarios.plain import ALO, AMO, DUPLICATES, EOS, LOSES, REQUEST, RESPONSE, holds
from harness.stages.settings import SHARED, recipe
from harness.systems.kafka.faults import LockExpired
from harness.systems.kafka.signs import TAKEN_BEFORE, WRITTEN_AGAIN, WRITTEN_UNTOLD

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.controls import Trigger
    from harness.model.scenario import Expectation
    from harness.model.semantics import Semantic
    from harness.stages.settings import Settings

NO_SHARE_GROUPS: Final = NotApplicable("the client has no reader of share groups")
ACKNOWLEDGED_FIRST: Final = NotApplicable(
    "a record is acknowledged before the work, and not again after it"
)


def by_clients(expect: Mapping[Semantic, Expectation]) -> dict[str, Mapping[Semantic, Expectation]]:
    """Return what is expected of each client that has anything to do with share groups."""
    nobody = dict.fromkeys(expect, NO_SHARE_GROUPS)
    return {
        "java<4.2": nobody,
        "java": expect,
        "confluent-kafka<2.16": nobody,
        "confluent-kafka": expect,
    }


def shared(
    name: str, because: str, expect: Mapping[Semantic, Expectation], **more: Any
) -> Scenario:
    """Return a scenario of a share group, for clients from the version on that has them as they
    are.
    """
    nobody = dict.fromkeys(expect, NO_SHARE_GROUPS)
    return Scenario(
        pipeline=SHARED,
        id=f"share-{name}",
        group="share groups",
        suite=Suite.NIGHT,
        because=because,
        expect=nobody,
        by_client=by_clients(expect),
        **more,
    )


NONE = shared(
    "none",
    "Without a fault every record is delivered once, acknowledged, and recorded once.",
    {AMO: Predicted(), ALO: Predicted(), EOS: Predicted()},
    fault=NoFault(),
    failure_point="none",
)

DELIVERY_LOST = shared(
    "delivery-lost",
    "The broker has sent the record to a reader that never gets it, but holds its lock. The "
    "connection ends with the answer, and with it the session: the broker releases the session's "
    "records at once, and delivers them again.",
    {semantic: holds(DELIVERED_AGAIN) for semantic in (AMO, ALO, EOS)},
    fault=Drop(OnWire(Role.CONSUMER, Api.SHARE_FETCH, RESPONSE)),
)

ACK_LOST = shared(
    "ack-lost",
    "The acknowledgement never arrives, and the connection ends: the record is released. The "
    "client reports that the commit failed. A reader that acknowledges before the work does not "
    "do it, and gets the record again. A reader that acknowledges after the work does it twice, "
    "unless the sink knows the id.",
    {AMO: holds(DELIVERED_AGAIN), ALO: DUPLICATES, EOS: holds(ABSORBED)},
    fault=Drop(OnWire(Role.CONSUMER, Api.SHARE_ACKNOWLEDGE, REQUEST)),
)

ACK_ANSWER_LOST = shared(
    "ack-answer-lost",
    "The broker has taken the acknowledgement, and its answer is lost. The reader is told that "
    "its commit failed. A reader that acknowledges before the work does not do it, and the "
    "record is not delivered again. A reader that acknowledges after the work has done it.",
    {AMO: LOSES, ALO: holds(NOT_GIVEN_AGAIN), EOS: holds(NOT_GIVEN_AGAIN)},
    fault=Drop(OnWire(Role.CONSUMER, Api.SHARE_ACKNOWLEDGE, RESPONSE)),
)

ACK_LOST_AND_DEAD = shared(
    "crash-before-acknowledgement-arrives",
    "The acknowledgement is on its way when its reader dies, and never arrives: the result is "
    "the same as if the reader had died before it acknowledged.",
    {AMO: holds(DELIVERED_AGAIN), ALO: DUPLICATES, EOS: holds(ABSORBED)},
    fault=Kill(OnWire(Role.CONSUMER, Api.SHARE_ACKNOWLEDGE, REQUEST), (Role.CONSUMER,)),
)

ANSWER_LOST_AND_DEAD = shared(
    "crash-before-acknowledgement-answered",
    "The broker has taken the acknowledgement, and the reader dies before it learns that. If the "
    "reader acknowledges first, the record is lost: the work was never done.",
    {AMO: LOSES, ALO: holds(NOT_GIVEN_AGAIN), EOS: holds(NOT_GIVEN_AGAIN)},
    fault=Kill(OnWire(Role.CONSUMER, Api.SHARE_ACKNOWLEDGE, RESPONSE), (Role.CONSUMER,)),
)


def crash(name: str, because: str, at: Trigger, expect: Mapping[Semantic, Expectation]) -> Scenario:
    """Return a scenario in which the reader dies at a place in its program."""
    return shared(name, because, expect, fault=Kill(at, (Role.CONSUMER,)))


BEFORE_PROCESSING = crash(
    "crash-before-processing",
    "The reader has the record, and the work is not done. The record is lost only if it was "
    "acknowledged before.",
    InProgram(Role.CONSUMER, "before-processing"),
    {AMO: LOSES, ALO: holds(DELIVERED_AGAIN), EOS: holds(DELIVERED_AGAIN)},
)
BEFORE_RECORDING = crash(
    "crash-before-recording",
    "The work is done, and its result is not recorded.",
    InProgram(Role.CONSUMER, "before-recording"),
    {AMO: LOSES, ALO: holds(DELIVERED_AGAIN), EOS: holds(DELIVERED_AGAIN)},
)
BEFORE_ACKNOWLEDGING = crash(
    "crash-before-acknowledging",
    "The result is recorded, and the record is not acknowledged: the broker releases it and "
    "delivers it again.",
    InProgram(Role.CONSUMER, "before-commit"),
    {AMO: ACKNOWLEDGED_FIRST, ALO: DUPLICATES, EOS: holds(ABSORBED)},
)


def sharing(semantic: Semantic, *, count: int = 1, partitions: int = 1, **share: Any) -> Settings:
    """Return the recipe of a semantic with other settings of the share group, and as
    many readers.
    """
    settings = recipe(SHARED, semantic)
    consumer = replace(
        settings.consumer, share=replace(settings.consumer.share, **share), count=count
    )
    return replace(
        settings, consumer=consumer, topic=replace(settings.topic, partitions=partitions)
    )


def each_with(expect: Mapping[Semantic, Expectation], **more: Any) -> dict[Semantic, Expectation]:
    """Return predictions with such settings."""
    return {
        semantic: replace(each, settings=sharing(semantic, **more))
        if isinstance(each, Predicted)
        else each
        for semantic, each in expect.items()
    }


TWO_READERS = crash(
    "crash-before-acknowledging+two-readers",
    "The same with three partitions and two readers: what the dead one had is released, and "
    "whoever reads that partition then gets it.",
    InProgram(Role.CONSUMER, "before-commit"),
    each_with({ALO: DUPLICATES, EOS: holds(ABSORBED)}, count=2, partitions=3),
)

LOCK_EXPIRED = shared(
    "lock-expired",
    "The work takes longer than the lock. The broker gives the record to the other reader, which "
    "does the work and acknowledges. Then the first reader is done, too, and its acknowledgement "
    "is refused, because it no longer holds the lock. A record that was acknowledged before the "
    "work has no lock to lose.",
    each_with(
        {AMO: holds(TAKEN_BEFORE), ALO: DUPLICATES, EOS: holds(ABSORBED)}, count=2, lock_ms=2000
    ),
    fault=LockExpired(InProgram(Role.CONSUMER, "before-recording")),
)

FAILS = WorkFails(InProgram(Role.CONSUMER, "before-recording"))
REFUSED = Predicted(lost=Exactly(), control=True)

RELEASED = shared(
    "released",
    "The work fails, and the reader releases the record: it is delivered again, and the work "
    "succeeds. If the record was acknowledged before the work, there is nothing to release.",
    {AMO: LOSES, ALO: holds(DELIVERED_AGAIN), EOS: holds(DELIVERED_AGAIN)},
    fault=FAILS,
)

REJECTED = shared(
    "rejected",
    "Control: the work fails, and the reader rejects the record, as it should if the record "
    "cannot be processed. The broker archives the record: Kafka 4.3 has no dead letters, so it "
    "is never delivered again and is not set aside anywhere.",
    each_with({AMO: ACKNOWLEDGED_FIRST, ALO: REFUSED, EOS: REFUSED}, rejects=True),
    fault=FAILS,
)

LIMIT_REACHED = shared(
    "limit-reached",
    "Control: the work always fails, and the reader releases the record each time. At the "
    "delivery limit the broker archives the record without an error, without an acknowledgement "
    "and without dead letters: it is lost.",
    each_with({AMO: ACKNOWLEDGED_FIRST, ALO: REFUSED, EOS: REFUSED}, poisoned=True, limit=2),
    fault=FAILS,
)

IMPLICIT_LOST = shared(
    "implicit-ack-lost",
    "The next poll acknowledges the records of the last one in the same request (ShareFetch), "
    "which is lost with its connection: the record is released, and delivered again.",
    each_with({AMO: ACKNOWLEDGED_FIRST, ALO: DUPLICATES, EOS: holds(ABSORBED)}, implicit=True),
    fault=Drop(OnWire(Role.CONSUMER, Api.SHARE_FETCH, REQUEST)),
)

IMPLICIT_DEAD = replace(
    IMPLICIT_LOST,
    id="share-crash-before-implicit-ack",
    failure_point="share-crash-before-implicit-ack",
    fault=Kill(OnWire(Role.CONSUMER, Api.SHARE_FETCH, REQUEST), (Role.CONSUMER,)),
    because="The request that asks for more records, and acknowledges the last ones, is on its way "
    "when its reader dies, and never arrives.",
)

BROKER_BEFORE_ACK = shared(
    "broker-crash-before-ack",
    "The broker dies before it sees the acknowledgement. It keeps locks in its memory only, so "
    "after the restart no reader holds the record, and it is delivered again. (At most once the "
    "producer goes on sending, and losing, while the broker is down. At least once it sends "
    "again what the broker had stored and not acknowledged, and that is stored twice.)",
    {
        AMO: Predicted(lost=Permitted(), sign=DELIVERED_AGAIN),
        ALO: Predicted(duplicated=AtLeast()),
        EOS: holds(ABSORBED),
    },
    fault=Kill(OnWire(Role.CONSUMER, Api.SHARE_ACKNOWLEDGE, REQUEST), (Role.BROKER,)),
    deployment=Deployment.OWN,
    together="crash",
)

COORDINATOR_BEFORE_WRITE = replace(
    BROKER_BEFORE_ACK,
    id="share-coordinator-crash-before-write",
    failure_point="share-coordinator-crash-before-write",
    fault=Kill(OnWire(Role.BROKER, Api.WRITE_SHARE_GROUP_STATE, REQUEST), (Role.BROKER,)),
    together="",
    because="The broker has the acknowledgement and passes it to the share coordinator (the same "
    "broker), which dies before it has written it down. No answer was given, and the record "
    "is delivered again.",
)

_WRITTEN = {
    AMO: Predicted(lost=AtLeast()),
    ALO: Predicted(duplicated=Permitted(), sign=WRITTEN_UNTOLD),
    EOS: holds(WRITTEN_UNTOLD),
}
COORDINATOR_AFTER_WRITE = replace(
    COORDINATOR_BEFORE_WRITE,
    id="share-coordinator-crash-after-write",
    failure_point="share-coordinator-crash-after-write",
    fault=Kill(OnWire(Role.BROKER, Api.WRITE_SHARE_GROUP_STATE, RESPONSE), (Role.BROKER,)),
    because="The acknowledgement is written down, and the coordinator dies before it answers. "
    "After the restart the acknowledgement is still there: the record is not delivered "
    "again, whatever its reader believes.",
    expect=dict.fromkeys(_WRITTEN, NO_SHARE_GROUPS),
    by_client=by_clients(_WRITTEN),
)

_AGAIN = {semantic: holds(WRITTEN_AGAIN) for semantic in (AMO, ALO, EOS)}
WRITE_LOST = shared(
    "state-write-lost",
    "The broker's request to the share coordinator, to write the acknowledgement down, is lost "
    "with the connection between them. The broker asks again; the reader waits meanwhile, and "
    "notices nothing.",
    _AGAIN,
    fault=Drop(OnWire(Role.BROKER, Api.WRITE_SHARE_GROUP_STATE, REQUEST)),
    deployment=Deployment.OWN,
)
WRITE_ANSWER_LOST = shared(
    "state-write-answer-lost",
    "It is written down, and the answer is lost with the connection. The broker asks again, and "
    "has the same written down twice.",
    _AGAIN,
    fault=Drop(OnWire(Role.BROKER, Api.WRITE_SHARE_GROUP_STATE, RESPONSE)),
    deployment=Deployment.OWN,
)

SHARE_GROUPS = (
    NONE,
    DELIVERY_LOST,
    ACK_LOST,
    ACK_ANSWER_LOST,
    ACK_LOST_AND_DEAD,
    ANSWER_LOST_AND_DEAD,
    BEFORE_PROCESSING,
    BEFORE_RECORDING,
    BEFORE_ACKNOWLEDGING,
    TWO_READERS,
    LOCK_EXPIRED,
    RELEASED,
    REJECTED,
    LIMIT_REACHED,
    IMPLICIT_LOST,
    IMPLICIT_DEAD,
    BROKER_BEFORE_ACK,
    COORDINATOR_BEFORE_WRITE,
    COORDINATOR_AFTER_WRITE,
    WRITE_LOST,
    WRITE_ANSWER_LOST,
)
