"""The proxy in front of a real Kafka with TLS and log-in: one broker, a listener for each way."""

from __future__ import annotations

import base64
import json
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider

from harness.model import events as kinds
from harness.model.failures import EnvironmentFailure
from harness.model.history import read_history
from harness.provision.certificates import make_certificates
from harness.proxy.delivered import assert_delivered
from harness.proxy.fault import NeverStruckError
from harness.proxy.proxy import Proxy
from harness.runtimes.ports import PortLease
from harness.stages.access import jaas
from tests.proxy.own_kafka import OwnKafka, wait_for_brokers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from harness.provision.certificates import Certificates

pytestmark = [pytest.mark.kafka, pytest.mark.rest(together=True), pytest.mark.timeout(400)]
USER, PASSWORD = "orders", "a-password-of-theirs"
SENT = [str(number) for number in range(20)]
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
WAYS = {
    "PLAIN": ("SASL_PLAINTEXT", "PLAIN"),
    "SCRAM256": ("SASL_PLAINTEXT", SCRAM[0]),
    "SCRAM512": ("SASL_PLAINTEXT", SCRAM[1]),
    "OAUTH": ("SASL_PLAINTEXT", "OAUTHBEARER"),
    "TLS": ("SSL", ""),
    "TLSPLAIN": ("SASL_SSL", "PLAIN"),
    "TLSSCRAM": ("SASL_SSL", SCRAM[1]),
    "IDENTITY": ("SSL", ""),
    "OTHER": ("SSL", ""),
}
"""Listeners, and what each of them wants. IDENTITY wants a certificate of the client's, besides."""
NAMED = {"TLSSCRAM": "kafka.example", "OTHER": "other.example"}
"""Listeners that the broker advertises by a name that nobody knows. One is in its certificate."""
LED = [way for way in WAYS if way not in ("IDENTITY", "OTHER")]
OF_PLAIN = jaas("PLAIN", USER, PASSWORD)[:-1] + f' user_{USER}="{PASSWORD}";'
OF_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
OF_OAUTH = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    f'unsecuredLoginStringClaim_sub="{USER}";'
)


@dataclass(frozen=True)
class Secured:
    """Where its listeners are, and the authority by which the broker is trusted."""

    ports: dict[str, int]
    papers: Certificates

    def proxy(self, way: str, **more: Any) -> Proxy:
        """Return a proxy in front of a listener."""
        protocol = WAYS[way][0]
        ca = {"ca": self.papers.authority} if protocol.endswith("SSL") else {}
        at = f"localhost:{self.ports[way]}"
        located = {f"{NAMED[way]}:{self.ports[way]}": at} if way in NAMED else {}
        named = {"security_protocol": protocol, "located": located, **ca, **more}
        return Proxy(at, **named)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """Start it. Its certificate is for two of the names that it advertises, and for no address."""
    folder = tmp_path_factory.mktemp("secured")
    papers = make_certificates(folder / "papers", ["localhost", "kafka.example"])
    users = [f"{way}=[name={USER},password={PASSWORD},iterations=4096]" for way in SCRAM]
    told = folder / "format"
    told.write_text("".join(f"--add-scram\n{user}\n" for user in users), "utf-8")
    with PortLease(2 + len(WAYS)) as lease:
        controller, inside, *others = lease.ports
        ports = dict(zip(WAYS, others, strict=True))
        own = [f"INSIDE://localhost:{inside}", *(f"{w}://localhost:{p}" for w, p in ports.items())]
        told_at = [own[0], *(f"{w}://{NAMED.get(w, 'localhost')}:{p}" for w, p in ports.items())]
        spoken = [f"{way}:{protocol}" for way, (protocol, _) in WAYS.items()]
        settings = {
            "process.roles": "broker,controller",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@localhost:{controller}",
            "inter.broker.listener.name": "INSIDE",
            "listeners": ",".join([f"CONTROLLER://localhost:{controller}", *own]),
            "advertised.listeners": ",".join(told_at),
            "listener.security.protocol.map": ",".join(
                ["CONTROLLER:PLAINTEXT", "INSIDE:PLAINTEXT", *spoken]
            ),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(papers.server),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(papers.authority),
            "listener.name.identity.ssl.client.auth": "required",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
        }
        for way, (_, mechanism) in WAYS.items():
            if mechanism:
                line = {"PLAIN": OF_PLAIN, "OAUTHBEARER": OF_OAUTH}.get(mechanism, OF_SCRAM)
                name = f"listener.name.{way.lower()}"
                settings[f"{name}.sasl.enabled.mechanisms"] = mechanism
                settings[f"{name}.{mechanism.lower()}.sasl.jaas.config"] = line
        made = OwnKafka(folder, (f"@{told}",))
        try:
            made.start(1, settings)
            wait_for_brokers(f"localhost:{inside}", 1)
            yield Secured(ports, papers)
        finally:
            made.close()


class Token(AbstractTokenProvider):  # type: ignore[misc] # kafka-python has no types
    """A token that nobody has signed, as the broker's own test validator takes it."""

    def token(self) -> str:
        """Make one."""
        now = int(time.time())
        parts = ({"alg": "none"}, {"sub": USER, "iat": now, "exp": now + 3600})
        coded = (base64.urlsafe_b64encode(json.dumps(part).encode()) for part in parts)
        return ".".join((*(part.decode().rstrip("=") for part in coded), ""))


def by_kafka_python(proxy: Proxy, way: str, topic: str) -> list[str]:
    """Send and read all records; return what was read."""
    protocol, mechanism = WAYS[way]
    config: dict[str, Any] = {
        "bootstrap_servers": proxy.bootstrap,
        "security_protocol": protocol,
        "ssl_cafile": str(proxy.ca) if proxy.ca else None,
    }
    if mechanism == "OAUTHBEARER":
        config |= {"sasl_mechanism": mechanism, "sasl_oauth_token_provider": Token()}
    elif mechanism:
        names = {"sasl_plain_username": USER, "sasl_plain_password": PASSWORD}
        config |= {"sasl_mechanism": mechanism, **names}
    producer = KafkaProducer(**config)
    for number in SENT:
        producer.send(topic, number.encode()).get(timeout=60)
    producer.close()
    reading = {"auto_offset_reset": "earliest", "consumer_timeout_ms": 20_000}
    consumer = KafkaConsumer(topic, group_id=f"g-{topic}", **reading, **config)
    rows: list[str] = []
    for message in consumer:
        rows.append(message.value.decode())
        if len(rows) == len(SENT):
            break
    consumer.close()
    return rows


def by_librdkafka(proxy: Proxy, way: str, topic: str) -> list[str]:
    """Send and read all records; return what was read."""
    protocol, mechanism = WAYS[way]
    config = {"bootstrap.servers": proxy.bootstrap, "security.protocol": protocol}
    config |= {"ssl.ca.location": str(proxy.ca)} if proxy.ca else {}
    if mechanism == "OAUTHBEARER":
        config |= {
            "sasl.mechanism": mechanism,
            "enable.sasl.oauthbearer.unsecure.jwt": "true",
            "sasl.oauthbearer.config": f"principal={USER}",
        }
    elif mechanism:
        config |= {
            "sasl.mechanism": mechanism,
            "sasl.username": USER,
            "sasl.password": PASSWORD,
        }
    producer = Producer({**config, "enable.idempotence": "true", "linger.ms": "0"})
    for number in SENT:
        producer.produce(topic, number.encode())
        assert producer.flush(60) == 0
    reading = {"group.id": f"g-{topic}", "auto.offset.reset": "earliest"}
    consumer = Consumer({**config, **reading})
    consumer.subscribe([topic])
    rows: list[str] = []
    end = time.monotonic() + 60
    while len(rows) < len(SENT) and time.monotonic() < end:
        message = consumer.poll(1.0)
        if message is not None and not message.error():
            rows.append((message.value() or b"").decode())
    consumer.close()
    return rows


@pytest.mark.parametrize("client", [by_kafka_python, by_librdkafka])
@pytest.mark.parametrize("way", LED)
def test_all_goes_through_and_a_fault_strikes(
    kafka: Secured, tmp_path: Path, way: str, client: Callable[..., list[str]]
) -> None:
    """The log-in passes as it is; the record whose answer is lost is sent again, and stored once.
    Of the password nothing is written down.
    """
    topic, out = f"orders-{uuid.uuid4()}", tmp_path / "ca.pem"
    tls = {"ca_out": out} if WAYS[way][0].endswith("SSL") else {}
    with kafka.proxy(way, history=tmp_path / "seen", **tls) as proxy:
        assert proxy.ca == (out if tls else None)
        with proxy.lose("Produce", answer=True, record="17") as fault:
            rows = client(proxy, way, topic)
        assert fault.fired == 1
        assert_delivered(SENT, rows, exactly="once", proxy=proxy)
        [seen] = [each for each in proxy.records(topic) if each.is_of("17")]
        assert (seen.sent, seen.fetched) == (2, 1)
    lines = read_history(tmp_path / "seen" / "history")
    assert {event.node for event in lines.of(kinds.Frame)} == {"bootstrap", "broker-1"}
    steps = {event.api for event in lines.of(kinds.Frame)}
    assert ("SaslAuthenticate" in steps) is bool(WAYS[way][1])
    kept = [file for file in (tmp_path / "seen").rglob("*") if file.is_file()]
    assert not [file for file in kept if PASSWORD.encode() in file.read_bytes()]
    assert not [file for file in kept if b"PRIVATE KEY" in file.read_bytes()]


@pytest.mark.parametrize("way", ["TLSPLAIN", "TLSSCRAM", "SCRAM256"])
def test_a_late_request_is_delivered_by_a_log_in_of_the_proxys_own(
    kafka: Secured, way: str
) -> None:
    """By the user that it is told, over TLS where the brokers speak it."""
    topic = f"late-{uuid.uuid4()}"
    with kafka.proxy(way, username=USER, password=PASSWORD) as proxy:
        with proxy.late("Produce", record="17") as fault:
            assert by_librdkafka(proxy, way, topic) == SENT
            fault.deliver()
        [seen] = [each for each in proxy.records(topic) if each.is_of("17")]
        assert (seen.sent, seen.fetched) == (2, 1)


def test_a_request_cannot_be_late_if_nobody_can_log_in_for_it(kafka: Secured) -> None:
    """It goes on in place, and the fault says why."""
    topic = f"late-{uuid.uuid4()}"
    with kafka.proxy("SCRAM256") as proxy:
        fault = proxy.late("Produce", record="17")
        assert by_librdkafka(proxy, "SCRAM256", topic) == SENT
        with pytest.raises(NeverStruckError, match="the user 'orders', whose password the wire"):
            proxy.verify()
        fault.end()
        proxy.faults.clear()


def test_a_broker_that_is_not_trusted_is_told_at_once(kafka: Secured, tmp_path: Path) -> None:
    """And one that wants a certificate of the client's, and one without TLS."""
    other = make_certificates(tmp_path / "other").authority
    with pytest.raises(EnvironmentFailure, match="broker's certificate is not trusted: "):
        kafka.proxy("TLS", ca=other)
    with pytest.raises(EnvironmentFailure, match="mTLS identity"):
        kafka.proxy("IDENTITY")
    with pytest.raises(EnvironmentFailure, match="the TLS handshake with the broker failed"):
        kafka.proxy("PLAIN", security_protocol="SASL_SSL", ca=kafka.papers.authority)


def test_a_broker_is_verified_by_the_name_that_answers_give_it(kafka: Secured) -> None:
    """It is trusted as ``localhost``, by which the proxy was told of it, and not by another."""
    with kafka.proxy("OTHER") as proxy:
        fault = proxy.lose("Produce")
        config = {"bootstrap.servers": proxy.bootstrap, "security.protocol": "SSL"}
        producer = Producer({**config, "ssl.ca.location": str(proxy.ca)})
        producer.produce("orders", b"1")
        producer.flush(3)
        with pytest.raises(NeverStruckError, match=r"not trusted: .*other\.example"):
            fault.check()
        proxy.faults.clear()


def test_a_program_that_does_not_trust_the_proxy_is_told_of(kafka: Secured) -> None:
    with kafka.proxy("TLS") as proxy:
        fault = proxy.lose("Produce")
        config = {"bootstrap.servers": proxy.bootstrap, "security.protocol": "SSL"}
        producer = Producer({**config, "ssl.ca.location": str(kafka.papers.authority)})
        producer.produce("orders", b"1")
        producer.flush(3)
        with pytest.raises(NeverStruckError, match="does not trust the wire's certificate"):
            fault.check()
        proxy.faults.clear()
