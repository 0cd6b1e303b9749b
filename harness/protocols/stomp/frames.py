"""Find frames in a byte stream, read their headers, and make frames. Pure: bytes in, values out.

A frame is a command, headers, an empty line, a body and a null byte. There may be line ends between
frames. ``content-length`` gives the length of the body; without it, the body ends at the null byte.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.wire.protocol import Data

MOST_HEADER_BYTES: Final = 1 << 16
MOST_BODY_BYTES: Final = 1 << 30
MOST_COMMAND_BYTES: Final = 16
_HEADER_ENDS: Final = re.compile(rb"\r?\n\r?\n")
_ESCAPES: Final = {b"\\r": b"\r", b"\\n": b"\n", b"\\c": b":", b"\\\\": b"\\"}
_ESCAPE: Final = re.compile(rb"\\.?", re.DOTALL)


class NotAFrameError(ValueError):
    """The bytes at this place are not a frame."""


@dataclass(frozen=True, slots=True)
class Head:
    """A command and its headers. ``size``: the offset of the body; ``body``: its stated length (-1:
    up to a null byte).
    """

    command: str
    headers: dict[str, str]
    size: int
    body: int


def head(data: Data, *, escaped: bool) -> Head | None:
    r"""Read the command and headers before the body; ``None`` if they are not complete yet.

    >>> head(b"SEND\ndestination:/queue/a\\cb\n\nbody", escaped=True)
    Head(command='SEND', headers={'destination': '/queue/a:b'}, size=30, body=-1)

    Raises:
        NotAFrameError: a frame cannot begin with these bytes.
    """
    start = bytes(data[:MOST_COMMAND_BYTES])
    line = start.split(b"\n", 1)[0].removesuffix(b"\r")
    if not line.isalpha() or (b"\n" not in start and len(start) == MOST_COMMAND_BYTES):
        raise NotAFrameError(f"a command {line.decode('ascii', 'replace')!r}")
    found = _HEADER_ENDS.search(data, 0, MOST_HEADER_BYTES)
    if found is None:
        if len(data) >= MOST_HEADER_BYTES:
            raise NotAFrameError(f"headers of more than {MOST_HEADER_BYTES} bytes")
        return None
    lines = [each.removesuffix(b"\r") for each in bytes(data[: found.start()]).split(b"\n")]
    command = lines[0].decode("ascii", "replace")
    escaped = escaped and command not in ("CONNECT", "CONNECTED")
    headers: dict[str, str] = {}
    for each in lines[1:]:
        name, colon, value = each.partition(b":")
        if not colon:
            raise NotAFrameError("a header without a colon")
        headers.setdefault(_text(name, escaped=escaped), _text(value, escaped=escaped))
    return Head(command, headers, found.end(), _length(headers))


def _text(raw: bytes, *, escaped: bool) -> str:
    if escaped and b"\\" in raw:
        if undefined := set(_ESCAPE.findall(raw)) - _ESCAPES.keys():
            raise NotAFrameError(
                f"an escape {min(undefined).decode('ascii', 'replace')!r} that is none"
            )
        raw = _ESCAPE.sub(lambda found: _ESCAPES[found[0]], raw)
    return raw.decode("utf-8", "replace")


def _length(headers: Mapping[str, str]) -> int:
    said = headers.get("content-length")
    if said is None:
        return -1
    if (
        not (said.isascii() and said.isdecimal())
        or len(said) > len(str(MOST_BODY_BYTES))
        or int(said) > MOST_BODY_BYTES
    ):
        raise NotAFrameError(f"a body of {said[:20]!r} bytes")
    return int(said)


def made(
    command: str, headers: Mapping[str, str], body: bytes = b"", *, escaped: bool = True
) -> bytes:
    r"""Make a frame.

    >>> made("RECEIPT", {"receipt-id": "a:b"})
    b'RECEIPT\nreceipt-id:a\\cb\n\n\x00'
    """
    escaped = escaped and command not in ("CONNECT", "CONNECTED")

    def text(value: str) -> bytes:
        raw = value.encode()
        if escaped:
            for escape, plain in reversed(_ESCAPES.items()):  # the backslash first
                raw = raw.replace(plain, escape)
        return raw

    lines = [
        command.encode(),
        *(text(name) + b":" + text(value) for name, value in headers.items()),
    ]
    return b"\n".join(lines) + b"\n\n" + body + b"\0"
