"""Clients of JMS, one for each protocol, in the JVM of ``stages/jvm/JmsBridge.java``: see :mod:`.bridge`.

The API is one, javax.jms; which library implements it says the name of the client, which is that of the protocol. That a lost
connection is made again is the program's business here, as with the client of STOMP; where the settings say that the client
retries, it is the library's, which then sends again what was not answered (``failover:``).
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
from harness.stages.clients.queues import DUPLICATE_ID, Given
from harness.stages.outbox import Outbox
from harness.stages.pushing import BY_LIBRARY, Acknowledge
from harness.stages.settings import SaveCursor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.stages.clients.interface import Membership, Position
    from harness.stages.stage import Stage

_NUMBERS: Final = itertools.count(1)
"""Of the connections of this process: a broker wants each client id once, and may not know yet that the last one is gone."""


class GoneError(ClientError):
    """The connection is lost, or was never there: nobody knows what became of what was under way."""

    def __init__(self, said: object) -> None:
        super().__init__("Disconnected", said)


@cache
def _bridge() -> Bridge:
    return Bridge.of_this_program({})


class Connected:
    """The connection of a stage that there is now, by its number in the JVM."""

    def __init__(self, stage: Stage, *, distributed: bool = False) -> None:
        self._stage = stage
        self._library = LIBRARIES[stage.client]
        self._factory = self._library.distributed if distributed else self._library.factory
        self._number: str | None = None

    @property
    def gone(self) -> bool:
        """Whether there is none."""
        return self._number is None

    def is_there(self, number: str) -> bool:
        """Say whether it is this one."""
        return self._number == number

    def there(self, opened: Callable[[str], None]) -> str:
        """Return the connection, made where there is none; of a new one, ``opened``.

        Raises:
            GoneError: the broker cannot be reached.
        """
        if self._number is None:
            try:
                self._number = wait_until(
                    lambda: self._new(opened), within_s=CONNECT_S, because=f"a broker at {self._stage.bootstrap}", poll_s=0.05
                )
            except WaitTimeoutError as error:
                raise GoneError(error) from error
        return self._number

    def _new(self, opened: Callable[[str], None]) -> str | None:
        name = f"{self._stage.client_id}-{next(_NUMBERS)}"
        try:
            [number] = _bridge().call("open", self._factory, self._library.address(self._stage), name)
        except ClientError:
            return None
        try:
            opened(number)
        except ClientError:
            _bridge().call("leave", number)
            return None
        return number

    def session(self, number: str, mode: Acknowledge) -> str:
        """Return a new session of it.

        Raises:
            ClientError: the connection is gone.
        """
        return _bridge().call("session", number, self._library.modes[mode])[0]

    def leave(self) -> None:
        """End it, and wait for nobody."""
        if self._number is not None:
            _bridge().call("leave", self._number)
            self._number = None

    def close(self) -> None:
        """End it in order: what was said before is done.

        Raises:
            ClientError: the connection is gone.
        """
        if self._number is not None:
            number, self._number = self._number, None
            _bridge().call("close", number)


class Sent:
    """A message that is answered, or is not to be. Implements :class:`~harness.stages.clients.interface.Pending`."""

    def wait(self, within_s: float) -> None:
        """Do not wait: its receipt was waited for when it was sent, for one is under way at a time."""


class JmsProducer:
    """Implements :class:`~harness.stages.clients.interface.Producer`, of a broker that has neither epochs nor offsets."""

    distributed = False
    """Whether its transactions are."""

    def __init__(self, stage: Stage) -> None:
        self._connected = Connected(stage, distributed=self.distributed)
        self._queue = stage.topic_in
        self._transacted = stage.settings.producer.transactional
        self._by_id = stage.settings.producer.idempotence and not self._transacted
        self._send = "send-unheard" if listens(stage.settings.producer) else "send"
        self._in_java = LIBRARIES[stage.client].in_java
        self._session = self._producer = ""

    def init_transactions(self) -> None:
        """Do nothing. A transaction is its session's: what was left open ended with that."""

    def begin(self) -> None:
        """Do nothing: a session is always in one."""

    def commit(self) -> None:
        """Commit what was sent since.

        Raises:
            ClientError: the broker has not confirmed it.
        """
        self._ask("commit", self._session)

    def abort(self) -> None:
        """Take back what was sent since; what was asked on a connection that is gone nobody can.

        Raises:
            GoneError: the connection is gone, and the transaction with it.
        """
        if self._connected.gone:
            raise GoneError("the transaction ended with its connection")
        self._ask("rollback", self._session)

    def send_offsets(self, topic: str, positions: Position, membership: Membership) -> None:
        """Refuse: a queue has no positions."""
        raise NotImplementedError("a queue has no positions")

    def send(self, topic: str, value: bytes, key: bytes | None, headers: Sequence[tuple[str, bytes]]) -> Sent:
        """Send a message that the broker is to keep. Where no answer is asked for, nobody learns what became of it."""
        del topic, key
        named = [*headers, (DUPLICATE_ID, (decode_id(value) or "").encode())] if self._by_id else headers
        words = [word for name, data in named for word in (name.replace("-", "_") if self._in_java else name, coded(data))]
        self._ask(self._send, self._connected.there(self._opened), self._producer, coded(value), *words)
        return Sent()

    def close(self, within_s: float) -> None:
        """Say goodbye, and wait until the broker has read everything up to there."""
        if within_s > 0:
            self._connected.close()
        else:
            self._connected.leave()

    def _opened(self, number: str) -> None:
        self._session = self._connected.session(number, Acknowledge.TRANSACTED if self._transacted else Acknowledge.AUTO)
        [self._producer] = _bridge().call("producer", number, self._session, self._queue)

    def _ask(self, *words: str) -> list[str]:
        try:
            return _bridge().call(*words)
        except ClientError:
            self._connected.leave()
            raise


class TwoPhaseProducer(JmsProducer):
    """Its transactions are distributed ones. Implements :class:`~harness.stages.clients.queues.TwoPhases`, too.

    A transaction is called after where the source stood when it began: the cursor says whether it was decided.
    """

    distributed = True

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._stage = stage
        self._outbox = Outbox(Path(stage.outbox))
        self._numbers = itertools.count(1)
        self._name = ""

    def init_transactions(self) -> None:
        """End what an earlier program has left prepared: what is decided is committed, all else rolled back."""
        if not self._stage.settings.producer.recovers:
            return
        self._connected.there(self._opened)
        cursor = self._outbox.cursor()
        for name in self._ask("xa-recover", self._session):
            key, node, began, _ = name.split(".", 3)
            if (key, node) == (self._stage.key, self._stage.name):
                self._ask("xa-commit" if cursor > int(began) else "xa-rollback", self._session, name)

    def begin(self) -> None:
        """Begin a transaction."""
        self._connected.there(self._opened)
        here = self._stage
        self._name = f"{here.key}.{here.name}.{self._outbox.cursor()}.{here.incarnation}-{next(self._numbers)}"
        self._ask("xa-start", self._session, self._name)

    def prepare(self) -> None:
        """Let the broker prepare it."""
        self._ask("xa-prepare", self._session, self._name)

    def commit(self) -> None:
        """Commit what is prepared."""
        self._ask("xa-commit", self._session, self._name)

    def abort(self) -> None:
        """Leave the transaction to who comes next: it may be prepared and decided, and that is not for this program to take back.

        Raises:
            GoneError: always.
        """
        self._connected.leave()
        raise GoneError("what was prepared is ended by who comes next")

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
        """Let messages come, as many at a time as the settings say."""
        self._queue = queue
        self._connected.there(self._opened)

    def _opened(self, number: str) -> None:
        self._session = self._connected.session(number, self._mode)
        self._listen(number)

    def _listen(self, number: str) -> None:
        [self._consumer] = _bridge().call("consumer", number, self._session, self._queue)

    def receive(self, within_s: float) -> Given | None:
        """Return the next message. What a lost connection had given and nobody has received is given again.

        Where nothing comes, and the library has gathered acknowledgements, its consumer is closed for them, and made anew.
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
        return Given(name, decoded(value) or b"", redelivered == "true", (number, token))

    def acknowledge(self, given: Given) -> None:
        """Let the library acknowledge, and wait for the answer where the settings say so.

        Raises:
            GoneError: the connection that brought it is gone.
        """
        if self._by_library:
            return
        number, token = given.token
        if not self._connected.is_there(number):
            raise GoneError("the connection that brought it is gone")
        try:
            if self._mode is Acknowledge.TRANSACTED:
                _bridge().call("commit", self._session)
            else:
                _bridge().call("acknowledge", token)
        except ClientError:
            self._connected.leave()
            raise

    def refuse(self, given: Given, *, for_good: bool) -> None:
        """Let the library deliver it again. Behind the last attempt that is allowed, the library rejects it by itself."""
        del given
        if for_good:
            raise NotImplementedError("JMS has no word for that")
        try:
            _bridge().call("rollback" if self._mode is Acknowledge.TRANSACTED else "recover", self._session)
        except ClientError:
            self._connected.leave()
            raise


def make_producer(stage: Stage, *, transactional_id: str) -> JmsProducer:  # noqa: ARG001 - a transaction is its session's
    """Return a producer with the stage's settings."""
    return TwoPhaseProducer(stage) if stage.settings.producer.cursor is SaveCursor.BETWEEN_PHASES else JmsProducer(stage)


def make_consumer(stage: Stage) -> JmsConsumer:
    """Return a consumer with the stage's settings."""
    return JmsConsumer(stage)
