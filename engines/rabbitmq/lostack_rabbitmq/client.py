"""The client pika: one blocking connection with one channel, on queues by the default exchange.

The library connects once and reconnects never; what was under way on a lost connection is unknown,
and the program hears so at its next call.
"""

from __future__ import annotations

import logging
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pika
from pika.exceptions import AMQPError, NackError, UnroutableError

from harness.model.waiting import WaitTimeoutError, wait_until
from harness.stages.clients.interface import ClientError, Meaning
from harness.stages.clients.queues import GoneError, Received, Sent, WithoutTransactions
from harness.stages.consumer_settings import SavePosition
from lostack_rabbitmq.queues import LATE, arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from harness.stages.stage import Stage

CONNECT_S: Final = 30.0
"""How many seconds to wait for a broker that is down: longer than any restart in a cell."""
ANSWER_S: Final = 10.0
PERSISTENT: Final = 2
logging.getLogger("pika").setLevel(logging.CRITICAL)  # whatever it complains of is raised, too


class Connected:
    """The current connection of a stage, and its channel."""

    def __init__(self, stage: Stage, opened: Callable[[Any], None]) -> None:
        """``opened``: is called with each new channel."""
        host, _, port = stage.bootstrap.rpartition(":")
        self._to = pika.ConnectionParameters(
            host,
            int(port),
            client_properties={"connection_name": stage.client_id},
            socket_timeout=ANSWER_S,
            stack_timeout=ANSWER_S,
            blocked_connection_timeout=ANSWER_S,
        )
        self._opened = opened
        self._connection: Any = None
        self._channel: Any = None

    def there(self) -> Any:
        """Return the channel; connect first if there is none.

        Raises:
            GoneError: the broker cannot be reached.
        """
        if self._channel is None or not self._channel.is_open:
            self._drop()
            try:
                self._channel = wait_until(
                    self._new, within_s=CONNECT_S, because="a broker", poll_s=0.05
                )
            except WaitTimeoutError as error:
                raise GoneError(error) from error
        return self._channel

    @contextmanager
    def asking(self) -> Iterator[Any]:
        """Ask the broker something on the channel.

        Raises:
            GoneError: the connection or its channel has ended.
            ClientError: the message came back, or was not confirmed.
        """
        channel = self.there()
        try:
            yield channel
        except UnroutableError as error:
            raise ClientError("Unroutable", "no queue", Meaning.NEVER_APPENDED) from error
        except NackError as error:
            raise ClientError("Nacked", error) from error
        except (AMQPError, OSError) as error:
            self._drop()
            raise GoneError(f"{type(error).__name__}: {error}") from error

    def _new(self) -> Any:
        try:
            self._connection = pika.BlockingConnection(self._to)
            channel = self._connection.channel()
            self._opened(channel)
        except (AMQPError, OSError):
            self._drop()
            return None
        return channel

    def _drop(self) -> None:
        """Forget the connection. A close that fails says nothing new."""
        connection, self._connection, self._channel = self._connection, None, None
        if connection is not None and connection.is_open:
            try:
                connection.close()
            except (AMQPError, OSError):
                return

    def process(self, within_s: float) -> None:
        """Take in what arrives within the time, or at once if something does.

        Raises:
            GoneError: the connection has ended.
        """
        with self.asking():
            self._connection.process_data_events(within_s)

    close = _drop


def declare(channel: Any, queue: str, pipeline: str) -> None:
    """Make the queue of a pipeline, unless it is there."""
    channel.queue_declare(queue, durable=True, arguments=arguments(queue, pipeline))


class PikaProducer(WithoutTransactions):
    """Implements :class:`~harness.stages.clients.interface.Producer`. There are no transactions."""

    def __init__(self, stage: Stage) -> None:
        self._acks = stage.settings.producer.acks
        self._pipeline = stage.pipeline
        self._queue = ""
        self._connected = Connected(stage, self._select)

    def _select(self, channel: Any) -> None:
        if self._pipeline != LATE:
            declare(channel, self._queue, self._pipeline)
        if self._acks != 0:
            channel.confirm_delivery()

    def send(
        self, topic: str, value: bytes, key: bytes | None, headers: Sequence[tuple[str, bytes]]
    ) -> Sent:
        """Publish a message that outlives the broker; wait for its confirm, unless none is
        requested (``acks=0``). With ``acks=all`` a message without a queue comes back. A new
        connection declares the queue first.

        Raises:
            ClientError: the message was refused, or its outcome is unknown.
        """
        del key
        self._queue = topic
        said = pika.BasicProperties(
            delivery_mode=PERSISTENT, headers={name: text.decode() for name, text in headers}
        )
        with self._connected.asking() as channel:
            channel.basic_publish("", topic, value, said, mandatory=self._acks == "all")
        return Sent()

    def close(self, within_s: float) -> None:
        """Close the connection."""
        del within_s
        self._connected.close()


class PikaConsumer:
    """Implements :class:`~harness.stages.clients.queues.QueueConsumer`: the broker pushes, one
    message at a time where they are acknowledged.
    """

    def __init__(self, stage: Stage) -> None:
        consumer = stage.settings.consumer
        self._automatic = consumer.position is SavePosition.AUTO
        self._pipeline = stage.pipeline
        self._prefetch = consumer.unit
        self._connected = Connected(stage, self._consume)
        self._inbox: deque[Received] = deque()
        self._queue = ""

    def _consume(self, channel: Any) -> None:
        self._inbox.clear()  # it comes again
        if self._pipeline == LATE:
            declare(channel, self._queue, self._pipeline)
        if not self._automatic:
            channel.basic_qos(prefetch_count=self._prefetch)
        channel.basic_consume(self._queue, self._take, auto_ack=self._automatic)

    def _take(self, channel: Any, told: Any, _: object, body: bytes) -> None:
        name = f"{self._queue}:{told.delivery_tag}"
        self._inbox.append(Received(name, body, told.redelivered, (channel, told.delivery_tag)))

    def subscribe(self, queue: str) -> None:
        """Begin to consume.

        Raises:
            ClientError: the broker cannot be reached, or refuses.
        """
        self._queue = queue
        self._connected.there()

    def receive(self, within_s: float) -> Received | None:
        """Return the next message; ``None`` if none comes within the time."""
        try:
            if not self._inbox:
                self._connected.process(within_s)
        except ClientError:
            return None
        return self._inbox.popleft() if self._inbox else None

    def acknowledge(self, given: Received) -> None:
        """Acknowledge a message. Nobody answers that.

        Raises:
            ClientError: the connection on which it came has ended.
        """
        if not self._automatic:
            self._say(given, lambda channel, tag: channel.basic_ack(tag))

    def refuse(self, given: Received, *, for_good: bool) -> None:
        """Refuse a message: it is given again or, if ``for_good``, goes to the dead letters.

        Raises:
            ClientError: the connection on which it came has ended.
        """
        self._say(given, lambda channel, tag: channel.basic_nack(tag, requeue=not for_good))

    def _say(self, given: Received, what: Callable[[Any, int], None]) -> None:
        of, tag = given.token
        with self._connected.asking() as channel:
            if channel is not of:
                raise GoneError("the connection on which the message came is lost")
            what(channel, tag)


def make_producer(stage: Stage, *, transactional_id: str) -> PikaProducer:
    """Return a producer with the stage's settings. Its first send connects it."""
    del transactional_id
    return PikaProducer(stage)


def make_consumer(stage: Stage) -> PikaConsumer:
    """Return a consumer with the stage's settings, not subscribed yet."""
    return PikaConsumer(stage)
