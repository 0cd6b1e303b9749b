"""Protobuf values, by a descriptor set; framed by a schema registry's clients or not."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from harness.values.framing import unframed, without_indexes
from harness.values.missing import SchemaError, library

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from harness.model.identity import ValueSchema


def protobuf_reader(schema: ValueSchema) -> Callable[[bytes], str | None]:
    """Return what reads a message as JSON, or returns ``None`` where it is none. Raises SchemaError.

    ``schema.text``: a FileDescriptorSet in base 64; ``schema.message``: the full name of the message, or of the only one.
    """
    sets, pools = library("google.protobuf.descriptor_pb2", "protobuf"), library("google.protobuf.descriptor_pool", "protobuf")
    factory = library("google.protobuf.message_factory", "protobuf")
    formats = library("google.protobuf.json_format", "protobuf")
    described, pool = sets.FileDescriptorSet(), pools.DescriptorPool()
    try:
        described.ParseFromString(base64.b64decode(schema.text))
        for file in described.file:
            pool.Add(file)
    except Exception as error:
        raise SchemaError(f"protobuf: no descriptor set: {type(error).__name__}: {str(error)[:120]}") from error
    there = [f"{file.package}.{each.name}".lstrip(".") for file in described.file for each in file.message_type]
    if not schema.message and len(there) != 1:
        raise SchemaError(f"protobuf: say which message a value is (message = ...); there are: {', '.join(there)}")
    try:
        kind = factory.GetMessageClass(pool.FindMessageTypeByName(schema.message or there[0]))
    except KeyError as error:
        raise SchemaError(f"protobuf: no message is called {schema.message}; there are: {', '.join(there)}") from error

    def read(value: bytes) -> str | None:
        for data in _possible(value):
            message = kind()
            try:
                message.ParseFromString(data)
                return str(formats.MessageToJson(message, preserving_proto_field_name=True, indent=None))
            except Exception:  # noqa: BLE001, S112 - whatever the library says: it is none of these messages
                continue
        return None

    return read


def _possible(value: bytes) -> Iterator[bytes]:
    """Yield what may be the message: no message begins with a zero."""
    for data in unframed(value):
        if data is not value:
            yield without_indexes(data)
        elif value[:1] != b"\0":
            yield value
