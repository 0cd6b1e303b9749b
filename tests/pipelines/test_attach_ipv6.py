"""A check on a Kafka that listens on an IPv6 address alone."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from harness.judge.verdict import Kind
from harness.matrix.checking import Check
from harness.matrix.progress import make_progress
from harness.model import events as kinds
from harness.model.history import HISTORY, read_history
from harness.pipelines import read_pipeline
from harness.runtimes.ports import PortLease
from harness.systems.declared.brokers.attached import AttachedKafka
from harness.systems.declared.brokers.attachment import Attachment
from harness.systems.declared.system import DeclaredSystem
from tests.pipelines.test_check import EXAMPLES, Silent
from tests.proxy.own_kafka import OwnKafka, wait_for_brokers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.kafka, pytest.mark.rest(together=True), pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start it; return its address."""
    made = OwnKafka(tmp_path_factory.mktemp("ipv6"))
    with PortLease(2) as lease:
        controller, direct = lease.ports
        at = f"[::1]:{direct}"
        try:
            made.start(
                1,
                {
                    "process.roles": "broker,controller",
                    "controller.listener.names": "CONTROLLER",
                    "controller.quorum.voters": f"1@127.0.0.1:{controller}",
                    "listeners": f"CONTROLLER://127.0.0.1:{controller},PLAINTEXT://{at}",
                    "advertised.listeners": f"PLAINTEXT://{at}",
                    "offsets.topic.replication.factor": "1",
                    "offsets.topic.num.partitions": "1",
                    "group.initial.rebalance.delay.ms": "0",
                },
            )
            wait_for_brokers(at, 1)
            yield at
        finally:
            made.close()


def run(broker: str, folder: Path, *, past: bool) -> tuple[Kind, str, Path]:
    """Run the example once without a fault; ``past``: its consumer also asks the broker itself."""
    mine = folder / "mine"
    shutil.copytree(EXAMPLES / "orders", mine)
    if past:
        program = mine / "consumer.py"
        text = program.read_text(encoding="utf-8")
        asks = f"other = KafkaConsumer(bootstrap_servers={broker!r})\nother.topics()\n"
        told = text.replace("for message in consumer:", f"{asks}for message in consumer:")
        assert told != text
        program.write_text(told, encoding="utf-8")
    pipeline = read_pipeline(mine / "pipeline.toml")
    system = DeclaredSystem(keep=True, source=AttachedKafka(Attachment(broker, pipeline)))
    try:
        with make_progress(Silent()) as progress:
            dry = Check(pipeline, system, folder / "runs", "pytest").dry_run(progress)
    finally:
        system.close()
    return dry.verdict.kind, dry.verdict.reason, dry.directory / HISTORY


def test_a_broker_at_an_ipv6_address_is_attached_to(broker: str, tmp_path: Path) -> None:
    kind, reason, history = run(broker, tmp_path, past=False)
    assert kind is Kind.KEPT, reason
    reached = {event.node for event in read_history(history).of(kinds.Conn)}
    assert reached == {"bootstrap", "broker-1"}


def test_a_program_that_knows_that_address_is_found(broker: str, tmp_path: Path) -> None:
    """As it is with IPv4."""
    kind, reason, _ = run(broker, tmp_path, past=True)
    assert kind is Kind.VOID
    assert f"is connected to {broker}, the broker's own address" in reason
