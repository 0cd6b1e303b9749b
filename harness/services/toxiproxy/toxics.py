"""Toxics: what Toxiproxy can do to a connection's bytes. These are declarations; the server carries
them out.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, TypeAlias


class Stream(StrEnum):
    """The direction of the bytes: towards the broker, or back to the client."""

    UPSTREAM = "upstream"
    DOWNSTREAM = "downstream"


class ToxicError(ValueError):
    """A toxic's values would have no effect, or the server would silently read them as others."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Delays every chunk of bytes by ``latency_ms``, plus or minus ``jitter_ms``."""

    type: ClassVar[str] = "latency"

    stream: Stream
    latency_ms: int
    jitter_ms: int = 0

    def __post_init__(self) -> None:
        _above_zero(latency_ms=self.latency_ms)
        if not 0 <= self.jitter_ms <= self.latency_ms:
            raise ToxicError(
                f"the jitter must be between 0 and the latency of {self.latency_ms} ms, not "
                f"{self.jitter_ms} ms"
            )

    @property
    def attributes(self) -> dict[str, int]:
        """The toxic's attributes, as the server names them."""
        return {"latency": self.latency_ms, "jitter": self.jitter_ms}


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """Lets at most ``kb_per_s`` thousand bytes pass in a second. When it is removed, bytes on their
    way arrive at once.
    """

    type: ClassVar[str] = "bandwidth"

    stream: Stream
    kb_per_s: int

    def __post_init__(self) -> None:
        _above_zero(kb_per_s=self.kb_per_s)

    @property
    def attributes(self) -> dict[str, int]:
        """The toxic's attributes, as the server names them."""
        return {"rate": self.kb_per_s}


@dataclass(frozen=True, slots=True)
class Slicer:
    """Cuts the bytes into slices of ``average_bytes``, plus or minus ``variation_bytes``,
    ``delay_us`` apart.
    """

    type: ClassVar[str] = "slicer"

    stream: Stream
    average_bytes: int
    variation_bytes: int = 0
    delay_us: int = 0

    def __post_init__(self) -> None:
        _above_zero(average_bytes=self.average_bytes)
        if not 0 <= self.variation_bytes < self.average_bytes:
            raise ToxicError(
                f"slices of {self.average_bytes} bytes cannot vary by {self.variation_bytes} "
                "bytes: give less"
            )

    @property
    def attributes(self) -> dict[str, int]:
        """The toxic's attributes, as the server names them."""
        return {
            "average_size": self.average_bytes,
            "size_variation": self.variation_bytes,
            "delay": self.delay_us,
        }


@dataclass(frozen=True, slots=True)
class Timeout:
    """Drops all bytes, and closes the connection after ``timeout_ms``; 0: closes it when the toxic
    is removed.
    """

    type: ClassVar[str] = "timeout"

    stream: Stream
    timeout_ms: int = 0

    @property
    def attributes(self) -> dict[str, int]:
        """The toxic's attributes, as the server names them."""
        return {"timeout": self.timeout_ms}


@dataclass(frozen=True, slots=True)
class ResetPeer:
    """Drops all bytes, and resets the connection ``timeout_ms`` after the first.

    A connection that was open before the toxic is closed in order (FIN), because the server
    prepares the reset when a connection begins.
    """

    type: ClassVar[str] = "reset_peer"

    stream: Stream
    timeout_ms: int = 0

    @property
    def attributes(self) -> dict[str, int]:
        """The toxic's attributes, as the server names them."""
        return {"timeout": self.timeout_ms}


Toxic: TypeAlias = Latency | Bandwidth | Slicer | Timeout | ResetPeer


def name_of(toxic: Toxic) -> str:
    """Return the name of a toxic on its proxy. A proxy can have one toxic of each type and stream.

    >>> name_of(Timeout(Stream.UPSTREAM))
    'timeout-upstream'
    """
    return f"{toxic.type}-{toxic.stream}"


def _above_zero(**values: int) -> None:
    for name, value in values.items():
        if value <= 0:
            raise ToxicError(f"{name} must be above 0, not {value}")
