"""The client nats-py: streams of JetStream, published to and pulled from.

The library runs in an event loop, which has a thread here. It does not connect again by itself:
what was under way on a lost connection is unknown, and the program hears so at once.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

import nats
from nats.errors import Error as NatsError
from nats.errors import TimeoutError as NatsTimeoutError
from nats.js.api import AckPolicy, ConsumerConfig
from nats.js.errors import APIError

from harness.model.record import decode_id
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.stages.clients.interface import ClientError
from harness.stages.clients.loops import Loop
from harness.stages.clients.queues import GoneError, Received, Sent, WithoutTransactions
from harness.stages.consumer_settings import SavePosition
from lostack_nats.steps import DURABLE

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from harness.stages.stage import Stage

T = TypeVar("T")
CONNECT_S: Final = 30.0
"""How many seconds to wait for a broker that is down: longer than any restart in a cell."""
ANSWER_S: Final = 5.0
"""How many seconds the broker may take to answer a request about a stream, or a double ack."""
ACK_WAIT_S: Final = 2.0
"""How long the broker waits for an acknowledgement before it delivers a message again."""
MESSAGE_ID: Final = "Nats-Msg-Id"
"""The header by whose value a stream drops duplicates."""


class Connected:
    """The current connection of a stage, in an event loop of its own."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._loop = Loop()
        self._client: Any = None

    def there(self) -> Any:
        """Return the client, connected.

        Raises:
            GoneError: the broker cannot be reached.
        """
        if self._client is None or not self._client.is_connected:
            try:
                self._client = wait_until(
                    self._new,
                    within_s=CONNECT_S,
                    because=f"a broker at {self._stage.bootstrap}",
                    poll_s=0.02,
                )
            except WaitTimeoutError as error:
                raise GoneError(error) from error
        return self._client

    def run(self, does: Coroutine[Any, Any, T], *, within_s: float | None = None) -> T:
        """Return what a coroutine of the library returns.

        Raises:
            GoneError: the connection has ended meanwhile.
            ClientError: the broker refuses, or does not answer in time.
        """
        try:
            return self._loop.run(does, within_s=within_s)
        except (NatsTimeoutError, TimeoutError) as error:
            raise ClientError("Timeout", error) from error
        except APIError as error:
            raise ClientError(type(error).__name__, error.description) from error
        except (NatsError, OSError) as error:
            raise GoneError(f"{type(error).__name__}: {error}") from error

    def _new(self) -> Any:
        self._loop.over = None
        for address in self._stage.bootstrap.split(","):  # the first server that takes it
            with suppress(ClientError):
                return self.run(self._connect(address), within_s=ANSWER_S)
        return None

    async def _connect(self, address: str) -> Any:
        over = asyncio.Event()

        async def ended() -> None:
            over.set()

        async def failed(_: Exception) -> None:
            """Say nothing: what the library complains of is raised, too."""

        client = await nats.connect(
            f"nats://{address}",
            name=self._stage.client_id,
            allow_reconnect=False,
            connect_timeout=ANSWER_S,
            disconnected_cb=ended,
            closed_cb=ended,
            error_cb=failed,
        )
        self._loop.over = over
        return client

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None and self._client.is_connected:
            self.run(self._client.close(), within_s=ANSWER_S)


class NatsProducer(WithoutTransactions):
    """Implements :class:`~harness.stages.clients.interface.Producer`. There are no transactions."""

    def __init__(self, stage: Stage) -> None:
        self._settings = stage.settings.producer
        self._connected = Connected(stage)

    def send(
        self, topic: str, value: bytes, key: bytes | None, headers: Sequence[tuple[str, bytes]]
    ) -> Sent:
        """Publish a message: to JetStream, whose answer is waited for; without acknowledgements as
        core NATS does, which asks for no answer.

        Raises:
            ClientError: the message was refused, or its outcome is unknown.
        """
        del key
        named = {name: text.decode() for name, text in headers}
        if self._settings.by_id:
            named[MESSAGE_ID] = decode_id(value) or ""
        client = self._connected.there()
        if self._settings.acks == 0:
            self._connected.run(_publish(client, topic, value, named))
        else:
            within = self._settings.request_timeout_ms / 1000
            stream = client.jetstream(timeout=within)
            self._connected.run(stream.publish(topic, value, timeout=within, headers=named or None))
        return Sent()

    def close(self, within_s: float) -> None:
        """Close the connection."""
        del within_s
        self._connected.close()


async def _publish(client: Any, subject: str, value: bytes, headers: dict[str, str]) -> None:
    await client.publish(subject, value, headers=headers or None)
    await client._flush_pending()  # noqa: SLF001 - flush() would ask the broker for an answer


class NatsConsumer:
    """Implements :class:`~harness.stages.clients.queues.QueueConsumer`: a durable consumer, from
    which one message is pulled at a time.
    """

    def __init__(self, stage: Stage) -> None:
        settings = stage.settings.consumer
        self._connected = Connected(stage)
        self._waits = settings.push.receipts or settings.position is SavePosition.BEFORE_WORK
        policy = AckPolicy.NONE if settings.position is SavePosition.AUTO else AckPolicy.EXPLICIT
        self._asks = policy is not AckPolicy.NONE
        self._config = ConsumerConfig(
            durable_name=DURABLE,
            ack_policy=policy,
            ack_wait=ACK_WAIT_S if self._asks else None,
            max_ack_pending=settings.count if self._asks else None,
        )
        self._queue = ""
        self._of: Any = None
        self._pulls: Any = None

    def subscribe(self, queue: str) -> None:
        """Make the consumer, unless it exists.

        Raises:
            ClientError: the broker refuses.
        """
        self._queue = queue
        self._pulling()

    def receive(self, within_s: float) -> Received | None:
        """Return the next message; ``None`` if none comes within the time."""
        try:
            pulls = self._pulling()
            [message] = self._connected.run(pulls.fetch(1, within_s))
        except ClientError:
            return None
        told = message.metadata
        name = f"{told.stream}:{told.sequence.stream}"
        return Received(name, message.data, told.num_delivered > 1, message)

    def acknowledge(self, given: Received) -> None:
        """Acknowledge a message. Only a *double ack* waits for the broker's answer.

        Raises:
            ClientError: the outcome is unknown.
        """
        if not self._asks:
            return
        message = given.token
        if message._client is not self._connected.there():  # noqa: SLF001 - who asks for no answer would not notice
            raise GoneError("the connection on which the message came is lost")
        does = message.ack_sync(ANSWER_S) if self._waits else _acked(message)
        self._connected.run(does)

    def _pulling(self) -> Any:
        client = self._connected.there()
        if client is not self._of:
            stream = client.jetstream(timeout=ANSWER_S)
            self._pulls = self._connected.run(
                stream.pull_subscribe(
                    self._queue, durable=DURABLE, stream=self._queue, config=self._config
                )
            )
            self._of = client
        return self._pulls


async def _acked(message: Any) -> None:
    await message.ack()
    await message._client._flush_pending()  # noqa: SLF001 - as above


def make_producer(stage: Stage, *, transactional_id: str) -> NatsProducer:
    """Return a producer with the stage's settings. Its first send connects it."""
    del transactional_id
    return NatsProducer(stage)


def make_consumer(stage: Stage) -> NatsConsumer:
    """Return a consumer with the stage's settings, not subscribed yet."""
    return NatsConsumer(stage)
