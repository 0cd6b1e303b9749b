"""Read values by the schemas of a schema registry. Each schema is fetched once, by the id in front
of the value.

``GET /schemas/ids/{id}`` gives a schema, ``GET /subjects/{subject}/versions/{version}`` one that it
references. A caller waits at most :data:`WHOLE_S`.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

from harness.model.failures import EnvironmentFailure
from harness.model.identity import UnreadValueError
from harness.model.proxies import proxies
from harness.values.avro import whole_reader
from harness.values.compiling import described_texts
from harness.values.framing import HEAD, indexes, schema_id
from harness.values.missing import SchemaError
from harness.values.protobuf import Messages
from harness.values.secret import SecretError, read_secret

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.model.identity import ValueSchema

ANSWER_S: Final = 2.0
"""Time-out in seconds for each read from the registry."""
WHOLE_S: Final = 5.0
"""Time-out in seconds for fetching one schema with all that it references."""
MOST_BYTES: Final = 4 * 1024 * 1024
"""The limit for one schema."""
MOST_REFERENCES: Final = 100
MAIN: Final = "lostack-main.proto"
"""The file name that a Protobuf schema gets when it is compiled: the registry names only the
schemas that it imports.
"""
NOT_FOUND: Final = 404
UNAUTHORIZED: Final = 401
FORBIDDEN: Final = 403
ACCEPT: Final = "application/vnd.schemaregistry.v1+json, application/json"


class NoSchemaError(Exception):
    """The registry has no schema by which a value can be read; asking again does not help. The
    message is one line.
    """


@dataclass
class Registry:
    """The schemas of one registry, each fetched when it is first needed. Safe to use from several
    threads.

    ``username`` and ``password_from`` are those of :class:`~harness.model.identity.ValueSchema`.
    """

    url: str
    username: str = ""
    password_from: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _readers: dict[int, Callable[[bytes], str | None] | NoSchemaError] = field(default_factory=dict)

    def read(self, value: bytes) -> str | None:
        """Return a value as JSON text, or as plain text if it has no header; ``None`` if no schema
        of the registry fits.

        Raises:
            UnreadValueError: the registry does not answer.
        """
        number = schema_id(value)
        if number is None:
            return value.decode("utf-8", "replace")
        found = self._reader(number)
        return None if isinstance(found, NoSchemaError) else found(value[HEAD:])

    def why_unread(self, value: bytes) -> str | None:
        """Say why a value cannot be read; return ``None`` if it can.

        Raises:
            UnreadValueError: the registry does not answer.
        """
        number = schema_id(value)
        if number is None:
            return None
        found = self._reader(number)
        if isinstance(found, NoSchemaError):
            return str(found)
        return (
            None
            if found(value[HEAD:]) is not None
            else f"it names schema {number} of {self.url}, but does not fit it"
        )

    def _reader(self, number: int) -> Callable[[bytes], str | None] | NoSchemaError:
        with self._lock:
            if number not in self._readers:
                try:
                    self._readers[number] = self._fetching().reader(number)
                except NoSchemaError as error:
                    self._readers[number] = error
            return self._readers[number]

    def _fetching(self) -> _Fetching:
        try:
            password = read_secret(self.password_from) if self.username else ""
        except SecretError as error:
            raise UnreadValueError(f"id: registry_password_from: {error}") from error
        return _Fetching(self.url, time.monotonic() + WHOLE_S, self.username, password)


@dataclass
class _Fetching:
    """Fetches one schema, with all that it references, before a deadline of the monotonic clock."""

    url: str
    until: float
    username: str = ""
    password: str = field(default="", repr=False)
    _fetched: set[tuple[str, int]] = field(default_factory=set)

    def reader(self, number: int) -> Callable[[bytes], str | None]:
        """Return what reads values of a schema, without their heads. Raises NoSchemaError and
        UnreadValueError.
        """
        what = f"schema {number} of {self.url}"
        answer = self._schema(f"/schemas/ids/{number}", what)
        kind = answer.get("schemaType") or "AVRO"
        try:
            match kind:
                case "AVRO":
                    return whole_reader(
                        answer["schema"], [text for _, text in self._references(answer)]
                    )
                case "PROTOBUF":
                    return self._protobuf(answer)
                case "JSON":
                    return lambda data: data.decode("utf-8", "replace")
        except SchemaError as error:
            raise NoSchemaError(f"{what} cannot be used: {error}") from error
        raise NoSchemaError(f"{what} is of type {kind!r}: lostack reads AVRO, PROTOBUF and JSON")

    def _protobuf(self, answer: dict[str, Any]) -> Callable[[bytes], str | None]:
        messages = Messages(
            described_texts(MAIN, {**dict(self._references(answer)), MAIN: answer["schema"]})
        )

        @cache
        def reader(at: tuple[int, ...]) -> Callable[[bytes], str | None]:
            try:
                return messages.reader(messages.name_at(MAIN, at))
            except SchemaError:
                return lambda _: None

        def read(data: bytes) -> str | None:
            at, message = indexes(data)
            return reader(at)(message)

        return read

    def _references(self, answer: dict[str, Any]) -> list[tuple[str, str]]:
        """Return name and text of every schema that a schema references. A schema comes after those
        that it references itself.
        """
        found: list[tuple[str, str]] = []
        try:
            wanted = [
                (str(each["name"]), str(each["subject"]), int(each["version"]))
                for each in answer.get("references") or ()
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise SchemaError("a reference lacks its name, subject or version") from error
        for name, subject, version in wanted:
            if (subject, version) in self._fetched:
                continue
            self._fetched.add((subject, version))
            if len(self._fetched) > MOST_REFERENCES:
                raise SchemaError(f"it references more than {MOST_REFERENCES} schemas")
            path = f"/subjects/{quote(subject, safe='')}/versions/{version}"
            inner = self._schema(path, f"version {version} of {subject} in {self.url}")
            found += [*self._references(inner), (name, inner["schema"])]
        return found

    def _schema(self, path: str, what: str) -> dict[str, Any]:
        answer = self._get(path, what)
        if not isinstance(answer, dict) or not isinstance(answer.get("schema"), str):
            told = f"the server at {self.url} is not a schema registry: {path} returned no schema"
            raise UnreadValueError(f"{told}; correct registry in [id]")
        return answer

    def _get(self, path: str, what: str) -> object:
        asked = urllib.request.Request(f"{self.url}{path}", headers={"Accept": ACCEPT})  # noqa: S310 - the declaration says http(s)
        if self.username:
            login = base64.b64encode(f"{self.username}:{self.password}".encode()).decode()
            asked.add_unredirected_header(
                "Authorization", f"Basic {login}"
            )  # another host is not told
        try:
            with _opener(self.url).open(asked, timeout=ANSWER_S) as answer:
                return json.loads(self._body(answer))
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == NOT_FOUND:
                raise NoSchemaError(
                    f"there is no {what}; if it was registered elsewhere, correct registry in [id]"
                ) from error
            if error.code in {UNAUTHORIZED, FORBIDDEN}:
                raise UnreadValueError(self._refusal(error.code)) from error
            raise UnreadValueError(
                f"the schema registry at {self.url} answers {error.code} {error.reason} to {path}"
            ) from error
        except (urllib.error.URLError, OSError, http.client.HTTPException) as error:
            why = getattr(error, "reason", None) or error
            told = (
                f"the schema registry at {self.url} does not answer "
                f"({str(why) or type(why).__name__})"
            )
            raise UnreadValueError(f"{told}: start it, or correct registry in [id]") from error
        except ValueError as error:
            told = f"the server at {self.url} is not a schema registry: {path} returned no JSON"
            raise UnreadValueError(f"{told}; correct registry in [id]") from error

    def _refusal(self, code: int) -> str:
        """Return the message for a refused request: a log-in is missing, is wrong, or may not read
        the schemas.
        """
        if not self.username:
            said = "give registry_username and registry_password_from in [id]"
            return f"the schema registry at {self.url} asks for a log-in ({code}): {said}"
        if code == FORBIDDEN:
            return (
                f"the schema registry at {self.url} does not let {self.username} read its "
                f"schemas ({code})"
            )
        return (
            f"the schema registry at {self.url} refuses the log-in of {self.username} ({code}): "
            "check registry_username, and the password that registry_password_from in [id] names"
        )

    def _body(self, answer: http.client.HTTPResponse) -> bytes:
        found = b""
        while piece := answer.read1(65536):
            found += piece
            if time.monotonic() > self.until:
                raise TimeoutError(f"the answer was incomplete after {WHOLE_S:g} s")
            if len(found) > MOST_BYTES:
                raise OSError(f"its answer has more than {MOST_BYTES} bytes")
        if time.monotonic() > self.until:
            raise TimeoutError(f"the schema was incomplete after {WHOLE_S:g} s")
        return found


def _opener(url: str) -> urllib.request.OpenerDirector:
    """Return an opener for the registry's URL. It ignores configured proxies if the registry is on
    this machine, and SOCKS proxies always.

    Raises:
        UnreadValueError: the environment names a proxy wrongly.
    """
    here = urlsplit(url).hostname in {"127.0.0.1", "localhost", "::1"}
    try:
        found = {} if here else proxies(os.environ)
    except EnvironmentFailure as error:
        raise UnreadValueError(str(error)) from error
    plain = {scheme: proxy.text for scheme, proxy in found.items() if not proxy.is_socks}
    return urllib.request.build_opener(urllib.request.ProxyHandler(plain))


def registry_reader(schema: ValueSchema) -> Callable[[bytes], str | None]:
    """Return a function that reads a value by a registry's schemas. ``schema.text``: the registry's
    URL.
    """
    return _registry(schema).read


def why_unread(schema: ValueSchema, value: bytes) -> str | None:
    """Say why a value cannot be read by a registry's schemas; return ``None`` if it can."""
    return _registry(schema).why_unread(value)


@lru_cache(maxsize=64)
def _registry(schema: ValueSchema) -> Registry:
    """Return the registry of a cell. Each ``schema.cell`` has its own, so the next cell fetches its
    schemas again.
    """
    return Registry(schema.text, schema.username, schema.password_from)
