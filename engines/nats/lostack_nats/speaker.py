"""How NATS is spoken, for the suite about protocols."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.contract.speaker import FROM, TO, Said, Speaker, value
from lostack_nats.steps import Op

if TYPE_CHECKING:
    from collections.abc import Iterator

REPLY: Final = "_INBOX.a.b"
ANSWER: Final = b'{"stream":"key_in", "seq":1}'


def _publish(body: bytes) -> bytes:
    return b"PUB key_in %s %d\r\n%s\r\n" % (REPLY.encode(), len(body), body)


def _opening(key: str) -> list[Said]:
    return [
        (FROM, b'INFO {"server_id":"x"}\r\n'),
        (TO, f'CONNECT {{"name":"{key}.consumer.1"}}\r\n'.encode()),
        (TO, b"SUB _INBOX.a.* 1\r\n"),
    ]


def _question(key: str) -> list[Said]:
    return [(TO, _publish(value(key)))]


def _large(_key: str, size: int) -> bytes:
    digits = len(str(size))
    body = size - len(b"PUB key_in %s \r\n\r\n" % REPLY.encode()) - digits
    return b"PUB key_in %s %0*d\r\n" % (REPLY.encode(), digits, body)


def _refused(key: str) -> Iterator[bytes]:
    yield _publish(value(key))


SPEAKER: Final = Speaker(
    "nats",
    _opening,
    _question,
    b"MSG %s 1 %d\r\n%s\r\n" % (REPLY.encode(), len(ANSWER), ANSWER),
    Op.PUBLISH,
    Op.PUBACK,
    _large,
    refused=lambda key: tuple(_refused(key)),
)
