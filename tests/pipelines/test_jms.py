"""Programs in Java on a real ActiveMQ and a real Artemis, each with a library of JMS as it comes:
their defaults are not those of lostack's own clients.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from harness.judge.verdict import Kind
from harness.provision.cache import cache_root
from harness.provision.compiled import compiled
from harness.provision.jars import ensure_jars, read_jar_set
from harness.provision.java import find_java
from tests.pipelines.test_check import PROGRAMS, check

if TYPE_CHECKING:
    from pathlib import Path

    from harness.systems.declared.system import DeclaredSystem

pytestmark = [pytest.mark.rest, pytest.mark.timeout(300)]
JMS = "jakarta.jms-api-2.0.3.jar"
OPENWIRE = ("openwire-5.18.6", "org.apache.activemq.ActiveMQConnectionFactory", "failover:(tcp://")
LIBRARIES = {
    "openwire": OPENWIRE,
    "core": (
        "core-2.44.0",
        "org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory",
        "(tcp://",
    ),
    "amqp": ("amqp-1.11.0", "org.apache.qpid.jms.JmsConnectionFactory", "failover:(amqp://"),
}
"""The jars of each protocol's library, its factory, and how the broker's address begins."""
OVERTAKES = "commit-overtakes-work"
ON = [
    pytest.param(system, protocol, id=f"{system}-{protocol}", marks=getattr(pytest.mark, system))
    for system, protocols in (
        ("activemq", ("openwire", "amqp")),
        ("artemis", ("openwire", "core", "amqp")),
    )
    for protocol in protocols
]


def declared(folder: Path, system: str, protocol: str, *changes: tuple[str, str]) -> Path:
    """Return the declaration of the programs, with another library and other changes."""
    shutil.copytree(PROGRAMS / "jms", folder)
    java = find_java(cache_root(), print)
    jars = ensure_jars(read_jar_set(OPENWIRE[0]), cache=cache_root(), java=java, say=print)
    sources = sorted(folder.glob("*.java"))
    shutil.copy(compiled("orders", sources, [jars / JMS], print), folder / "orders.jar")
    file = folder / "pipeline.toml"
    text = file.read_text(encoding="utf-8")
    others = zip(OPENWIRE, LIBRARIES[protocol], strict=True)
    mine = [('system = "artemis"', f'system = "{system}"'), ('"openwire"', f'"{protocol}"')]
    for old, new in (*mine, *others, *changes):
        assert old in text
        text = text.replace(old, new)
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize(("broker", "protocol"), ON)
def test_who_acknowledges_after_the_work_loses_nothing(
    system: DeclaredSystem, tmp_path: Path, broker: str, protocol: str
) -> None:
    """The wire reads what the library speaks unless it is told otherwise, and strikes there."""
    points = ("acknowledgement-lost", "consumer-crash-before-delivery", OVERTAKES)
    file = declared(tmp_path / "programs", broker, protocol)
    found = check(system, tmp_path / "reports", file, *points)
    assert {name: result.verdict.kind for name, result in found.items()} == dict.fromkeys(
        points, Kind.KEPT
    ), [result.verdict.reason for result in found.values()]
    assert all(found[name].verdict.fired == 1 for name in points if name != OVERTAKES)
    lost = found["acknowledgement-lost"]
    assert lost.plan.target in lost.judgement.account.duplicated


@pytest.mark.parametrize(("broker", "protocol"), ON)
def test_whose_library_acknowledges_before_the_work_loses_the_record(
    system: DeclaredSystem, tmp_path: Path, broker: str, protocol: str
) -> None:
    """The library acknowledges a message as it hands it out, before the program has written it."""
    automatic = ("OrderConsumer {work}/orders.txt", "OrderConsumer {work}/orders.txt auto")
    file = declared(tmp_path / "programs", broker, protocol, automatic)
    found = check(system, tmp_path / "reports", file, OVERTAKES)[OVERTAKES]
    assert found.verdict.kind is Kind.BROKEN, found.verdict.reason
    assert found.plan.target in found.judgement.account.lost
