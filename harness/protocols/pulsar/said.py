"""What a command of Pulsar says of itself: its request, transaction, error, place, and facts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from harness.model.record import ATTEMPT_HEADER
from harness.protocols.pulsar import frames, payload
from harness.protocols.pulsar.steps import ANSWERED_BY, ERRORS, NUMBERS, STEPS, Command
from harness.wire.protocol import PLAIN, UnableError
from harness.wire.rules import Direction

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.protocols.pulsar.frame import PulsarFrame
    from harness.protocols.pulsar.protobuf import Message

BASIC: Final = "basic"
CUMULATIVE: Final = 1
COMMITS: Final = 0
_DESCRIBED: Final = re.compile(r"^Pulsar-[A-Za-z+]+-v[0-9][^-]*-(.+)$")
"""A version of a client, behind which stands how its program describes itself."""
KEEPALIVE: Final = (Command.PING, Command.PONG)
REQUEST_FIELD: Final[Mapping[Command, int]] = {
    Command.SUBSCRIBE: 5,
    Command.PRODUCER: 3,
    Command.ACK: 8,
    Command.PARTITIONED_METADATA: 2,
    Command.LOOKUP: 2,
    Command.UNSUBSCRIBE: 2,
    Command.CLOSE_PRODUCER: 2,
    Command.CLOSE_CONSUMER: 2,
    Command.SEEK: 2,
    Command.GET_LAST_MESSAGE_ID: 2,
    Command.PARTITIONED_METADATA_RESPONSE: 2,
    Command.LOOKUP_RESPONSE: 4,
    Command.GET_LAST_MESSAGE_ID_RESPONSE: 2,
    Command.ACK_RESPONSE: 6,
}
"""Where a command has the number of the request, if not in its first field."""
NUMBERED: Final = frozenset(Command) - {
    Command.CONNECT,
    Command.CONNECTED,
    Command.SEND,
    Command.SEND_RECEIPT,
    Command.SEND_ERROR,
    Command.MESSAGE,
    Command.FLOW,
    Command.REDELIVER,
    *KEEPALIVE,
    Command.REACHED_END_OF_TOPIC,
    Command.ACTIVE_CONSUMER_CHANGE,
    Command.AUTH_CHALLENGE,
    Command.AUTH_RESPONSE,
    Command.WATCH_TOPIC_UPDATE,
    Command.TOPIC_MIGRATED,
}
TOPIC_FIELD: Final = {
    Command.SUBSCRIBE: 1,
    Command.PRODUCER: 1,
    Command.PARTITIONED_METADATA: 1,
    Command.LOOKUP: 1,
}
_TRANSACTION_FIELDS: Final[Mapping[Command, tuple[int, int]]] = {
    **{
        command: (2, 3)
        for command in Command
        if "_TXN" in command and command is not Command.NEW_TXN
    },
    Command.SEND: (4, 5),
    Command.ACK: (6, 7),
    Command.ACK_RESPONSE: (2, 3),
}
"""Where a command has the two halves, least and most, of the id of a transaction."""
_ERROR_FIELD: Final[Mapping[Command, int]] = {
    Command.SEND_ERROR: 3,
    Command.ERROR: 2,
    Command.ACK_RESPONSE: 4,
    Command.PARTITIONED_METADATA_RESPONSE: 4,
    Command.LOOKUP_RESPONSE: 6,
    Command.TC_CLIENT_CONNECT_RESPONSE: 2,
    **dict.fromkeys(
        (answer for answer in ANSWERED_BY.values() if answer is not Command.SEND_ERROR), 4
    ),
}
_NAMES: Final = {number: name for name, number in ERRORS.items()}
Place = tuple[int, int]
"""Ledger and entry. The partition may be there or not: a consumer has one, and not every
acknowledgement names it.
"""


def facts_of(frame: PulsarFrame) -> dict[str, object]:
    """Return what a command says of itself: what rules select by, and what its line in the history
    has.
    """
    said, command = frame.said, frame.step
    facts: dict[str, object] = {"topic": frame.topic, "transaction": frame.transaction}
    if command in (Command.SEND, Command.SEND_RECEIPT, Command.SEND_ERROR):
        facts |= {"producer": said.number(1), "sequence": said.number(2)}
    if frame.message is not None and payload.is_chunk(frame.message.metadata):
        metadata = frame.message.metadata
        facts |= {"message": metadata.text(payload.UUID), "part": metadata.number(payload.CHUNK)}
    if command == Command.SEND_RECEIPT and 3 in said:  # noqa: PLR2004 - message_id
        facts["place"] = written(place_of(said.inner(3)))
    if command == Command.MESSAGE:
        facts |= {
            "consumer": said.number(1),
            "place": written(place_of(said.inner(2))),
            "redelivered": said.number(3),
        }
    if command in (Command.ACK, Command.REDELIVER):
        ids = said.inners(3 if command == Command.ACK else 2)
        facts |= {"consumer": said.number(1), "places": [written(place_of(each)) for each in ids]}
    if frame.discards:
        facts["discards"] = True
    if command == Command.SUBSCRIBE:
        facts |= {"subscription": said.text(2), "shared": said.number(3)}
    if command == Command.PRODUCER:
        facts["producer"] = said.text(4)
    if command == Command.END_TXN:
        facts["commit"] = said.number(4) == COMMITS
    return {name: value for name, value in facts.items() if value is not None}


def owner_of(connect: Message) -> str | None:
    """Return the user that a CONNECT names, or how the program describes itself."""
    if connect.text(5) == BASIC:
        return connect.text(3).partition(":")[0] or None
    described = _DESCRIBED.match(connect.text(1))
    return described[1] if described else None


def transaction_of(command: Command, said: Message) -> str | None:
    """Return the transaction that a command names, if it names one."""
    fields = _TRANSACTION_FIELDS.get(command)
    return None if fields is None else payload.transaction_of(said, fields)


def place_of(message_id: Message) -> Place:
    """Return the place that a message's id names."""
    return message_id.signed(1), message_id.signed(2)


def unacknowledged_of(said: Message, field: int) -> frozenset[int]:
    """Return the places of a batch that a set (``ack_set``) says are not acknowledged yet."""
    words = said.numbers(field)
    return frozenset(n for n in range(64 * len(words)) if words[n // 64] >> n % 64 & 1)


def written(place: Place) -> str | None:
    """Return a place as a text; ``None`` where a broker names none, since it has stored nothing."""
    ledger, entry = place
    return None if ledger < 0 or entry < 0 else f"{ledger}:{entry}"


def attempt_of(single: payload.Single) -> str | None:
    """Return the attempt that a message is of, as its properties say."""
    return next(
        (
            value.decode("utf-8", "replace")
            for name, value in single.properties
            if name == ATTEMPT_HEADER
        ),
        None,
    )


def error_of(frame: PulsarFrame) -> int | str | None:
    """Return the error of an answer; 0 if it does not refuse, ``None`` if the frame is not an
    answer.
    """
    if frame.way is Direction.REQUEST or frame.step == Command.MESSAGE:
        return None
    number = _ERROR_FIELD.get(Command(frame.step))
    if number is None or number not in frame.said:
        return 0
    code = frame.said.number(number)
    return _NAMES.get(code, f"ServerError {code}")


def refusal_of(frame: PulsarFrame, error: str) -> bytes:
    """Return the answer that refuses a request.

    Raises:
        UnableError: the request gets no answer, or is never refused by this error.
    """
    if error not in STEPS.get((frame.step, Direction.REQUEST), PLAIN).errors or frame.id is None:
        raise UnableError(f"a {frame.step} cannot be refused by {error!r}")
    command = Command(frame.step)
    answer, said, code = ANSWERED_BY[command], frame.said, ERRORS[error]
    if command is Command.SEND:
        return frames.command(
            NUMBERS[answer], {1: said.number(1), 2: said.number(2), 3: code, 4: error}
        )
    request = said.number(REQUEST_FIELD.get(command, 1))
    halves = (
        {}
        if frame.transaction is None
        else dict(zip((3, 2), map(int, frame.transaction.split(":")), strict=True))
    )
    own = {1: said.number(1), 6: request} if command is Command.ACK else {1: request}
    return frames.command(NUMBERS[answer], own | halves | {4: code, 5: error})
