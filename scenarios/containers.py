"""What only containers can suffer: a new one on the old volume, a volume lost or full, a limit of
memory, no network.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from harness.controls import OnWire
from harness.faults import ContainerFault
from harness.judge.signs import NOT_RESENT, REPEATED_REQUEST, TAKEN_AGAIN
from harness.model.harms import Harm
from harness.model.prediction import AtLeast, Exactly, Permitted, Select
from harness.model.scenario import Deployment, Predicted, Role, Scenario
from harness.protocols.kafka.steps import Api
from harness.scenarios.plain import ALO, AMO, DUPLICATES, EOS, REQUEST, RESPONSE, holds
from harness.scenarios.power_loss import NEXT
from harness.stages.settings import AT_LEAST_ONCE, AT_MOST_ONCE, EXACTLY_ONCE, PLAIN, Settings

ANSWER = OnWire(Role.PRODUCER, Api.PRODUCE, RESPONSE)

scenario = partial(Scenario, group="containers", pipeline=PLAIN)

REPLACED = scenario(
    id="broker-replaced",
    deployment=Deployment.OWN,
    only_in_containers="a process has no container that another could replace",
    fault=ContainerFault(ANSWER, Harm.CONTAINER, Role.BROKER),
    because="All of a broker's state is on its volume, and none in its container: a new "
    "container on the same volume is the old broker after a crash. The record was stored "
    "and not answered: a retry stores it again, unless the recovered log knows its "
    "sequence number.",
    expect={
        AMO: Predicted(lost=Permitted(), sign=NOT_RESENT),
        ALO: DUPLICATES,
        EOS: holds(REPEATED_REQUEST),
    },
)

OUT_OF_MEMORY = replace(
    REPLACED,
    id="broker-out-of-memory",
    failure_point="broker-out-of-memory",
    only_in_containers="only a container has a memory limit of its own; without one the kernel "
    "may kill any process of this machine",
    fault=ContainerFault(ANSWER, Harm.MEMORY, Role.BROKER),
    because="The kernel kills the broker at its memory limit, with SIGKILL as in any kill: the "
    "broker flushes and closes nothing, and the page cache survives. A record that was "
    "stored and not answered is there after the restart.",
)

VOLUME_LOST = scenario(
    id="broker-volume-lost",
    deployment=Deployment.OWN,
    consumer_starts_after_fault=True,
    only_in_containers=(
        "a process has no volume that could be lost alone: its data is in one folder with "
        "everything else"
    ),
    fault=ContainerFault(NEXT, Harm.VOLUME, Role.BROKER, besides=(Role.PRODUCER,)),
    because="There is one replica, and its volume is lost: records, positions, transactions and "
    "the topics themselves, which an operator creates again. The producer dies too. A "
    "cursor outside of Kafka stays behind the lost records, so they are not sent again. "
    "A cursor in the same transactions is lost with them: the producer begins again from "
    "the first record, and nothing is lost.",
    expect={
        AMO: Predicted(lost=AtLeast(Select.THROUGH_TARGET)),
        ALO: Predicted(lost=Exactly(Select.THROUGH_TARGET), control=True),
        EOS: Predicted(sign=TAKEN_AGAIN),
    },
)


def impatient(settings: Settings) -> Settings:
    """Return the settings with a producer that soon gives up waiting for an answer."""
    return replace(settings, producer=replace(settings.producer, request_timeout_ms=3000))


DISCONNECTED = scenario(
    id="producer-disconnected-before-ack",
    only_in_containers=(
        "processes share the loopback of one machine, from which none can be disconnected"
    ),
    fault=ContainerFault(ANSWER, Harm.NETWORK, Role.PRODUCER),
    because="The record is stored, and the producer has no network when the answer comes. No "
    "connection is refused or reset, so only the producer's own time-out tells it. With "
    "retries it sends the record again when the network is back.",
    expect={
        AMO: Predicted(lost=Permitted(), sign=NOT_RESENT, settings=impatient(AT_MOST_ONCE)),
        ALO: Predicted(duplicated=Exactly(), settings=impatient(AT_LEAST_ONCE)),
        EOS: Predicted(sign=REPEATED_REQUEST, settings=impatient(EXACTLY_ONCE)),
    },
)

NO_SMALL_DISK = (
    "all processes share this machine's disk; only a container has a small disk of its own"
)

DISK_FULL_BEFORE_APPEND = scenario(
    id="disk-full-before-append",
    deployment=Deployment.SMALL,
    only_in_containers=NO_SMALL_DISK,
    fault=ContainerFault(OnWire(Role.PRODUCER, Api.PRODUCE, REQUEST), Harm.DISK, Role.BROKER),
    because="A broker that cannot write into its only log directory takes the directory offline "
    "and halts without an orderly shutdown. It has not seen the request. A producer "
    "without retries has lost the record, and loses more while the broker is down; a "
    "producer with retries sends it again when there is room. Acknowledged records were "
    "written, and are there.",
    expect={
        AMO: Predicted(lost=AtLeast()),
        ALO: holds(REPEATED_REQUEST),
        EOS: holds(REPEATED_REQUEST),
    },
)

DISK_FULL_BEFORE_ACK = replace(
    DISK_FULL_BEFORE_APPEND,
    id="disk-full-before-ack",
    failure_point="disk-full-before-ack",
    fault=ContainerFault(ANSWER, Harm.DISK, Role.BROKER),
    because="The record is stored. Then the broker halts because its disk is full, before it "
    "answers. After the restart the copy is in the log, as after any crash: a retry stores "
    "the record again, unless the recovered log knows its sequence number.",
    expect={
        AMO: Predicted(lost=Permitted(), sign=NOT_RESENT),
        ALO: DUPLICATES,
        EOS: holds(REPEATED_REQUEST),
    },
)

CONTAINERS = (
    REPLACED,
    OUT_OF_MEMORY,
    VOLUME_LOST,
    DISCONNECTED,
    DISK_FULL_BEFORE_APPEND,
    DISK_FULL_BEFORE_ACK,
)
