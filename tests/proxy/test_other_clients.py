"""Clients in other languages in front of a real Kafka of two brokers, as it is: all that they do
goes through the proxy, and a lost answer makes a duplicate of what is not idempotent.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import uuid
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from kafka.admin import KafkaAdminClient

from harness.provision.compiled import compiled
from harness.provision.jars import read_jar_set
from harness.proxy.proxy import Proxy
from tests.pipelines.test_attach import broker
from tests.proxy.toolchains import fetched, go, jars_of, said

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["broker"]
pytestmark = [
    pytest.mark.kafka,
    pytest.mark.strace,
    pytest.mark.rest(together=True),
    pytest.mark.timeout(600),
    pytest.mark.parametrize("broker", [2], indirect=True),
]
PROGRAMS: Final = Path(__file__).with_name("programs")
COUNT: Final = 300
PARTITIONS: Final = 4
TO: Final = re.compile(r"connect\(.*sin6?_port=htons\((\d+)\)")


def in_go(name: str, to: Path) -> list[str]:
    """Return the command of a program in Go, built there."""
    folder = to / name
    shutil.copytree(PROGRAMS / name, folder)
    fetched([str(go()), "mod", "download"], folder)
    code, text = said([str(go()), "build", "-mod=readonly", "-o", "client", "."], folder)
    assert code == 0, text
    return [str(folder / "client")]


def in_javascript(to: Path) -> list[str]:
    """Return the command of the program in JavaScript."""
    folder = to / "kafkajs"
    shutil.copytree(PROGRAMS / "kafkajs", folder, ignore=shutil.ignore_patterns("node_modules"))
    fetched(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], folder)
    return ["node", str(folder / "client.mjs")]


def in_java(version: str, main: str, _: Path) -> list[str]:
    """Return the command of a program in Java."""
    java, jars = jars_of(read_jar_set(f"kafka-clients-{version}"))
    sources = [PROGRAMS / "java" / f"{name}.java" for name in dict.fromkeys(("Client", main))]
    jar = compiled("client", sources, jars, print)
    return [str(java.path), "-cp", os.pathsep.join(map(str, [jar, *jars])), main]


CLIENTS: Final[Mapping[str, tuple[Callable[[Path], list[str]], str]]] = {
    "franz-go": (partial(in_go, "franz"), ""),
    "sarama": (partial(in_go, "sarama"), ""),
    "kafkajs": (in_javascript, ""),
    "java-3.9.1-classic": (partial(in_java, "3.9.1", "Client"), "classic"),
    "java-3.9.1-consumer": (partial(in_java, "3.9.1", "Client"), "consumer"),
    "java-4.3.0-classic": (partial(in_java, "4.3.0", "Client"), "classic"),
    "java-4.3.0-consumer": (partial(in_java, "4.3.0", "Client"), "consumer"),
    "java-4.3.0-share": (partial(in_java, "4.3.0", "Sharing"), "share"),
}
"""How the program of each is made, and its group's protocol."""
MARKS: Final = {"franz-go": [pytest.mark.go], "sarama": [pytest.mark.go]} | {
    "kafkajs": [pytest.mark.node]
}


def orders_read(
    command: list[str], bootstrap: str, topic: str, folder: Path, *more: str
) -> tuple[Counter[int], set[int]]:
    """Run a client; return what it read, and the ports that it connected to."""
    log = folder / "connects"
    traced = ["strace", "--follow-forks", "--seccomp-bpf", "--trace=connect", f"--output={log}"]
    code, text = said([*traced, *command, bootstrap, topic, str(COUNT), *more], folder)
    assert code == 0, text
    ports = {int(port) for port in TO.findall(log.read_text(encoding="utf-8", errors="replace"))}
    return Counter(json.loads(text.splitlines()[-1])), ports


def made(broker: str) -> str:
    """Make a topic, straight at the broker."""
    topic = f"orders-{uuid.uuid4()}"
    admin = KafkaAdminClient(bootstrap_servers=broker)
    admin.create_topics({topic: {"num_partitions": PARTITIONS, "replication_factor": 1}})
    admin.close()
    return topic


@pytest.mark.parametrize(
    "client", [pytest.param(name, marks=MARKS.get(name, ())) for name in CLIENTS]
)
def test_all_goes_through_and_a_lost_answer_duplicates(
    broker: str, tmp_path: Path, client: str
) -> None:
    """300 records and a group: counts are equal, and no connection goes past the proxy."""
    program, protocol = CLIENTS[client]
    command = program(tmp_path)
    own = {int(each.rpartition(":")[2]) for each in broker.split(",")}
    for idempotent in (True, False):
        topic = made(broker)
        with Proxy(broker.split(",", maxsplit=1)[0]) as proxy:
            with proxy.lose("Produce", answer=True, topic=topic, record={"order": 17}) as fault:
                read, ports = orders_read(
                    command, proxy.bootstrap, topic, tmp_path, str(idempotent).lower(), protocol
                )
            assert fault.fired == 1
            wanted = Counter(range(COUNT)) + Counter([] if idempotent else [17])
            assert read == wanted, read - wanted
            seen = proxy.records(topic)
            assert len(seen) == COUNT
            assert sum(way.sent for way in seen) == COUNT + 1
            assert sum(way.acknowledged for way in seen) == COUNT
            assert sum(way.fetched for way in seen) >= read.total()
        assert not ports & own
        assert len(ports) >= len(own)


@pytest.mark.go
def test_a_client_that_goes_past_the_proxy_is_found(broker: str, tmp_path: Path) -> None:
    """By the ports that it connected to: the brokers' own."""
    command = in_go("franz", tmp_path)
    own = {int(each.rpartition(":")[2]) for each in broker.split(",")}
    first = broker.split(",", maxsplit=1)[0]
    _, ports = orders_read(command, first, made(broker), tmp_path, "true")
    assert own <= ports
