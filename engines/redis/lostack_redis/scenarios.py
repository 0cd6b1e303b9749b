"""Redis Streams at every failure point of the plain pipeline: outbox → producer → stream → consumer
→ database.

One entry per XADD and per XREADGROUP, one command in flight. Every restart is after SIGKILL. What
differs from a queue: the server gives nothing again by itself. What a member of a group was given
and has not acknowledged is pending, until a program claims it; here each program does so first.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from harness.controls import OnWire
from harness.faults import Drop, Forget, Kill, NoFault
from harness.judge.queue_selections import OUTLIVED
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
from harness.model.scenario import Deployment, NotApplicable, Predicted, Role, Scenario, Suite
from harness.model.semantics import Anomaly
from harness.proofs.damage import DAMAGED, FROM_DAMAGED
from harness.proofs.power import TOLD_TO_FLUSH
from harness.protocols.acts import Act
from harness.scenarios.common import ALL_ANSWERED, Frames
from harness.scenarios.plain import ALO, AMO, DUPLICATES, EOS, LOSES, REQUEST, RESPONSE, holds
from harness.stages.consumer_settings import ConsumerSettings, SavePosition
from harness.stages.settings import (
    QUEUE_AT_LEAST_ONCE,
    QUEUE_AT_MOST_ONCE,
    QUEUE_AT_MOST_ONCE_ANSWERED,
    QUEUE_EXACTLY_ONCE_BY_ID,
    Settings,
)
from lostack_redis.knowledge import IN_HAND, ONCE
from lostack_redis.steps import Command

if TYPE_CHECKING:
    from harness.model.scenario import Expectation, Fault
    from harness.wire.rules import Direction

ANSWERED = QUEUE_AT_MOST_ONCE_ANSWERED
NOACK = replace(ANSWERED, consumer=QUEUE_AT_MOST_ONCE.consumer)
"""XADD once; the group is given an entry and forgets it (NOACK)."""
STREAMS: Final = Pipeline(
    "streams", "redis", {AMO: NOACK, ALO: QUEUE_AT_LEAST_ONCE, EOS: QUEUE_EXACTLY_ONCE_BY_ID}
)
FRAMES = Frames(
    STREAMS,
    OnWire(Role.PRODUCER, Act.SEND, REQUEST),
    OnWire(Role.PRODUCER, Act.SENT, RESPONSE),
    OnWire(Role.CONSUMER, Act.GIVE, RESPONSE),
    OnWire(Role.CONSUMER, Act.ACK, REQUEST),
    OnWire(Role.CONSUMER, Act.ACKED, RESPONSE),
)
PACE_MS = 20
"""A source that gives a record every so often: otherwise all is sent before a fault has come."""
FOR_EVER_MS = 3_600_000
AND_IN_HAND = Predicted(duplicated=AtLeast(most=IN_HAND))


def _claiming(recipe: Settings, idle_ms: int) -> Settings:
    """Return a recipe whose consumers claim what nobody has touched for so long."""
    return replace(recipe, consumer=replace(recipe.consumer, session_timeout_ms=idle_ms))


def _retrying(recipe: Settings) -> Settings:
    """Return a recipe whose library sends a command again by itself: redis-py's default."""
    return replace(recipe, producer=replace(recipe.producer, retries=True))


_POINTS = (
    FRAMES.scenario(
        "none",
        because="Without a fault nothing is lost and nothing is duplicated: the baseline.",
        expect={AMO: Predicted(), ALO: Predicted(), EOS: Predicted()},
        suite=Suite.CORE,
    ),
    FRAMES.scenario(
        "producer-crash-before-send",
        because="The producer has the record and has not sent it. A cursor saved before the send "
        "has passed the record; one saved after the answer has not, and the restarted producer "
        "takes the record again.",
        expect={AMO: LOSES, ALO: holds(TAKEN_AGAIN), EOS: holds(TAKEN_AGAIN)},
    ),
    FRAMES.scenario(
        "producer-crash-before-ack",
        because="The server has the entry and its producer dies before it reads the answer. "
        "At-most-once does not send again; at-least-once does, as a new entry; the script finds "
        "the record's id, and adds nothing.",
        expect={AMO: holds(NOT_RESENT), ALO: DUPLICATES, EOS: holds(ONCE)},
    ),
    FRAMES.scenario(
        "request-lost",
        because="The command never reaches the server, and the connection is cut. Sent once, the "
        "record is gone; sent again, it is stored once.",
        expect={AMO: LOSES, ALO: holds(SENT_ANEW), EOS: holds(SENT_ANEW)},
    ),
    FRAMES.scenario(
        "ack-lost",
        because="The entry is stored and the answer is lost. An XADD that is sent again adds a "
        "second entry, with an id of its own. A script that remembers the record's id adds none.",
        expect={AMO: holds(NOT_RESENT), ALO: DUPLICATES, EOS: holds(ONCE)},
    ),
    FRAMES.scenario(
        "ack-lost+library-retries",
        because="Control: the program sends a record once and saves its cursor before, but leaves "
        "the library's retries as they are. redis-py sends the XADD again by itself, with no word "
        "to the program: at-most-once has the record twice.",
        expect={AMO: Predicted(duplicated=Exactly(), control=True, settings=_retrying(NOACK))},
    ),
    FRAMES.scenario(
        "broker-crash-before-append",
        because="The server dies with the command not yet seen. Sent once, the record is gone. "
        "What a consumer was given with NOACK, and had not arrived, is gone, too.",
        expect={
            AMO: Predicted(lost=AtLeast()),
            ALO: Predicted(duplicated=AtMost(IN_HAND), sign=SENT_ANEW),
            EOS: holds(SENT_ANEW),
        },
        pace_ms=PACE_MS,
    ),
    FRAMES.scenario(
        "broker-crash-before-ack",
        because="The entry is in the append-only file, and the server dies before the answer is "
        "out. It is there after the restart, and so is the id that the script remembers, which "
        "was written in the same transaction. At-most-once acknowledges before the work.",
        expect={
            AMO: Predicted(lost=AtMost(IN_HAND), sign=NOT_RESENT, settings=ANSWERED),
            ALO: AND_IN_HAND,
            EOS: holds(ONCE),
        },
        pace_ms=PACE_MS,
    ),
    FRAMES.scenario(
        "delivery-lost",
        because="The entry never reaches the consumer, and the connection is cut. With NOACK the "
        "group has forgotten it: it is lost, although a reader asks for each entry. Otherwise it "
        "is pending, and the consumer claims it when it has connected again.",
        expect={AMO: LOSES, ALO: holds(DELIVERED_AGAIN), EOS: holds(DELIVERED_AGAIN)},
        suite=Suite.CORE,
    ),
    FRAMES.scenario(
        "delivery-lost+acknowledged-first",
        because="At-most-once in which the program acknowledges before its work. What has not "
        "arrived is not acknowledged: the lost delivery does no harm.",
        expect={AMO: Predicted(sign=DELIVERED_AGAIN, settings=ANSWERED)},
    ),
    FRAMES.scenario(
        "delivery-lost+never-claimed",
        because="Control: the consumer claims nothing for an hour, as one without XAUTOCLAIM does "
        "for ever. The entry is pending; nothing times that out, and the server never gives it "
        "again. It is not lost: all waits for somebody to claim it.",
        expect={
            semantic: Predicted(
                left=Exactly(), control=True, settings=_claiming(recipe, FOR_EVER_MS)
            )
            for semantic, recipe in (
                (AMO, ANSWERED),
                (ALO, QUEUE_AT_LEAST_ONCE),
                (EOS, QUEUE_EXACTLY_ONCE_BY_ID),
            )
        },
    ),
    FRAMES.scenario(
        "commit-lost",
        because="The XACK never arrives and the consumer dies. The entry is pending, and the "
        "restarted consumer claims it: not worked on yet, recorded a second time, or absorbed.",
        expect={
            AMO: Predicted(sign=DELIVERED_AGAIN, settings=ANSWERED),
            ALO: DUPLICATES,
            EOS: holds(ABSORBED),
        },
    ),
    FRAMES.scenario(
        "commit-ack-lost",
        because="The server has taken the XACK, and the consumer dies before it learns that. If "
        "the consumer acknowledges first, the work is never done; if it does so last, the work "
        "is done.",
        expect={
            AMO: Predicted(lost=Exactly(), settings=ANSWERED),
            ALO: holds(NOT_GIVEN_AGAIN),
            EOS: holds(NOT_GIVEN_AGAIN),
        },
    ),
    FRAMES.scenario(
        "consumer-crash-before-recording",
        because="The consumer has the entry and has not recorded its result. With NOACK the group "
        "has forgotten it; otherwise it is pending, and the restarted consumer claims it.",
        expect={AMO: LOSES, ALO: holds(DELIVERED_AGAIN), EOS: holds(DELIVERED_AGAIN)},
    ),
    FRAMES.scenario(
        "consumer-crash-before-commit",
        because="The result is recorded and the entry is not acknowledged: the restarted consumer "
        "claims it.",
        expect={
            AMO: NotApplicable("there is no acknowledgement after the work"),
            ALO: DUPLICATES,
            EOS: holds(ABSORBED),
        },
    ),
)

_POWER = (
    FRAMES.scenario(
        "power-loss",
        because="With appendfsync always the server flushes the append-only file before it "
        "answers: what was answered is there when the power comes back.",
        expect={ALO: holds(TOLD_TO_FLUSH), EOS: holds(TOLD_TO_FLUSH)},
        suite=Suite.NIGHT,
        group="power",
    ),
    FRAMES.scenario(
        "power-loss+everysec",
        because="By default the server flushes once a second, and answers before. What was "
        "answered since the last flush is gone with the power: none of it, some, or all, as the "
        "flush falls; and the record on its way. At-most-once allows that.",
        expect={AMO: Predicted(lost=AtLeast(Select.NEXT), settings=ANSWERED)},
        broker_settings={"appendfsync": "everysec"},
        suite=Suite.NIGHT,
        group="power",
    ),
    FRAMES.scenario(
        "power-loss+no",
        because="Control: the server leaves it to the kernel when the append-only file is written. "
        "A loss of power takes all that was answered.",
        expect={ALO: ALL_ANSWERED},
        broker_settings={"appendfsync": "no"},
        suite=Suite.NIGHT,
        group="power",
    ),
)
AT_REST: Final = {"suite": Suite.NIGHT, "group": "at-rest"}
_AT_REST = (
    FRAMES.scenario(
        "restarted",
        because="The server is killed and started again; its file is as it left it: what was "
        "answered is there. The twin of those whose file is damaged.",
        expect={ALO: holds(OUTLIVED)},
        **AT_REST,
    ),
    FRAMES.scenario(
        "bit-flipped",
        because="Control: a bit of one entry is another one. The append-only file has no "
        "checksums: the server gives the damaged entry to its reader, and logs nothing.",
        expect={ALO: Predicted(lost=Exactly(DAMAGED), also=(Anomaly.PHANTOM,), control=True)},
        **AT_REST,
    ),
    FRAMES.scenario(
        "tail-cut",
        because="Control: the file ends within a command. The server drops what is left of that, "
        "says so in its log, and serves (aof-load-truncated).",
        expect={ALO: Predicted(lost=Exactly(FROM_DAMAGED), control=True)},
        **AT_REST,
    ),
)
_PUBLISHED = (
    FRAMES.scenario(
        "commit-lost+trimmed",
        because="The XACK never arrives, the consumer dies, and the stream is trimmed before "
        "another one claims what is pending: the entry is gone, which at-most-once allows. The "
        "server takes it out of what is pending. Before 7.0 it did not, and gave out nil for it "
        "for ever (redis #10227): a program that claims until nothing is pending never goes on.",
        fault=Kill(FRAMES.ack, (Role.CONSUMER,), forget=Forget.RETENTION),
        expect={AMO: Predicted(lost=Exactly(), settings=ANSWERED)},
        by_system={
            "redis<7": {
                AMO: Predicted(
                    lost=Exactly(), left=AtLeast(Select.NEXT), control=True, settings=ANSWERED
                )
            }
        },
        suite=Suite.NIGHT,
        group="published",
    ),
)
ONE_TRANSACTION = replace(
    QUEUE_EXACTLY_ONCE_BY_ID, consumer=ConsumerSettings(position=SavePosition.IN_TRANSACTION)
)
"""The result is added and the entry acknowledged by one MULTI … EXEC."""
ONE_REDIS: Final = Pipeline(
    "one-redis",
    "redis",
    {AMO: ANSWERED, ALO: QUEUE_AT_LEAST_ONCE, EOS: ONE_TRANSACTION},
    to_topic=True,
)
"""outbox → producer → stream → processor → stream of the same server."""
NO_EXEC = NotApplicable("without a transaction there is no EXEC")


def _transforms(
    name: str,
    fault: Fault,
    because: str,
    *predicted: Expectation,
    deployment: Deployment = Deployment.SHARED,
) -> Scenario:
    """Return a scenario of the processor; ``predicted``: by semantic, in their order."""
    return Scenario(
        pipeline=ONE_REDIS,
        id=f"one-redis-{name}",
        failure_point=name,
        fault=fault,
        because=because,
        group="transactions",
        expect=dict(zip((AMO, ALO, EOS), predicted, strict=True)),
        deployment=deployment,
    )


def _on(command: Command, direction: Direction) -> OnWire:
    return OnWire(Role.PROCESSOR, command, direction)


_EXEC, _EXECUTED = _on(Command.EXEC, REQUEST), _on(Command.EXEC, RESPONSE)
_ONE_REDIS = (
    _transforms(
        "none",
        NoFault(),
        "Without a fault: each result is added, and its entry acknowledged, in one transaction.",
        Predicted(),
        Predicted(),
        Predicted(),
    ),
    _transforms(
        "result-sent",
        Kill(_on(Command.XADD, RESPONSE), (Role.PROCESSOR,)),
        "The processor dies before it learns that its result is stored. Acknowledged before, its "
        "entry is done with; acknowledged after, it is claimed, and its result is stored twice.",
        holds(NOT_RESENT),
        DUPLICATES,
        NotApplicable(
            "redis-py sends MULTI to EXEC at once: when the result is QUEUED, all of it is done"
        ),
    ),
    _transforms(
        "exec-lost",
        Kill(_EXEC, (Role.PROCESSOR,)),
        "EXEC never arrives and the processor dies: nothing of the transaction was done. The entry "
        "is pending, and the restarted processor claims it.",
        NO_EXEC,
        NO_EXEC,
        holds(DELIVERED_AGAIN),
    ),
    _transforms(
        "exec-answer-lost",
        Kill(_EXECUTED, (Role.PROCESSOR,)),
        "The transaction is done, and the processor dies before it learns that. Result and "
        "acknowledgement are one: its entry is given to nobody again.",
        NO_EXEC,
        NO_EXEC,
        holds(NOT_GIVEN_AGAIN),
    ),
    _transforms(
        "exec-in-doubt",
        Drop(_EXECUTED),
        "The transaction is done, its answer is lost, and the processor lives on. It does not send "
        "the transaction again: it claims what is pending, and that is nothing.",
        NO_EXEC,
        NO_EXEC,
        holds(NOT_GIVEN_AGAIN),
    ),
    _transforms(
        "broker-crash-before-exec",
        Kill(_EXEC, (Role.BROKER,)),
        "The server dies with EXEC not yet seen: the append-only file has nothing of the "
        "transaction.",
        NO_EXEC,
        NO_EXEC,
        holds(DELIVERED_AGAIN),
        deployment=Deployment.OWN,
    ),
    _transforms(
        "broker-crash-before-exec-answer",
        Kill(_EXECUTED, (Role.BROKER,)),
        "The transaction is in the append-only file as a whole, and the server dies before it "
        "answers: result and acknowledgement are both there after the restart.",
        NO_EXEC,
        NO_EXEC,
        holds(NOT_GIVEN_AGAIN),
        deployment=Deployment.OWN,
    ),
)
SCENARIOS = (*_POINTS, *_POWER, *_AT_REST, *_PUBLISHED, *_ONE_REDIS)
