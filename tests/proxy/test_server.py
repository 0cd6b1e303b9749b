"""The proxy over HTTP, in front of a scripted broker."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.cli import main
from harness.proxy.server import Proxies, serve
from tests.proxy.test_proxy import answer, order, upstream
from tests.wire.broker import WITHIN_S, Client, ScriptedBroker

if TYPE_CHECKING:
    from collections.abc import Iterator

ANSWER_S = 60.0
"""A route starts a process of its own."""
SECRET = "a-secret-of-these-tests"  # noqa: S105 - of nothing else


class Api:
    """A client of the API."""

    def __init__(self, at: str) -> None:
        self.at = at

    def ask(self, method: str, path: str, body: Any = None, secret: str = SECRET) -> Any:
        """Return the status and what was said."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        asked = urllib.request.Request(  # noqa: S310 - it is on loopback
            self.at + path, data, {"Authorization": f"Bearer {secret}"}, method=method
        )
        try:
            with urllib.request.urlopen(asked, timeout=ANSWER_S) as said:  # noqa: S310
                return said.status, json.load(said)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    """One that stores everything."""
    with ScriptedBroker(answer) as made:
        yield made


@pytest.fixture
def api() -> Iterator[Api]:
    """A server without a route."""
    proxies = Proxies()
    server = serve(proxies, SECRET)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield Api(f"http://127.0.0.1:{server.server_address[1]}")
    server.shutdown()
    server.server_close()
    proxies.close()


def connect(bootstrap: str) -> Client:
    """Connect as a program does."""
    return Client(int(bootstrap.rpartition(":")[2]))


def test_a_fault_is_armed_met_and_verified(api: Api, broker: ScriptedBroker) -> None:
    status, route = api.ask("POST", "/routes", {"upstream": upstream(broker)})
    assert (status, route["route"]) == (201, "1")
    asked = {"do": "lose", "api": "Produce", "answer": True, "record": {"order": 17}}
    status, fault = api.ask("POST", "/faults", asked)
    assert (status, fault["id"], fault["fired"]) == (201, "1.f1", 0)
    status, said = api.ask("POST", "/verify")
    assert status == 409
    assert "fault f1 never struck" in said["error"]
    assert api.ask("GET", "/faults/1.f1?wait=0.01")[0] == 409
    with connect(route["bootstrap"]) as client:
        client.send(order(17))
        assert client.ended()
    assert api.ask("GET", "/faults/1.f1?wait=5")[1]["fired"] == 1
    assert api.ask("POST", "/verify") == (200, {"verified": True})
    [record] = api.ask("GET", "/records")[1]
    assert (record["sent"], record["acknowledged"]) == (1, 0)
    assert api.ask("GET", "/faults")[1][0]["matched"] == 1
    assert api.ask("DELETE", "/faults/1.f1", b"null")[0] == 200


def test_a_route_ends_alone(api: Api, broker: ScriptedBroker) -> None:
    """Its port is closed, a fault of its own that never struck is told, and no other route gets its
    number.
    """
    asked = {"upstream": f"PLAINTEXT://{upstream(broker)}"}
    first, second = (api.ask("POST", "/routes", asked)[1] for _ in range(2))
    api.ask("POST", "/faults", {"do": "lose", "api": "Produce", "route": "2"})
    status, said = api.ask("DELETE", "/routes/2")
    assert status == 409
    assert "never struck" in said["error"]
    with pytest.raises(ConnectionRefusedError):
        connect(second["bootstrap"])
    assert api.ask("DELETE", "/routes/2")[0] == 400
    assert api.ask("POST", "/routes", asked)[1]["route"] == "3"
    with connect(first["bootstrap"]) as client:
        client.ask(order(17))
    assert api.ask("DELETE", "/routes/1") == (200, {"route": "1"})
    status, said = api.ask("POST", "/routes", {"upstream": "a:1,b:2"})
    assert status == 400
    assert "name one address" in said["error"]


def test_each_role_has_an_address(api: Api, broker: ScriptedBroker) -> None:
    """A fault may be of one alone, and so may what is counted."""
    asked = {"upstream": upstream(broker), "roles": {"shop": 0, "audit": 0}}
    route = api.ask("POST", "/routes", asked)[1]
    fault = {"do": "lose", "api": "Produce", "role": "audit"}
    assert api.ask("POST", "/faults", fault)[0] == 201
    with connect(route["roles"]["shop"]) as client:
        client.ask(order(17))
    with connect(route["roles"]["audit"]) as client:
        client.send(order(17))
        assert client.ended()
    for role, sent, dropped in (("shop", 1, 0), ("audit", 0, 1)):
        [record] = api.ask("GET", f"/records?role={role}")[1]
        assert (record["sent"], record["dropped"]) == (sent, dropped)
    assert api.ask("GET", "/records?role=client") == (200, [])
    [record] = api.ask("GET", "/records?client=shop-1")[1]
    assert (record["sent"], record["dropped"]) == (1, 1)


def test_a_held_request_is_released(api: Api, broker: ScriptedBroker) -> None:
    route = api.ask("POST", "/routes", {"upstream": upstream(broker)})[1]
    api.ask("POST", "/faults", {"do": "hold", "api": "Produce"})
    assert api.ask("POST", "/faults/1.f1/release")[0] == 400
    with connect(route["bootstrap"]) as client:
        client.send(order(17))
        assert api.ask("GET", "/faults/1.f1?wait=5")[0] == 200
        assert api.ask("POST", "/faults/1.f1/release")[0] == 200
        client.read()


MISTAKES: tuple[tuple[str, str, Any, int, str], ...] = (
    ("POST", "/faults", {"do": "break", "api": "Produce"}, 400, "there is no fault 'break'"),
    ("POST", "/faults", {"do": "lose", "api": "Produce", "x": 1}, 400, "unknown field `x`"),
    ("POST", "/faults", {"do": "lose"}, 400, "missing required field `api`"),
    ("POST", "/routes", {}, 400, "missing required field `upstream`"),
    ("PUT", "/faults", {}, 404, "there is no PUT /faults"),
    ("PATCH", "/", {}, 404, "there is no PATCH /"),
    ("OPTIONS", "/routes", {}, 404, "there is no OPTIONS /routes"),
    ("POST", "/faults", [], 400, "must be a JSON object"),
    ("POST", "/faults", b"{", 400, "is no JSON"),
    ("POST", "/faults", b"\xff", 400, "is no JSON"),
    ("POST", "/faults", b"[" * 100_000, 400, "is no JSON: it is nested too deeply"),
    ("GET", "//[/faults", None, 404, "there is no GET /[/faults"),
    ("GET", "/faults/1.f1?wait=nan", None, 404, "there is no fault"),
    ("POST", "/faults", {"do": "lose", "api": "Produce", "route": "9"}, 400, "no route '9'"),
    ("GET", "/faults/1.f9", None, 404, "there is no fault 1.f9"),
    ("GET", "/faults/nothing", None, 404, "there is no fault nothing"),
    ("GET", "/faults/a/b/c", None, 404, "there is no GET /faults/a/b/c"),
    ("DELETE", "/routes", None, 404, "there is no DELETE /routes"),
    ("POST", "/routes", {"upstream": "a:1", "protocol": "mqtt"}, 400, "no protocol 'mqtt'"),
    ("POST", "/routes", {"upstream": "here"}, 400, "is not HOST:PORT"),
    ("POST", "/routes", {"upstream": "here:\xb2"}, 400, "is not HOST:PORT"),
    ("POST", "/routes", {"upstream": "here:65536"}, 400, "is not HOST:PORT"),
    ("POST", "/routes", {"upstream": "here:1", "port": 70000}, 400, "there is no port 70000"),
    ("POST", "/routes", {"upstream": "127.0.0.1:1", "x": 1}, 400, "unknown field `x`"),
    ("POST", "/routes", {"upstream": "h:1", "roles": {"a": "b"}}, 400, "Expected `int`"),
    ("POST", "/routes", {"upstream": "h:1", "roles": {"a#b": 0}}, 400, "'a#b' is no role"),
    ("POST", "/routes", {"upstream": "h:1", "ca": "x"}, 400, "belongs to SSL and SASL_SSL"),
    ("POST", "/faults", {"do": "lose", "api": "Produce", "role": "x"}, 400, "no role 'x'"),
    ("GET", "/records?role=x", None, 400, "no role 'x': there are client"),
)


def test_a_mistake_is_told(api: Api, broker: ScriptedBroker) -> None:
    api.ask("POST", "/routes", {"upstream": upstream(broker)})
    for method, path, body, status, said in MISTAKES:
        code, answered = api.ask(method, path, body)
        assert (code, said in answered["error"]) == (status, True), (path, answered)
    assert api.ask("GET", "/faults") == (200, [])


KNOWN = f"Authorization: Bearer {SECRET}\r\n"
SIZES: tuple[tuple[str, str, int, str], ...] = (
    ("Content-Length", "\xb2", 411, "in the header Content-Length"),
    ("Content-Length", "-1", 411, "in the header Content-Length"),
    ("Transfer-Encoding", "chunked", 411, "in the header Content-Length"),
    ("Content-Length", "9" * 5000, 413, "at most 1048576 bytes"),
)


@pytest.mark.parametrize(("name", "value", "status", "told"), SIZES)
def test_a_body_of_no_known_length_is_not_taken_for_the_next_request(
    api: Api, name: str, value: str, status: int, told: str
) -> None:
    port = int(api.at.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S) as sock:
        head = f"POST /verify HTTP/1.1\r\n{KNOWN}{name}: {value}\r\n\r\n"
        sock.sendall(head.encode("latin-1"))
        answered = b"".join(iter(lambda: sock.recv(1 << 16), b""))
    assert answered.startswith(f"HTTP/1.1 {status} ".encode())
    assert answered.count(b"HTTP/1.1") == 1
    assert told.encode() in answered


@pytest.mark.parametrize("wait", ["nan", "-1", "soon"])
def test_it_is_waited_for_a_number_of_seconds(api: Api, broker: ScriptedBroker, wait: str) -> None:
    api.ask("POST", "/routes", {"upstream": upstream(broker)})
    api.ask("POST", "/faults", {"do": "lose", "api": "Produce"})
    status, said = api.ask("GET", f"/faults/1.f1?wait={wait}")
    assert (status, "a number of seconds is asked for" in said["error"]) == (400, True)


def test_several_threads_arm_faults_at_once(api: Api, broker: ScriptedBroker) -> None:
    api.ask("POST", "/routes", {"upstream": upstream(broker)})
    asked = {"do": "lose", "api": "Produce"}
    with ThreadPoolExecutor(16) as pool:
        made = list(pool.map(lambda _: api.ask("POST", "/faults", asked), range(64)))
    assert {status for status, _ in made} == {201}
    assert len({fault["id"] for _, fault in made}) == len(made)


def test_nothing_is_done_without_the_secret(api: Api) -> None:
    status, _ = api.ask("GET", "/faults", secret="another")  # noqa: S106 - a wrong one
    assert status == 401
    assert api.ask("POST", "/routes", {"upstream": "127.0.0.1:1"}, secret="")[0] == 401
    assert api.ask("GET", "/faults")[1] == []


def test_nothing_is_read_of_whom_nobody_knows(api: Api) -> None:
    """Not a byte of a body that is never sent: the answer comes first, and the connection ends."""
    port = int(api.at.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S) as sock:
        sock.sendall(b"POST /routes HTTP/1.1\r\nContent-Length: 1000\r\n\r\n")
        answered = b"".join(iter(lambda: sock.recv(1 << 16), b""))
    assert answered.startswith(b"HTTP/1.1 401 ")
    assert answered.count(b"HTTP/1.1") == 1


def command(at: str | None = None) -> subprocess.Popen[str]:
    """Run the command in a process group of its own, as a shell does."""
    return subprocess.Popen(
        [sys.executable, "-m", "harness.cli", "proxy", *(["--upstream", at] if at else [])],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "LOSTACK_PROXY_SECRET": SECRET},
        process_group=0,
    )


def said_by(running: subprocess.Popen[str]) -> dict[str, str]:
    """Return the first line of its output."""
    assert running.stdout is not None
    said: dict[str, str] = json.loads(running.stdout.readline())
    return said


@pytest.mark.parametrize(("struck", "end"), [(True, signal.SIGTERM), (False, signal.SIGINT)])
def test_the_command_stands_until_it_is_told_to_end(
    broker: ScriptedBroker, *, struck: bool, end: signal.Signals
) -> None:
    """Its exit code says whether every fault has struck. A terminal tells its whole group."""
    running = command(upstream(broker))
    said = said_by(running)
    api = Api(said["api"])
    assert api.ask("POST", "/faults", {"do": "lose", "api": "Produce"})[0] == 201
    if struck:
        with connect(said["bootstrap"]) as client:
            client.send(order(17))
            assert client.ended()
    os.killpg(running.pid, end)
    _, error = running.communicate(timeout=4 * WITHIN_S)
    assert running.returncode == (0 if struck else 1), error
    assert ("never struck" in error) is not struck


def wire_of(running: subprocess.Popen[str]) -> int:
    """Return the process that the command has started."""
    listed = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text(encoding="ascii")
    [found] = listed.split()
    return int(found)


def test_nothing_is_left_of_a_command_that_is_killed(
    broker: ScriptedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    running = command(upstream(broker))
    said_by(running)
    wire = os.pidfd_open(wire_of(running))
    assert list(tmp_path.iterdir())
    running.kill()
    running.communicate(timeout=WITHIN_S)
    assert select.select([wire], [], [], WITHIN_S)[0]
    os.close(wire)
    assert not list(tmp_path.iterdir())


def test_a_command_whose_wire_has_ended_ends_and_says_so(broker: ScriptedBroker) -> None:
    running = command(upstream(broker))
    said_by(running)
    os.kill(wire_of(running), signal.SIGKILL)
    _, error = running.communicate(timeout=4 * WITHIN_S)
    assert running.returncode == 3
    assert error.strip() == (
        "lostack: the proxy ended: the wire is gone: it closed the control connection"
    )


OPTIONS = (
    (("--role", "consumer=x"), "--role 'consumer=x' is not NAME or NAME=PORT"),
    (("--role", "client"), "'client' is no role"),
    (("--password-from", "LOSTACK_NO_SUCH"), "the variable LOSTACK_NO_SUCH is not set"),
    (("--username", "ann"), "username and password belong together"),
    (("--security-protocol", "TLS"), "there is no security protocol 'TLS'"),
)


def test_a_secret_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("LOSTACK_PROXY_SECRET", raising=False)
    assert main(["proxy", "--upstream", "127.0.0.1:1"]) == 2
    assert "set the variable LOSTACK_PROXY_SECRET" in capsys.readouterr().err
    monkeypatch.setenv("LOSTACK_PROXY_SECRET", SECRET)
    for port in ("--listen", "--api"):
        assert main(["proxy", "--upstream", "127.0.0.1:1", port, "70000"]) == 2
        assert "there is no port 70000" in capsys.readouterr().err
    for words, said in OPTIONS:
        assert main(["proxy", "--upstream", "127.0.0.1:1", *words]) == 2
        assert said in capsys.readouterr().err
    with ScriptedBroker() as taken:
        assert main(["proxy", "--upstream", "127.0.0.1:1", "--listen", str(taken.port)]) == 3
    assert "Address already in use" in capsys.readouterr().err
    assert main(["proxy", "--upstream", "127.0.0.1:1", "--map", "kafka:9092"]) == 2
    assert "is not NAME:PORT=HOST:PORT" in capsys.readouterr().err
    for alone in ("--map=kafka:9092=127.0.0.1:9092", "--listen=19092"):
        assert main(["proxy", alone]) == 2
        assert "only --api is without --upstream: name a broker" in capsys.readouterr().err


def test_a_broker_that_is_known_later_is_added_over_http(broker: ScriptedBroker) -> None:
    """As one of Testcontainers is, whose port is drawn when it starts."""
    running = command()
    said = said_by(running)
    assert list(said) == ["api"]
    status, route = Api(said["api"]).ask("POST", "/routes", {"upstream": upstream(broker)})
    assert (status, route["route"]) == (201, "1")
    with connect(route["bootstrap"]) as client:
        client.ask(order(17))
    os.killpg(running.pid, signal.SIGTERM)
    _, error = running.communicate(timeout=4 * WITHIN_S)
    assert (running.returncode, error) == (0, "")
