"""The client redis-py on streams: a consumer group, its pending entries, transactions and a script.

The library connects by itself and, by default, sends a command again whose answer did not come.
Here each command is sent once, so that the program decides, and knows, how often; but see
``retries``.
"""

from __future__ import annotations

import functools
from collections import deque
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from harness.model.record import decode_id
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.stages.clients.interface import ClientError, Meaning
from harness.stages.clients.queues import Received, Sent, WithoutPositions
from harness.stages.consumer_settings import SavePosition
from lostack_redis.content import VALUE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from harness.stages.stage import Stage

GROUP: Final = "workers"
"""The one group of a cell's stream."""
CONNECT_S: Final = 30.0
"""How many seconds to wait for a broker that is down: longer than any restart in a cell."""
KEEPS_MS: Final = 600_000
"""For how long the script remembers a record's id: longer than any cell."""
ONCE: Final = (
    "if redis.call('SET', KEYS[2], 1, 'NX', 'PX', "
    f"{KEEPS_MS}) then return redis.call('XADD', KEYS[1], '*', unpack(ARGV)) end"
)
"""Adds an entry, unless its record's id is known. The server carries a script out whole."""
RETRIES: Final = 3
"""How often the library sends a command again by itself, by default."""
_UNEXECUTED: Final = (redis.exceptions.BusyLoadingError, redis.exceptions.ReadOnlyError)


class Link:
    """The connection of a program: one at a time, so that the wire sees its commands in order."""

    def __init__(self, stage: Stage) -> None:
        host, _, port = stage.bootstrap.rpartition(":")
        producer = stage.settings.producer
        self.redis = redis.Redis(
            host=host,
            port=int(port),
            client_name=stage.client_id,
            socket_timeout=producer.request_timeout_ms / 1000,
            retry=Retry(NoBackoff(), RETRIES if producer.retries else 0),
            max_connections=1,
        )
        self.transaction: Any = None
        """The commands of the transaction that is open; null: none is."""
        self.uncertain = True
        """Whether the group may hold something pending of this program, or of an earlier one."""
        self._down = True

    @contextmanager
    def asking(self) -> Iterator[redis.Redis]:
        """Ask the broker something; behind a lost connection wait for it first. The library's
        errors become one that says what it means.

        Raises:
            ClientError: the broker did not answer, or refused.
        """
        try:
            if self._down:
                wait_until(self._answers, within_s=CONNECT_S, because="a broker", poll_s=0.02)
                self._down = False
            yield self.redis
        except (redis.RedisError, WaitTimeoutError) as error:
            self._down = not isinstance(error, redis.ResponseError)
            self.uncertain = True
            refused = isinstance(error, _UNEXECUTED)
            meaning = Meaning.NEVER_APPENDED if refused else Meaning.UNKNOWN
            raise ClientError(type(error).__name__, error, meaning) from error

    def _answers(self) -> bool:
        try:
            return bool(self.redis.ping())
        except redis.RedisError:
            return False


@functools.cache
def _link(name: str, stage: Stage) -> Link:
    """Return the connection of this program, which has one name: its producer and its consumer
    share one transaction.
    """
    del name
    return Link(stage)


class RedisProducer(WithoutPositions):
    """Implements :class:`~harness.stages.clients.interface.Producer`, on a stream."""

    def __init__(self, stage: Stage) -> None:
        self._link = _link(stage.client_id, stage)
        self._once = stage.settings.producer.names_records

    def init_transactions(self) -> None:
        """Do nothing: a transaction ends with its connection."""

    def begin(self) -> None:
        """Begin to collect commands: the library sends MULTI with them."""
        self._link.transaction = self._link.redis.pipeline(transaction=True)

    def commit(self) -> None:
        """Send MULTI, the commands, and EXEC; wait for the answer.

        Raises:
            ClientError: the broker has not confirmed it.
        """
        transaction, self._link.transaction = self._link.transaction, None
        with self._link.asking():
            transaction.execute()

    def abort(self) -> None:
        """Forget the commands that were collected.

        Raises:
            ClientError: they were sent, and nobody knows what became of them.
        """
        if self._link.transaction is None:
            raise ClientError("Sent", "EXEC was sent, and not answered")
        self._link.transaction = None

    def send(
        self, topic: str, value: bytes, key: bytes | None, headers: Sequence[tuple[str, bytes]]
    ) -> Sent:
        """Add an entry, at once or in the open transaction.

        Raises:
            ClientError: the broker has not confirmed it.
        """
        del key
        fields: dict[Any, Any] = {VALUE: value, **dict(headers)}
        if self._link.transaction is not None:
            self._link.transaction.xadd(topic, fields)
            return Sent()
        with self._link.asking() as broker:
            if self._once:
                known = f"{topic}.once.{decode_id(value)}"
                broker.eval(
                    ONCE, 2, topic, known, *(word for pair in fields.items() for word in pair)
                )
            else:
                broker.xadd(topic, fields)
        return Sent()

    def close(self, within_s: float) -> None:
        """Close the connection."""
        del within_s
        self._link.redis.close()


class RedisConsumer:
    """Implements :class:`~harness.stages.clients.queues.QueueConsumer`, as a member of a group.

    What a member was given and has not acknowledged is pending, for ever: the server gives it to
    nobody by itself. So a program that starts, or whose connection was lost, claims it first.
    """

    def __init__(self, stage: Stage) -> None:
        self._link = _link(stage.client_id, stage)
        self._unit = stage.settings.consumer.unit
        self._noack = stage.settings.consumer.position is SavePosition.AUTO
        self._idle_ms = stage.settings.consumer.session_timeout_ms or 0
        self._name = stage.name
        self._stream = ""
        self._inbox: deque[Received] = deque()

    def subscribe(self, queue: str) -> None:
        """Make sure that the stream has its group."""
        self._stream = queue
        with self._link.asking() as broker:
            self._make(broker)

    def _make(self, broker: redis.Redis) -> None:
        """Make the group, unless it is there. A loss of power may have taken it."""
        with suppress(redis.exceptions.ResponseError):
            broker.xgroup_create(self._stream, GROUP, id="0", mkstream=True)

    def receive(self, within_s: float) -> Received | None:
        """Return the next entry: one that is pending, else a new one."""
        if self._link.uncertain:  # what was given before is claimed with the rest
            self._inbox.clear()
        if not self._inbox:
            with suppress(ClientError), self._link.asking() as broker:
                self._inbox.extend(self._asked(broker, int(within_s * 1000)))
        return self._inbox.popleft() if self._inbox else None

    def _asked(self, broker: redis.Redis, within_ms: int) -> Iterator[Received]:
        if self._link.uncertain:
            self._make(broker)
            self._link.uncertain = not self._noack
        if self._link.uncertain:
            said: Any = broker.xautoclaim(
                self._stream, GROUP, self._name, self._idle_ms, start_id="0-0", count=self._unit
            )
            self._link.uncertain = bool(said[1])
            # Redis before 7 tells of a deleted entry nothing but that there is one
            yield from (self._given(*each, again=True) for each in said[1] if each[0] is not None)
            return
        found: Any = broker.xreadgroup(
            GROUP,
            self._name,
            {self._stream: ">"},
            count=self._unit,
            block=within_ms,
            noack=self._noack,
        )
        for _, entries in found.items() if isinstance(found, dict) else found or ():
            yield from (self._given(*each, again=False) for each in entries)

    def _given(self, entry: bytes, fields: dict[bytes, bytes], *, again: bool) -> Received:
        name = f"{self._stream}:{entry.decode()}"
        return Received(name, fields[VALUE.encode()], again, entry)

    def acknowledge(self, given: Received) -> None:
        """Acknowledge an entry, at once or in the open transaction.

        Raises:
            ClientError: the broker has not confirmed it.
        """
        if self._noack:
            return
        if self._link.transaction is not None:
            self._link.transaction.xack(self._stream, GROUP, given.token)
            return
        with self._link.asking() as broker:
            broker.xack(self._stream, GROUP, given.token)


def make_producer(stage: Stage, *, transactional_id: str) -> RedisProducer:  # noqa: ARG001 - a transaction is its connection's
    """Return a producer with the stage's settings."""
    return RedisProducer(stage)


def make_consumer(stage: Stage) -> RedisConsumer:
    """Return a consumer with the stage's settings."""
    return RedisConsumer(stage)
