"""Read Avro values, with or without the five bytes that a schema registry's clients put in front of
a value.
"""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

from harness.values.framing import unframed
from harness.values.missing import SchemaError, library

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    from harness.model.identity import ValueSchema

MOST_SHOWN = 120
"""How many characters of a library's message are shown."""


def avro_reader(schema: ValueSchema) -> Callable[[bytes], str | None]:
    """Return a function that decodes an Avro value to JSON text; it returns ``None`` for bytes that
    are not such a value.

    Raises:
        SchemaError: the schema cannot be used.
    """
    read_whole = whole_reader(schema.text)

    def read(value: bytes) -> str | None:
        return next(
            (found for data in unframed(value) if (found := read_whole(data)) is not None), None
        )

    return read


def whole_reader(text: str, references: Sequence[str] = ()) -> Callable[[bytes], str | None]:
    """Return a function that decodes a whole Avro value, without the registry's five bytes, to JSON
    text or ``None``.

    ``references``: the schemas that ``text`` refers to. A schema comes after those that it refers
    to itself.

    Raises:
        SchemaError: ``text`` or a reference is not an Avro schema.
    """
    fastavro = library("fastavro", "avro")
    named: dict[str, object] = {}
    parsed = [_parsed(fastavro, each, named) for each in (*references, text)][-1]

    def read(data: bytes) -> str | None:
        stream = io.BytesIO(data)
        try:
            found = fastavro.schemaless_reader(stream, parsed, None)
        except Exception:  # noqa: BLE001 - whatever the library says: it is none of this schema
            return None
        return json.dumps(found, default=_text) if stream.tell() == len(data) else None

    return read


def _parsed(fastavro: ModuleType, text: str, named: dict[str, object]) -> object:
    try:
        schema = json.loads(text)
    except ValueError as error:
        raise SchemaError(f"avro: the schema is not JSON: {error}") from error
    if schema == []:
        raise SchemaError("avro: the schema is an empty union: name its types")
    if (
        isinstance(schema, dict)
        and schema.get("type") == "record"
        and not isinstance(schema.get("fields"), list)
    ):
        raise SchemaError("avro: this is not an Avro schema: a record needs a list of fields")
    try:
        return fastavro.parse_schema(schema, named)
    except KeyError as error:
        raise SchemaError(f"avro: this is not an Avro schema: {error} is missing") from error
    except fastavro.schema.UnknownType as error:
        told = (
            f"the schema names the type {str(error.name)[:MOST_SHOWN]}, which is neither Avro's "
            "nor declared in it"
        )
        raise SchemaError(f"avro: {told}") from error
    except fastavro.schema.SchemaParseException as error:
        raise SchemaError(f"avro: this is not an Avro schema: {str(error)[:MOST_SHOWN]}") from error
    except Exception as error:
        told = (
            f'{" ".join(text.split())[:40]}; write {{"type": "record", "name": …, "fields": […]}}'
        )
        raise SchemaError(f"avro: this is not an Avro schema: {told}") from error


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
