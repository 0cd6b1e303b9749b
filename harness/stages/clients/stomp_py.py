"""The client stomp.py: queues of a broker that speaks STOMP 1.2.

The library connects once, and reports what arrives in its own thread. Reconnecting after a lost
connection, and handling what was under way on it, is the program's task and is done here.
"""

from __future__ import annotations

import itertools
import logging
import queue
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import stomp
from stomp.exception import StompException

from harness.model.record import decode_id
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.stages.clients.interface import ClientError
from harness.stages.clients.queues import (
    DUPLICATE_ID,
    GoneError,
    Received,
    Sent,
    WithoutPositions,
)
from harness.stages.pushing import Acknowledge

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stomp.utils import Frame

    from harness.stages.stage import Stage

CONNECT_S: Final = 30.0
"""How many seconds to wait for a broker that is down: longer than any restart in a cell."""
ANSWER_S: Final = 10.0
"""How many seconds a broker may take to answer a new connection or a subscription."""
SUBSCRIPTION: Final = "1"
_NUMBERS: Final = itertools.count(1)
"""Numbers the connections and transactions of this process. A broker accepts each client id once,
and may not have noticed the end of the last connection.
"""
_MODES: Final = {
    Acknowledge.AUTO: "auto",
    Acknowledge.CLIENT: "client",
    Acknowledge.INDIVIDUAL: "client-individual",
    Acknowledge.TRANSACTED: "client-individual",
}
"""The value of a subscription's header ``ack`` for each mode of acknowledgement. ``client`` is
cumulative.
"""
_RABBITMQ, _VHOST = "/amq/", "/"
"""How a destination begins that only RabbitMQ has, and what ``host`` names there: not a host."""
logging.getLogger("stomp.py").setLevel(logging.CRITICAL)  # whatever it complains of is raised, too


class Connection(stomp.ConnectionListener):  # type: ignore[misc]  # the library has no types
    """One connection until its end. Methods raise GoneError when it has ended, and ClientError if
    the broker refuses.
    """

    def __init__(self, stage: Stage) -> None:
        host, _, port = stage.bootstrap.rpartition(":")
        self.inbox: queue.SimpleQueue[Frame | None] = queue.SimpleQueue()
        """The messages that were given; ``None`` marks the end."""
        self._stomp = stomp.Connection12(
            [(host, int(port))],
            reconnect_attempts_max=1,
            reconnect_sleep_initial=0,
            auto_decode=False,
            heartbeats=(0, 0),
            vhost=_VHOST if stage.topic_in.startswith(_RABBITMQ) else None,
        )
        self._stomp.set_listener("", self)
        self._changed = threading.Condition()
        self._receipts: dict[str, str | None] = {}
        """The receipts by name: the reason of a refusal, or ``None``."""
        self._up = False
        self._over: str | None = None
        self._names = itertools.count(1)
        try:
            self._stomp.connect(headers={"client-id": f"{stage.client_id}-{next(_NUMBERS)}"})
            self._wait(lambda: self._up, ANSWER_S, "the greeting")
        except (OSError, StompException) as error:
            self.close()
            raise GoneError(f"{type(error).__name__}: {error}") from error
        except ClientError:
            self.close()
            raise

    @property
    def gone(self) -> bool:
        """Whether the connection has ended."""
        return self._over is not None

    def ask(
        self, act: Callable[..., None], *words: object, within_s: float | None, **named: object
    ) -> None:
        """Send a frame, and wait for its receipt. If ``within_s`` is ``None``, no receipt is
        requested.

        Raises:
            GoneError: the connection is gone.
            ClientError: the broker refuses.
        """
        name = None if within_s is None else f"{next(self._names)}"
        try:
            act(self._stomp, *words, **named, **({} if name is None else {"receipt": name}))
        except (
            OSError,
            StompException,
            AttributeError,
        ) as error:  # its socket is None where another thread has closed it
            raise GoneError(f"{type(error).__name__}: {error}") from error
        if name is not None and within_s is not None:
            self._wait(lambda: name in self._receipts, within_s, "a receipt")
            refused = self._receipts.pop(name)
            if refused is not None:
                raise ClientError("Refused", refused)

    def close(self) -> None:
        """Close the connection without a DISCONNECT."""
        self._stomp.transport.disconnect_socket()

    def _wait(self, come: Callable[[], bool], within_s: float, what: str) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: come() or self.gone, within_s):
                raise GoneError(f"{what} did not come within {within_s:g} s")
            if not come():
                raise GoneError(self._over)

    # -- told by the library's thread --------------------------------------------------------------

    def on_connected(self, _frame: Frame) -> None:
        """Record that the connection is open (the library calls this)."""
        with self._changed:
            self._up = True
            self._changed.notify_all()

    def on_message(self, frame: Frame) -> None:
        """Keep a message that arrived (the library calls this)."""
        self.inbox.put(frame)

    def on_receipt(self, frame: Frame) -> None:
        """Record a receipt (the library calls this)."""
        self._answered(frame.headers.get("receipt-id"), None)

    def on_error(self, frame: Frame) -> None:
        """Record a refusal (the library calls this). The broker closes the connection after it."""
        said = frame.headers.get("message", "ERROR")
        self._answered(frame.headers.get("receipt-id"), said)

    def on_disconnected(self) -> None:
        """Record that the connection has ended (the library calls this)."""
        with self._changed:
            self._over = self._over or "the connection is lost"
            self._changed.notify_all()
        self.inbox.put(None)

    def _answered(self, name: str | None, refused: str | None) -> None:
        with self._changed:
            if name is not None:
                self._receipts[name] = refused
            elif refused is not None:
                self._over = refused
            self._changed.notify_all()


class Connected:
    """The current connection of a stage."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._connection: Connection | None = None

    @property
    def lives(self) -> bool:
        """Whether there is a connection that is not lost."""
        return self._connection is not None and not self._connection.gone

    def there(self, opened: Callable[[Connection], None] = lambda _: None) -> Connection:
        """Return the connection; make it if there is none, and then call ``opened`` with it.

        Raises:
            GoneError: the broker cannot be reached.
        """
        if self._connection is None or self._connection.gone:
            self.close()
            try:
                self._connection = wait_until(
                    lambda: self._new(opened),
                    within_s=CONNECT_S,
                    because=f"a broker at {self._stage.bootstrap}",
                    poll_s=0.05,
                )
            except WaitTimeoutError as error:
                raise GoneError(error) from error
        return self._connection

    def _new(self, opened: Callable[[Connection], None]) -> Connection | None:
        try:
            connection = Connection(self._stage)
        except GoneError:
            return None
        try:
            opened(connection)
        except GoneError:
            connection.close()
            return None
        return connection

    def close(self) -> None:
        """Close the connection without a DISCONNECT."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class StompProducer(WithoutPositions):
    """Implements :class:`~harness.stages.clients.interface.Producer`, of a broker that has neither
    epochs nor offsets.
    """

    def __init__(self, stage: Stage) -> None:
        settings = stage.settings.producer
        self._connected = Connected(stage)
        self._receipt_s = settings.request_timeout_ms / 1000 if settings.acks != 0 else None
        self._transacted = settings.transactional
        self._by_id = settings.by_id
        self._transaction: str | None = None
        """The name of the open transaction, and its connection."""

    def init_transactions(self) -> None:
        """Do nothing. A transaction belongs to its connection, and an open one ended with the
        connection.
        """

    def begin(self) -> None:
        """Forget the earlier transaction. The next message begins a new one."""
        self._transaction = None

    def commit(self) -> None:
        """Commit the messages sent since the transaction began, and wait for the receipt.

        Raises:
            ClientError: the broker has not confirmed the commit.
        """
        transaction, self._transaction = self._transaction, None
        self._ask(stomp.Connection12.commit, transaction, within_s=self._receipt_s)

    def abort(self) -> None:
        """Abort the messages sent since the transaction began.

        Raises:
            GoneError: the connection is gone, and the transaction with it.
        """
        transaction, self._transaction = self._transaction, None
        if transaction is None or not self._connected.lives:
            raise GoneError("the transaction ended with its connection")
        self._ask(stomp.Connection12.abort, transaction, within_s=self._receipt_s)

    def send(
        self, topic: str, value: bytes, key: bytes | None, headers: Sequence[tuple[str, bytes]]
    ) -> Sent:
        """Send a persistent message. If no receipt is requested, its outcome stays unknown.

        In a transaction only the commit is answered.
        """
        del key
        named = {"persistent": "true"} | {name: text.decode() for name, text in headers}
        if self._transacted:
            named["transaction"] = self._in_transaction()
        if self._by_id:
            named[DUPLICATE_ID] = decode_id(value) or ""
        self._ask(
            stomp.Connection12.send,
            topic,
            value,
            headers=named,
            within_s=None if self._transacted else self._receipt_s,
        )
        return Sent()

    def _in_transaction(self) -> str:
        """Return the name of the open transaction; begin one if there is none."""
        if self._transaction is None:
            name = f"t{next(_NUMBERS)}"
            self._ask(stomp.Connection12.begin, name, within_s=None)
            self._transaction = name
        return self._transaction

    def close(self, within_s: float) -> None:
        """Send DISCONNECT, and wait up to ``within_s`` until the broker has read everything before
        it; with 0, only close.
        """
        with suppress(ClientError):
            if within_s > 0:
                self._ask(_goodbye, within_s=within_s)
        self._connected.close()

    def _ask(
        self, act: Callable[..., None], *words: object, within_s: float | None, **named: object
    ) -> None:
        connection = self._connected.there()
        try:
            connection.ask(act, *words, within_s=within_s, **named)
        except ClientError:  # what comes late is not to be taken for the answer to something else
            self._connected.close()
            raise


def _goodbye(connection: stomp.Connection12, receipt: str) -> None:
    """Send DISCONNECT directly, because the library's own method closes the connection before the
    receipt arrives.
    """
    connection.transport.transmit(stomp.utils.Frame("DISCONNECT", {"receipt": receipt}, None))


@dataclass(frozen=True, slots=True)
class Token:
    """The connection on which a message is acknowledged, and the name for it: the message's, or its
    transaction's.
    """

    connection: Connection
    name: str


class StompConsumer:
    """Implements :class:`~harness.stages.clients.queues.QueueConsumer`."""

    def __init__(self, stage: Stage) -> None:
        self._settings = stage.settings.consumer
        self._mode = stage.settings.consumer.acknowledges
        self._connected = Connected(stage)
        self._receipt_s = stage.settings.producer.request_timeout_ms / 1000
        self._queue = ""
        self._inbox: Connection | None = None
        """The connection whose messages are received. After its end, the messages that it was given
        are still here.
        """

    @property
    def _auto(self) -> bool:
        return self._mode is Acknowledge.AUTO

    def subscribe(self, queue: str) -> None:
        """Subscribe to the queue. The settings say how many messages may come at a time."""
        self._queue = queue
        self._inbox = self._connected.there(self._opened)

    def _opened(self, connection: Connection) -> None:
        headers = {"activemq.prefetchSize": str(self._settings.unit)}
        # to Artemis the size is one of bytes, and nothing that is acknowledged by itself gives any
        # back
        if self._auto:
            headers["consumer-window-size"] = "-1"
        connection.ask(
            stomp.Connection12.subscribe,
            self._queue,
            SUBSCRIPTION,
            ack=_MODES[self._mode],
            headers=headers,
            within_s=ANSWER_S,
        )

    def receive(self, within_s: float) -> Received | None:
        """Return the next message. A message of a lost connection is returned only if the broker
        will not give it again.

        In a transaction the message is acknowledged at once, as by a JMS session. The
        acknowledgement takes effect with the commit, if the broker supports that.
        """
        if self._inbox is None or (self._inbox.gone and not self._auto):
            self._inbox = self._connected.there(self._opened)
        try:
            frame = self._inbox.inbox.get(timeout=within_s)
        except queue.Empty:
            return None
        if frame is None:
            self._inbox = None
            return None
        headers, name = frame.headers, frame.headers.get("ack", "")
        if self._mode is Acknowledge.TRANSACTED:
            try:
                name = _bound(self._inbox, name)
            except GoneError:
                return None
        return Received(
            headers["message-id"],
            frame.body,
            headers.get("redelivered") == "true",
            Token(self._inbox, name),
        )

    def acknowledge(self, given: Received) -> None:
        """Send the acknowledgement, or the commit, on the connection that brought the message, and
        wait for its receipt.
        """
        if not self._auto:
            transacted = self._mode is Acknowledge.TRANSACTED
            self._say(
                stomp.Connection12.commit if transacted else stomp.Connection12.ack, given.token
            )

    def refuse(self, given: Received, *, for_good: bool) -> None:
        """Send NACK. In STOMP only the end of the connection makes the broker deliver a message
        again.
        """
        if for_good:
            self._say(stomp.Connection12.nack, given.token)
        else:
            self._connected.close()

    def _say(self, act: Callable[..., None], token: Token) -> None:
        try:
            token.connection.ask(act, token.name, within_s=self._receipt_s)
        except ClientError:
            self._connected.close()
            raise


def _bound(connection: Connection, name: str) -> str:
    """Begin a transaction, acknowledge a message in it, and return its name. Only its commit is
    answered.

    Raises:
        GoneError: the connection is gone.
    """
    transaction = f"t{next(_NUMBERS)}"
    connection.ask(stomp.Connection12.begin, transaction, within_s=None)
    connection.ask(stomp.Connection12.ack, name, transaction=transaction, within_s=None)
    return transaction


def make_producer(stage: Stage, *, transactional_id: str) -> StompProducer:  # noqa: ARG001 - a transaction is its connection's
    """Return a producer with the stage's settings."""
    return StompProducer(stage)


def make_consumer(stage: Stage) -> StompConsumer:
    """Return a consumer with the stage's settings."""
    return StompConsumer(stage)
