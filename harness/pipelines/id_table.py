"""The table ``[id]``: where a record's id is found, and the schema by which binary
values are read.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.model.identity import ANYWHERE, REGISTRY, Identity, ValueSchema
from harness.model.safe_files import read_named
from harness.pipelines.refusing import DeclarationError
from harness.values.compiling import described
from harness.values.missing import SchemaError
from harness.values.secret import SecretError, place_of_secret, read_secret

if TYPE_CHECKING:
    from pathlib import Path

ALL = r"[\s\S]+"
URL = re.compile(r"https?://[^/@?#\s]+(/[^@?#\s]*)?")
"""A registry's URL: a host and perhaps a path, but no password."""
SERVICE = re.compile(r"[a-z][a-z0-9_]*")
"""The name of a service, instead of a URL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdTable:
    """Where the id of a record is found in topics and results.

    ``json`` is a dotted path into a JSON value, which is looked up first; in a row of a table
    the path begins with the name of a column. ``pattern`` is a regular expression; its first group,
    or else all of it, is the id. An Avro or Protobuf value is read by
    its schema and then treated as JSON. The schema is in a file beside the declaration: ``avro``
    (.avsc) or ``protobuf`` (.proto, or a descriptor set), with ``message`` if there are several
    message types. The header that a schema registry's clients put in front of a value is skipped.
    Or the schema comes from a schema ``registry``, by the id in that header. ``registry_username``
    logs in there (HTTP basic authentication) with the password in ``registry_password_from``: an
    environment variable, or a file (``./password``, beside the declaration).
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
        """Return the rule that finds an id, with the schema from its file.

        Raises:
            DeclarationError: the schema, or the log-in, cannot be used.
            IdentityError: the place or the pattern is wrong.
        """
        given = [name for name in ("avro", "protobuf", "registry") if getattr(self, name)]
        if len(given) > 1:
            raise DeclarationError(f"id: {' and '.join(given)}: give only one of them")
        if self.message and not self.protobuf:
            raise DeclarationError("id: message needs protobuf: give both, or leave it out")
        self._check_login()
        schema = None
        if self.avro:
            schema = ValueSchema("avro", _read(folder / self.avro).decode("utf-8", "replace"))
        if self.protobuf:
            schema = ValueSchema(
                "protobuf",
                base64.b64encode(_described(folder / self.protobuf)).decode(),
                self.message,
            )
        if self.registry:
            place = self._place(folder)
            schema = ValueSchema(
                REGISTRY,
                _registry(self.registry),
                username=self.registry_username,
                password_from=place,
            )
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
            raise DeclarationError(f"id: registry_password_from: {error}") from error

    def _check_login(self) -> None:
        if bool(self.registry_username) != bool(self.registry_password_from):
            raise DeclarationError(
                "id: registry_username and registry_password_from belong together: give both"
            )
        if self.registry_username and not self.registry:
            raise DeclarationError(
                "id: registry_username needs registry: give both, or leave it out"
            )
        if ":" in self.registry_username:
            raise DeclarationError(
                "id: registry_username: the name must not hold a colon (HTTP basic authentication)"
            )


def check_password(identity: Identity | None) -> None:
    """Make sure that the schema registry's password, if one is declared, can be read.

    Raises:
        DeclarationError: the password cannot be read from its declared place.
    """
    if identity and identity.schema and identity.schema.password_from:
        try:
            read_secret(identity.schema.password_from)
        except SecretError as error:
            raise DeclarationError(f"id: registry_password_from: {error}") from error


def _registry(named: str) -> str:
    """Return the registry's URL: the given one, or that of the service with this name."""
    if SERVICE.fullmatch(named):
        return f"http://127.0.0.1:{{{named}.port}}"
    if not URL.fullmatch(named):
        raise DeclarationError(
            f"id: registry {named!r} is neither a URL (http://127.0.0.1:8081, without a user; "
            "registry_username gives the user) nor a service's name"
        )
    return named.rstrip("/")


def _read(file: Path) -> bytes:
    try:
        return read_named(file)
    except OSError as error:
        raise DeclarationError(f"id: cannot read {file}: {error.strerror}") from error


def _described(file: Path) -> bytes:
    """Return the descriptor set of a file: compiled from a .proto, or read as it is."""
    text = _read(file)
    if file.suffix != ".proto":
        return text
    try:
        return described(file)
    except SchemaError as error:
        hint = (
            ", or let protoc --descriptor_set_out make a descriptor set"
            if "pip install" in str(error)
            else ""
        )
        raise DeclarationError(f"id: {error}{hint}") from error
