"""Topic to topic: outbox → producer → topic → processor → topic. The processor is consumer and
producer in one.
"""

from __future__ import annotations

from functools import partial

from harness.controls import InProgram, OnWire
from harness.faults import Drop, Kill, NoFault
from harness.judge.signs import ABORTED, DELIVERED_AGAIN, NOT_RESENT, REPEATED_REQUEST, RESUMED_PAST
from harness.model.prediction import AtLeast, Permitted
from harness.model.scenario import Deployment, NotApplicable, Predicted, Role, Scenario
from harness.protocols.kafka.steps import Api
from harness.scenarios.plain import ALO, AMO, DUPLICATES, EOS, LOSES, REQUEST, RESPONSE, holds
from harness.stages.settings import TOPIC_TO_TOPIC

T2T = TOPIC_TO_TOPIC
PROCESSOR = Role.PROCESSOR
IN_TRANSACTION = NotApplicable(
    "the position is sent in the transaction of the results: there is no OffsetCommit"
)
NO_TRANSACTION = NotApplicable("there is no transaction under this semantic")

scenario = partial(Scenario, group="topic-to-topic", pipeline=T2T)

TOPIC_SCENARIOS = (
    scenario(
        id="none",
        fault=NoFault(),
        because="Without a fault nothing is lost and nothing is duplicated: the baseline.",
        expect={AMO: Predicted(), ALO: Predicted(), EOS: Predicted()},
    ),
    scenario(
        id="request-lost",
        fault=Drop(OnWire(PROCESSOR, Api.PRODUCE, REQUEST)),
        because=(
            "The result never reaches the broker. Its position was saved before, or the client "
            "sends it again."
        ),
        expect={AMO: LOSES, ALO: holds(REPEATED_REQUEST), EOS: holds(REPEATED_REQUEST)},
    ),
    scenario(
        id="ack-lost",
        fault=Drop(OnWire(PROCESSOR, Api.PRODUCE, RESPONSE)),
        because=(
            "The result is stored and its ack is lost: a retry stores it again, unless the "
            "broker knows its number."
        ),
        expect={AMO: holds(NOT_RESENT), ALO: DUPLICATES, EOS: holds(REPEATED_REQUEST)},
    ),
    scenario(
        id="producer-crash-before-ack",
        fault=Kill(OnWire(PROCESSOR, Api.PRODUCE, RESPONSE), (PROCESSOR,)),
        because="The result is stored and the processor dies before it reads the ack. Its position "
        "was saved before, is not saved (the record is processed again), or dies with the "
        "transaction.",
        expect={AMO: holds(NOT_RESENT), ALO: DUPLICATES, EOS: holds(ABORTED)},
    ),
    scenario(
        id="broker-crash-before-append",
        deployment=Deployment.OWN,
        together="crash",
        fault=Kill(OnWire(PROCESSOR, Api.PRODUCE, REQUEST), (Role.BROKER,)),
        because="The broker dies with the result not yet seen. Where nobody sends again, it is "
        "gone, and so is what the source's producer sends meanwhile.",
        expect={
            AMO: Predicted(lost=AtLeast()),
            ALO: holds(REPEATED_REQUEST),
            EOS: holds(REPEATED_REQUEST),
        },
    ),
    scenario(
        id="broker-crash-before-ack",
        deployment=Deployment.OWN,
        together="crash",
        fault=Kill(OnWire(PROCESSOR, Api.PRODUCE, RESPONSE), (Role.BROKER,)),
        because="The broker has stored the result and dies before it answers: a retry stores it "
        "again, unless the recovered log knows its number.",
        expect={
            AMO: Predicted(lost=Permitted(), sign=NOT_RESENT),
            ALO: Predicted(duplicated=AtLeast()),
            EOS: holds(REPEATED_REQUEST),
        },
    ),
    scenario(
        id="delivery-lost",
        fault=Drop(OnWire(PROCESSOR, Api.FETCH, RESPONSE)),
        because="The fetch response is lost, and the processor asks again.",
        expect={semantic: holds(DELIVERED_AGAIN) for semantic in (AMO, ALO, EOS)},
    ),
    scenario(
        id="commit-lost",
        fault=Kill(OnWire(PROCESSOR, Api.OFFSET_COMMIT, REQUEST), (PROCESSOR,)),
        because=(
            "The commit never arrives and the processor dies: the record is processed once more, "
            "or for the first time."
        ),
        expect={AMO: holds(DELIVERED_AGAIN), ALO: DUPLICATES, EOS: IN_TRANSACTION},
    ),
    scenario(
        id="commit-ack-lost",
        fault=Kill(OnWire(PROCESSOR, Api.OFFSET_COMMIT, RESPONSE), (PROCESSOR,)),
        because="The commit is stored and the processor dies before it learns that.",
        expect={AMO: LOSES, ALO: holds(RESUMED_PAST), EOS: IN_TRANSACTION},
    ),
    scenario(
        id="consumer-crash-before-processing",
        fault=Kill(InProgram(PROCESSOR, "before-processing"), (PROCESSOR,)),
        because="The processor dies after it has received the record and before the work. The "
        "record is lost only if its position was saved before.",
        expect={AMO: LOSES, ALO: holds(DELIVERED_AGAIN), EOS: holds(DELIVERED_AGAIN)},
    ),
    scenario(
        id="consumer-crash-before-recording",
        fault=Kill(InProgram(PROCESSOR, "before-recording"), (PROCESSOR,)),
        because=(
            "The record is processed and its result not sent: the same as not processed at all."
        ),
        expect={AMO: LOSES, ALO: holds(DELIVERED_AGAIN), EOS: holds(DELIVERED_AGAIN)},
    ),
    scenario(
        id="consumer-crash-before-commit",
        fault=Kill(InProgram(PROCESSOR, "before-commit"), (PROCESSOR,)),
        because=(
            "The result is sent and acknowledged, the position is not saved: the record comes "
            "again."
        ),
        expect={
            AMO: NotApplicable(
                "the position is saved before the work: there is no commit after it"
            ),
            ALO: DUPLICATES,
            EOS: IN_TRANSACTION,
        },
    ),
    scenario(
        id="producer-crash-before-commit",
        fault=Kill(OnWire(PROCESSOR, Api.END_TXN, REQUEST), (PROCESSOR,)),
        because=(
            "The request that ends the transaction never arrives: results and offsets are "
            "aborted together, and sent again."
        ),
        expect={AMO: NO_TRANSACTION, ALO: NO_TRANSACTION, EOS: holds(ABORTED)},
    ),
    scenario(
        id="producer-crash-before-commit-ack",
        fault=Kill(OnWire(PROCESSOR, Api.END_TXN, RESPONSE), (PROCESSOR,)),
        because="Results and offsets are committed together and the processor dies before it "
        "learns that: the restarted processor continues after them.",
        expect={AMO: NO_TRANSACTION, ALO: NO_TRANSACTION, EOS: holds(RESUMED_PAST)},
    ),
)
