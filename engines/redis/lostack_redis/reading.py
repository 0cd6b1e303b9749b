"""What commands and answers are about. Pure: words in, values out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lostack_redis.content import Content, of_entry, of_unacknowledged, of_value
from lostack_redis.steps import ACKS, CLAIMS, MOVES, POPS, SCRIPTS, SENDS, Command

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lostack_redis.resp import Value

_ID: Final = re.compile(rb"\d+(-(\d+|\*))?|\*")
_TRIMS: Final = (b"MAXLEN", b"MINID")
_PAIR: Final = 2


@dataclass(frozen=True, slots=True)
class CarriedMessage:
    """A message in a command or an answer. ``name``: the id of an entry, or the delivery tag of
    Kombu's; ``key``: the stream, list or hash.
    """

    key: bytes
    name: bytes | None
    content: Content
    again: bool = False
    """Whether it was given before."""


@dataclass(frozen=True, slots=True)
class AcknowledgedMessages:
    """The messages that a command acknowledges: their names, or themselves."""

    key: bytes
    names: tuple[bytes, ...] = ()
    values: tuple[Content, ...] = ()


def step_of(words: Sequence[bytes]) -> str:
    """Return the name of a command's step.

    >>> step_of([b"xadd", b"q"]), step_of([b""])
    ('XADD', 'unnamed')
    """
    name = words[0].decode("ascii", "replace").upper() if words else ""
    return name if name.isascii() and name.isprintable() and name else "unnamed"


def key_of(step: str, words: Sequence[bytes]) -> bytes | None:
    """Return the first key of a command that sends, gives or acknowledges."""
    if step == Command.XREADGROUP:
        streams = _streams(words)
        return streams[0][0] if streams else None
    if step in SCRIPTS:
        return words[3] if len(words) > 3 and words[2].isdigit() and int(words[2]) else None  # noqa: PLR2004
    known = step in {*SENDS, *CLAIMS, *POPS, *MOVES, *ACKS, Command.HSET}
    return words[1] if known and len(words) > 1 else None


def sent(step: str, words: Sequence[bytes]) -> Iterator[CarriedMessage]:
    """Yield the messages that a command sends. The arguments of a script may be the fields of an
    entry, or a value each.
    """
    key = key_of(step, words)
    if key is None:
        return
    if step == Command.XADD:
        if fields := entry_of(words)[1]:
            yield CarriedMessage(key, None, of_entry(fields))
    elif step in (Command.LPUSH, Command.RPUSH):
        for value in words[2:]:
            content = of_value(value)
            yield CarriedMessage(key, content.tag, content)
    elif step in SENDS:
        arguments = words[3 + int(words[2]) :]
        if arguments:
            yield CarriedMessage(key, None, of_entry(arguments))
        for value in arguments:
            yield CarriedMessage(key, None, of_value(value))


def entry_of(words: Sequence[bytes]) -> tuple[bytes | None, Sequence[bytes]]:
    """Return the id that an XADD asks for, and the fields of its entry.

    >>> entry_of([b"XADD", b"q", b"MAXLEN", b"~", b"9", b"*", b"value", b"a"])
    (b'*', [b'value', b'a'])
    """
    at = 2
    while at < len(words) and not _ID.fullmatch(words[at]):
        if words[at].upper() in _TRIMS:
            at += 1 + (b"".join(words[at + 1 : at + 2]) in (b"~", b"="))
        elif words[at].upper() == b"LIMIT":
            at += 1
        at += 1
    return (words[at], words[at + 1 :]) if at < len(words) else (None, [])


def kept(step: str, words: Sequence[bytes]) -> Iterator[CarriedMessage]:
    """Yield the messages that an HSET keeps until they are acknowledged, as Kombu does."""
    if step == Command.HSET:
        for name, value in zip(words[2::2], words[3::2], strict=False):
            yield CarriedMessage(words[1], name, of_unacknowledged(value))


def taken(step: str, words: Sequence[bytes]) -> AcknowledgedMessages | None:
    """Return what a command acknowledges; ``None`` if it acknowledges nothing."""
    key = key_of(step, words)
    if key is None or step not in ACKS:
        return None
    if step == Command.XACK:
        return AcknowledgedMessages(key, tuple(words[3:]))
    if step == Command.LREM:
        return AcknowledgedMessages(key, values=tuple(map(of_value, words[3:4])))
    return AcknowledgedMessages(key, tuple(words[2:]))


def given(step: str, asked: Sequence[bytes], answer: Value) -> Iterator[CarriedMessage]:
    """Yield the messages that an answer gives."""
    if step == Command.XREADGROUP:
        history = {key for key, start in _streams(asked) if start != b">"}
        for key, entries in _pairs(answer):
            if isinstance(key, bytes):
                yield from _entries(key, entries, again=key in history)
    elif step in CLAIMS:
        yield from _claimed(step, asked, answer)
    elif step in {*POPS, *MOVES}:
        yield from _popped(step, asked, answer)


def _claimed(step: str, asked: Sequence[bytes], answer: Value) -> Iterator[CarriedMessage]:
    key = key_of(step, asked)
    entries = answer
    if step == Command.XAUTOCLAIM and isinstance(answer, list):
        entries = answer[1] if len(answer) > 1 else None
    if key is not None:
        yield from _entries(key, entries, again=True)


def _popped(step: str, asked: Sequence[bytes], answer: Value) -> Iterator[CarriedMessage]:
    """Yield the values that were taken off a list. BRPOP and BLPOP say of which."""
    key: Value = key_of(step, asked)
    values = answer if isinstance(answer, list) else [answer]
    if step in (Command.BRPOP, Command.BLPOP):
        key, *values = values if len(values) == _PAIR else (None,)
    for value in values:
        if isinstance(key, bytes) and isinstance(value, bytes):
            content = of_value(value)
            yield CarriedMessage(key, content.tag, content)


def _streams(words: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
    """Return the streams that an XREADGROUP reads, each with where it starts."""
    upper = [word.upper() for word in words]
    if b"STREAMS" not in upper:
        return []
    rest = words[upper.index(b"STREAMS") + 1 :]
    half = len(rest) // 2
    return list(zip(rest[:half], rest[half:], strict=False))


def _pairs(value: Value) -> Iterator[tuple[Value, Value]]:
    """Yield the pairs of a map: of RESP 2 a list of pairs, of RESP 3 keys and values in turn."""
    if not isinstance(value, list):
        return
    if value and all(isinstance(each, list) and len(each) == _PAIR for each in value):
        for each in value:
            if isinstance(each, list):
                yield each[0], each[1]
    else:
        yield from zip(value[::2], value[1::2], strict=False)


def _entries(key: bytes, entries: Value, *, again: bool) -> Iterator[CarriedMessage]:
    for each in entries if isinstance(entries, list) else ():
        if isinstance(each, list) and len(each) == _PAIR:
            name, fields = each
            if isinstance(name, bytes) and isinstance(fields, list):
                words = [word for word in fields if isinstance(word, bytes)]
                yield CarriedMessage(key, name, of_entry(words), again)
