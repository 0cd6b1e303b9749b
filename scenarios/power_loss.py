"""Power loss: acknowledged, never flushed, the page cache gone. The worst legal outcome of a power
cut, not every one.

The trigger is the request of the record after the target: everything up to the target is
acknowledged by then.
"""

from __future__ import annotations

from dataclasses import replace

from harness.controls import OnWire
from harness.faults import Forget, Kill
from harness.judge.signs import TAKEN_AGAIN
from harness.model.prediction import AtLeast, Exactly, Permitted, Select, Some
from harness.model.scenario import Deployment, Predicted, Role, Scenario, Suite
from harness.proofs.power import TOLD_TO_FLUSH
from harness.protocols.kafka.steps import Api
from harness.scenarios.plain import ALO, AMO, EOS, REQUEST
from harness.stages.settings import (
    AT_LEAST_ONCE,
    AT_MOST_ONCE,
    EXACTLY_ONCE,
    PLAIN,
    Settings,
    TopicSettings,
)
from harness.systems.kafka.signs import FLUSHED

NEXT = OnWire(Role.PRODUCER, Api.PRODUCE, REQUEST, offset=1)

EARLY = OnWire(Role.PRODUCER, Api.PRODUCE, REQUEST, offset=-7)
"""Early enough that more records come after it than before it."""


def flushed(settings: Settings) -> Settings:
    """Return the settings with every append flushed before it is acknowledged."""
    return replace(settings, topic=TopicSettings(flush_messages=1))


IN_STEP = replace(EXACTLY_ONCE, producer=replace(EXACTLY_ONCE.producer, in_step=True))

UNFLUSHED = Scenario(
    pipeline=PLAIN,
    id="power-loss",
    deployment=Deployment.OWN,
    together="crash",
    consumer_starts_after_fault=True,
    fault=Kill(NEXT, (Role.BROKER,), forget=Forget.TOPIC),
    because="With one replica, an ack without a flush promises nothing about power: all "
    "acknowledged records are lost. No semantic can keep its promise here, and the two "
    "that promise no loss must be convicted.",
    expect={
        AMO: Predicted(lost=AtLeast(Select.THROUGH_TARGET)),
        ALO: Predicted(lost=Exactly(Select.THROUGH_TARGET), control=True),
        EOS: Predicted(lost=Exactly(Select.THROUGH_TARGET), control=True),
    },
    # with record and cursor on their way together librdkafka may find its cursor's sequence numbers
    # out of order and give itself up for good; who takes its place reads the cursor, which the
    # power cut took as well, and all is sent again
    by_client={
        "confluent-kafka": {
            EOS: Predicted(lost=Exactly(Select.THROUGH_TARGET), control=True, settings=IN_STEP),
        }
    },
)

POWER_LOSS_FLUSHED = replace(
    UNFLUSHED,
    id="power-loss-flushed",
    by_client={},
    because="flush.messages=1 makes every append durable before it is acknowledged: no "
    "acknowledged record is lost. Records that an at-most-once producer has in flight, "
    "or sends while the broker is down, may be lost.",
    expect={
        AMO: Predicted(lost=Permitted(), sign=FLUSHED, settings=flushed(AT_MOST_ONCE)),
        ALO: Predicted(sign=FLUSHED, settings=flushed(AT_LEAST_ONCE)),
        EOS: Predicted(sign=FLUSHED, settings=flushed(EXACTLY_ONCE)),
    },
)

EVERYTHING = replace(
    UNFLUSHED,
    id="power-loss-everything",
    together="everything",
    by_client={},
    fault=Kill(NEXT, (Role.BROKER, Role.PRODUCER), forget=Forget.ALL),
    because="Positions and transactions are kept in topics, and are lost with them; the producer "
    "dies too. A cursor outside of Kafka stays after the lost records, so they are not sent "
    "again, and are lost for good. A cursor written in the same transactions is lost with "
    "them: the producer begins again from the first record, and nothing is lost, which may "
    "surprise.",
    expect={
        ALO: Predicted(lost=Exactly(Select.THROUGH_TARGET), control=True),
        EOS: Predicted(sign=TAKEN_AGAIN),
    },
)

REUSED_OFFSETS = replace(
    UNFLUSHED,
    id="control-power-loss-reused-offsets",
    consumer_starts_after_fault=False,
    by_client={},
    fault=Kill(
        EARLY, (Role.BROKER, Role.CONSUMER), forget=Forget.TOPIC, settle=True, late=Role.CONSUMER
    ),
    because="Control: the records are consumed first, and then lost. New records take the "
    "offsets of the old ones. The saved position is after them, so the consumer never "
    "sees them, and gets no error. (That is if the consumer comes back when the log has "
    "grown past its position again. Before that, its position would be out of range, and "
    "it would begin at the first record.)",
    expect={
        ALO: Predicted(
            lost=Some(),
            control=True,
            settings=replace(AT_LEAST_ONCE, topic=TopicSettings(partitions=1)),
        )
    },
)

_TOLD = replace(
    UNFLUSHED,
    deployment=Deployment.TRACED,
    together="",
    by_client={},
    fault=Kill(NEXT, (Role.BROKER,), forget=Forget.UNFLUSHED),
    suite=Suite.NIGHT,
)
BY_CALLS = (
    replace(
        _TOLD,
        id="power-loss+by-calls",
        because="By the calls that the broker made, not by its own word: at its defaults Kafka "
        "leaves flushing to the kernel, and acknowledges what no call has flushed.",
        expect={ALO: Predicted(lost=Exactly(Select.THROUGH_TARGET), control=True)},
    ),
    replace(
        _TOLD,
        id="power-loss-flushed+by-calls",
        because="By the calls that the broker made: flush.messages=1 makes it flush each append "
        "before it is acknowledged.",
        expect={ALO: Predicted(sign=TOLD_TO_FLUSH, settings=flushed(AT_LEAST_ONCE))},
    ),
)
POWER_LOSS = (UNFLUSHED, EVERYTHING, POWER_LOSS_FLUSHED, REUSED_OFFSETS, *BY_CALLS)
