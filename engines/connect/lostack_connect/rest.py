"""A client of a worker's REST interface, on loopback."""

from __future__ import annotations

import http.client
import json
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from harness.model.failures import CellFailure

if TYPE_CHECKING:
    from collections.abc import Mapping

ANSWER_WITHIN_S: Final = 30.0
REFUSED: Final = 400


class RestError(CellFailure):
    """A worker did not answer, or refused; the message is one line. ``status``: the HTTP status by
    which it refused.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class WorkerApi:
    """Asks one worker. Safe to use from several threads: each call has its own connection."""

    def __init__(self, port: int) -> None:
        self._port = port

    def up(self) -> bool:
        """Say whether the worker answers."""
        try:
            self._ask("GET", "/connectors")
        except RestError:
            return False
        return True

    def put(self, name: str, config: Mapping[str, str | None]) -> None:
        """Make a connector, or change its settings."""
        self._ask("PUT", f"/connectors/{name}/config", json.dumps(config).encode())

    def status(self, name: str) -> dict[str, Any]:
        """Return what is known of a connector, and of each task (``tasks``) that has a status:
        ``state``, ``worker_id``, ``trace``.
        """
        told: dict[str, Any] = self._ask("GET", f"/connectors/{name}/status")
        return told

    def tasks_of(self, name: str) -> int:
        """Return how many tasks a connector has, also those without a status."""
        return len(self._ask("GET", f"/connectors/{name}")["tasks"])

    def restart_task(self, name: str) -> None:
        """Restart the first task of a connector."""
        self._ask("POST", f"/connectors/{name}/tasks/0/restart")

    def _ask(self, method: str, path: str, body: bytes = b"") -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=ANSWER_WITHIN_S)
        try:
            connection.request(method, quote(path), body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise RestError(f"the worker did not answer {method} {path}: {error}") from error
        finally:
            connection.close()
        if answer.status >= REFUSED:
            said = text.decode("utf-8", "replace").partition("\n")[0][:300]
            raise RestError(
                f"the worker refused {method} {path} ({answer.status}): {said}", answer.status
            )
        return json.loads(text) if text else None
