"""Avro values, with or without the five bytes that a schema registry's clients put in front."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

from harness.values.framing import unframed
from harness.values.missing import SchemaError, library

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.model.identity import ValueSchema


def avro_reader(schema: ValueSchema) -> Callable[[bytes], str | None]:
    """Return what reads a value as JSON, or returns ``None`` where it is none. Raises SchemaError."""
    fastavro = library("fastavro", "avro")
    try:
        parsed = fastavro.parse_schema(json.loads(schema.text))
    except Exception as error:
        raise SchemaError(f"avro: no schema: {type(error).__name__}: {str(error)[:120]}") from error

    def read(value: bytes) -> str | None:
        for data in unframed(value):
            stream = io.BytesIO(data)
            try:
                found = fastavro.schemaless_reader(stream, parsed, None)
            except Exception:  # noqa: BLE001, S112 - whatever the library says: it is none of this schema
                continue
            if stream.tell() == len(data):
                return json.dumps(found, default=_text)
        return None

    return read


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
