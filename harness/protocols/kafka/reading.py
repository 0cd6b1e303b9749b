"""The readers of all frames that can be decoded, collected from the modules that have some."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from harness.protocols.kafka import codec, grouping, sharing

if TYPE_CHECKING:
    from harness.wire.rules import Direction

Content: TypeAlias = codec.Content | sharing.Content | grouping.Content
_READERS: Final = {**codec.READERS, **sharing.READERS, **grouping.READERS}


def decode(api: str, direction: Direction, version: int, payload: bytes | bytearray) -> Content:
    """Read a frame.

    Raises:
        UndecodableError: the API, its version or the body cannot be read.
    """
    reader = _READERS.get((api, direction))
    if reader is None:
        raise codec.UndecodableError(f"no reader for {api} {direction}")
    schema, read = reader
    first, last = schema.valid_versions
    if not first <= version <= last:
        raise codec.UndecodableError(f"version {version} is outside {first} to {last}")
    try:
        return read(schema.decode(payload, version=version, header=True), version)
    except Exception as error:  # the library raises whatever the bytes lead it to
        raise codec.UndecodableError(f"{type(error).__name__}: {error}".splitlines()[0]) from error


def decodable(api: str, direction: Direction) -> bool:
    """Return whether there is a reader for these frames."""
    return (api, direction) in _READERS
