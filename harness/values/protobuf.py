"""Read Protobuf values by a descriptor set, with or without the header of a schema registry's
clients.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from harness.values.framing import unframed, without_indexes
from harness.values.missing import SchemaError, library

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from harness.model.identity import ValueSchema


class Messages:
    """The message types of a descriptor set."""

    def __init__(self, described: bytes) -> None:
        """Read a descriptor set.

        Raises:
            SchemaError: the bytes are not a descriptor set.
        """
        sets = library("google.protobuf.descriptor_pb2", "protobuf")
        pools = library("google.protobuf.descriptor_pool", "protobuf")
        self._factory = library("google.protobuf.message_factory", "protobuf")
        self._formats = library("google.protobuf.json_format", "protobuf")
        self._set, self._pool = sets.FileDescriptorSet(), pools.DescriptorPool()
        try:
            self._set.ParseFromString(described)
            for file in self._set.file:
                self._pool.Add(file)
        except Exception as error:
            raise SchemaError(
                f"protobuf: not a descriptor set: {type(error).__name__}: {str(error)[:120]}"
            ) from error

    @property
    def names(self) -> list[str]:
        """The full names of the top-level message types."""
        return [
            _full(file.package, each.name) for file in self._set.file for each in file.message_type
        ]

    def name_at(self, file: str, at: Sequence[int]) -> str:
        """Return the full name of the message type at the indexes ``at`` of the source ``file``.

        Raises:
            SchemaError: there is no such message.
        """
        found = next(each for each in self._set.file if each.name == file)
        name, inside = found.package, found.message_type
        for index in at:
            if not 0 <= index < len(inside):
                raise SchemaError(f"protobuf: the schema has no message {list(at)}")
            name, inside = _full(name, inside[index].name), inside[index].nested_type
        return str(name)

    def reader(self, name: str) -> Callable[[bytes], str | None]:
        """Return a function that decodes a message without a header to JSON text, or returns
        ``None`` if it cannot.

        Raises:
            SchemaError: there is no such message.
        """
        try:
            kind = self._factory.GetMessageClass(self._pool.FindMessageTypeByName(name))
        except KeyError as error:
            raise SchemaError(
                f"protobuf: no message is called {name}; there are: {', '.join(self.names)}"
            ) from error

        def read(data: bytes) -> str | None:
            message = kind()
            try:
                message.ParseFromString(data)
                return str(
                    self._formats.MessageToJson(
                        message, preserving_proto_field_name=True, indent=None
                    )
                )
            except Exception:  # noqa: BLE001 - whatever the library says: it is none of these messages
                return None

        return read


def protobuf_reader(schema: ValueSchema) -> Callable[[bytes], str | None]:
    """Return a function that decodes a Protobuf value to JSON text, or returns ``None`` if it is
    not such a message.

    ``schema.text``: a FileDescriptorSet in base 64. ``schema.message``: the full name of the
    message type; empty if the set has only one.

    Raises:
        SchemaError: the schema cannot be used.
    """
    messages = Messages(base64.b64decode(schema.text))
    if not schema.message and len(messages.names) != 1:
        raise SchemaError(
            "protobuf: say which message a value is (message = ...); there are: "
            f"{', '.join(messages.names)}"
        )
    read_whole = messages.reader(schema.message or messages.names[0])

    def read(value: bytes) -> str | None:
        return next(
            (found for data in _possible(value) if (found := read_whole(data)) is not None), None
        )

    return read


def _full(package: str, name: str) -> str:
    return f"{package}.{name}".lstrip(".")


def _possible(value: bytes) -> Iterator[bytes]:
    """Yield the candidates for the message's bytes. No message begins with a zero byte."""
    for data in unframed(value):
        if data is not value:
            yield without_indexes(data)
        elif value[:1] != b"\0":
            yield value
