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
from harness.values.secret import SecretError, place_of_secret, read_secret

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
    the id that its clients put in front. ``registry_username`` logs in there (HTTP basic authentication) with the password that
    is in ``registry_password_from``: an environment variable, or a file (``./password``, beside the declaration).
    """

    pattern: str = ALL
    where: str = ANYWHERE
    json: str = ""
    avro: str = ""
    protobuf: str = ""
    message: str = ""
    registry: str = ""
    registry_username: str = ""
    registry_password_from: str = ""

    def identity(self, folder: Path) -> Identity:
        """Return where an id is found, with the schema of its file.

        Raises:
            DeclarationError: the schema, or the log-in, cannot be used.
            IdentityError: the place or the pattern can find nothing.
        """
        given = [name for name in ("avro", "protobuf", "registry") if getattr(self, name)]
        if len(given) > 1:
            raise DeclarationError(f"id: {' and '.join(given)}: a value is read by one of the two")
        if self.message and not self.protobuf:
            raise DeclarationError("id: message means nothing without protobuf")
        self._check_login()
        schema = None
        if self.avro:
            schema = ValueSchema("avro", _read(folder / self.avro).decode("utf-8", "replace"))
        if self.protobuf:
            schema = ValueSchema("protobuf", base64.b64encode(_described(folder / self.protobuf)).decode(), self.message)
        if self.registry:
            place = self._place(folder)
            schema = ValueSchema(
                REGISTRY, _registry(self.registry), username=self.registry_username, password_from=place,
            )  # fmt: skip
        found = Identity(self.pattern, self.where, self.json, schema)
        try:
            found.check_schema()
        except SchemaError as error:
            raise DeclarationError(f"id: {error}") from error
        return found

    def _place(self, folder: Path) -> str:
        if not self.registry_username:
            return ""
        try:
            return place_of_secret(self.registry_password_from, folder)
        except SecretError as error:
            raise DeclarationError(f"id: registry_password_from {error}") from error

    def _check_login(self) -> None:
        if bool(self.registry_username) != bool(self.registry_password_from):
            raise DeclarationError("id: registry_username and registry_password_from belong together")
        if self.registry_username and not self.registry:
            raise DeclarationError("id: registry_username means nothing without registry")
        if ":" in self.registry_username:
            raise DeclarationError("id: registry_username: a name with a colon cannot log in (HTTP basic authentication)")


def check_password(identity: Identity | None) -> None:
    """Make sure that the password of the schema registry, if it wants one, can be read.

    Raises:
        DeclarationError: it is not where the declaration says.
    """
    if identity and identity.schema and identity.schema.password_from:
        try:
            read_secret(identity.schema.password_from)
        except SecretError as error:
            raise DeclarationError(f"id: registry_password_from: {error}") from error


def _registry(named: str) -> str:
    """Return where a registry is: its URL, or that of the service of this name."""
    if SERVICE.fullmatch(named):
        return f"http://127.0.0.1:{{{named}.port}}"
    if not URL.fullmatch(named):
        raise DeclarationError(
            f"id: registry {named!r} is neither a URL (http://127.0.0.1:8081; registry_username says who logs in) "
            "nor a service's name"
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
