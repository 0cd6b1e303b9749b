"""A client of a JobManager's REST interface, on loopback."""

from __future__ import annotations

import http.client
import json
import uuid
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

ANSWER_WITHIN_S: Final = 30.0
REFUSED: Final = 400


class RestError(Exception):
    """A JobManager did not answer, or refused; the message is one line."""


class JobManagerApi:
    """Asks one JobManager. Safe to use from several threads: each call has its own connection."""

    def __init__(self, port: int) -> None:
        self._port = port

    def overview(self) -> dict[str, Any]:
        """Return the numbers of TaskManagers, slots and jobs."""
        return self._ask("GET", "/overview")

    def upload(self, jar: Path) -> str:
        """Upload a jar; return its id."""
        edge = uuid.uuid4().hex
        head = (
            f'--{edge}\r\nContent-Disposition: form-data; name="jarfile"; filename="{jar.name}"\r\n'
            "Content-Type: application/x-java-archive\r\n\r\n"
        )
        body = head.encode() + jar.read_bytes() + f"\r\n--{edge}--\r\n".encode()
        told = self._ask("POST", "/jars/upload", body, f"multipart/form-data; boundary={edge}")
        return str(told["filename"]).rpartition("/")[2]

    def run(
        self, jar: str, main: str, words: Sequence[str], restored_from: str | None = None
    ) -> str:
        """Submit a job; return its id. ``restored_from``: the folder of a checkpoint
        to start from.
        """
        plain: dict[str, object] = {"entryClass": main, "programArgsList": list(words)}
        if restored_from is not None:
            plain["savepointPath"] = restored_from
        return str(self._ask("POST", f"/jars/{jar}/run", json.dumps(plain).encode())["jobid"])

    def state(self, job: str) -> str:
        """Return the state of a job: RUNNING, RESTARTING, FAILED ..."""
        return str(self._ask("GET", f"/jobs/{job}/status")["status"])

    def failure(self, job: str) -> str:
        """Return the first line of the reason why a job failed."""
        told = self._ask("GET", f"/jobs/{job}/exceptions?maxExceptions=1")
        return str(told.get("root-exception") or "it gives no reason").partition("\n")[0]

    def hosts(self, job: str) -> frozenset[str]:
        """Return the names of the TaskManagers on which a job's tasks run now."""
        found: set[str] = set()
        for vertex in self._ask("GET", f"/jobs/{job}")["vertices"]:
            tasks = self._ask("GET", f"/jobs/{job}/vertices/{vertex['id']}")["subtasks"]
            found |= {
                task["taskmanager-id"]
                for task in tasks
                if task["status"] in {"RUNNING", "INITIALIZING"}
            }
        return frozenset(found)

    def checkpoints(self, job: str) -> list[dict[str, Any]]:
        """Return a job's checkpoints, the latest first: ``id, status, num_acknowledged_subtasks
        ...``.
        """
        return list(self._ask("GET", f"/jobs/{job}/checkpoints")["history"])

    def trigger(self, job: str) -> None:
        """Request a checkpoint, without waiting."""
        self._ask("POST", f"/jobs/{job}/checkpoints", b"{}")

    def cancel(self, job: str) -> None:
        """Request the end of a job, without waiting."""
        self._ask("PATCH", f"/jobs/{job}?mode=cancel")

    def _ask(
        self, verb: str, path: str, body: bytes | None = None, kind: str = "application/json"
    ) -> dict[str, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=ANSWER_WITHIN_S)
        try:
            connection.request(verb, path, body, {"Content-Type": kind} if body is not None else {})
            answer = connection.getresponse()
            text = answer.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            raise RestError(f"{verb} {path}: {error or type(error).__name__}") from error
        finally:
            connection.close()
        if answer.status >= REFUSED:
            raise RestError(f"{verb} {path}: {answer.status} {_first(text)}")
        return dict(json.loads(text or "{}"))


def _first(text: str) -> str:
    """Return the innermost cause in an error answer."""
    try:
        lines = [line for error in json.loads(text)["errors"] for line in str(error).splitlines()]
    except (ValueError, KeyError, TypeError):
        lines = text.splitlines()
    causes = [line for line in lines if line.startswith("Caused by: ")]
    return (causes or lines or [""])[-1 if causes else 0][:300]
