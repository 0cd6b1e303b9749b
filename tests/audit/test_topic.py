"""A real topic read by a real Spark: what was aborted is not read, what is still open
is not lost.
"""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from kafka import KafkaProducer

from harness import registry
from harness.audit import on_spark
from harness.audit.failures import AuditError
from harness.audit.fetching import OffsetRange, UnreadableError, fetched
from harness.audit.findings import Findings, Span, rule
from harness.audit.here import audit_here, can_read
from harness.audit.on_spark import audit_on_spark
from harness.audit.spec import Rows, parse
from harness.audit.texts import reader_of
from harness.judge.verdict import Kind
from harness.model.record import Record
from harness.model.scenario import Deployment
from harness.model.semantics import Semantic
from harness.runtimes.ports import PortLease
from tests.audit.test_unreadable import TEXTS, random_texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(600)]
CELL = "c0ffee"


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Give a broker of one's own."""
    system = registry.system("kafka")
    system.prepare(print)
    deployed: Any = system.deploy(Deployment.OWN, tmp_path_factory.mktemp("kafka"))
    yield deployed.transport
    deployed.close()


def look(spark: SparkSession, offered: str, arrived: str) -> Findings:
    """Audit on the session of the tests, and without Spark where that can be: both find the very
    same.
    """
    left, right = parse(offered), parse(arrived)
    assert isinstance(right, Rows)
    if not (can_read(left) and can_read(right)):
        return audit_on_spark(spark, left, right)
    found, on_spark_ = (
        _outcome(way)
        for way in (lambda: audit_here(left, right), lambda: audit_on_spark(spark, left, right))
    )
    assert found == on_spark_
    if isinstance(found, str):
        raise AuditError(found)
    return found


def _outcome(way: Callable[[], Findings]) -> Findings | str:
    try:
        return way()
    except AuditError as error:
        return str(error)


def test_transactions_retries_and_damage(spark: SparkSession, kafka: Any) -> None:
    """Ten of ours: 1-6 committed, 7-8 aborted, 3 stored twice, 9 damaged, 10 never sent; then an
    open transaction.
    """
    servers = kafka.broker.bootstrap
    kafka.observer.create_topics({"ours": (2, {})})
    producer = KafkaProducer(bootstrap_servers=servers, transactional_id="audit")
    records = {
        number: Record(f"k{number % 2}-{number}", f"k{number % 2}", number, "filler")
        for number in range(1, 11)
    }

    def send(number: int, value: bytes | None = None) -> None:
        record = records[number]
        producer.send(
            "ours", value or record.encode(CELL), key=record.key.encode(), partition=number % 2
        )

    producer.init_transactions()
    producer.begin_transaction()
    for number in (1, 2, 3, 4, 6, 5):
        send(number)
    producer.commit_transaction()
    producer.begin_transaction()
    send(7)
    send(8)
    producer.flush()  # or they would never be sent
    producer.abort_transaction()
    producer.begin_transaction()
    send(3)
    send(9, records[9].encode(CELL)[:-1])
    producer.commit_transaction()
    spec = f"kafka:{servers}/ours"
    found = look(spark, f"range:{CELL}=1-10", spec)
    assert (found.arrived, found.lost, found.duplicated, found.phantom) == (6, 4, 1, 1)
    assert (found.stored_twice, found.recorded_twice, found.reordered) == (1, 0, 0)
    assert found.lost_ranges == (Span(CELL, 7, 10),)
    assert [(str(e.anomaly), e.number, e.places) for e in found.examples] == [
        ("duplicated", 3, ("ours/1/1", "ours/1/6")),
        ("phantom", None, ("ours/1/7",)),
    ]
    assert rule(found, Semantic.AT_LEAST_ONCE).kind is Kind.BROKEN
    producer.begin_transaction()
    send(10)
    producer.flush()
    found = look(spark, f"range:{CELL}=1-8,{CELL}=10-10", spec)
    assert "open transaction" in found.unseen[0]
    assert found.lost == 3
    assert rule(found, Semantic.AT_LEAST_ONCE).reason.startswith(
        "at-least-once forbids what was found: 1 phantom"
    )
    producer.abort_transaction()
    producer.close()


def test_two_topics_by_header_by_json_and_by_pattern(spark: SparkSession, kafka: Any) -> None:
    """One topic offers, another holds what arrived; three ways to say where the id stands; one
    swapped pair.
    """
    servers = kafka.broker.bootstrap
    kafka.observer.create_topics({"in": (1, {}), "out": (1, {})})
    producer = KafkaProducer(bootstrap_servers=servers, linger_ms=5)
    for number in range(1, 101):
        producer.send("in", json.dumps({"order": {"seq": number}}).encode(), key=b"a")
    arrived = [*range(1, 41), 42, 41, *range(43, 90), 50, 101]
    for number in arrived:
        producer.send(
            "out", f"a:{number}".encode(), key=b"a", headers=[("seq", str(number).encode())]
        )
    producer.flush()
    producer.close()
    offered = f"kafka:{servers}/in#id=json:$.order.seq&key=key"
    for spec in ("id=header:seq&key=key", "id=value&pattern=^(.):(\\d%2B)$"):
        found = look(spark, offered, f"kafka:{servers}/out#{spec}")
        assert (found.offered, found.arrived, found.lost, found.duplicated, found.phantom) == (
            100,
            89,
            11,
            1,
            1,
        )
        assert found.reordered == 1
        assert found.lost_ranges == (Span("a", 90, 100),)


def test_fetched_by_the_tasks_or_by_sparks_connector(spark: SparkSession, kafka: Any) -> None:
    """Random transactions, each codec, foreign ids, damage, order, phantoms: both ways find the
    very same, places included.
    """
    servers, rng = kafka.broker.bootstrap, random.Random(11)
    kafka.observer.create_topics({"random": (2, {})})
    for codec in (None, "gzip", "snappy", "lz4", "zstd"):
        producer = KafkaProducer(
            bootstrap_servers=servers,
            transactional_id=f"t-{codec}",
            compression_type=codec,
            linger_ms=5,
        )
        producer.init_transactions()
        for _ in range(6):
            producer.begin_transaction()
            for _ in range(rng.randint(1, 60)):
                number = rng.choice([*range(400), 5000])
                value = rng.choice(
                    [f"{number};é\n", f"{number};", f"{number};", "none", ""]
                ).encode() + b"x" * rng.randint(0, 300)
                key = rng.choice([None, b"a", b"b"])
                producer.send(
                    "random",
                    value,
                    key=key,
                    partition=number % 2,
                    headers=[("n", str(number).encode())],
                )
            producer.flush()
            if rng.random() < 0.3:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
        producer.close()
    for options in ("id=header:n&key=key", "id=value&key=key&pattern=^(\\d%2B);(?:.*x)?$"):
        arrived = parse(f"kafka:{servers}/random#{options}")
        assert isinstance(arrived, Rows)
        assert reader_of(arrived) is not None
        offered = parse("range:0-449,a=0-449")
        fetched, read = (
            on_spark._audit(spark, offered, arrived, straight=way) for way in (True, False)
        )
        assert fetched.reordered is not None
        assert (
            min(
                fetched.arrived,
                fetched.lost,
                fetched.duplicated,
                fetched.phantom,
                fetched.reordered,
            )
            > 0
        )
        assert sorted(map(str, fetched.examples)) == sorted(map(str, read.examples))
        assert replace(fetched, examples=()) == replace(read, examples=())
        assert audit_here(offered, arrived) == fetched


RARELY = [
    pytest.param(each, marks=pytest.mark.rest(together="spark"))
    for each in (
        "id=value",
        "id=header:n",
        "id=value&key=key",
        "id=value&pattern=^(\\d%2B)$",
    )
]


@pytest.mark.parametrize("options", ["id=key", *RARELY])
def test_what_is_no_id_is_the_same_for_the_tasks_and_for_sparks_connector(
    spark: SparkSession, kafka: Any, options: str
) -> None:
    """Texts that are ids and that are none, on either side: the same counts, the same first three
    with why and where; void.
    """
    servers, topic = kafka.broker.bootstrap, re.sub(r"\W+", "-", options)
    kafka.observer.create_topics({topic: (2, {})})
    producer = KafkaProducer(bootstrap_servers=servers, linger_ms=5)
    texts = [*(text for text, _, _ in TEXTS), *random_texts(7)]
    for at, (text, other) in enumerate(zip(texts, random_texts(8, len(texts)), strict=True)):
        key = {"id=key": text, "id=value&key=key": other or b"k"}.get(options, b"k")
        value = text if options.startswith("id=value") else b"payload"
        producer.send(
            topic,
            value,
            key=key,
            partition=at % 2,
            headers=[("n", text)] if text is not None else [],
        )
    producer.flush()
    producer.close()
    both = parse(f"kafka:{servers}/{topic}#{options}")
    assert isinstance(both, Rows)
    assert reader_of(both) is not None
    for offered in (parse("range:0-99"), both):
        fetched, read = (
            on_spark._audit(spark, offered, both, straight=way) for way in (True, False)
        )
        assert fetched.unread_arrived.rows > 100
        assert len(fetched.unread_arrived.first) == 3
        assert [one.place.split("/")[1] for one in fetched.unread_arrived.first] == ["0"] * 3
        assert sorted(map(str, fetched.examples)) == sorted(map(str, read.examples))
        assert replace(fetched, examples=()) == replace(read, examples=())
        assert audit_here(offered, both) == fetched
        assert rule(fetched, Semantic.EXACTLY_ONCE).kind is Kind.VOID
    assert fetched.unread_offered == fetched.unread_arrived


@pytest.mark.rest(together="spark")
def test_padded_keys_of_another_verifier_are_all_there(spark: SparkSession, kafka: Any) -> None:
    """Eighteen digits each: kept, with a stranger's record if one was stated, and void without."""
    servers = kafka.broker.bootstrap
    kafka.observer.create_topics({"padded": (2, {})})
    producer = KafkaProducer(bootstrap_servers=servers, linger_ms=5)
    for number in range(1000):
        producer.send("padded", b"payload", key=b"%018d" % number, partition=number % 2)
    producer.flush()
    arrived = f"kafka:{servers}/padded#id=key"
    assert (
        rule(look(spark, "range:0-999", arrived), Semantic.EXACTLY_ONCE).reason
        == "1000 of 1000 arrived"
    )
    producer.send("padded", b"payload", key=b"heartbeat", partition=1)
    producer.flush()
    producer.close()
    said = rule(look(spark, "range:0-999", arrived), Semantic.EXACTLY_ONCE)
    assert said.kind is Kind.VOID
    assert (
        "1 of 1001 rows that arrived cannot be read as an id: 'heartbeat' (it is no whole "
        "number, at padded/1/500)"
    ) in said.reason
    stated = rule(look(spark, "range:0-999", f"{arrived}&unreadable=1"), Semantic.EXACTLY_ONCE)
    assert stated.reason == "1000 of 1000 arrived; 1 unreadable that arrived, 1 permitted"
    ours = look(spark, "range:0-999", f"kafka:{servers}/padded")
    assert (ours.phantom, ours.unread_arrived.rows, ours.lost) == (0, 1001, 1000)
    assert rule(ours, Semantic.EXACTLY_ONCE).kind is Kind.VOID


@pytest.mark.rest(together="spark")
def test_a_topic_that_cannot_be_read(spark: SparkSession, kafka: Any) -> None:
    """No such topic, nobody there: one line, within the time-out."""
    with pytest.raises(AuditError, match="there is no such topic"):
        look(spark, "range:1-2", f"kafka:{kafka.broker.bootstrap}/nowhere")
    with PortLease(1) as lease, pytest.raises(AuditError, match="no broker answers there"):
        look(spark, "range:1-2", f"kafka:127.0.0.1:{lease.port}/topic")


def test_what_retention_has_taken_is_not_called_lost(spark: SparkSession, kafka: Any) -> None:
    """The log begins above zero: no conviction for what may have stood there."""
    from kafka import KafkaAdminClient, TopicPartition  # noqa: PLC0415

    servers = kafka.broker.bootstrap
    kafka.observer.create_topics({"short": (1, {})})
    producer = KafkaProducer(bootstrap_servers=servers)
    for number in range(10):
        producer.send("short", str(number).encode()).get(10)
    producer.close()
    admin = KafkaAdminClient(bootstrap_servers=servers)
    admin.delete_records({TopicPartition("short", 0): 4})
    admin.close()
    found = look(spark, "range:0-9", f"kafka:{servers}/short#id=value")
    assert (found.lost, found.arrived) == (4, 6)
    assert rule(found, Semantic.AT_LEAST_ONCE).kind is Kind.VOID
    assert "earlier records were deleted" in rule(found, Semantic.AT_LEAST_ONCE).reason
    with pytest.raises(
        UnreadableError, match=r"partition 0 of short cannot be read at offset 0: it is gone"
    ):
        list(
            fetched(OffsetRange(servers, "short", 0, 0, 10))
        )  # as where retention overtakes an audit
