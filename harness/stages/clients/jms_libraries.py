"""The libraries that implement JMS: each gets the broker's address and its settings in the URL for
its connection factory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from harness.stages.clients import AMQP, CORE, OPENWIRE
from harness.stages.pushing import Acknowledge

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from harness.stages.producer_settings import ProducerSettings
    from harness.stages.stage import Stage

CONNECT_S: Final = 30.0
"""How many seconds to wait for a broker that is down: longer than any restart in a cell."""
ANSWER_MS: Final = 10_000
"""How many milliseconds a broker may take to answer a new connection."""
FLUSH_MS: Final = 2000
"""How often lazy acknowledgements are sent. By the library's default, the last ones
are never sent.
"""


CONFIRMED_BYTES: Final = 1 << 20
"""How many bytes Core's library keeps until they are confirmed. Without this window it calls no
listeners.
"""
AWAY_MS: Final = 8000
"""How long a broker then keeps the session of a lost connection, with its open transaction."""


@dataclass(frozen=True, slots=True)
class Library:
    """A JMS library. ``modes``: its numbers for the modes of acknowledgement, of which JMS defines
    only some.

    ``distributed``: the connection factory for distributed transactions; empty if it has none.
    Sessions of its connections can receive nothing outside of a distributed transaction.
    """

    factory: str
    address: Callable[[Stage], str]
    modes: Mapping[Acknowledge, int]
    distributed: str = ""
    in_java: bool = False
    """Whether the names of message properties must be Java names, without a dash."""
    gathers: frozenset[Acknowledge] = frozenset()
    """The modes in which it sends the last acknowledgements only when its consumer is closed."""


def _openwire(stage: Stage) -> str:
    producer, consumer = stage.settings.producer, stage.settings.consumer
    options: dict[str, object] = {
        "wireFormat.tightEncodingEnabled": False,
        "wireFormat.cacheEnabled": False,
        "jms.watchTopicAdvisories": False,
        "jms.connectResponseTimeout": ANSWER_MS,
        "jms.prefetchPolicy.queuePrefetch": consumer.unit,
        "jms.sendAcksAsync": not consumer.acknowledging.blocking,
        "jms.redeliveryPolicy.maximumRedeliveries": consumer.share.limit - 1,
        "jms.redeliveryPolicy.initialRedeliveryDelay": 0,
        "jms.redeliveryPolicy.redeliveryDelay": 0,
    }
    if consumer.acknowledges is Acknowledge.OPTIMIZED:
        options |= {
            "jms.optimizeAcknowledge": True,
            # else what comes 300 ms after the last one, on a slow machine each
            "jms.optimizeAcknowledgeTimeOut": 0,
            "jms.optimizedAckScheduledAckInterval": FLUSH_MS,
        }
    if producer.acks == 0:
        options["jms.useAsyncSend"] = True
    else:
        options |= {"jms.alwaysSyncSend": True, "jms.sendTimeout": producer.request_timeout_ms}
    if not producer.retries:
        return f"tcp://{stage.bootstrap}?{_query(options)}"
    inner = {name: options.pop(name) for name in tuple(options) if name.startswith("wireFormat.")}
    options |= {
        "initialReconnectDelay": 50,
        "useExponentialBackOff": False,
        "timeout": int(CONNECT_S * 1000),
    }
    return f"failover:(tcp://{stage.bootstrap}?{_query(inner)})?{_query(options)}"


def _amqp(stage: Stage) -> str:
    """Return the URL for AMQP. For at-most-once both sides send messages settled; otherwise they
    wait for the settlement.
    """
    producer, consumer = stage.settings.producer, stage.settings.consumer
    options: dict[str, object] = {
        "jms.validatePropertyNames": False,
        "jms.connectTimeout": ANSWER_MS,
        "jms.requestTimeout": ANSWER_MS,
        "jms.prefetchPolicy.queuePrefetch": consumer.unit,
        "jms.redeliveryPolicy.maxRedeliveries": consumer.share.limit - 1,
        "jms.presettlePolicy.presettleConsumers": consumer.acknowledges is Acknowledge.AUTO
        and consumer.acknowledging.blocking,
        "jms.presettlePolicy.presettleProducers": producer.acks == 0,
        "transport.useEpoll": False,
        "transport.useKQueue": False,
    }
    if producer.acks != 0:
        options |= {
            "jms.forceSyncSend": not listens(producer),
            "jms.sendTimeout": producer.request_timeout_ms,
        }
    return f"amqp://{stage.bootstrap}?{_query(options)}"


def _core(stage: Stage) -> str:
    """Return the URL for Core. With a window of no bytes the library asks for one message at a
    time.
    """
    producer, consumer = stage.settings.producer, stage.settings.consumer
    options: dict[str, object] = {
        "blockOnDurableSend": producer.acks != 0,
        "blockOnAcknowledge": consumer.acknowledging.blocking,
        "ackBatchSize": 0,
        "consumerWindowSize": 0,
        "callTimeout": producer.request_timeout_ms,
        "reconnectAttempts": 0,
        "initialConnectAttempts": 1,
        "useTopologyForLoadBalancing": False,
        "connectionTTL": -1,
        "useEpoll": False,
        "useKQueue": False,
    }
    if listens(producer):
        options |= {
            "confirmationWindowSize": CONFIRMED_BYTES,
            "connectionTTL": AWAY_MS,
            "clientFailureCheckPeriod": AWAY_MS // 2,
        }
    return f"tcp://{stage.bootstrap}?{_query(options)}"


def listens(producer: ProducerSettings) -> bool:
    """Return whether answers to messages in a transaction go to a listener, so that only the commit
    is waited for.
    """
    return producer.transactional and producer.in_flight > 1


def _query(options: Mapping[str, object]) -> str:
    return urlencode({name: str(value).lower() for name, value in options.items()})


LIBRARIES: Final = {
    OPENWIRE: Library(
        "org.apache.activemq.ActiveMQConnectionFactory",
        _openwire,
        {
            Acknowledge.TRANSACTED: 0,
            Acknowledge.AUTO: 1,
            Acknowledge.OPTIMIZED: 1,
            Acknowledge.CLIENT: 2,
            Acknowledge.DUPS_OK: 3,
            Acknowledge.INDIVIDUAL: 4,
        },
        "org.apache.activemq.ActiveMQXAConnectionFactory",
    ),
    AMQP: Library(
        "org.apache.qpid.jms.JmsConnectionFactory",
        _amqp,
        {
            Acknowledge.TRANSACTED: 0,
            Acknowledge.AUTO: 1,
            Acknowledge.CLIENT: 2,
            Acknowledge.DUPS_OK: 3,
            Acknowledge.INDIVIDUAL: 101,
        },
    ),
    CORE: Library(
        "org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory",
        _core,
        {
            Acknowledge.TRANSACTED: 0,
            Acknowledge.AUTO: 1,
            Acknowledge.CLIENT: 2,
            Acknowledge.DUPS_OK: 3,
            Acknowledge.BEFORE: 100,
            Acknowledge.INDIVIDUAL: 101,
        },
        "org.apache.activemq.artemis.jms.client.ActiveMQXAConnectionFactory",
        in_java=True,
        gathers=frozenset({Acknowledge.DUPS_OK}),
    ),
}
