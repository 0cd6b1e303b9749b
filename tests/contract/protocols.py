"""The protocols that the suites in ``test_protocols*.py`` are run against: one line for each, and
how each is spoken.
"""

from __future__ import annotations

import itertools
import struct
from typing import TYPE_CHECKING, Any

import pytest

from harness.contract.speaker import (
    FROM,
    LIMIT,
    RECORD,
    TO,
    DirectionReader,
    Said,
    Speaker,
    value,
    with_the_wrong,
)
from harness.protocols.kafka.steps import Api
from harness.protocols.pulsar import frames as pulsar
from harness.protocols.pulsar.protobuf import made as pulsar_made
from harness.protocols.pulsar.steps import NUMBERS, Command
from harness.protocols.stomp.frames import made
from harness.protocols.zookeeper.steps import Op
from tests.protocols import amqp_frames as af
from tests.protocols import core_frames as core
from tests.protocols import openwire_frames as ow
from tests.protocols import test_amqp
from tests.protocols import zookeeper_frames as zk
from tests.wire import kafka_frames as kf
from tests.wire import test_postgres as pg
from tests.wire.broker import request

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "FROM",
    "KEYS",
    "LIMIT",
    "PROTOCOLS",
    "RECORD",
    "TO",
    "DirectionReader",
    "Said",
    "Speaker",
    "protocol_params",
    "value",
    "with_the_wrong",
]

# --- Kafka ----------------------------------------------------------------------------------------


def _kafka_opening(key: str) -> list[Said]:
    client = f"{key}.consumer.1"
    return [(TO, kf.metadata(1, client)), (FROM, kf.metadata_answer(1))]


def _kafka_question(key: str) -> list[Said]:
    return [(TO, kf.produce(2, f"{key}.consumer.1", kf.batch([value(key)])))]


def _kafka_large(key: str, size: int) -> bytes:
    head = request(Api.SYNC_GROUP, 9, f"{key}.consumer.1")
    return struct.pack(">i", size - 4) + head[4:]


def _kafka_refused(key: str) -> Iterator[bytes]:
    client = f"{key}.consumer.1"
    tx = kf.Writer(7, 0, 0, "tx")
    batch = kf.batch([value(key)])
    yield from (kf.produce(5, client, batch, version=each) for each in range(3, 14))
    yield from (kf.produce(5, client, batch, version=each, writer=tx) for each in range(3, 14))
    yield from (kf.fetch(5, client, 0, version=each) for each in range(4, 19))
    yield from (kf.commit(5, client, 2, version=each) for each in range(2, 11))
    yield from (kf.txn_commit(5, client, 2, tx, version=each) for each in range(7))
    yield from (kf.add_partitions(5, client, tx, 0, 1, version=each) for each in range(4))
    yield from (kf.add_offsets(5, client, tx, version=each) for each in range(5))
    yield from (kf.end_txn(5, client, tx, version=each) for each in range(6))
    yield from (
        kf.init_producer(5, client, name, 9, version=each)
        for each in range(7)
        for name in ("tx", None)
    )
    yield from (kf.join(5, client, version=each) for each in range(10))
    yield from (kf.sync(5, client, version=each) for each in range(6))
    yield from (kf.heartbeat(5, client, version=each) for each in range(5))
    yield from (kf.find_coordinator(5, client, version=each) for each in range(7))
    yield from (kf.find_coordinator(5, client, version=each, kind=1) for each in range(1, 7))


# --- PostgreSQL -----------------------------------------------------------------------------------


def _postgres_opening(key: str) -> list[Said]:
    return [(TO, pg.startup(f"{key}.consumer.1")), (FROM, pg.ready())]


def _postgres_question(key: str) -> list[Said]:
    parts = [pg.query("BEGIN"), pg.complete("BEGIN"), pg.ready("T")]
    parts += [
        pg.query(f"insert into t select '{value(key).decode()}'"),
        pg.complete("INSERT 0 1"),
        pg.ready("T"),
    ]
    parts.append(pg.query("COMMIT"))
    return list(zip((TO, FROM, FROM, TO, FROM, FROM, TO), parts, strict=True))


def _postgres_large(key: str, size: int) -> bytes:
    return b"d" + struct.pack(">i", size - 1)


# --- STOMP ----------------------------------------------------------------------------------------


def _stomp_opening(key: str) -> list[Said]:
    hello = {
        "accept-version": "1.2",
        "host": "h",
        "client-id": f"{key}.consumer.1",
        "heart-beat": "1000,2000",
    }
    return [
        (TO, made("CONNECT", hello)),
        (FROM, made("CONNECTED", {"version": "1.2", "heart-beat": "500,500"})),
    ]


def _stomp_question(key: str) -> list[Said]:
    body = value(key)
    headers = {"destination": "/queue/q", "receipt": "r-1", "content-length": str(len(body))}
    return [(TO, made("SEND", headers, body))]


def _stomp_large(key: str, size: int) -> bytes:
    head = made("SEND", {"destination": "/queue/q", "content-length": f"{size:010}"})[:-1]
    return made(
        "SEND", {"destination": "/queue/q", "content-length": f"{size - len(head) - 1:010}"}
    )[:-1]


def _stomp_refused(_key: str) -> Iterator[bytes]:
    yield made("SEND", {"destination": "/queue/a:b", "receipt": "1:2"}, b"x")
    yield made("ACK", {"id": "m-1", "receipt": "1:2"})
    yield made("COMMIT", {"transaction": "t", "receipt": "1:2"})


# --- OpenWire -------------------------------------------------------------------------------------


def _openwire_opening(key: str) -> list[Said]:
    told = [
        (TO, ow.connection(f"{key}.consumer.1")),
        (FROM, ow.answer(1)),
        (TO, ow.subscribe("q", 2)),
        (FROM, ow.answer(2)),
    ]
    return [
        (FROM, ow.hello()),
        (TO, ow.hello()),
        *told,
        (FROM, ow.dispatch(9, b"of somebody else")),
    ]


def _openwire_question(key: str) -> list[Said]:
    return [(TO, ow.send(3, value(key)))]


def _openwire_large(_key: str, size: int) -> bytes:
    whole = ow.send(3, b"")
    at = whole.rindex(ow.blob(b""))
    return struct.pack(">i", size - 4) + whole[4 : at + 1] + struct.pack(">i", size - len(whole))


def _openwire_refused(key: str) -> Iterator[bytes]:
    yield ow.send(3, value(key))
    yield ow.acknowledge(4, 9)
    yield ow.transact(5, 1, 2)


# --- AMQP -----------------------------------------------------------------------------------------


def _amqp_opening(key: str) -> list[Said]:
    return test_amqp.opening(f"{key}.consumer.1")


def _amqp_question(key: str) -> list[Said]:
    return [(TO, af.transfer(af.CHANNEL, test_amqp.SENDS, 1, af.message(value(key))))]


def _amqp_large(_key: str, size: int) -> bytes:
    whole = af.transfer(af.CHANNEL, test_amqp.SENDS, 1, af.message(b""))
    return struct.pack(">I", size) + whole[4:-4] + struct.pack(">I", size - len(whole))


# --- Pulsar ---------------------------------------------------------------------------------------

TOPIC = "persistent://public/default/q"


def _pulsar(command: Command, fields: dict[int, Any], message: bytes = b"") -> bytes:
    return pulsar.command(NUMBERS[command], fields, message)


def _pulsar_opening(key: str) -> list[Said]:
    name = f"{key}.consumer.1"
    return [
        (TO, _pulsar(Command.CONNECT, {1: "Pulsar-CPP-v4.0.0", 4: 20, 5: "basic", 3: f"{name}:x"})),
        (FROM, _pulsar(Command.CONNECTED, {1: "Pulsar Server", 2: 21})),
        (TO, _pulsar(Command.PRODUCER, {1: TOPIC, 2: 0, 3: 1, 4: name})),
        (FROM, _pulsar(Command.PRODUCER_SUCCESS, {1: 1, 2: name})),
    ]


def _pulsar_question(key: str) -> list[Said]:
    message = pulsar.message({1: f"{key}.consumer.1", 2: 7, 3: 1}, value(key))
    return [(TO, _pulsar(Command.SEND, {1: 0, 2: 7, 3: 1}, message))]


def _pulsar_large(_key: str, size: int) -> bytes:
    [(_, whole)] = _pulsar_question("k")
    return struct.pack(">I", size - 4) + whole[4:]


def _pulsar_refused(key: str) -> Iterator[bytes]:
    yield _pulsar_question(key)[0][1]
    transaction = {2: 3, 3: 1}
    yield _pulsar(Command.ACK, {1: 0, 2: 0, 3: pulsar_made({1: 4, 2: 0}), 6: 3, 7: 1, 8: 9})
    yield _pulsar(Command.NEW_TXN, {1: 9, 2: 30, 3: 0})
    yield _pulsar(Command.ADD_PARTITION_TO_TXN, {1: 9, **transaction, 4: TOPIC})
    yield _pulsar(
        Command.ADD_SUBSCRIPTION_TO_TXN, {1: 9, **transaction, 4: pulsar_made({1: TOPIC, 2: "s"})}
    )
    yield _pulsar(Command.END_TXN, {1: 9, **transaction, 4: 0})


# --- Core -----------------------------------------------------------------------------------------


def _core_opening(key: str) -> list[Said]:
    created = [(TO, core.GREETING), (TO, core.create(f"{key}.consumer.1")), (FROM, core.created())]
    return [
        *created,
        (TO, core.subscribe("q")),
        (FROM, core.answer()),
        (FROM, core.give(9, b"of somebody else")),
    ]


def _core_question(key: str) -> list[Said]:
    return [(TO, core.send(value(key), number=3))]


def _core_large(_key: str, size: int) -> bytes:
    return struct.pack(">i", size - 4) + core.send(b"")[4:]


def _core_refused(key: str) -> Iterator[bytes]:
    yield core.send(value(key))
    yield core.acknowledge(9)
    yield core.commit(5)


# --- ZooKeeper ------------------------------------------------------------------------------------


def _zookeeper_opening(key: str) -> list[Said]:
    path = f"/transactional/{key}.consumer.1/coordinator"
    return [
        (TO, zk.hello()),
        (FROM, zk.welcome()),
        (TO, zk.request(1, Op.EXISTS, path)),
        (FROM, zk.answer(1, zk.stat())),
    ]


def _zookeeper_question(key: str) -> list[Said]:
    return [(TO, zk.set_data(2, f"/transactional/{key}.consumer.1/coordinator/meta", value(key)))]


def _zookeeper_large(_key: str, size: int) -> bytes:
    whole = zk.set_data(2, "/a", b"")
    return struct.pack(">i", size - 4) + whole[4:-8] + struct.pack(">i", size - len(whole))


# --- any other ------------------------------------------------------------------------------------


def _tcp_opening(_key: str) -> list[Said]:
    return [(TO, b"good day"), (FROM, b"what is it?")]


def _tcp_question(key: str) -> list[Said]:
    return [(TO, value(key))]


def _tcp_large(_key: str, size: int) -> bytes:
    return b"x" * min(size, 64)


PROTOCOLS = {
    "amqp": Speaker(
        "amqp",
        _amqp_opening,
        _amqp_question,
        af.disposition(af.BACK, 1),
        "transfer",
        "disposition",
        _amqp_large,
        beat=af.ALIVE,
    ),
    "core": Speaker(
        "core",
        _core_opening,
        _core_question,
        core.answer(3),
        "SESS_SEND",
        "NULL_RESPONSE",
        _core_large,
        beat=core.ping(),
        refused=lambda key: tuple(_core_refused(key)),
    ),
    "kafka": Speaker(
        "kafka",
        _kafka_opening,
        _kafka_question,
        kf.produce_answer(2),
        "Produce",
        "Produce",
        _kafka_large,
        anonymous=True,
        refused=lambda key: tuple(_kafka_refused(key)),
    ),
    "openwire": Speaker(
        "openwire",
        _openwire_opening,
        _openwire_question,
        ow.answer(3),
        "MESSAGE",
        "RESPONSE",
        _openwire_large,
        beat=ow.alive(),
        refused=lambda key: tuple(_openwire_refused(key)),
    ),
    "others-postgres": Speaker(
        "others-postgres",
        _postgres_opening,
        _postgres_question,
        pg.complete("COMMIT"),
        "DatabaseCommit",
        "DatabaseCommit",
        _postgres_large,
    ),
    "postgres": Speaker(
        "postgres",
        _postgres_opening,
        _postgres_question,
        pg.complete("COMMIT"),
        "DatabaseCommit",
        "DatabaseCommit",
        _postgres_large,
    ),
    "pulsar": Speaker(
        "pulsar",
        _pulsar_opening,
        _pulsar_question,
        _pulsar(Command.SEND_RECEIPT, {1: 0, 2: 7, 3: pulsar_made({1: 4, 2: 0})}),
        "SEND",
        "SEND_RECEIPT",
        _pulsar_large,
        beat=_pulsar(Command.PING, {}),
        refused=lambda key: tuple(_pulsar_refused(key)),
    ),
    "service": Speaker(
        "service",
        _postgres_opening,
        _postgres_question,
        pg.complete("COMMIT"),
        "DatabaseCommit",
        "DatabaseCommit",
        _postgres_large,
        takes_anything=True,
    ),
    "stomp": Speaker(
        "stomp",
        _stomp_opening,
        _stomp_question,
        made("RECEIPT", {"receipt-id": "r-1"}),
        "SEND",
        "RECEIPT",
        _stomp_large,
        beat=b"\n",
        refused=lambda key: tuple(_stomp_refused(key)),
    ),
    "tcp": Speaker(
        "tcp",
        _tcp_opening,
        _tcp_question,
        b"done",
        "Turn",
        "Turn",
        _tcp_large,
        reads=False,
        takes_anything=True,
    ),
    "zookeeper": Speaker(
        "zookeeper",
        _zookeeper_opening,
        _zookeeper_question,
        zk.answer(2, zk.stat()),
        "setData",
        "setData",
        _zookeeper_large,
        beat=zk.ping(),
    ),
}
"""A new protocol is a line here."""


def protocol_params() -> list[Any]:
    """Return the protocols as parameters of a fixture."""
    return [pytest.param(speaker, id=name) for name, speaker in PROTOCOLS.items()]


KEYS = (f"cp{number:06x}" for number in itertools.count(1))
