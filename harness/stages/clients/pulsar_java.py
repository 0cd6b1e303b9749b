"""Pulsar's Java client, in the JVM of ``stages/jvm/PulsarBridge.java``: see :mod:`.bridge`.

Unlike the Python client, it waits for the answer to an acknowledgement, and has transactions:
messages that are sent and acknowledged in one transaction take effect together, or not at all.
Every wait for a broker has a time-out.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Final

from harness.model.record import decode
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.stages.clients.bridge import Bridge, coded, decoded, milliseconds
from harness.stages.clients.interface import ClientError, Meaning
from harness.stages.clients.queues import Received
from harness.stages.consumer_settings import SavePosition
from harness.stages.pushing import SUBSCRIPTION_NAME, Subscription

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.stages.clients.interface import Membership, Position
    from harness.stages.stage import Stage

CONNECT_S: Final = 60.0
"""How many seconds to wait for a broker that is down: longer than any restart in a cell."""
ANSWER_S: Final = 20.0
"""How many seconds a broker may take to answer a request other than sending a message."""
MADE_S: Final = 15.0
"""How many seconds it may take to make a client. After that another attempt is made."""
NOTHING: Final = "-"
_KINDS: Final = {
    Subscription.SHARED: "Shared",
    Subscription.EXCLUSIVE: "Exclusive",
    Subscription.FAILOVER: "Failover",
    Subscription.KEY_SHARED: "Key_Shared",
}
_MEANINGS: Final = {"ProducerFencedException": Meaning.FENCED}


def _transacts(stage: Stage) -> bool:
    settings = stage.settings
    return (
        settings.producer.transactional or settings.consumer.position is SavePosition.IN_TRANSACTION
    )


class Program:
    """The client of this program, and its open transaction. Producers and consumers share both."""

    def __init__(self, stage: Stage) -> None:
        self.bridge = Bridge.of_this_program(_MEANINGS)
        self._lasts_ms = stage.settings.transaction_timeout_ms
        self._refused = ""
        try:
            self.client = wait_until(
                lambda: self._made(stage),
                within_s=CONNECT_S,
                because=f"a client of {stage.bootstrap}",
                poll_s=0.05,
            )
        except WaitTimeoutError as error:
            raise ClientError("TimeoutException", f"{error}; {self._refused}") from error
        self.transaction = NOTHING
        self._in_hand: dict[str, str] = {}

    def _made(self, stage: Stage) -> str | None:
        """Return a client. A client with transactions waits for their coordinator, whatever errors
        that returns.
        """
        try:
            [client] = self.bridge.call(
                "client",
                f"pulsar://{stage.bootstrap}",
                stage.client_id,
                milliseconds(CONNECT_S),
                str(_transacts(stage)).lower(),
                milliseconds(MADE_S),
            )
        except ClientError as error:
            self._refused = str(error)
            return None
        return client

    def begin(self) -> None:
        """Begin a transaction."""
        [self.transaction] = self.bridge.call(
            "begin", self.client, self._lasts_ms, milliseconds(ANSWER_S)
        )

    def end(self, how: str) -> None:
        """End the transaction. If the outcome is unknown, the broker ends it after its time-out."""
        ended, self.transaction = self.transaction, NOTHING
        self.bridge.call(how, ended, milliseconds(ANSWER_S))

    def given(self, consumer: str, message: str) -> None:
        """Record that a consumer was given a message."""
        self._in_hand[message] = consumer

    def acknowledged(self, message: str) -> None:
        """Record that a message is acknowledged. The end of its transaction decides whether it is
        delivered again.
        """
        self._in_hand.pop(message, None)

    def give_back(self) -> None:
        """Refuse messages that were given and not acknowledged. No transaction covers them, so the
        broker would keep them.
        """
        for message, consumer in self._in_hand.items():
            self.bridge.call("refuse", consumer, message)
        self._in_hand.clear()


@cache
def _program(text: str) -> Program:
    from harness.stages.stage import Stage  # noqa: PLC0415 - it imports what chooses this module

    return Program(Stage.from_json(text))


def program_of(stage: Stage) -> Program:
    """Return the client of this program."""
    [text] = stage.environment().values()
    return _program(text)


class Sent:
    """A message that is being sent. Implements
    :class:`~harness.stages.clients.interface.Pending`.
    """

    def __init__(self, bridge: Bridge, number: str, *, silent: bool) -> None:
        self._bridge = bridge
        self._number = number
        self._silent = silent

    def wait(self, within_s: float) -> None:
        """Wait for the receipt.

        Raises:
            ClientError: the message was refused, or no receipt came in time.
        """
        if not self._silent:
            self._bridge.call("wait", self._number, milliseconds(within_s))


class PulsarProducer:
    """Implements :class:`~harness.stages.clients.interface.Producer`, of a broker that has neither
    epochs nor offsets.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._settings = stage.settings.producer
        self._program = program_of(stage)
        self._producers: dict[str, str] = {}

    def init_transactions(self) -> None:
        """Do nothing. A transaction that an earlier program left open ends by its time-out; nothing
        else can end it.
        """

    def begin(self) -> None:
        """Begin a transaction."""
        self._program.begin()

    def commit(self) -> None:
        """Commit the transaction."""
        self._program.end("commit")

    def abort(self) -> None:
        """Abort the transaction, and let the broker deliver again what was not acknowledged in it.

        Raises:
            ClientError: the transaction's outcome is unknown.
        """
        self._program.give_back()
        if self._program.transaction == NOTHING:
            raise ClientError("InvalidTxnStatus", "the transaction's outcome is unknown")
        self._program.end("abort")

    def send_offsets(self, topic: str, positions: Position, membership: Membership) -> None:
        """Raise NotImplementedError: a subscription keeps its own position."""
        raise NotImplementedError("a subscription keeps its own position")

    def send(
        self, topic: str, value: bytes, key: bytes | None, headers: Sequence[tuple[str, bytes]]
    ) -> Sent:
        """Send a message, in the open transaction if there is one. A named producer numbers it by
        its position in the source.
        """
        named = self._settings.names_records and self._program.transaction == NOTHING
        payload = decode(value) if named else None
        words = [word for name, data in headers for word in (name, coded(data))]
        [number] = self._program.bridge.call(
            "send",
            self._producer(topic),
            self._program.transaction,
            NOTHING if payload is None else payload.position,
            coded(key),
            coded(value),
            *words,
        )
        return Sent(self._program.bridge, number, silent=self._settings.acks == 0)

    def _producer(self, topic: str) -> str:
        if topic not in self._producers:
            named = (
                f"{self._stage.key}.{self._stage.name}" if self._settings.names_records else NOTHING
            )
            [self._producers[topic]] = self._program.bridge.call(
                "producer",
                self._program.client,
                topic,
                named,
                self._settings.delivery_timeout_ms,
                self._settings.unit,
                self._settings.linger_ms,
                NOTHING if self._settings.part_bytes is None else self._settings.part_bytes,
            )
        return self._producers[topic]

    def close(self, within_s: float) -> None:
        """Wait until pending messages have arrived. The client belongs to the program, and ends
        with it.
        """
        if within_s > 0:
            with suppress(ClientError):
                self._program.bridge.call("close", self._program.client, milliseconds(within_s))


class PulsarConsumer:
    """Implements :class:`~harness.stages.clients.queues.QueueConsumer`."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._settings = stage.settings.consumer
        self._program = program_of(stage)
        self._consumer = ""

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
            raise ClientError("ConsumerBusyException", error) from error

    def _subscribed(self, topic: str) -> str:
        push = self._settings.push
        try:
            [number] = self._program.bridge.call(
                "consumer",
                self._program.client,
                topic,
                SUBSCRIPTION_NAME,
                _KINDS[push.subscription],
                self._settings.unit,
                self._stage.client_id,
                str(push.receipts).lower(),
            )
        except ClientError as error:
            if (
                error.name == "ConsumerBusyException"
            ):  # the broker does not know yet that the last one is gone
                return ""
            raise
        return number

    def receive(self, within_s: float) -> Received | None:
        """Return the next message."""
        found = self._program.bridge.call("receive", self._consumer, milliseconds(within_s))
        if not found:
            return None
        token, name, times, key, value = found
        self._program.given(self._consumer, token)
        return Received(name, decoded(value) or b"", int(times) > 0, token, decoded(key))

    def acknowledge(self, given: Received) -> None:
        """Acknowledge a message, in the open transaction if there is one. Wait for the answer if
        the settings say so.
        """
        self._program.bridge.call(
            "ack",
            self._consumer,
            given.token,
            self._program.transaction,
            str(self._settings.push.cumulative).lower(),
            milliseconds(ANSWER_S),
        )
        self._program.acknowledged(given.token)

    def refuse(self, given: Received, *, for_good: bool) -> None:
        """Let the broker deliver the message again, to any consumer.

        Raises:
            ClientError: ``for_good`` is true, but Pulsar cannot refuse a message for good.
        """
        if for_good:
            raise ClientError(
                "UnsupportedOperationException", "a subscription gives again what is refused"
            )
        self._program.acknowledged(given.token)
        self._program.bridge.call("refuse", self._consumer, given.token)


def make_producer(stage: Stage, *, transactional_id: str) -> PulsarProducer:  # noqa: ARG001 - a transaction has no name
    """Return a producer with the stage's settings."""
    return PulsarProducer(stage)


def make_consumer(stage: Stage) -> PulsarConsumer:
    """Return a consumer with the stage's settings."""
    return PulsarConsumer(stage)
