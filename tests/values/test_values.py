"""Ids inside Avro and Protobuf values: found by a schema beside the declaration, framed by a
registry's clients or not.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
from typing import TYPE_CHECKING

import fastavro
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st

from harness.model.identity import Identity, ValueSchema
from harness.pipelines import DeclarationError, read_pipeline
from harness.pipelines.id_table import IdTable
from harness.values.missing import SchemaError, library

if TYPE_CHECKING:
    from pathlib import Path

AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {
            "name": "order",
            "type": {
                "type": "record",
                "name": "Head",
                "fields": [{"name": "id", "type": "string"}],
            },
        },
        {"name": "cents", "type": "long"},
        {"name": "raw", "type": "bytes"},
    ],
}
PROTO = """
syntax = "proto3";
package shop;
message Line { string item = 1; }
message Order { string order_id = 1; int64 cents = 2; repeated Line lines = 3; }
"""
DECLARATION = """
claims = "at-least-once"
topics = ["orders"]
[[stage]]
role = "producer"
command = "cat"
[[stage]]
role = "consumer"
command = "cat"
[input]
line = '{"order": {"id": "{id}"}}'
[output]
kind = "stdout"
[id]
json = "order.id"
"""


def avro_of(record: str, cents: int = 7) -> bytes:
    """Return a value."""
    out = io.BytesIO()
    fastavro.schemaless_writer(
        out,
        fastavro.parse_schema(AVRO),
        {"order": {"id": record}, "cents": cents, "raw": b"\xff\0"},
    )
    return out.getvalue()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Schemas in files."""
    (tmp_path / "order.avsc").write_text(json.dumps(AVRO), encoding="utf-8")
    (tmp_path / "order.proto").write_text(PROTO, encoding="utf-8")
    return tmp_path


def proto_of(folder: Path, record: str) -> bytes:
    """Return a message, made by the compiler's own description of it, past everything of ours."""
    out = folder / "order.binpb"
    words = [
        sys.executable,
        "-m",
        "grpc_tools.protoc",
        f"-I{folder}",
        f"--descriptor_set_out={out}",
        "order.proto",
    ]
    subprocess.run(words, check=True, cwd=folder)
    described = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in described.file:
        pool.Add(file)
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    return bytes(kind(order_id=record, cents=7).SerializeToString())


HEAD = b"\0\0\0\0\x2a"


@pytest.mark.parametrize("head", [b"", HEAD])
def test_an_id_in_an_avro_value_is_found(folder: Path, head: bytes) -> None:
    identity = IdTable(json="order.id", avro="order.avsc").identity(folder)
    again = Identity.from_json(json.loads(json.dumps(identity.to_json())))
    for each in (identity, again):
        assert each.find(None, head + avro_of("k1-7")) == "k1-7"
        assert each.find_every(None, head + avro_of("k1-7")) == ("k1-7",)


@pytest.mark.parametrize("head", [b"", HEAD + b"\0", HEAD + b"\2\2"])
@pytest.mark.parametrize("file", ["order.proto", "order.binpb"])
def test_an_id_in_a_protobuf_value_is_found(folder: Path, head: bytes, file: str) -> None:
    """By the source of its schema, or by a descriptor set; with the list of which message it is, or
    without.
    """
    value = proto_of(folder, "k1-7")
    identity = IdTable(json="order_id", protobuf=file, message="shop.Order").identity(folder)
    assert identity.find(None, head + value) == "k1-7"


def test_without_a_path_the_token_is_found_anywhere_in_it(folder: Path) -> None:
    """A pattern is looked for in the value as JSON."""
    identity = IdTable(pattern=r"k\d+-\d+", avro="order.avsc").identity(folder)
    assert identity.find(None, avro_of("k1-7")) == "k1-7"
    assert identity.in_text("as a row: k1-7") == "k1-7", "results are text as ever"


@given(st.binary(max_size=60))
def test_whatever_is_no_such_value_has_no_id(data: bytes) -> None:
    fixed = {"type": "fixed", "name": "F", "size": 99}
    text = json.dumps({"type": "record", "name": "R", "fields": [{"name": "id", "type": fixed}]})
    assert Identity(json="id", schema=ValueSchema("avro", text)).find(None, data) is None


def test_a_declaration_names_the_schema(folder: Path) -> None:
    """And what lostack offers is text, in which the same path leads to the id."""
    file = folder / "pipeline.toml"
    file.write_text(f'{DECLARATION}avro = "order.avsc"\n', encoding="utf-8")
    identity = read_pipeline(file).id
    assert identity is not None
    assert (
        identity.find(None, avro_of("k1-7"))
        == identity.in_text('{"order": {"id": "k1-7"}}')
        == "k1-7"
    )


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ('avro = "none.avsc"', "cannot read .*none.avsc: No such file"),
        ('avro = "order.proto"', r"avro: the schema is not JSON: .*line 2 column 1"),
        ('avro = "order.avsc"\nprotobuf = "order.proto"', "give only one of them"),
        ('message = "shop.Order"', "message needs protobuf"),
        (
            'protobuf = "order.proto"',
            r"say which message a value is .*there are: shop.Line, shop.Order",
        ),
        (
            'protobuf = "order.proto"\nmessage = "shop.Bill"',
            "no message is called shop.Bill; there are: shop.Line",
        ),
        ('protobuf = "order.avsc"\nmessage = "x"', "protobuf: not a descriptor set"),
        ('protobuf = "wrong.proto"\nmessage = "x"', "wrong.proto does not compile"),
    ],
)
def test_schemas_that_cannot_be_used(folder: Path, said: str, problem: str) -> None:
    (folder / "wrong.proto").write_text("message {", encoding="utf-8")
    file = folder / "pipeline.toml"
    file.write_text(f"{DECLARATION}{said}\n", encoding="utf-8")
    with pytest.raises(DeclarationError, match=problem):
        read_pipeline(file)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{}", "this is not an Avro schema: 'type' is missing"),
        ("[]", "an empty union"),
        ("7", "this is not an Avro schema: 7; write"),
        ("null", "this is not an Avro schema: null; write"),
        ('"order"', "the schema names the type order, which is neither Avro's nor declared in it"),
        ('{"type": 7}', "the schema names the type"),
        ('{"type": "record", "name": "Order"}', "a record needs a list of fields"),
        (
            '{"type": "record", "name": "Order", "fields": [{"name": "id"}]}',
            "Record field 'id' is missing 'type'",
        ),
        ('{"type": "record", "name": 7, "fields": []}', "this is not an Avro schema: .*; write"),
        ('{"type": "enum", "name": "e"}', "this is not an Avro schema: 'symbols' is missing"),
    ],
)
def test_json_that_is_no_avro_schema(folder: Path, text: str, problem: str) -> None:
    (folder / "wrong.avsc").write_text(text, encoding="utf-8")
    file = folder / "pipeline.toml"
    file.write_text(f'{DECLARATION}avro = "wrong.avsc"\n', encoding="utf-8")
    with pytest.raises(DeclarationError, match=problem) as told:
        read_pipeline(file)
    assert "Error" not in str(told.value)
    assert "\n" not in str(told.value)


def test_a_proto_may_import_googles_own(folder: Path) -> None:
    text = (
        'syntax = "proto3"; import "google/protobuf/any.proto"; message O { string id = 1; '
        "google.protobuf.Any more = 2; }"
    )
    (folder / "more.proto").write_text(text, encoding="utf-8")
    found = IdTable(json="id", protobuf="more.proto", message="O").identity(folder)
    assert found.find(None, b"\x0a\x04k1-7") == "k1-7"


def test_a_library_that_is_not_there_is_named() -> None:
    with pytest.raises(
        SchemaError, match=r"avro: nosuchlibrary is not installed: pip install 'lostack\[values\]'"
    ):
        library("nosuchlibrary.deep", "avro")
