"""Ask a Pulsar broker over HTTP: its health, its ledgers, and its cursors."""

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
    """The broker answered a request with an error status, which is ``status``."""

    def __init__(self, what: str, status: int, said: bytes) -> None:
        super().__init__(f"{what}: {status} {said.decode('utf-8', 'replace')[:200]}")
        self.status = status


class Admin:
    """One HTTP connection for a few requests, used as a context manager. Each method raises OSError
    if the broker fails.
    """

    def __init__(self, port: int) -> None:
        self._http = http.client.HTTPConnection(HOST, port, timeout=ANSWER_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def ask(self, method: str, path: str, said: object = None) -> tuple[Mapping[str, str], bytes]:
        """Send a request; return the headers (names in lower case) and the body of the answer.

        Raises:
            RefusedError: the broker answers with an error status.
            OSError: the broker does not answer.
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
        """Say whether the broker's health check passed: the broker sends itself a message and
        receives it.
        """
        return self.ask("GET", "v2/brokers/health?topicVersion=V2")[1].strip() == b"ok"

    def make_namespace(self, name: str, policies: Iterable[tuple[str, object]]) -> None:
        """Create a namespace, if it does not exist, and set its policies. ``policies``: path and
        value of each.
        """
        try:
            self.ask("PUT", f"v2/namespaces/{name}", {})
        except RefusedError as error:
            if error.status != _CONFLICT:
                raise
        for path, said in policies:
            self.ask("POST", f"v2/namespaces/{name}/{path}", said)

    def of_topic(self, topic: str, what: str) -> dict[str, Any] | None:
        """Return statistics of a topic (``what``: ``internalStats`` or ``stats``); ``None`` if
        there is no such topic.
        """
        try:
            _, found = self.ask("GET", f"v2/{topic.replace('://', '/')}/{what}")
        except RefusedError as error:
            if error.status == _NOT_FOUND:
                return None
            raise
        return dict(json.loads(found))

    def entry(self, topic: str, ledger: int, entry: int) -> tuple[Mapping[str, str], bytes]:
        """Return the headers that describe one entry of a topic's ledgers, and its decompressed
        payload.
        """
        return self.ask("GET", f"v2/{topic.replace('://', '/')}/ledger/{ledger}/entry/{entry}")
