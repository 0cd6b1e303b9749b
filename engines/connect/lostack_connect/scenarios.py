"""Kafka Connect: a worker dies, or a frame is lost, at each place of a record's way through a
source connector and through a sink connector.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from harness.controls import InProgram, OnWire
from harness.faults import Drop, Kill, Pause, Withheld
from harness.judge.signs import (
    ABORTED,
    ABSORBED,
    DELIVERED_AGAIN,
    REPEATED_REQUEST,
    RESUMED_PAST,
    TAKEN_AGAIN,
)
from harness.model.prediction import AtLeast, Exactly, Permitted, Select
from harness.model.scenario import NotApplicable, Predicted, Role, Scenario, Suite
from harness.protocols.kafka.steps import Api
from harness.scenarios.plain import ALO, AMO, DUPLICATES, EOS, FRAMES, REQUEST, RESPONSE, holds
from harness.stages.consumer_settings import Members
from harness.systems.streams.faults import TakenOver
from lostack_connect.faults import Moved, Reconfigured, TaskFails
from lostack_connect.knowledge import OFFSET_SENT_AGAIN, TASK_TOOK_AGAIN
from lostack_connect.settings import SINK, SOURCE, Aside, ConnectSettings, Writes, told

if TYPE_CHECKING:
    from harness.model.pipeline import Pipeline
    from harness.model.scenario import Fault
    from harness.model.semantics import Semantic

SOON_MS: Final = 3000
"""A session time-out (ms) for cells that wait until another worker takes over."""

NOT_OFFERED: Final = NotApplicable(
    "Kafka Connect offers no at-most-once: offsets are saved behind the work"
)
IN_TRANSACTION: Final = NotApplicable("the offset is in the record's own transaction")
NO_TRANSACTION: Final = NotApplicable("there is no transaction under this semantic")
SENT: Final = OnWire(Role.PRODUCER, Api.PRODUCE, RESPONSE)
FLUSH: Final = OnWire(Role.PRODUCER, Api.PRODUCE, REQUEST, since=SENT)
"""The source waits for it: the first that the worker sends behind the target's acknowledgement are
the source offsets.
"""
FLUSHED: Final = replace(FLUSH, direction=RESPONSE)
ENDS: Final = OnWire(Role.PRODUCER, Api.END_TXN, REQUEST)


def of_source(name: str, because: str, alo: object, eos: object, **exceptions: object) -> Scenario:
    """Return the scenario of a point that all engines have, at a source connector."""
    expect = {AMO: NOT_OFFERED, ALO: alo, EOS: eos}
    return FRAMES.scenario(name, because, expect, pipeline=SOURCE, **exceptions)  # type: ignore[arg-type]


def of_sink(name: str, because: str, alo: object, eos: object, **exceptions: object) -> Scenario:
    """Return the scenario of a point that all engines have, at a sink connector."""
    expect = {AMO: NOT_OFFERED, ALO: alo, EOS: eos}
    return FRAMES.scenario(name, because, expect, pipeline=SINK, **exceptions)  # type: ignore[arg-type]


def at_offsets(
    name: str, at: OnWire, because: str, alo: object, fault: Fault | None = None
) -> Scenario:
    """Return the scenario of a fault at the flush of a worker's source offsets. ``fault``: another
    one than the worker's death.
    """
    return Scenario(
        pipeline=SOURCE,
        id=name,
        fault=fault or Kill(at, (Role.PRODUCER,)),
        because=because,
        expect={AMO: NOT_OFFERED, ALO: alo, EOS: IN_TRANSACTION},  # type: ignore[dict-item]
    )


def with_two(
    pipeline: Pipeline, name: str, fault: Fault, because: str, *, alo: Predicted, eos: Predicted
) -> Scenario:
    """Return a scenario of a cluster of two workers, whose sessions are soon over."""

    def pair(semantic: Semantic) -> ConnectSettings:
        settings = told(
            ConnectSettings.of(pipeline.recipes[semantic]), workers=2, session_ms=SOON_MS
        )
        consumer = replace(settings.consumer, members=Members.DYNAMIC, session_timeout_ms=SOON_MS)
        return replace(settings, consumer=consumer) if pipeline == SINK else settings

    return Scenario(
        pipeline=pipeline,
        id=name,
        fault=fault,
        suite=Suite.NIGHT,
        because=because,
        expect={
            AMO: NOT_OFFERED,
            ALO: replace(alo, settings=pair(ALO)),
            EOS: replace(eos, settings=pair(EOS)),
        },
    )


SOURCES: Final = (
    of_source(
        "none",
        "Without a fault nothing is lost and nothing is duplicated: the baseline.",
        Predicted(),
        Predicted(),
    ),
    of_source(
        "producer-crash-before-send",
        "The source task has read the record and not returned it when its worker dies. The saved "
        "offset is that of the record before: the restarted task reads the record again.",
        holds(TAKEN_AGAIN),
        holds(TAKEN_AGAIN),
    ),
    of_source(
        "producer-crash-before-ack",
        "The broker has stored the record, and the worker dies before it reads the ack. Its "
        "offset was not saved, and the restarted task sends the record again. With exactly-once "
        "support record and offset are in one transaction, which the restarted task aborts.",
        DUPLICATES,
        holds(ABORTED),
        suite=Suite.CORE,
    ),
    of_source(
        "request-lost",
        "The request never arrives, and the producer of the task, which never gives up, sends it "
        "again.",
        holds(REPEATED_REQUEST),
        holds(REPEATED_REQUEST),
    ),
    of_source(
        "ack-lost",
        "The record is stored and its ack is lost. Connect turns idempotence off unless it is "
        "asked for, so the repeated request is a second copy. A transactional producer is "
        "idempotent.",
        DUPLICATES,
        holds(REPEATED_REQUEST),
    ),
    at_offsets(
        "connect-crash-before-offset-flush",
        FLUSH,
        "The record is acknowledged, and its offset is on its way to the worker's offsets topic "
        "and never arrives; the worker dies. The restarted task sends the record again.",
        DUPLICATES,
    ),
    at_offsets(
        "connect-crash-after-offset-flush",
        FLUSHED,
        "The offset is stored, and the worker dies before it learns that. The restarted task "
        "reads the offset and goes on behind the record.",
        holds(RESUMED_PAST),
    ),
    at_offsets(
        "connect-offset-answer-lost",
        FLUSHED,
        "The offset is stored, and the answer to the worker is lost. The producer of the topic of "
        "offsets sends it again, and the source waits meanwhile.",
        holds(OFFSET_SENT_AGAIN),
        fault=Drop(FLUSHED),
    ),
    Scenario(
        pipeline=SOURCE,
        id="producer-crash-before-commit",
        fault=Kill(ENDS, (Role.PRODUCER,)),
        because="The request that ends the transaction of record and offset never arrives. The "
        "restarted task has the same transactional id: it aborts the transaction, and sends the "
        "record again.",
        expect={AMO: NOT_OFFERED, ALO: NO_TRANSACTION, EOS: holds(ABORTED)},
    ),
    Scenario(
        pipeline=SOURCE,
        id="producer-crash-before-commit-ack",
        fault=Kill(replace(ENDS, direction=RESPONSE), (Role.PRODUCER,)),
        because="The transaction is committed, and the worker dies before it learns that. The "
        "offset is in it: the restarted task goes on behind the record.",
        expect={AMO: NOT_OFFERED, ALO: NO_TRANSACTION, EOS: holds(RESUMED_PAST)},
    ),
    with_two(
        SOURCE,
        "connect-source-taken-over",
        TakenOver(SENT),
        "The record is stored, its worker dies and does not come back, and another worker is given "
        "the task. It knows the saved offset, which is that of the record before.",
        alo=DUPLICATES,
        eos=holds(ABORTED),
    ),
    with_two(
        SOURCE,
        "connect-source-zombie",
        Pause(SENT),
        "The record is stored, and its worker is paused until another one has the task and has "
        "sent all records. Then the first wakes up, learns that its record is stored, and may save "
        "its offset and send more before it learns that the task is another's. With exactly-once "
        "support the other's start has fenced it, and aborted its open transaction.",
        alo=Predicted(duplicated=AtLeast()),
        eos=holds(ABORTED),
    ),
    with_two(
        SOURCE,
        "connect-source-moved",
        Moved(InProgram(Role.PRODUCER, "before-send")),
        "The worker is told to end while its source task has read the record. The task is stopped, "
        "and what it still returns is sent and its offset saved before the worker leaves; another "
        "worker, which is given the task in the rebalance, goes on behind it.",
        alo=holds(RESUMED_PAST),
        eos=holds(RESUMED_PAST),
    ),
    Scenario(
        pipeline=SOURCE,
        id="connect-source-task-fails",
        fault=TaskFails(InProgram(Role.PRODUCER, "before-send")),
        because="The source task fails at the record, and somebody restarts it by REST. The worker "
        "lives on. The task is given the saved offset, and reads the record again.",
        expect={AMO: NOT_OFFERED, ALO: holds(TASK_TOOK_AGAIN), EOS: holds(TASK_TOOK_AGAIN)},
    ),
    Scenario(
        pipeline=SOURCE,
        id="connect-source-reconfigured",
        fault=Reconfigured(InProgram(Role.PRODUCER, "before-send")),
        suite=Suite.NIGHT,
        because="The connector's settings are changed while its task has read the record. The "
        "worker waits five seconds for the task, then closes its producer and starts a new one, "
        "which is given the saved offset. What the old task returns later cannot be sent.",
        expect={AMO: NOT_OFFERED, ALO: holds(TASK_TOOK_AGAIN), EOS: holds(TASK_TOOK_AGAIN)},
    ),
    Scenario(
        pipeline=SOURCE,
        id="control-connect-offset-too-far",
        failure_point="connect-crash-after-offset-flush",
        fault=Kill(FLUSHED, (Role.PRODUCER,)),
        suite=Suite.CORE,
        because="Control: the connector gives each record the offset behind the next one, as one "
        "does that reads ahead and gives the position of its reader. The worker dies when that "
        "offset is saved: the restarted task goes on behind a record that was never sent.",
        expect={
            ALO: Predicted(
                lost=Exactly(Select.NEXT),
                control=True,
                settings=told(ConnectSettings.of(SOURCE.recipes[ALO]), ahead=1),
            )
        },
    ),
    Scenario(
        pipeline=SOURCE,
        id="control-connect-moved-too-far",
        failure_point="connect-source-moved",
        fault=Moved(InProgram(Role.PRODUCER, "before-send")),
        suite=Suite.NIGHT,
        because="Control: the same connector, whose offsets are too far, and a worker that ends in "
        "good order: the task that another worker is given skips a record.",
        expect={
            ALO: Predicted(
                lost=Exactly(Select.NEXT),
                control=True,
                settings=told(
                    ConnectSettings.of(SOURCE.recipes[ALO]),
                    ahead=1,
                    workers=2,
                    session_ms=SOON_MS,
                ),
            )
        },
    ),
)
COMMITTED: Final = OnWire(Role.CONSUMER, Api.OFFSET_COMMIT, RESPONSE)
LETTER: Final = Withheld(OnWire(Role.CONSUMER, Api.PRODUCE, REQUEST), COMMITTED)


def with_letters(semantic: Semantic, aside: Aside) -> ConnectSettings:
    """Return the settings of a sink connector that sets the target aside."""
    return told(ConnectSettings.of(SINK.recipes[semantic]), aside=aside)


UNDER_WAY: Final = (
    " (Connect does not wait for its commits: that of the row before may be under way, and then "
    "this row is written again, too.)"
)
SINKS: Final = (
    of_sink(
        "none",
        "Without a fault nothing is lost and nothing is duplicated: the baseline.",
        Predicted(),
        Predicted(),
    ),
    of_sink(
        "delivery-lost",
        "The fetch response is lost, and the consumer of the task asks again.",
        holds(DELIVERED_AGAIN),
        holds(DELIVERED_AGAIN),
    ),
    of_sink(
        "consumer-crash-before-processing",
        "The sink task has the record and has done nothing when its worker dies: the record is "
        "delivered again." + UNDER_WAY,
        Predicted(duplicated=Permitted(), sign=DELIVERED_AGAIN),
        holds(DELIVERED_AGAIN),
    ),
    of_sink(
        "consumer-crash-before-recording",
        "The sink task has not written the row when its worker dies: the record is delivered "
        "again." + UNDER_WAY,
        Predicted(duplicated=Permitted(), sign=DELIVERED_AGAIN),
        holds(DELIVERED_AGAIN),
    ),
    of_sink(
        "consumer-crash-before-commit",
        "The row is written and the position is not saved when the worker dies: the record is "
        "delivered again. An upsert by the record's id absorbs it." + UNDER_WAY,
        Predicted(duplicated=AtLeast()),
        holds(ABSORBED),
    ),
    of_sink(
        "commit-lost",
        "The commit of the position never arrives, and the worker dies. The task had gone on "
        "meanwhile: Connect does not wait for its commits.",
        Predicted(duplicated=AtLeast()),
        holds(ABSORBED),
    ),
    of_sink(
        "commit-ack-lost",
        "The position is stored, and the worker dies before it learns that: the restarted task "
        "goes on behind the record. Rows of other partitions, whose positions were not saved "
        "yet, may be written again.",
        Predicted(duplicated=Permitted(), sign=RESUMED_PAST),
        holds(RESUMED_PAST),
    ),
    with_two(
        SINK,
        "connect-sink-taken-over",
        TakenOver(OnWire(Role.CONSUMER, Api.OFFSET_COMMIT, REQUEST)),
        "The row is written, its worker dies with the position on the way and does not come back, "
        "and another worker is given the task: the record is delivered to it.",
        alo=Predicted(duplicated=AtLeast()),
        eos=holds(ABSORBED),
    ),
    with_two(
        SINK,
        "connect-sink-zombie",
        Pause(InProgram(Role.CONSUMER, "before-recording")),
        "The worker is paused with the record in hand, and another worker is given the task and "
        "does all the work. Then the first wakes up and writes its row: nothing fences a sink.",
        alo=Predicted(duplicated=AtLeast()),
        eos=holds(ABSORBED),
    ),
    with_two(
        SINK,
        "connect-sink-moved",
        Moved(InProgram(Role.CONSUMER, "before-recording")),
        "The worker is told to end while its sink task has the record in hand. The task is "
        "stopped: it writes the row, and its position is saved before the worker leaves; another "
        "worker, which is given the task in the rebalance, goes on behind it.",
        alo=holds(RESUMED_PAST),
        eos=holds(RESUMED_PAST),
    ),
    Scenario(
        pipeline=SINK,
        id="connect-sink-task-fails",
        fault=TaskFails(InProgram(Role.CONSUMER, "before-commit")),
        because="The sink task fails behind the row, and somebody restarts it by REST. The worker "
        "lives on. A failed batch's position is not saved: the record is delivered again.",
        expect={AMO: NOT_OFFERED, ALO: DUPLICATES, EOS: holds(ABSORBED)},
    ),
    Scenario(
        pipeline=SINK,
        id="connect-dead-letter-withheld",
        fault=LETTER,
        dead_letters=True,
        because="The sink task reports the record as one that it cannot write, and the request "
        "with the dead letter is on its way. The framework waits for its answer before it saves "
        "the position; then the worker dies." + UNDER_WAY,
        expect={
            AMO: NOT_OFFERED,
            ALO: Predicted(
                duplicated=Permitted(),
                sign=RESUMED_PAST,
                settings=with_letters(ALO, Aside.REPORTED),
            ),
            EOS: Predicted(sign=RESUMED_PAST, settings=with_letters(EOS, Aside.REPORTED)),
        },
    ),
    Scenario(
        pipeline=SINK,
        id="control-connect-letter-not-awaited",
        failure_point="connect-dead-letter-withheld",
        fault=LETTER,
        dead_letters=True,
        because="Control: not the task but a transformation refuses the record. Connect 4.3.0 "
        "drops the future of such a dead letter, and saves the position while the letter is on "
        "its way; the worker dies, and the record is neither in the table nor in the dead letters.",
        expect={
            ALO: Predicted(
                lost=Exactly(Select.TARGET),
                duplicated=Permitted(),
                control=True,
                settings=with_letters(ALO, Aside.REFUSED),
            )
        },
    ),
    Scenario(
        pipeline=SINK,
        id="connect-sink-reconfigured",
        fault=Reconfigured(InProgram(Role.CONSUMER, "before-recording")),
        suite=Suite.NIGHT,
        because="The connector's settings are changed while its task has the record in hand. The "
        "worker waits five seconds for the task, then starts a new one, which does all the work. "
        "Then the old one writes its row: nothing stops it.",
        expect={AMO: NOT_OFFERED, ALO: Predicted(duplicated=AtLeast()), EOS: holds(ABSORBED)},
    ),
    Scenario(
        pipeline=SINK,
        id="control-connect-row-too-late",
        failure_point="commit-ack-lost",
        fault=Kill(COMMITTED, (Role.CONSUMER,)),
        suite=Suite.CORE,
        because="Control: the connector keeps rows in memory for two seconds, and its flush does "
        "not write them. Connect saves the position, the worker dies, and the rows are gone.",
        expect={
            ALO: Predicted(
                lost=AtLeast(),
                control=True,
                settings=told(ConnectSettings.of(SINK.recipes[ALO]), writes=Writes.LATE),
            )
        },
    ),
)
SCENARIOS: Final = (*SOURCES, *SINKS)
