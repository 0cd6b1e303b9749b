"""How AMQP 0-9-1 is spoken, for the suite about protocols. The frames are made by pika."""

from __future__ import annotations

from typing import Final

from pika import spec
from pika.frame import Body, Header, Heartbeat, Method

from harness.contract.speaker import FROM, TO, Said, Speaker, value


def _opening(key: str) -> list[Said]:
    named = {"connection_name": f"{key}.consumer.1", "capabilities": {"basic.nack": True}}
    said = [
        (TO, b"AMQP\0\0\x09\x01"),
        (FROM, Method(0, spec.Connection.Start(server_properties={"product": "x"}))),
        (TO, Method(0, spec.Connection.StartOk(named, response=b"\0g\0g"))),
        (FROM, Method(0, spec.Connection.Tune(2047, 131072, 60))),
        (TO, Method(0, spec.Connection.TuneOk(2047, 131072, 60))),
        (TO, Method(0, spec.Connection.Open("/"))),
        (FROM, Method(0, spec.Connection.OpenOk())),
        (TO, Method(1, spec.Channel.Open())),
        (FROM, Method(1, spec.Channel.OpenOk())),
        (TO, Method(1, spec.Confirm.Select())),
        (FROM, Method(1, spec.Confirm.SelectOk())),
    ]
    return [(way, each if isinstance(each, bytes) else each.marshal()) for way, each in said]


def _question(key: str) -> list[Said]:
    body = value(key)
    parts = (
        Method(1, spec.Basic.Publish(exchange="", routing_key="q")),
        Header(1, len(body), spec.BasicProperties(headers={"a": 1}, delivery_mode=2)),
        Body(1, body),
    )
    return [(TO, each.marshal()) for each in parts]


def _large(_key: str, size: int) -> bytes:
    return bytes([3, 0, 1]) + (size - 8).to_bytes(4, "big")


SPEAKER: Final = Speaker(
    "amqp-0-9-1",
    _opening,
    _question,
    Method(1, spec.Basic.Ack(1, multiple=False)).marshal(),
    "basic.publish",
    "basic.ack",
    _large,
    beat=Heartbeat().marshal(),
)
