"""Toxics: what a network can do to bytes. Declarations only; the server does it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, TypeAlias


class Stream(StrEnum):
    """Which way the bytes go: towards the broker, or back to the client."""

    UPSTREAM = "upstream"
    DOWNSTREAM = "downstream"


class ToxicError(ValueError):
    """A toxic that would do nothing, or that the server would silently take for another."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Every chunk of bytes is late by ``latency_ms``, give or take ``jitter_ms``."""

    type: ClassVar[str] = "latency"

    stream: Stream
    latency_ms: int
    jitter_ms: int = 0

    def __post_init__(self) -> None:
        _above(0, latency_ms=self.latency_ms)
        if not 0 <= self.jitter_ms <= self.latency_ms:
            raise ToxicError(f"a jitter of {self.jitter_ms} ms does not fit a latency of {self.latency_ms} ms")

    @property
    def attributes(self) -> dict[str, int]:
        """The server's own words for it."""
        return {"latency": self.latency_ms, "jitter": self.jitter_ms}


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """No more than ``kb_per_s`` thousand bytes a second pass; what is on its way when it is taken off goes on at once."""

    type: ClassVar[str] = "bandwidth"

    stream: Stream
    kb_per_s: int

    def __post_init__(self) -> None:
        _above(0, kb_per_s=self.kb_per_s)

    @property
    def attributes(self) -> dict[str, int]:
        """The server's own words for it."""
        return {"rate": self.kb_per_s}


@dataclass(frozen=True, slots=True)
class Slicer:
    """Bytes come in slices of ``average_bytes``, give or take ``variation_bytes``, ``delay_us`` apart."""

    type: ClassVar[str] = "slicer"

    stream: Stream
    average_bytes: int
    variation_bytes: int = 0
    delay_us: int = 0

    def __post_init__(self) -> None:
        _above(0, average_bytes=self.average_bytes)
        if not 0 <= self.variation_bytes < self.average_bytes:
            raise ToxicError(f"slices of {self.average_bytes} bytes cannot vary by {self.variation_bytes}")

    @property
    def attributes(self) -> dict[str, int]:
        """The server's own words for it."""
        return {"average_size": self.average_bytes, "size_variation": self.variation_bytes, "delay": self.delay_us}


@dataclass(frozen=True, slots=True)
class Timeout:
    """Bytes vanish. After ``timeout_ms`` the connection ends; 0: it stays until the toxic is taken off, and ends then."""

    type: ClassVar[str] = "timeout"

    stream: Stream
    timeout_ms: int = 0

    @property
    def attributes(self) -> dict[str, int]:
        """The server's own words for it."""
        return {"timeout": self.timeout_ms}


@dataclass(frozen=True, slots=True)
class ResetPeer:
    """The first bytes vanish, and ``timeout_ms`` later the connection is reset.

    A connection that stood before the toxic ends in an orderly way (FIN): the server sets its reset at the beginning.
    """

    type: ClassVar[str] = "reset_peer"

    stream: Stream
    timeout_ms: int = 0

    @property
    def attributes(self) -> dict[str, int]:
        """The server's own words for it."""
        return {"timeout": self.timeout_ms}


Toxic: TypeAlias = Latency | Bandwidth | Slicer | Timeout | ResetPeer


def name_of(toxic: Toxic) -> str:
    """Return the name a toxic has on its proxy; one of each type and stream fits.

    >>> name_of(Timeout(Stream.UPSTREAM))
    'timeout-upstream'
    """
    return f"{toxic.type}-{toxic.stream}"


def _above(least: int, **values: int) -> None:
    for name, value in values.items():
        if value <= least:
            raise ToxicError(f"{name} must be above {least}, not {value}")
