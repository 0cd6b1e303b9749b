"""``[id]``: where a record's id is, and the schema by which values that are no text are read."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.model.identity import ANYWHERE, REGISTRY, Identity, ValueSchema
from harness.pipelines.refusing import DeclarationError
from harness.values.compiling import described
from harness.values.missing import SchemaError

if TYPE_CHECKING:
    from pathlib import Path

ALL = r"[\s\S]+"
URL = re.compile(r"https?://[^/@?#\s]+(/[^@?#\s]*)?")
"""Where a registry is: a host, perhaps a path, and nobody's password."""
SERVICE = re.compile(r"[a-z][a-z0-9_]*")
"""The name of a service, in the place of a URL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """Where the id of a record is found in topics and results.

    ``json`` is a dotted path into a JSON value, looked up first; ``pattern`` is a regular expression whose first group, or all of
    it, is the id. A value that is Avro, or Protobuf, is read by its schema and looked into as JSON. The schema is in a file
    beside the declaration: ``avro`` (.avsc), or ``protobuf`` (.proto, or a descriptor set) and, of several messages, which
    ``message``; what a schema registry's clients put in front of a value is no part of it. Or a schema ``registry`` has it, by
    the id that its clients put in front.
    """

    pattern: str = ALL
    where: str = ANYWHERE
    json: str = ""
    avro: str = ""
    protobuf: str = ""
    message: str = ""
    registry: str = ""

    def identity(self, folder: Path) -> Identity:
        """Return it with the schema of its file. Raises DeclarationError where that cannot be used, IdentityError of the rest."""
        given = [name for name in ("avro", "protobuf", "registry") if getattr(self, name)]
        if len(given) > 1:
            raise DeclarationError(f"id: {' and '.join(given)}: a value is read by one of the two")
        if self.message and not self.protobuf:
            raise DeclarationError("id: message means nothing without protobuf")
        schema = None
        if self.avro:
            schema = ValueSchema("avro", _read(folder / self.avro).decode("utf-8", "replace"))
        if self.protobuf:
            schema = ValueSchema("protobuf", base64.b64encode(_described(folder / self.protobuf)).decode(), self.message)
        if self.registry:
            schema = ValueSchema(REGISTRY, _registry(self.registry))
        found = Identity(self.pattern, self.where, self.json, schema)
        try:
            found.check_schema()
        except SchemaError as error:
            raise DeclarationError(f"id: {error}") from error
        return found


def _registry(named: str) -> str:
    """Return where a registry is: its URL, or that of the service of this name."""
    if SERVICE.fullmatch(named):
        return f"http://127.0.0.1:{{{named}.port}}"
    if not URL.fullmatch(named):
        raise DeclarationError(
            f"id: registry {named!r} is neither a URL (http://127.0.0.1:8081, without user and password) nor a service's name"
        )
    return named.rstrip("/")


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
        return described(file)
    except SchemaError as error:
        hint = ", or let protoc --descriptor_set_out make a descriptor set" if "pip install" in str(error) else ""
        raise DeclarationError(f"id: {error}{hint}") from error
