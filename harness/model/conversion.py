"""Plain data into typed values, from any thread.

msgspec learns a type, and those inside it, when it first meets it. Up to 0.22 another thread that
meets one of them meanwhile sees it half learnt, and the process dies (SIGSEGV). So here each type
is learnt under a lock. All of lostack reads typed data by these functions.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_LEARNT: Final[set[object]] = set()
_LEARNING: Final = threading.Lock()


def convert(
    plain: object,
    kind: type[T],
    *,
    strict: bool = True,
    dec_hook: Callable[[type, object], object] | None = None,
) -> T:
    """Return plain data as a value of a type, as ``msgspec.convert`` does.

    Raises:
        msgspec.ValidationError: the data do not fit the type.
    """
    _learn(kind)
    return msgspec.convert(plain, kind, strict=strict, dec_hook=dec_hook)


def decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """Return what decodes JSON into values of a type."""
    with _LEARNING:
        return msgspec.json.Decoder(kind)


def _learn(kind: object) -> None:
    if kind not in _LEARNT:
        with _LEARNING:
            msgspec.json.Decoder(kind)
            _LEARNT.add(kind)
