"""Ids inside values whose schema a registry has: a real server, asked over real sockets, that has
it, has not, or is down.
"""

from __future__ import annotations

import base64
import http.server
import io
import json
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

from harness.model.identity import REGISTRY, Identity, UnreadValueError, ValueSchema
from harness.pipelines import DeclarationError, read_pipeline
from harness.values import registry
from harness.values.compiling import described_texts
from harness.values.protobuf import Messages
from harness.wire.protocol import insight_of
from tests.values.test_values import DECLARATION

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.pipelines.declaration import Pipeline

CUSTOMER = {
    "type": "record",
    "name": "shop.Customer",
    "fields": [{"name": "name", "type": "string"}],
}
ORDER = {
    "type": "record",
    "name": "shop.Order",
    "fields": [{"name": "id", "type": "string"}, {"name": "customer", "type": "shop.Customer"}],
}
PLAIN = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}
LINE = 'syntax = "proto3"; package shop; message Line { string item = 1; }'
PROTO = """
syntax = "proto3";
package shop;
import "shop/line.proto";
import "google/protobuf/timestamp.proto";
message Bill { string number = 1; }
message Order { string id = 1; repeated Line lines = 2; google.protobuf.Timestamp at = 3; message Note { string id = 1; } }
"""  # noqa: E501
PATHS: dict[str, Any] = {
    "/schemas/ids/1": {"schema": json.dumps(PLAIN)},
    "/schemas/ids/2": {
        "schema": json.dumps(ORDER),
        "references": [{"name": "shop.Customer", "subject": "a/customer", "version": 3}],
    },
    "/subjects/a%2Fcustomer/versions/3": {"schema": json.dumps(CUSTOMER), "schemaType": "AVRO"},
    "/schemas/ids/3": {
        "schema": PROTO,
        "schemaType": "PROTOBUF",
        "references": [{"name": "shop/line.proto", "subject": "line", "version": 1}],
    },
    "/subjects/line/versions/1": {"schema": LINE, "schemaType": "PROTOBUF"},
    "/schemas/ids/4": {"schema": "{}", "schemaType": "JSON"},
    "/schemas/ids/5": {"schema": "{}"},
    "/schemas/ids/6": {"schema": "x", "schemaType": "THRIFT"},
    "/schemas/ids/7": {"schema": "message {", "schemaType": "PROTOBUF"},
    "/schemas/ids/8": {
        "schema": json.dumps(ORDER),
        "references": [{"name": "shop.Customer", "subject": "gone", "version": 1}],
    },
    "/schemas/ids/9": [],
}


class Server(http.server.ThreadingHTTPServer):
    """A registry, which counts what it is asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str] = []
        self.login = ""
        """If not empty: ``name:password``, without which nobody is given anything."""
        self.forbidden = False
        self.elsewhere = ""
        """If not empty: where everybody is sent to."""
        self.heard: list[str | None] = []
        """What came as Authorization."""
        self.silent = threading.Event()
        self.over = threading.Event()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers as a registry does."""

    def do_GET(self) -> None:
        """Give a schema."""
        server = self.server
        assert isinstance(server, Server)
        server.asked.append(self.path)
        if server.silent.is_set():
            server.over.wait(30)
            return
        server.heard.append(self.headers["Authorization"])
        if server.elsewhere:
            self.send_response(302)
            self.send_header("Location", f"{server.elsewhere}{self.path}")
            self.end_headers()
            return
        wanted = f"Basic {base64.b64encode(server.login.encode()).decode()}"
        if server.forbidden or (server.login and self.headers["Authorization"] != wanted):
            self.send_response(403 if server.forbidden else 401)
            self.send_header("WWW-Authenticate", 'Basic realm="schemas"')
            self.end_headers()
            return
        answer = PATHS.get(self.path)
        self.send_response(404 if answer is None else 500 if answer == [] else 200)
        self.end_headers()
        self.wfile.write(
            json.dumps(answer or {"error_code": 40403, "message": "Schema not found"}).encode()
        )

    def log_message(self, format: str, *_: object) -> None:  # noqa: A002 - the base class calls it so
        """Print nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    """Run one for a test."""
    with Server() as found:
        thread = threading.Thread(target=found.serve_forever, args=(0.01,))
        thread.start()
        yield found
        found.over.set()
        found.shutdown()
        thread.join()


def identity_of(url: str, path: str = "id", cell: str = "") -> Identity:
    """Return where an id is, by a registry."""
    return Identity(json=path, schema=ValueSchema(REGISTRY, url, cell=cell))


def pipeline_of(folder: Path, said: str) -> Pipeline:
    """Return a pipeline whose ``[id]`` says this."""
    file = folder / "pipeline.toml"
    file.write_text(f"{DECLARATION}{said}".replace("order.id", "id"), encoding="utf-8")
    return read_pipeline(file)


def declared(folder: Path, said: str) -> Identity:
    """Return where such a pipeline has its ids."""
    identity = pipeline_of(folder, said).id
    assert identity is not None
    return identity


def framed(number: int, data: bytes) -> bytes:
    """Put in front what a registry's clients do."""
    return b"\0" + number.to_bytes(4, "big") + data


def avro(schema: Any, value: Any, *named: Any) -> bytes:
    """Return an Avro value, made past everything of ours."""
    out, types = io.BytesIO(), dict[str, Any]()
    for each in named:
        fastavro.parse_schema(each, types)
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema, types), value)
    return out.getvalue()


PLAIN_VALUE = avro(PLAIN, {"id": "k1-7"})


def test_a_schema_is_fetched_once_and_the_id_is_found(server: Server) -> None:
    """Once for each id and cell: the registry of the next cell may have other schemas by the same
    ids.
    """
    identity = identity_of(server.url)
    again = Identity.from_json(json.loads(json.dumps(identity.to_json())))
    for each in (identity, again, identity):
        assert each.find(None, framed(1, PLAIN_VALUE)) == "k1-7"
        assert each.find_every(None, framed(1, PLAIN_VALUE)) == ("k1-7",)
    assert server.asked == ["/schemas/ids/1"]
    assert identity_of(server.url, cell="next").find(None, framed(1, PLAIN_VALUE)) == "k1-7"
    assert server.asked == ["/schemas/ids/1"] * 2


def test_several_who_ask_at_once_fetch_it_once(server: Server) -> None:
    found: list[str | None] = []
    identity = identity_of(server.url)
    threads = [
        threading.Thread(target=lambda: found.append(identity.find(None, framed(1, PLAIN_VALUE))))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["k1-7"] * 8
    assert server.asked == ["/schemas/ids/1"]


def test_what_a_schema_references_is_fetched_too(server: Server) -> None:
    value = avro(ORDER, {"id": "k2-1", "customer": {"name": "x"}}, CUSTOMER)
    assert identity_of(server.url).find(None, framed(2, value)) == "k2-1"
    assert identity_of(server.url, "customer.name").find(None, framed(2, value)) == "x"


@pytest.mark.parametrize(
    ("head", "message", "path"),
    [
        (b"\x02\x02", "shop.Order", "id"),
        (b"\x00", "shop.Bill", "number"),
        (b"\x02\x00", "shop.Bill", "number"),
        (b"\x04\x02\x00", "shop.Order.Note", "id"),
    ],
)
def test_which_message_a_protobuf_value_is_says_its_head(
    server: Server, head: bytes, message: str, path: str
) -> None:
    """A list of indexes: a lone zero is the first message, and one in another has an index of its
    own.
    """
    messages = Messages(described_texts("m.proto", {"m.proto": PROTO, "shop/line.proto": LINE}))
    made = messages._factory.GetMessageClass(messages._pool.FindMessageTypeByName(message))(
        **{path: "k3-9"}
    )
    value = framed(3, head + made.SerializeToString())
    assert identity_of(server.url, path).find(None, value) == "k3-9"


def test_a_json_value_with_a_head_is_read(server: Server) -> None:
    assert identity_of(server.url).find(None, framed(4, b'{"id": "k4-1"}')) == "k4-1"


def test_a_value_without_a_head_is_text(server: Server) -> None:
    """As what lostack itself puts into a topic; the registry is not asked."""
    identity = identity_of(server.url)
    assert identity.find(None, b'{"id": "k1-1"}') == "k1-1"
    assert identity.find(None, b"no JSON") is None
    assert identity.find(None, b"\0\0") is None
    assert identity.why_unread(b"no JSON") is None
    assert server.asked == []


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (
            framed(42, PLAIN_VALUE),
            (
                "there is no schema 42 of {url}; if it was registered elsewhere, correct "
                "registry in [id]"
            ),
        ),
        (framed(1, b"\xff"), "it names schema 1 of {url}, but does not fit it"),
        (framed(1, PLAIN_VALUE + b"x"), "it names schema 1 of {url}, but does not fit it"),
        (
            framed(5, b"x"),
            "schema 5 of {url} cannot be used: avro: this is not an Avro schema: 'type' is missing",
        ),
        (
            framed(6, b"x"),
            "schema 6 of {url} is of type 'THRIFT': lostack reads AVRO, PROTOBUF and JSON",
        ),
        (
            framed(7, b"\0x"),
            "schema 7 of {url} cannot be used: protobuf: the schema does not compile",
        ),
        (
            framed(8, b"x"),
            (
                "there is no version 1 of gone in {url}; if it was registered elsewhere, correct "
                "registry in [id]"
            ),
        ),
        (framed(3, b"\x02\x40x"), "it names schema 3 of {url}, but does not fit it"),
    ],
)
def test_a_value_that_no_schema_fits_has_no_id(server: Server, value: bytes, said: str) -> None:
    """It may be of somebody else's topic; why it could not be read is told where it should have
    been.
    """
    identity = identity_of(server.url)
    assert identity.find(None, value) is None
    assert identity.why_unread(value) == said.format(url=server.url)
    asked = len(server.asked)
    assert identity.find(None, value) is None
    assert len(server.asked) == asked, "what is not there is not asked for again"


def test_a_registry_that_is_down_is_told_and_asked_again(server: Server) -> None:
    """Nobody can say whose record it is; when it is up again, it is asked."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, and nobody listens
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(
            UnreadValueError, match=rf"registry at {url} does not answer \(.*refused\): start it"
        ):
            identity_of(url).find(None, framed(1, PLAIN_VALUE))
    with pytest.raises(
        UnreadValueError, match="answers 500 Internal Server Error to /schemas/ids/9"
    ):
        identity_of(server.url).find(None, framed(9, b"x"))
    PATHS["/schemas/ids/9"] = {"schema": json.dumps(PLAIN)}
    try:
        assert identity_of(server.url).find(None, framed(9, PLAIN_VALUE)) == "k1-7"
    finally:
        PATHS["/schemas/ids/9"] = []


def test_a_registry_that_is_silent_holds_nobody_for_long(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wire waits for it no longer than is said."""
    monkeypatch.setattr(registry, "ANSWER_S", 0.2)
    server.silent.set()
    began = time.monotonic()
    with pytest.raises(UnreadValueError, match="does not answer"):
        identity_of(server.url).find(None, framed(1, PLAIN_VALUE))
    assert time.monotonic() - began < 2


@pytest.mark.parametrize("body", [b"hello", b"[]", b'{"schema": 7}'])
def test_what_is_no_registry_is_told(body: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            peer, _ = listening.accept()
            with peer:
                peer.recv(65536)
                peer.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + body)

        thread = threading.Thread(target=answer)
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(UnreadValueError, match=f"the server at {url} is not a schema registry"):
            identity_of(url).find(None, framed(1, PLAIN_VALUE))
        thread.join()


@pytest.mark.parametrize("place", ["variable", "file"])
def test_who_logs_in_is_given_schemas(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """The password is in the environment, or in a file beside the declaration, and nowhere in what
    is saved of a cell.
    """
    server.login = "me:st:ack!é"
    monkeypatch.setenv("SCHEMAS_PASSWORD", "st:ack!é")
    (tmp_path / "password").write_text("st:ack!é\n", encoding="utf-8")
    said = {"variable": "SCHEMAS_PASSWORD", "file": "./password"}[place]
    identity = declared(
        tmp_path,
        f'registry = "{server.url}"\nregistry_username = "me"\nregistry_password_from = "{said}"\n',
    )
    assert identity.find(None, framed(1, avro(PLAIN, {"id": "k-1"}))) == "k-1"
    assert "st:ack" not in json.dumps(identity.to_json())


def test_a_refused_log_in_is_told_in_one_line(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is refused, and what to look at; without the password. Who says no name is told to say
    one.
    """
    server.login = "me:right"
    value = framed(1, avro(PLAIN, {"id": "k-1"}))
    monkeypatch.setenv("SCHEMAS_PASSWORD", "secret-and-wrong")
    login = 'registry_username = "me"\nregistry_password_from = "SCHEMAS_PASSWORD"\n'
    named = declared(tmp_path, f'registry = "{server.url}"\n{login}')
    with pytest.raises(
        UnreadValueError, match=r"refuses the log-in of me \(401\): check registry_username"
    ) as told:
        named.find(None, value)
    assert "secret-and-wrong" not in str(told.value)
    assert "\n" not in str(told.value)
    with pytest.raises(
        UnreadValueError,
        match=r"asks for a log-in \(401\): give registry_username and registry_password_from",
    ):
        declared(tmp_path, f'registry = "{server.url}"\n').find(None, value)
    monkeypatch.setenv("SCHEMAS_PASSWORD", "right")  # and who was refused may come again
    assert named.find(None, value) == "k-1"
    server.forbidden = True
    with pytest.raises(UnreadValueError, match=r"does not let me read its schemas \(403\)"):
        named.find(None, framed(4, b'{"id": "k-2"}'))
    monkeypatch.delenv("SCHEMAS_PASSWORD")
    with pytest.raises(
        UnreadValueError, match="the environment variable SCHEMAS_PASSWORD is not set"
    ):
        named.find(None, framed(4, b'{"id": "k-2"}'))


def test_a_password_goes_to_no_other_host(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A registry that sends its clients on is followed; to where it sends them, nobody logs in."""
    monkeypatch.setenv("SCHEMAS_PASSWORD", "right")
    login = 'registry_username = "me"\nregistry_password_from = "SCHEMAS_PASSWORD"\n'
    with Server() as other:
        thread = threading.Thread(target=other.serve_forever, args=(0.01,))
        thread.start()
        try:
            server.elsewhere = other.url
            found = declared(tmp_path, f'registry = "{server.url}"\n{login}').find(
                None, framed(1, avro(PLAIN, {"id": "k-1"}))
            )
        finally:
            other.shutdown()
            thread.join()
    assert (found, other.heard) == ("k-1", [None])
    assert [str(each).startswith("Basic ") for each in server.heard] == [True]


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (
            "SCHEMAS_PASSWORD",
            r"id: registry_password_from: the environment variable SCHEMAS_PASSWORD is not set",
        ),
        ("./gone", r"id: registry_password_from: cannot read .*/gone: No such file"),
        ("./empty", r"id: registry_password_from: .*/empty is empty"),
        ("./latin", r"id: registry_password_from: .*/latin is not UTF-8 text"),
    ],
)
def test_a_password_that_is_not_there_is_told_before_anything_starts(
    tmp_path: Path, said: str, problem: str
) -> None:
    (tmp_path / "empty").write_text("\n", encoding="utf-8")
    (tmp_path / "latin").write_bytes(b"\xe9")
    login = f'registry_username = "me"\nregistry_password_from = "{said}"\n'
    with pytest.raises(DeclarationError, match=problem):
        pipeline_of(tmp_path, f'registry = "http://127.0.0.1:8081"\n{login}').check_commands()


def test_a_password_in_the_place_of_its_name_is_not_repeated(tmp_path: Path) -> None:
    """It would stand in the log of somebody's CI."""
    login = 'registry_username = "me"\nregistry_password_from = "hunter2!"\n'
    with pytest.raises(DeclarationError, match="never the password itself") as told:
        pipeline_of(tmp_path, f'registry = "http://127.0.0.1:8081"\n{login}')
    assert "hunter2" not in str(told.value)


def test_the_wire_says_that_it_could_not_read_a_frame() -> None:
    """And that voids the cell: whose record it was nobody knows."""

    class Session:
        """Needs a schema."""

        def read(self, *_: object) -> Any:
            """Get none."""
            raise UnreadValueError("the registry does not answer")

    insight = insight_of(Session(), None, b"", None)  # type: ignore[arg-type]
    assert (insight.because, insight.voids) == ("the registry does not answer", True)


SERVICE = '[[service]]\nname = "schemas"\ncommand = "cat {schemas.port}"\n'


@pytest.mark.parametrize(
    ("said", "url"),
    [
        ('registry = "http://127.0.0.1:8081/"', "http://127.0.0.1:8081"),
        ('registry = "https://registry.example/api"', "https://registry.example/api"),
        ('registry = "schemas"', "http://127.0.0.1:{schemas.port}"),
        ('registry = "http://localhost:{schemas.port}"', "http://localhost:{schemas.port}"),
    ],
)
def test_a_declaration_names_the_registry(tmp_path: Path, said: str, url: str) -> None:
    """By where it is, or as one of its services; nobody is asked yet."""
    file = tmp_path / "pipeline.toml"
    file.write_text(f"{DECLARATION}{said}\n{SERVICE}", encoding="utf-8")
    identity = read_pipeline(file).id
    assert identity is not None
    assert identity.schema == ValueSchema(REGISTRY, url)


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (
            'registry = "http://127.0.0.1:8081"\navro = "x.avsc"',
            "avro and registry: give only one of them",
        ),
        ('registry = "http://me:secret@host"', "registry_username gives the user"),
        ('registry = "ftp://host"', "is neither a URL .* nor a service's name"),
        ('registry = "127.0.0.1:8081"', "is neither a URL"),
        (
            'registry = "store"',
            r"\{store.port\}: there is no service store; did you mean schemas|there are: schemas",
        ),
        ('registry = "http://127.0.0.1:{port}"', r"id: registry: \{port\} has no value"),
        ('registry = ""', "registry"),
        ('registry = "schemas"\nmessage = "x"', "message needs protobuf"),
        (
            'registry = "schemas"\nregistry_username = "me"',
            "registry_username and registry_password_from belong together",
        ),
        ('registry = "schemas"\nregistry_password_from = "PASSWORD"', "belong together"),
        (
            'registry_username = "me"\nregistry_password_from = "PASSWORD"',
            "registry_username needs registry",
        ),
        (
            'registry = "schemas"\nregistry_username = "a:b"\nregistry_password_from = "PASSWORD"',
            "must not hold a colon",
        ),
    ],
)
def test_registries_that_cannot_be(tmp_path: Path, said: str, problem: str) -> None:
    file = tmp_path / "pipeline.toml"
    file.write_text(f"{DECLARATION}{said}\n{SERVICE}", encoding="utf-8")
    with pytest.raises(DeclarationError, match=problem):
        read_pipeline(file)
