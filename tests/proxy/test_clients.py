"""The proxy in front of a real Kafka as it is, with two clients, and the page's first example."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import uuid
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer

from harness.model import events as kinds
from harness.model.history import read_history
from harness.proxy.delivered import assert_delivered
from harness.proxy.proxy import Proxy
from tests.docs.pages import ROOT
from tests.pipelines.test_attach import broker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["broker"]
pytestmark = [pytest.mark.kafka, pytest.mark.rest, pytest.mark.timeout(400)]
SENT = [f"{number}" for number in range(40)]


def by_kafka_python(bootstrap: str, topic: str, *, idempotent: bool) -> list[str]:
    """Send and read all records; return what was read."""
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=idempotent)
    for number in SENT:
        producer.send(topic, json.dumps({"order": int(number)}).encode()).get(timeout=60)
    producer.close()
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=f"g-{topic}",
        auto_offset_reset="earliest",
        consumer_timeout_ms=6000,
    )
    rows = [str(json.loads(message.value)["order"]) for message in consumer]
    consumer.close()
    return rows


def by_librdkafka(bootstrap: str, topic: str, *, idempotent: bool) -> list[str]:
    """Send and read all records; return what was read."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": idempotent,
            "acks": "all",
            "linger.ms": 0,
        }
    )
    for number in SENT:
        producer.produce(topic, json.dumps({"order": int(number)}).encode())
        assert producer.flush(60) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"g-{topic}",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    rows: list[str] = []
    silent = 0
    while silent < (8 if rows else 40):
        message = consumer.poll(1.0)
        if message is None or message.error():
            silent += 1
            continue
        silent = 0
        rows.append(str(json.loads(message.value() or b"null")["order"]))
    consumer.close()
    return rows


@pytest.mark.parametrize("client", [by_kafka_python, by_librdkafka])
def test_all_goes_through_and_a_lost_answer_duplicates(
    broker: str, tmp_path: Path, client: Callable[..., list[str]]
) -> None:
    """Each broker gets its port; the record whose answer was lost is there twice if the producer is
    not idempotent, and once if it is.
    """
    for idempotent, claim in ((True, "exactly"), (False, "at_least")):
        topic, folder = f"orders-{uuid.uuid4()}", tmp_path / claim
        with Proxy(broker.split(",", maxsplit=1)[0], history=folder) as proxy:
            with proxy.lose("Produce", answer=True, record={"order": 17}) as fault:
                rows = client(proxy.bootstrap, topic, idempotent=idempotent)
            assert fault.fired == 1
            assert_delivered(SENT, rows, **{claim: "once"}, proxy=proxy)
            assert rows.count("17") == (1 if idempotent else 2)
            [seen] = [way for way in proxy.records(topic) if way.is_of({"order": 17})]
            assert (seen.sent, seen.fetched) == (2, 1 if idempotent else 2)
        lines = read_history(folder / "history")
        reached = {event.node for event in lines.of(kinds.Frame)} - {"bootstrap"}
        assert reached <= {f"broker-{7 + number}" for number in range(len(broker.split(",")))}
        assert reached
        assert any(event.renamed for event in lines.of(kinds.Frame))


@pytest.mark.parametrize("broker", [1], indirect=True)
def test_the_first_example_of_the_page_runs_as_it_stands(broker: str, tmp_path: Path) -> None:
    text = (ROOT / "docs" / "proxy.md").read_text(encoding="utf-8")
    found = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert found is not None
    for program, code in (
        (found[1], 0),
        (found[1].replace('acks="all"', 'acks="all", enable_idempotence=False'), 1),
    ):
        (tmp_path / "test_it.py").write_text(program, encoding="utf-8")
        done = subprocess.run(
            (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "KAFKA": broker},
        )
        assert done.returncode == code, done.stdout + done.stderr
        assert ("1 duplicated: 17" in done.stdout) is bool(code)
