"""``[id]``: where a record's id is, and the schema by which values that are no text are read."""

from __future__ import annotations

import base64
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.model.identity import ANYWHERE, Identity, ValueSchema
from harness.pipelines.refusing import DeclarationError
from harness.values.missing import SchemaError, library

if TYPE_CHECKING:
    from collections.abc import Callable

ALL = r"[\s\S]+"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """Where the id of a record is found in topics and results.

    ``json`` is a dotted path into a JSON value, looked up first; ``pattern`` is a regular expression whose first group, or all of
    it, is the id. A value that is Avro, or Protobuf, is read by the schema in a file beside the declaration, and looked into as
    JSON: ``avro`` (.avsc), or ``protobuf`` (.proto, or a descriptor set) and, of several messages, which ``message``. What a
    schema registry's clients put in front of a value is no part of it.
    """

    pattern: str = ALL
    where: str = ANYWHERE
    json: str = ""
    avro: str = ""
    protobuf: str = ""
    message: str = ""

    def identity(self, folder: Path) -> Identity:
        """Return it with the schema of its file. Raises DeclarationError where that cannot be used, IdentityError of the rest."""
        if self.avro and self.protobuf:
            raise DeclarationError("id: avro and protobuf: a value is one of the two")
        if self.message and not self.protobuf:
            raise DeclarationError("id: message means nothing without protobuf")
        schema = None
        if self.avro:
            schema = ValueSchema("avro", _read(folder / self.avro).decode("utf-8", "replace"))
        if self.protobuf:
            schema = ValueSchema("protobuf", base64.b64encode(_described(folder / self.protobuf)).decode(), self.message)
        found = Identity(self.pattern, self.where, self.json, schema)
        try:
            found.check_schema()
        except SchemaError as error:
            raise DeclarationError(f"id: {error}") from error
        return found


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise DeclarationError(f"id: cannot read {file}: {error.strerror}") from error


def _described(file: Path) -> bytes:
    """Return a descriptor set: of a .proto by the compiler, or as it is."""
    text = _read(file)
    if file.suffix != ".proto":
        return text
    try:
        compile_: Callable[[list[str]], int] = library("grpc_tools.protoc", "protobuf").main
    except SchemaError as error:
        raise DeclarationError(f"id: {error}, or let protoc --descriptor_set_out make a descriptor set") from error
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "set"
        words = ["protoc", f"-I{file.parent}", "--include_imports", f"--descriptor_set_out={out}", str(file)]
        if compile_(words) or not out.exists():
            raise DeclarationError(f"id: {file} does not compile: protoc says why above")
        return out.read_bytes()
