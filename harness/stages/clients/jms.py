"""Clients of JMS, one for each protocol, in the JVM of ``stages/jvm/JmsBridge.java``: see
:mod:`.bridge`.

All use the same API, javax.jms. The client's name is that of the protocol, and selects the library
that implements it. This program reconnects after a lost connection, as with the STOMP client. If
the settings let the client retry, the library does so instead, and sends again what was not
answered (``failover:``).
"""

from __future__ import annotations

import itertools
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.model.record import decode_id
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.stages.clients.bridge import Bridge, coded, decoded, milliseconds
from harness.stages.clients.interface import ClientError
from harness.stages.clients.jms_libraries import CONNECT_S, LIBRARIES, listens
from harness.stages.clients.queues import (
    DUPLICATE_ID,
    GoneError,
    Received,
    Sent,
    WithoutPositions,
)
from harness.stages.outbox import Outbox
from harness.stages.producer_settings import SaveCursor
from harness.stages.pushing import BY_LIBRARY, Acknowledge

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.stages.stage import Stage

_NUMBERS: Final = itertools.count(1)
"""Numbers the connections of this process. A broker accepts each client id once, and may not have
noticed the last one's end.
"""


@cache
def _bridge() -> Bridge:
    return Bridge.of_this_program({})


class Connected:
    """The current connection of a stage, by its number in the JVM."""

    def __init__(self, stage: Stage, *, distributed: bool = False) -> None:
        self._stage = stage
        self._library = LIBRARIES[stage.client]
        self._factory = self._library.distributed if distributed else self._library.factory
        self._number: str | None = None

    @property
    def gone(self) -> bool:
        """Whether there is no connection."""
        return self._number is None

    def is_there(self, number: str) -> bool:
        """Return whether the connection with this number is the current one."""
        return self._number == number

    def there(self, opened: Callable[[str], None]) -> str:
        """Return the connection; make it if there is none, and then call ``opened`` with it.

        Raises:
            GoneError: the broker cannot be reached.
        """
        if self._number is None:
            try:
                self._number = wait_until(
                    lambda: self._new(opened),
                    within_s=CONNECT_S,
                    because=f"a broker at {self._stage.bootstrap}",
                    poll_s=0.05,
                )
            except WaitTimeoutError as error:
                raise GoneError(error) from error
        return self._number

    def _new(self, opened: Callable[[str], None]) -> str | None:
        name = f"{self._stage.client_id}-{next(_NUMBERS)}"
        try:
            [number] = _bridge().call(
                "open", self._factory, self._library.address(self._stage), name
            )
        except ClientError:
            return None
        try:
            opened(number)
        except ClientError:
            _bridge().call("leave", number)
            return None
        return number

    def session(self, number: str, mode: Acknowledge) -> str:
        """Return a new session of a connection.

        Raises:
            ClientError: the connection is gone.
        """
        return _bridge().call("session", number, self._library.modes[mode])[0]

    def leave(self) -> None:
        """Close the connection without waiting for anything."""
        if self._number is not None:
            _bridge().call("leave", self._number)
            self._number = None

    def close(self) -> None:
        """Close the connection in order: earlier requests are carried out.

        Raises:
            ClientError: the connection is gone.
        """
        if self._number is not None:
            number, self._number = self._number, None
            _bridge().call("close", number)


class JmsProducer(WithoutPositions):
    """Implements :class:`~harness.stages.clients.interface.Producer`, of a broker that has neither
    epochs nor offsets.
    """

    distributed = False
    """Whether its transactions are."""

    def __init__(self, stage: Stage) -> None:
        self._connected = Connected(stage, distributed=self.distributed)
        self._queue = stage.topic_in
        self._transacted = stage.settings.producer.transactional
        self._by_id = stage.settings.producer.by_id
        self._send = "send-unheard" if listens(stage.settings.producer) else "send"
        self._in_java = LIBRARIES[stage.client].in_java
        self._session = self._producer = ""

    def init_transactions(self) -> None:
        """Do nothing. A transaction belongs to its session, and an open one ended with
        the session.
        """

    def begin(self) -> None:
        """Do nothing: a session is always in a transaction."""

    def commit(self) -> None:
        """Commit the messages sent since the last commit.

        Raises:
            ClientError: the broker has not confirmed the commit.
        """
        self._ask("commit", self._session)

    def abort(self) -> None:
        """Roll back the messages sent since the last commit.

        Raises:
            GoneError: the connection is gone, and the transaction with it.
        """
        if self._connected.gone:
            raise GoneError("the transaction ended with its connection")
        self._ask("rollback", self._session)

    def send(
        self, topic: str, value: bytes, key: bytes | None, headers: Sequence[tuple[str, bytes]]
    ) -> Sent:
        """Send a persistent message. If no answer is requested, its outcome stays unknown."""
        del topic, key
        named = (
            [*headers, (DUPLICATE_ID, (decode_id(value) or "").encode())]
            if self._by_id
            else headers
        )
        words = [
            word
            for name, data in named
            for word in (name.replace("-", "_") if self._in_java else name, coded(data))
        ]
        self._ask(
            self._send, self._connected.there(self._opened), self._producer, coded(value), *words
        )
        return Sent()

    def close(self, within_s: float) -> None:
        """Close the connection, after the broker has read everything before."""
        if within_s > 0:
            self._connected.close()
        else:
            self._connected.leave()

    def _opened(self, number: str) -> None:
        self._session = self._connected.session(
            number, Acknowledge.TRANSACTED if self._transacted else Acknowledge.AUTO
        )
        [self._producer] = _bridge().call("producer", number, self._session, self._queue)

    def _ask(self, *words: str) -> list[str]:
        try:
            return _bridge().call(*words)
        except ClientError:
            self._connected.leave()
            raise


class TwoPhaseProducer(JmsProducer):
    """A producer with distributed transactions (XA). Implements
    :class:`~harness.stages.clients.queues.TwoPhases`, too.

    A transaction is named after the source's position at its beginning. So the source's cursor
    shows whether it was decided.
    """

    distributed = True

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._stage = stage
        self._outbox = Outbox(Path(stage.outbox))
        self._numbers = itertools.count(1)
        self._name = ""

    def init_transactions(self) -> None:
        """End the prepared transactions of an earlier program: commit those that were decided, roll
        back all others.
        """
        if not self._stage.settings.producer.recovers:
            return
        self._connected.there(self._opened)
        cursor = self._outbox.cursor()
        for name in self._ask("xa-recover", self._session):
            key, node, began, _ = name.split(".", 3)
            if (key, node) == (self._stage.key, self._stage.name):
                self._ask(
                    "xa-commit" if cursor > int(began) else "xa-rollback", self._session, name
                )

    def begin(self) -> None:
        """Begin a transaction."""
        self._connected.there(self._opened)
        here = self._stage
        number = f"{here.incarnation}-{next(self._numbers)}"
        self._name = f"{here.key}.{here.name}.{self._outbox.cursor()}.{number}"
        self._ask("xa-start", self._session, self._name)

    def prepare(self) -> None:
        """Let the broker prepare the transaction."""
        self._ask("xa-prepare", self._session, self._name)

    def commit(self) -> None:
        """Commit the prepared transaction."""
        self._ask("xa-commit", self._session, self._name)

    def abort(self) -> None:
        """Leave the transaction to the next program: it may be prepared and decided, so it must not
        be rolled back here.

        Raises:
            GoneError: always.
        """
        self._connected.leave()
        raise GoneError("the next program ends what was prepared")

    def _opened(self, number: str) -> None:
        [self._session] = _bridge().call("xa-session", number)
        [self._producer] = _bridge().call("producer", number, self._session, self._queue)


class JmsConsumer:
    """Implements :class:`~harness.stages.clients.queues.QueueConsumer`."""

    def __init__(self, stage: Stage) -> None:
        self._mode = stage.settings.consumer.acknowledges
        self._by_library = self._mode in BY_LIBRARY
        self._gathers = self._mode in LIBRARIES[stage.client].gathers
        self._connected = Connected(stage)
        self._queue = ""
        self._session = self._consumer = ""

    def subscribe(self, queue: str) -> None:
        """Subscribe to the queue. The settings say how many messages may come at a time."""
        self._queue = queue
        self._connected.there(self._opened)

    def _opened(self, number: str) -> None:
        self._session = self._connected.session(number, self._mode)
        self._listen(number)

    def _listen(self, number: str) -> None:
        [self._consumer] = _bridge().call("consumer", number, self._session, self._queue)

    def receive(self, within_s: float) -> Received | None:
        """Return the next message. The broker gives unreceived messages of a lost connection again.

        If no message comes and the library holds back acknowledgements, its consumer is closed,
        which sends them, and made anew.
        """
        number = self._connected.there(self._opened)
        try:
            found = _bridge().call("receive", number, self._consumer, milliseconds(within_s))
            if not found and self._gathers:
                _bridge().call("close-consumer", self._consumer)
                self._listen(number)
        except ClientError:
            self._connected.leave()
            return None
        if not found:
            return None
        token, name, redelivered, _, value = found
        return Received(name, decoded(value) or b"", redelivered == "true", (number, token))

    def acknowledge(self, given: Received) -> None:
        """Acknowledge a message, and wait for the answer if the settings say so.

        Raises:
            GoneError: the connection that brought the message is gone.
        """
        if self._by_library:
            return
        number, token = given.token
        if not self._connected.is_there(number):
            raise GoneError("the connection that brought the message is gone")
        try:
            if self._mode is Acknowledge.TRANSACTED:
                _bridge().call("commit", self._session)
            else:
                _bridge().call("acknowledge", token)
        except ClientError:
            self._connected.leave()
            raise

    def refuse(self, given: Received, *, for_good: bool) -> None:
        """Let the library deliver the message again. After the last allowed attempt, the library
        rejects it by itself.
        """
        del given
        if for_good:
            raise NotImplementedError("JMS has no word for that")
        try:
            _bridge().call(
                "rollback" if self._mode is Acknowledge.TRANSACTED else "recover", self._session
            )
        except ClientError:
            self._connected.leave()
            raise


def make_producer(stage: Stage, *, transactional_id: str) -> JmsProducer:  # noqa: ARG001 - a transaction is its session's
    """Return a producer with the stage's settings."""
    return (
        TwoPhaseProducer(stage)
        if stage.settings.producer.cursor is SaveCursor.BETWEEN_PHASES
        else JmsProducer(stage)
    )


def make_consumer(stage: Stage) -> JmsConsumer:
    """Return a consumer with the stage's settings."""
    return JmsConsumer(stage)
