"""Faults of clients that our programs work around: each is shown here, so that the work-around goes
when the fault does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import CommitFailedError, KafkaTimeoutError, UnknownBrokerIdError
from kafka.net.compat import KafkaNetClient
from kafka.producer.record_accumulator import RecordAccumulator
from kafka.producer.sender import Sender
from kafka.producer.transaction_manager import TransactionManager
from kafka.protocol.consumer.fetch import FetchRequest
from kafka.protocol.metadata import MetadataResponse
from kafka.structs import ConsumerGroupMetadata, OffsetAndMetadata

from harness.model.scenario import Role
from harness.model.waiting import wait_until
from harness.stages.clients.kafka_python import Producer

if TYPE_CHECKING:
    from harness.systems.kafka.transport import KafkaTransport

MetadataResponseTopic = MetadataResponse.MetadataResponseTopic

pytestmark = [pytest.mark.kafka, pytest.mark.rest, pytest.mark.timeout(300)]


def test_kafka_python_sends_refused_offsets_again_in_the_next_transaction(
    kafka: KafkaTransport,
) -> None:
    """3.0.12: what a group refused in one transaction, aborted since, is committed with the offsets
    of the next one.
    """
    kafka.observer.create_topics({"in": (2, {})})
    producer = KafkaProducer(bootstrap_servers=kafka.broker.bootstrap, transactional_id="t")
    producer.init_transactions()
    producer.begin_transaction()
    stale = ConsumerGroupMetadata("group", 7, "put-out", None)
    with pytest.raises(CommitFailedError):
        producer.send_offsets_to_transaction(
            {TopicPartition("in", 0): OffsetAndMetadata(5, "", -1)}, stale
        )
    producer.abort_transaction()
    producer.begin_transaction()
    simple = ConsumerGroupMetadata("group", -1, "", None)
    producer.send_offsets_to_transaction(
        {TopicPartition("in", 1): OffsetAndMetadata(1, "", -1)}, simple
    )
    producer.commit_transaction()
    producer.close()
    positions = kafka.observer.positions("group", "in")
    assert positions == {0: 5, 1: 1}, "mended: Processor._in_transaction can keep its producer now"


def test_kafka_python_with_idempotence_does_not_come_back_from_a_record_given_up(
    kafka: KafkaTransport,
) -> None:
    """3.0.12: a delivery time-out with the request on its way, and nothing is sent any more, though
    the broker is well again.
    """
    impatient = {
        "bootstrap_servers": kafka.bootstrap(Role.PRODUCER),
        "enable_idempotence": True,
        "request_timeout_ms": 500,
        "delivery_timeout_ms": 1500,
        "reconnect_backoff_ms": 20,
    }
    kafka.observer.create_topics({"in": (1, {})})
    producer = KafkaProducer(**impatient)
    producer.send("in", b"1").get(20)
    kafka.broker.process().pause()
    with pytest.raises(KafkaTimeoutError):
        producer.send("in", b"2").get(20)
    kafka.broker.process().resume()
    with pytest.raises(KafkaTimeoutError):  # where this is mended, produce() can keep its producer
        producer.send("in", b"3").get(10)
    with pytest.raises(KafkaTimeoutError):
        producer.close(timeout=0)
    producer._sender.force_close()  # it would go on, and raise once more when it is collected
    successor = KafkaProducer(**impatient)
    successor.send("in", b"3").get(20)
    successor.close(timeout=1)


def test_kafka_python_never_asks_a_broker_again_that_it_could_not_ask(
    kafka: KafkaTransport,
) -> None:
    """3.0.12: the metadata lose a broker between the plan of a fetch and the fetch: poll raises,
    and the broker stays out.
    """
    kafka.observer.create_topics({"in": (1, {})})
    producer = KafkaProducer(bootstrap_servers=kafka.broker.bootstrap)
    producer.send("in", b"1").get(20)
    consumer = KafkaConsumer(bootstrap_servers=kafka.broker.bootstrap)
    consumer.assign([TopicPartition("in", 0)])
    consumer.seek(TopicPartition("in", 0), 0)
    assert wait_until(lambda: consumer.poll(200), within_s=20, because="a record")
    manager = consumer._fetcher._manager
    send = manager.send

    def left(request: object, *rest: Any, **where: Any) -> object:
        """Say of the next fetch what is said where the metadata have its broker no more."""
        if not isinstance(request, FetchRequest):
            return send(request, *rest, **where)
        manager.send = send
        raise UnknownBrokerIdError(where["node_id"])

    manager.send = left
    with pytest.raises(UnknownBrokerIdError):
        wait_until(lambda: consumer.poll(200), within_s=20, because="the next fetch")
    producer.send("in", b"2").get(20)
    producer.close()
    assert not consumer.poll(3000), "mended: Consumer.poll can keep its client now"
    consumer.close(autocommit=False)


def test_kafka_python_sends_nothing_any_more_to_a_leader_that_is_no_broker() -> None:
    """3.0.12: one answer names a leader that it does not list among the brokers, and the sender
    never asks again.

    Kafka reads the two one after the other, so that an answer given while a broker is put out may
    be so. The sender raises in every round, before it polls and before it lets anything expire.
    """
    client = KafkaNetClient(bootstrap_servers="127.0.0.1:1")
    partition = MetadataResponseTopic.MetadataResponsePartition(
        error_code=0,
        partition_index=0,
        leader_id=3,
        leader_epoch=0,
        replica_nodes=[3, 2],
        isr_nodes=[3, 2],
        offline_replicas=[],
    )
    topic = MetadataResponseTopic(
        error_code=0, name="in", is_internal=False, partitions=[partition]
    )
    broker = MetadataResponse.MetadataResponseBroker(2, "127.0.0.1", 1, None)
    torn = MetadataResponse(
        throttle_time_ms=0, brokers=[broker], cluster_id="c", controller_id=2, topics=[topic]
    )
    client.cluster.update_metadata(MetadataResponse.decode(torn.encode(version=9), version=9))
    waiting = RecordAccumulator(delivery_timeout_ms=20, request_timeout_ms=10, linger_ms=0)
    waiting.append(TopicPartition("in", 0), 0, b"key", b"value", [])
    sender = Sender(client, client.cluster, waiting, guarantee_message_order=True)
    rounds = iter(range(1000))

    def expired() -> bool:
        """Whether the record, long past its delivery time-out, was given up; the sender's own loop
        goes on after an error.
        """
        with pytest.raises(UnknownBrokerIdError):  # mended: Producer need not outlive it
            sender.run_once()
        return not waiting.has_undrained() or next(rounds) > 100

    try:
        wait_until(
            expired, within_s=20, because="the sender to have raised a hundred times", poll_s=0.01
        )
        assert waiting.has_undrained(), "mended: what was not sent in time is given up"
    finally:
        client.close()


def test_our_producer_outlives_a_leader_that_is_no_broker(kafka: KafkaTransport) -> None:
    """It asks for metadata again, and the next answer names a leader that is there."""
    kafka.observer.create_topics({"in": (1, {})})
    client = KafkaProducer(bootstrap_servers=kafka.broker.bootstrap)
    ours = Producer(client)
    ours.send("in", b"1", None, []).wait(20)
    client._metadata._partitions["in"][0].leader_id = 99
    assert ours.send("in", b"2", None, []).wait(20).offset == 1
    ours.close(1)


def test_kafka_python_forgets_what_a_coordinator_that_is_away_was_to_be_asked() -> None:
    """3.0.12: the coordinator of transactions refuses the connection: it is looked for again, and
    what it was asked is lost.

    Whoever waits for that (``init_transactions``, ``commit_transaction``) waits for ever.
    """
    client = KafkaNetClient(bootstrap_servers="127.0.0.1:1")
    manager = TransactionManager("t", 60_000, metadata=client.cluster)
    away = MetadataResponse.MetadataResponseBroker("coordinator-9", "127.0.0.1", 1, None)
    client.cluster._coordinator_brokers[away.node_id] = away
    waits = manager.initialize_transactions()
    manager._transaction_coordinator = away.node_id
    sender = Sender(
        client,
        client.cluster,
        RecordAccumulator(),
        transaction_manager=manager,
        request_timeout_ms=2000,
    )
    try:
        sender._maybe_send_pending_request()
        left = [type(handler).__name__ for _, _, handler in manager._pending_requests]
        assert left == ["FindCoordinatorHandler"], (
            "mended: a rolling restart, exactly-once, need not be in the baseline"
        )
        assert not waits.is_done
    finally:
        client.close()
