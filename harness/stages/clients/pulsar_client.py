"""The client pulsar-client (a C++ library behind Python): topics of Pulsar, and subscriptions to
them.

The library reconnects by itself, and sends again what was not answered; the program is not told of
either. Its Python interface lacks answers to acknowledgements, transactions, and a setting for the
100 ms in which it gathers acknowledgements.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import pulsar

from harness.model.record import decode
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.stages.clients.interface import ClientError
from harness.stages.clients.queues import Received
from harness.stages.pushing import SUBSCRIPTION_NAME, Subscription
from harness.stages.stage import SettingsRefusedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.stages.clients.interface import Membership, Position
    from harness.stages.stage import Stage

CONNECT_S: Final = 60
"""How many seconds to wait for a broker that is down: longer than any restart in a cell."""
CONNECTION_MS: Final = 5000
AGAIN_MS: Final = 100
"""How long a refused message is held back before it is delivered again; by default a minute."""
_KINDS: Final = {
    Subscription.SHARED: pulsar.ConsumerType.Shared,
    Subscription.EXCLUSIVE: pulsar.ConsumerType.Exclusive,
    Subscription.FAILOVER: pulsar.ConsumerType.Failover,
    Subscription.KEY_SHARED: pulsar.ConsumerType.KeyShared,
}


def _client(stage: Stage) -> pulsar.Client:
    """Return a client that logs in with its name as user. lostack's brokers need no log-in."""
    user = pulsar.AuthenticationBasic(stage.client_id, "none")
    return pulsar.Client(
        f"pulsar://{stage.bootstrap}",
        authentication=user,
        operation_timeout_seconds=CONNECT_S,
        connection_timeout_ms=CONNECTION_MS,
    )


def _complaint(error: Exception) -> ClientError:
    return ClientError(type(error).__name__, error)


class Sent:
    """A message that is being sent. Implements
    :class:`~harness.stages.clients.interface.Pending`.
    """

    def __init__(self, *, silent: bool) -> None:
        self._silent = silent
        self._told = threading.Event()
        self._result: pulsar.Result | None = None

    def told(self, result: pulsar.Result, _place: pulsar.MessageId | None) -> None:
        """Take the result from the library, which calls this in its own thread."""
        self._result = result
        self._told.set()

    def wait(self, within_s: float) -> None:
        """Wait for the receipt.

        Raises:
            ClientError: the message was refused, or no receipt came in time.
        """
        if self._silent:
            return
        if not self._told.wait(within_s):
            raise ClientError("Timeout", f"no receipt within {within_s:g} s")
        if self._result != pulsar.Result.Ok:
            raise ClientError(str(self._result).rpartition(".")[2], "the library says so")


class PulsarProducer:
    """Implements :class:`~harness.stages.clients.interface.Producer`, of a broker that has neither
    epochs nor offsets.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._settings = stage.settings.producer
        if self._settings.part_bytes is not None:
            raise SettingsRefusedError(
                "NotImplementedError: this client makes parts as large as its broker takes, not "
                "smaller"
            )
        self._client = _client(stage)
        self._producers: dict[str, pulsar.Producer] = {}

    def init_transactions(self) -> None:
        """Refuse the settings: the Python client has no transactions.

        Raises:
            SettingsRefusedError: always.
        """
        raise SettingsRefusedError("NotImplementedError: this client has no transactions")

    begin = commit = abort = init_transactions

    def send_offsets(self, topic: str, positions: Position, membership: Membership) -> None:
        """Raise NotImplementedError: a subscription keeps its own position."""
        raise NotImplementedError("a subscription keeps its own position")

    def send(
        self, topic: str, value: bytes, key: bytes | None, headers: Sequence[tuple[str, bytes]]
    ) -> Sent:
        """Send a message. An idempotent producer numbers it by the record's position
        in the source.
        """
        sent = Sent(silent=self._settings.acks == 0)
        told: dict[str, object] = {"properties": {name: text.decode() for name, text in headers}}
        if key is not None:
            told["partition_key"] = key.decode()
        payload = decode(value) if self._settings.names_records else None
        if payload is not None:
            told["sequence_id"] = payload.position
        try:
            self._producer(topic).send_async(value, sent.told, **told)
        except pulsar.PulsarException as error:
            raise _complaint(error) from error
        return sent

    def _producer(self, topic: str) -> pulsar.Producer:
        if topic not in self._producers:
            several = self._settings.unit > 1
            self._producers[topic] = self._client.create_producer(
                topic,
                producer_name=f"{self._stage.key}.{self._stage.name}"
                if self._settings.names_records
                else None,
                send_timeout_millis=self._settings.delivery_timeout_ms,
                batching_enabled=several,
                block_if_queue_full=True,
                batching_max_messages=max(self._settings.unit, 2),
                batching_max_publish_delay_ms=self._settings.linger_ms,
            )
        return self._producers[topic]

    def close(self, within_s: float) -> None:
        """Close the producer; in order if there is time."""
        if within_s > 0:
            with suppress(pulsar.PulsarException):
                self._client.close()
        else:
            self._client.shutdown()


class PulsarConsumer:
    """Implements :class:`~harness.stages.clients.queues.QueueConsumer`."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._settings = stage.settings.consumer
        if self._settings.push.receipts:
            raise SettingsRefusedError(
                "NotImplementedError: this client waits for no answer to an acknowledgement"
            )
        self._client = _client(stage)
        self._consumer: pulsar.Consumer

    def subscribe(self, queue: str) -> None:
        """Subscribe to the topic. The settings say how many messages may come at a time.

        Raises:
            ClientError: another consumer has the subscription.
        """
        try:
            self._consumer = wait_until(
                lambda: self._subscribed(queue),
                within_s=CONNECT_S,
                because=f"a subscription to {queue}",
                poll_s=0.05,
            )
        except WaitTimeoutError as error:
            raise ClientError("ConsumerBusy", error) from error

    def _subscribed(self, topic: str) -> pulsar.Consumer:
        try:
            return self._client.subscribe(
                topic,
                SUBSCRIPTION_NAME,
                consumer_type=_KINDS[self._settings.push.subscription],
                receiver_queue_size=self._settings.unit,
                consumer_name=self._stage.client_id,
                initial_position=pulsar.InitialPosition.Earliest,
                negative_ack_redelivery_delay_ms=AGAIN_MS,
            )
        except pulsar.ConsumerBusy:  # the broker does not know yet that the last one is gone
            return None
        except pulsar.PulsarException as error:
            raise _complaint(error) from error

    def receive(self, within_s: float) -> Received | None:
        """Return the next message."""
        try:
            message = self._consumer.receive(int(within_s * 1000))
        except pulsar.Timeout:
            return None
        except pulsar.PulsarException as error:
            raise _complaint(error) from error
        place = message.message_id()
        name = f"{place.ledger_id()}:{place.entry_id()}:{max(place.batch_index(), 0)}"
        return Received(name, message.data(), message.redelivery_count() > 0, message)

    def acknowledge(self, given: Received) -> None:
        """Acknowledge a message. The library sends that within 100 ms, and gets no answer."""
        try:
            if self._settings.push.cumulative:
                self._consumer.acknowledge_cumulative(given.token)
            else:
                self._consumer.acknowledge(given.token)
        except pulsar.PulsarException as error:
            raise _complaint(error) from error

    def refuse(self, given: Received, *, for_good: bool) -> None:
        """Let the broker deliver the message again, to any consumer.

        Raises:
            ClientError: ``for_good`` is true, but Pulsar cannot refuse a message for good.
        """
        if for_good:
            raise ClientError("NotImplementedError", "a subscription gives again what is refused")
        self._consumer.negative_acknowledge(given.token)


def make_producer(stage: Stage, *, transactional_id: str) -> PulsarProducer:  # noqa: ARG001 - this client has no transactions
    """Return a producer with the stage's settings."""
    return PulsarProducer(stage)


def make_consumer(stage: Stage) -> PulsarConsumer:
    """Return a consumer with the stage's settings."""
    return PulsarConsumer(stage)
