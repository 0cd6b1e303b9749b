"""How the toy is spoken to, for the suite about protocols."""

from __future__ import annotations

from typing import Final

from harness.contract.speaker import FROM, TO, Said, Speaker, value


def _opening(key: str) -> list[Said]:
    return [(TO, f"HELLO {key}.consumer.1\n".encode()), (FROM, b"HELLO\n")]


def _question(key: str) -> list[Said]:
    return [(TO, f"PUT q a-1 {value(key).hex()}\n".encode())]


def _large(_key: str, size: int) -> bytes:
    return b"PUT q a-1 ".ljust(size - 1, b"0") + b"\n"


SPEAKER: Final = Speaker("toy", _opening, _question, b"PUT 1\n", "PUT", "PUT", _large)
