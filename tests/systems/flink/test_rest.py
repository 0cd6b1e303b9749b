"""A JobManager's answers, and what becomes of those that refuse: a server of the standard library
gives them.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from harness.systems.flink.rest import JobManagerApi, RestError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ASKED: list[tuple[str, str, bytes]] = []
ANSWERS: dict[str, tuple[int, Any]] = {}


class Answering(BaseHTTPRequestHandler):
    """Gives the answer of a path, and remembers what was asked."""

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        ASKED.append((self.command, self.path, body))
        status, plain = ANSWERS.get(self.path.partition("?")[0], (404, {"errors": ["Not found."]}))
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(plain).encode())

    do_GET = do_POST = do_PATCH = _answer  # noqa: N815 - the names that the server looks for

    def log_message(self, *words: object) -> None:
        """Say nothing."""


@pytest.fixture
def rest() -> Iterator[JobManagerApi]:
    """Return a client of a server that knows no answer yet."""
    ASKED.clear()
    ANSWERS.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield JobManagerApi(server.server_port)
    server.shutdown()
    server.server_close()
    thread.join(5)


def test_a_job_is_submitted_with_its_words_and_a_checkpoint(rest: JobManagerApi) -> None:
    ANSWERS["/jars/j.jar/run"] = 200, {"jobid": "abc"}
    assert rest.run("j.jar", "lostack.flink.Job", ["a=b"]) == "abc"
    assert rest.run("j.jar", "lostack.flink.Job", ["a=b"], "/c/chk-2") == "abc"
    sent = [json.loads(body) for _, _, body in ASKED]
    assert sent[0] == {"entryClass": "lostack.flink.Job", "programArgsList": ["a=b"]}
    assert sent[1]["savepointPath"] == "/c/chk-2"


def test_a_jar_is_handed_over_whole(rest: JobManagerApi, tmp_path: Path) -> None:
    """Whatever its bytes are; what it is called there is the last part of the answer."""
    jar = tmp_path / "job.jar"
    jar.write_bytes(bytes(range(256)))
    ANSWERS["/jars/upload"] = 200, {"filename": "/uploads/1_job.jar"}
    assert rest.upload(jar) == "1_job.jar"
    assert bytes(range(256)) in ASKED[0][2]


def test_a_refusal_is_one_line_with_its_first_cause(rest: JobManagerApi) -> None:
    trace = (
        "RestHandlerException: no\n\tat a.b\nCaused by: Outer: it\n\tat c.d\nCaused by: Inner: "
        "the prefix is missing\n"
    )
    ANSWERS["/jars/j.jar/run"] = 400, {"errors": ["Bad Request", trace]}
    with pytest.raises(
        RestError, match=r"^POST /jars/j.jar/run: 400 Caused by: Inner: the prefix is missing$"
    ):
        rest.run("j.jar", "Main", [])


def test_where_nobody_listens_that_is_said() -> None:
    with pytest.raises(RestError, match=r"^GET /overview: "):
        JobManagerApi(9).overview()


def test_only_running_tasks_have_a_host(rest: JobManagerApi) -> None:
    ANSWERS["/jobs/j"] = 200, {"vertices": [{"id": "v"}]}
    tasks = [
        {"status": "FAILED", "taskmanager-id": "old"},
        {"status": "RUNNING", "taskmanager-id": "new"},
    ]
    ANSWERS["/jobs/j/vertices/v"] = 200, {"subtasks": tasks}
    assert rest.hosts("j") == {"new"}
