"""What an entry of a stream, or a value of a list, carries: the same for the wire and for the
append-only file.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness.model.record import ATTEMPT_HEADER, ORIGIN_HEADER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

VALUE: Final = "value"
"""The field in which lostack's own clients send a record."""
_OURS: Final = (ATTEMPT_HEADER, ORIGIN_HEADER)


@dataclass(frozen=True, slots=True)
class Content:
    """The body of a message, and its properties. ``tag``: the delivery tag in a message of
    Kombu's.
    """

    body: bytes
    properties: Mapping[str, str]
    tag: bytes | None = None

    @property
    def attempt(self) -> str | None:
        """The attempt by which lostack's own client has sent it."""
        return self.properties.get(ATTEMPT_HEADER)

    @property
    def origin(self) -> str | None:
        """The copy from which lostack's own processor has made it."""
        return self.properties.get(ORIGIN_HEADER)


def of_entry(fields: Sequence[bytes]) -> Content:
    r"""Return the content of an entry: its only field, or all of them as JSON.

    >>> of_entry([b"value", b"a", b"lostack-attempt", b"p-1.0.2"]).body
    b'a'
    >>> of_entry([b"order", b"17", b"sum", b"4"]).body
    b'{"order": "17", "sum": "4"}'
    """
    named = {
        name.decode("utf-8", "replace"): value
        for name, value in zip(fields[::2], fields[1::2], strict=False)
    }
    properties = {name: value.decode("utf-8", "replace") for name, value in named.items()}
    theirs = {name: value for name, value in named.items() if name not in _OURS}
    if len(theirs) == 1:
        return Content(next(iter(theirs.values())), properties)
    return Content(json.dumps({name: properties[name] for name in theirs}).encode(), properties)


def of_value(value: bytes) -> Content:
    """Return the content of a list's value: of a message of Kombu's its body, else the value
    itself.
    """
    told = _kombu(value)
    if told is None:
        return Content(value, {})
    message, properties, body = told
    headers = message.get("headers")
    tag = properties.get("delivery_tag")
    named = {
        str(name): text
        for name, text in (headers if isinstance(headers, dict) else {}).items()
        if isinstance(text, str)
    }
    return Content(
        _decoded(body, properties), named, tag.encode() if isinstance(tag, str) else None
    )


def of_unacknowledged(value: bytes) -> Content:
    """Return the content of a message that Kombu keeps until it is acknowledged: ``[message,
    exchange, key]``.
    """
    try:
        kept = json.loads(value)
    except (ValueError, RecursionError):
        return Content(value, {})
    if isinstance(kept, list) and kept and isinstance(kept[0], dict):
        return of_value(json.dumps(kept[0]).encode())
    return Content(value, {})


def _kombu(value: bytes) -> tuple[dict[str, object], dict[str, object], str] | None:
    if not value.startswith(b"{"):
        return None
    try:
        message = json.loads(value)
    except (ValueError, RecursionError):
        return None
    properties, body = message.get("properties"), message.get("body")
    if not isinstance(properties, dict) or not isinstance(body, str):
        return None
    return message, properties, body


def _decoded(body: str, properties: Mapping[str, object]) -> bytes:
    if properties.get("body_encoding") != "base64":
        return body.encode()
    try:
        return base64.b64decode(body, validate=True)
    except binascii.Error:
        return body.encode()
