"""What a broker of Pulsar is asked over HTTP: whether it takes messages, what its ledgers have, how far its cursors are."""

from __future__ import annotations

import http.client
import json
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

HOST: Final = "127.0.0.1"
ANSWER_S: Final = 20.0
_OK, _NO_CONTENT, _NOT_FOUND, _CONFLICT = 200, 204, 404, 409


class RefusedError(OSError):
    """The broker does not do what it was asked for."""

    def __init__(self, what: str, status: int, said: bytes) -> None:
        super().__init__(f"{what}: {status} {said.decode('utf-8', 'replace')[:200]}")
        self.status = status


class Admin:
    """One connection for a few requests, to be closed. Everything raises OSError where the broker is away, or refuses."""

    def __init__(self, port: int) -> None:
        self._http = http.client.HTTPConnection(HOST, port, timeout=ANSWER_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def ask(self, method: str, path: str, said: Any = None) -> tuple[Mapping[str, str], bytes]:
        """Return headers (their names in small letters) and body of an answer.

        Raises:
            RefusedError: the broker answers that it will not.
            OSError: it does not answer.
        """
        body = None if said is None else json.dumps(said)
        try:
            self._http.request(method, f"/admin/{path}", body, {"Content-Type": "application/json"})
            answer = self._http.getresponse()
            found = answer.read()
        except http.client.HTTPException as error:
            raise OSError(f"{method} {path}: {type(error).__name__}") from error
        if answer.status not in (_OK, _NO_CONTENT):
            raise RefusedError(f"{method} {path}", answer.status, found)
        return {name.lower(): value for name, value in answer.getheaders()}, found

    def healthy(self) -> bool:
        """Say whether a message that the broker sent to itself has come: then it is ready, and not when a port is open."""
        return self.ask("GET", "v2/brokers/health?topicVersion=V2")[1].strip() == b"ok"

    def make_namespace(self, name: str, policies: Iterable[tuple[str, object]]) -> None:
        """Make a namespace that is not there yet, with policies, each by its path and what is said there."""
        try:
            self.ask("PUT", f"v2/namespaces/{name}", {})
        except RefusedError as error:
            if error.status != _CONFLICT:
                raise
        for path, said in policies:
            self.ask("POST", f"v2/namespaces/{name}/{path}", said)

    def of_topic(self, topic: str, what: str) -> dict[str, Any] | None:
        """Return what the broker says of a topic (``internalStats``, ``stats``); ``None`` where there is no such topic."""
        try:
            _, found = self.ask("GET", f"v2/{topic.replace('://', '/')}/{what}")
        except RefusedError as error:
            if error.status == _NOT_FOUND:
                return None
            raise
        said: dict[str, Any] = json.loads(found)
        return said

    def entry(self, topic: str, ledger: int, entry: int) -> tuple[Mapping[str, str], bytes]:
        """Return what the broker says of one entry of a topic's ledgers, and its payload, decompressed."""
        return self.ask("GET", f"v2/{topic.replace('://', '/')}/ledger/{ledger}/entry/{entry}")
