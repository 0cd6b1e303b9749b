"""How RESP is spoken, for the suite about protocols."""

from __future__ import annotations

from typing import Final

from harness.contract.speaker import FROM, TO, Said, Speaker, value
from lostack_redis.resp import command


def _opening(key: str) -> list[Said]:
    hello = command("HELLO", "3", "SETNAME", f"{key}.consumer.1")
    return [(TO, hello), (FROM, b"%1\r\n+proto\r\n:3\r\n"), (FROM, b">1\r\n+invalidate\r\n")]


def _question(key: str) -> list[Said]:
    return [(TO, command("XADD", "q", "*", "value", value(key)))]


def _large(_key: str, size: int) -> bytes:
    words = command("XADD", "q", "*", "value", "").removesuffix(b"$0\r\n\r\n")
    left = size - len(words) - len(b"$000000000\r\n\r\n")
    return words + b"$%09d\r\n" % left


SPEAKER: Final = Speaker("resp", _opening, _question, b"$3\r\n1-0\r\n", "XADD", "XADD", _large)
