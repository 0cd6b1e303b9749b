"""Faults of the network between a client and its broker, placed at an exact record: real bytes
through a real Toxiproxy.

The wire holds the target's request, the toxic is put on, and the request goes into it. The network
is mended when something has come of it, never after a guessed time. The client's time-outs are
short here, so that they pass.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from harness.controls import OnWire
from harness.faults import Network, Until
from harness.judge.signs import (
    ABORTED,
    ABSORBED,
    DELIVERED_AGAIN,
    ENDED_AGAIN,
    NOT_RESENT,
    REPEATED_REQUEST,
    RESUMED_PAST,
    SENT_ANEW,
)
from harness.model.prediction import AtLeast, Exactly, Permitted
from harness.model.scenario import NotApplicable, Predicted, Role, Scenario
from harness.proofs.network import Effect
from harness.protocols.kafka.steps import Api
from harness.scenarios.plain import ALO, AMO, EOS, REQUEST
from harness.services.toxiproxy import Bandwidth, Latency, ResetPeer, Slicer, Stream, Timeout
from harness.stages.consumer_settings import Members
from harness.stages.settings import (
    AT_LEAST_ONCE,
    AT_MOST_ONCE,
    EXACTLY_ONCE,
    PLAIN,
    Settings,
)

UP, DOWN = Stream.UPSTREAM, Stream.DOWNSTREAM
REQUEST_S = 0.8
"""The request time-out of the impatient clients here."""
SEND = OnWire(Role.PRODUCER, Api.PRODUCE, REQUEST)
COMMIT = OnWire(Role.CONSUMER, Api.OFFSET_COMMIT, REQUEST)
NO_TRANSACTION = NotApplicable("there is no transaction under this semantic")


def impatient(settings: Settings, delivery_ms: int = 60_000) -> Settings:
    """Return the settings with a producer that waits REQUEST_S for an answer, and ``delivery_ms``
    for a delivery.
    """
    producer = replace(
        settings.producer, request_timeout_ms=int(1000 * REQUEST_S), delivery_timeout_ms=delivery_ms
    )
    return replace(settings, producer=producer)


def reader(settings: Settings, session_ms: int, request_ms: int) -> Settings:
    """Return the settings with a dynamic consumer of such time-outs."""
    consumer = replace(
        settings.consumer,
        members=Members.DYNAMIC,
        session_timeout_ms=session_ms,
        request_timeout_ms=request_ms,
    )
    return replace(settings, consumer=consumer)


IMPATIENT = {
    AMO: impatient(AT_MOST_ONCE),
    ALO: impatient(AT_LEAST_ONCE),
    EOS: impatient(EXACTLY_ONCE),
}
ACK_LOST = {
    AMO: Predicted(sign=NOT_RESENT, settings=IMPATIENT[AMO]),
    ALO: Predicted(duplicated=Exactly(), settings=IMPATIENT[ALO]),
    EOS: Predicted(sign=REPEATED_REQUEST, settings=IMPATIENT[EOS]),
}
REQUEST_LOST = {
    AMO: Predicted(lost=Exactly(), settings=IMPATIENT[AMO]),
    ALO: Predicted(sign=REPEATED_REQUEST, settings=IMPATIENT[ALO]),
    EOS: Predicted(sign=REPEATED_REQUEST, settings=IMPATIENT[EOS]),
}
UNHARMED = {AMO: Predicted(), ALO: Predicted(), EOS: Predicted()}

scenario = partial(Scenario, group="network", pipeline=PLAIN)

LATENCY_WITHIN = scenario(
    id="latency-within-request-timeout",
    failure_point="network-slow",
    fault=Network(SEND, (Latency(DOWN, 150),), Until.EXHAUSTED, Effect.LATE, limit=0.15),
    because=(
        "Every answer is late, but none exceeds the client's time-out: no request is repeated or "
        "given up."
    ),
    expect=UNHARMED,
)

LATENCY_BEYOND = scenario(
    id="latency-beyond-request-timeout",
    failure_point="ack-lost",
    fault=Network(
        SEND,
        (Latency(DOWN, int(4000 * REQUEST_S)),),
        Until.GAVE_UP,
        Effect.LATE,
        limit=0.9 * REQUEST_S,
    ),
    because="The record is stored, and its ack comes after the client's request has timed out. For "
    "the client a late ack is a lost ack. Without retries nothing more happens. With retries "
    "the client sends the record again: a second copy, unless the broker knows the sequence "
    "number.",
    expect=ACK_LOST,
)

HALF_OPEN_ACK = scenario(
    id="half-open-ack",
    failure_point="ack-lost",
    fault=Network(SEND, (Timeout(DOWN),), Until.GAVE_UP, Effect.SILENT),
    because="A half-open connection: requests arrive, answers vanish, and nobody closes anything. "
    "The record is stored; only its request time-out tells the client that something is "
    "wrong.",
    expect=ACK_LOST,
)

HALF_OPEN_REQUEST = scenario(
    id="half-open-request",
    failure_point="request-lost",
    fault=Network(SEND, (Timeout(UP),), Until.GAVE_UP, Effect.SILENT),
    because="A half-open connection in the other direction: the request vanishes although the "
    "client could send it. It was never stored, so a retry cannot duplicate the record; "
    "without retries the record is lost.",
    expect=REQUEST_LOST,
)

RESETS_OF_ACKS = scenario(
    id="reset-storm-ack",
    failure_point="ack-lost",
    fault=Network(SEND, (ResetPeer(DOWN),), Until.CUT, Effect.CUT, limit=3),
    because="Every connection is reset as soon as the broker answers: the target's after the "
    "record was stored, the later ones at their first answer. So nothing more gets "
    "through until the resets end.",
    expect=ACK_LOST,
)

RESETS_OF_REQUESTS = scenario(
    id="reset-storm-request",
    failure_point="request-lost",
    fault=Network(SEND, (ResetPeer(UP),), Until.CUT, Effect.CUT, limit=3),
    because="Every connection is reset by its first bytes, which vanish: the target's request "
    "never arrives, nor does anything after it until the resets end.",
    expect=REQUEST_LOST,
)

SQUEEZE = scenario(
    id="bandwidth-squeeze",
    failure_point="network-slow",
    fault=Network(SEND, (Bandwidth(UP, 2),), Until.EXHAUSTED, Effect.SLOW, limit=2500),
    because="The network passes two thousand bytes a second: every request takes longer, but "
    "arrives before the client's time-out.",
    expect=UNHARMED,
)

SLICES = scenario(
    id="sliced-packets",
    failure_point="network-slow",
    fault=Network(
        SEND,
        (Slicer(UP, 16, 4, 1000), Slicer(DOWN, 12, 4, 3000)),
        Until.SETTLED,
        Effect.SLICED,
        limit=2,
        also=(Role.CONSUMER,),
    ),
    because="Requests and answers come a few bytes at a time, cut at any place: a program that "
    "reads frames must wait until each is complete.",
    expect=UNHARMED,
)

PARTITION = (Timeout(UP), Timeout(DOWN))

PARTITION_WITHIN_DELIVERY = scenario(
    id="partition-heals-before-delivery-timeout",
    failure_point="request-lost",
    fault=Network(SEND, PARTITION, Until.GAVE_UP, Effect.SILENT),
    because="Nothing passes in either direction. The request time-out passes, the delivery "
    "time-out does not: a client with retries gets the record through after the "
    "partition; a client without retries has given the record up.",
    expect=REQUEST_LOST,
)

SHORT_DELIVERY_MS = 2500
PARTITION_BEYOND_DELIVERY = scenario(
    id="partition-heals-after-delivery-timeout",
    failure_point="request-lost",
    fault=Network(SEND, PARTITION, Until.TOLD, Effect.SILENT),
    because="The partition lasts longer than the delivery time-out: the client gives the record "
    "up, and cannot know whether it is stored. A program that sends the record again "
    "loses nothing. Here nothing was stored, so nothing is duplicated either. With "
    "exactly-once the program aborts the transaction of that record, and sends the "
    "record in another one.",
    expect={
        AMO: Predicted(lost=AtLeast(), settings=impatient(AT_MOST_ONCE, 3 * SHORT_DELIVERY_MS)),
        ALO: Predicted(sign=SENT_ANEW, settings=impatient(AT_LEAST_ONCE, SHORT_DELIVERY_MS)),
        EOS: Predicted(sign=ABORTED, settings=impatient(EXACTLY_ONCE, SHORT_DELIVERY_MS)),
    },
)

HALF_OPEN_BEYOND_DELIVERY = scenario(
    id="half-open-ack-beyond-delivery-timeout",
    failure_point="ack-lost",
    fault=Network(SEND, (Timeout(DOWN),), Until.TOLD, Effect.SILENT),
    because="Requests arrive and answers vanish for longer than the client retries. The client "
    "reports a failed delivery, and the program sends the record again through a new "
    "producer: every request that had arrived is a copy. Idempotence ends when the client "
    "gives the record up: only the aborted transaction hides the copies.",
    expect={
        ALO: Predicted(
            duplicated=Exactly(),
            settings=impatient(
                replace(AT_LEAST_ONCE, producer=replace(AT_LEAST_ONCE.producer, idempotence=True)),
                SHORT_DELIVERY_MS,
            ),
        ),
        EOS: Predicted(sign=ABORTED, settings=impatient(EXACTLY_ONCE, SHORT_DELIVERY_MS)),
    },
)

FLAPPING = scenario(
    id="flapping",
    failure_point="ack-lost",
    fault=Network(SEND, (Timeout(DOWN),), Until.GAVE_UP, Effect.SILENT, times=3),
    because="The way back breaks whenever the record is sent, and heals whenever the client "
    "connects again: three of its requests are stored and not answered, the fourth is. "
    "(A client without retries sends it once, and its network flaps once.)",
    expect={
        ALO: Predicted(duplicated=Exactly(), settings=IMPATIENT[ALO]),
        EOS: Predicted(sign=REPEATED_REQUEST, settings=IMPATIENT[EOS]),
    },
)

LONG_SESSION_MS, SHORT_SESSION_MS = 12_000, 1000
CONSUMER_PARTITION = scenario(
    id="consumer-partition-heals-before-session-timeout",
    failure_point="commit-lost",
    fault=Network(COMMIT, PARTITION, Until.WAITED, Effect.SILENT, waits_s=1.5),
    because="The consumer gets no answers for a while, and stays a member of its group. Its commit "
    "vanished. It commits again, or with the next record, and its partitions were not given "
    "to another member.",
    expect={
        AMO: Predicted(settings=reader(AT_MOST_ONCE, LONG_SESSION_MS, 15_000)),
        ALO: Predicted(settings=reader(AT_LEAST_ONCE, LONG_SESSION_MS, 15_000)),
        EOS: Predicted(settings=reader(EXACTLY_ONCE, LONG_SESSION_MS, 15_000)),
    },
)

CONSUMER_EXPELLED = scenario(
    id="consumer-partition-heals-after-session-timeout",
    failure_point="commit-lost",
    fault=Network(COMMIT, PARTITION, Until.EXPELLED, Effect.SILENT),
    because="The group removes the silent consumer before its commit arrives. The consumer joins "
    "again, goes on from the saved position, and is given the record again: the work on it "
    "was not done yet, or it is recorded a second time, or absorbed. Other records that it "
    "had in hand may come again with it.",
    expect={
        AMO: Predicted(sign=DELIVERED_AGAIN, settings=reader(AT_MOST_ONCE, SHORT_SESSION_MS, 2000)),
        ALO: Predicted(
            duplicated=AtLeast(), settings=reader(AT_LEAST_ONCE, SHORT_SESSION_MS, 2000)
        ),
        EOS: Predicted(sign=ABSORBED, settings=reader(EXACTLY_ONCE, SHORT_SESSION_MS, 2000)),
    },
)

HALF_OPEN_COMMIT = scenario(
    id="half-open-transaction-end",
    failure_point="producer-crash-before-commit-ack",
    fault=Network(
        OnWire(Role.PRODUCER, Api.END_TXN, REQUEST), (Timeout(DOWN),), Until.GAVE_UP, Effect.SILENT
    ),
    because="The transaction is committed, and the answer vanishes: the producer lives on without "
    "knowing. kafka-python does not ask again and cannot go on. A new producer reads the "
    "cursor that was committed in the transaction, and continues after it.",
    expect={
        AMO: NO_TRANSACTION,
        ALO: NO_TRANSACTION,
        EOS: Predicted(sign=RESUMED_PAST, settings=IMPATIENT[EOS]),
    },
    by_client={
        "confluent-kafka": {EOS: Predicted(sign=ENDED_AGAIN, settings=IMPATIENT[EOS])}
    },  # it asks again
)

SQUEEZE_BEYOND = scenario(
    id="bandwidth-squeeze-beyond-request-timeout",
    failure_point="request-lost",
    fault=Network(
        SEND,
        (Bandwidth(UP, 1), Latency(UP, int(1500 * REQUEST_S))),
        Until.GAVE_UP,
        Effect.LATE,
        limit=0.9 * REQUEST_S,
    ),
    because="The request is still on its way when the client gives its connection up, and may "
    "arrive later or never. So a record that the client gave up may be stored, and a "
    "record that it sends again may have two copies. Theory permits both.",
    expect={
        AMO: Predicted(lost=Permitted(), sign=NOT_RESENT, settings=IMPATIENT[AMO]),
        ALO: Predicted(duplicated=Permitted(), sign=REPEATED_REQUEST, settings=IMPATIENT[ALO]),
        EOS: Predicted(sign=REPEATED_REQUEST, settings=IMPATIENT[EOS]),
    },
)

CONTROL_NOT_IDEMPOTENT = replace(
    HALF_OPEN_ACK,
    id="control-half-open-ack-without-idempotence",
    because=(
        "Control: at-least-once settings sold as exactly-once. The record is stored, sent again, "
        "and recorded twice."
    ),
    expect={EOS: Predicted(duplicated=Exactly(), control=True, settings=IMPATIENT[ALO])},
)
CONTROL_NO_RETRIES = replace(
    HALF_OPEN_REQUEST,
    id="control-half-open-request-without-retries",
    because="Control: a producer without retries, sold as at-least-once. The request vanishes, and "
    "the producer does not send it again.",
    expect={
        ALO: Predicted(
            lost=Exactly(),
            control=True,
            settings=replace(IMPATIENT[AMO], consumer=AT_LEAST_ONCE.consumer),
        )
    },
)

NETWORK = (
    LATENCY_WITHIN,
    LATENCY_BEYOND,
    HALF_OPEN_ACK,
    HALF_OPEN_REQUEST,
    HALF_OPEN_BEYOND_DELIVERY,
    HALF_OPEN_COMMIT,
    RESETS_OF_ACKS,
    RESETS_OF_REQUESTS,
    SQUEEZE,
    SQUEEZE_BEYOND,
    SLICES,
    PARTITION_WITHIN_DELIVERY,
    PARTITION_BEYOND_DELIVERY,
    FLAPPING,
    CONSUMER_PARTITION,
    CONSUMER_EXPELLED,
    CONTROL_NOT_IDEMPOTENT,
    CONTROL_NO_RETRIES,
)
