"""A check on a Kafka that is up already, and that nobody is let in to without TLS and
a password.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from kafka.admin import KafkaAdminClient

from harness.judge.verdict import Kind
from harness.matrix.checking import Check
from harness.matrix.progress import make_progress
from harness.matrix.seen import seen_in
from harness.model import events as kinds
from harness.model.failures import EnvironmentFailure
from harness.model.history import HISTORY, read_history
from harness.model.waiting import wait_until
from harness.pipelines import read_pipeline
from harness.provision.certificates import make_certificates
from harness.provision.kafka import ensure_kafka
from harness.runtimes.ports import PortLease
from harness.stages.access import Access
from harness.systems.declared.brokers.attached import AttachedKafka
from harness.systems.declared.brokers.attachment import Attachment
from harness.systems.declared.system import DeclaredSystem
from harness.systems.kafka.launcher import new_cluster_id
from tests.pipelines.test_attach import ROLES
from tests.pipelines.test_check import Silent
from tests.pipelines.test_security import SECURED, declared

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.kafka, pytest.mark.rest, pytest.mark.timeout(400)]
MECHANISM, USER, PASSWORD = "SCRAM-SHA-256", "orders", "a-password-of-theirs"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Access]]:
    """A Kafka of the user's own: a listener per stage, and one for whoever asks, all of which speak
    TLS and SCRAM.
    """
    folder = tmp_path_factory.mktemp("broker")
    install, papers = ensure_kafka(lambda _: None), make_certificates(folder / "papers")
    java = [str(install.java), *install.jvm_flags, "-Xmx256m", "-cp", install.classpath]
    access = Access("SASL_SSL", str(papers.authority), MECHANISM, USER, PASSWORD)
    with PortLease(3 + 2 * len(ROLES)) as lease:
        controller, inside, direct, *others = lease.ports
        config, told = folder / "server.properties", folder / "format"
        names = ["CLIENTS", *(f"LOSTACK_{role.upper()}" for role in ROLES)]
        own, wire = [direct, *others[: len(ROLES)]], [direct, *others[len(ROLES) :]]
        settings = {
            "process.roles": "broker,controller",
            "node.id": "7",
            "log.dirs": str(folder / "data"),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"7@127.0.0.1:{controller}",
            "inter.broker.listener.name": "INSIDE",
            "listeners": ",".join(
                [
                    f"CONTROLLER://127.0.0.1:{controller}",
                    f"INSIDE://127.0.0.1:{inside}",
                    *(f"{name}://127.0.0.1:{port}" for name, port in zip(names, own, strict=True)),
                ]
            ),
            "advertised.listeners": ",".join(
                [
                    f"INSIDE://127.0.0.1:{inside}",
                    *(f"{name}://127.0.0.1:{port}" for name, port in zip(names, wire, strict=True)),
                ]
            ),
            "listener.security.protocol.map": ",".join(
                [
                    "CONTROLLER:PLAINTEXT",
                    "INSIDE:PLAINTEXT",
                    *(f"{name}:SASL_SSL" for name in names),
                ]
            ),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(papers.server),
            "sasl.enabled.mechanisms": MECHANISM,
            **{
                f"listener.name.{name.lower()}.{MECHANISM.lower()}.sasl.jaas.config": (
                    "org.apache.kafka.common.security.scram.ScramLoginModule required;"
                )
                for name in names
            },
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "default.replication.factor": "1",
            "group.initial.rebalance.delay.ms": "0",
        }
        config.write_text(
            "".join(f"{name}={value}\n" for name, value in settings.items()), encoding="utf-8"
        )
        told.write_text(
            f"--add-scram\n{MECHANISM}=[name={USER},password={PASSWORD}]\n", encoding="utf-8"
        )
        made = [
            *java,
            "kafka.tools.StorageTool",
            "format",
            f"--cluster-id={new_cluster_id()}",
            "-c",
            str(config),
            f"@{told}",
        ]
        subprocess.run(made, check=True, capture_output=True, timeout=120)
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen([*java, "kafka.Kafka", str(config)], stdout=log, stderr=log)
        try:
            at = f"127.0.0.1:{direct}"
            wait_until(
                lambda: _up(at, access),
                within_s=90,
                because="the user's own broker to be up",
                poll_s=0.2,
            )
            yield at, access
        finally:
            process.kill()
            process.wait()


def _up(at: str, access: Access) -> bool:
    try:
        admin = KafkaAdminClient(
            bootstrap_servers=at, bootstrap_timeout_ms=2000, **access.for_kafka_python()
        )
    except Exception:  # noqa: BLE001 - whatever it says of a broker that is not up yet
        return False
    with_brokers = bool(admin.describe_cluster()["brokers"])
    admin.close()
    return with_brokers


@pytest.fixture(params=[False, True], ids=["as-it-is", "by-its-listeners"])
def asked(
    request: pytest.FixtureRequest,
    broker: tuple[str, Access],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Check]:
    """A check of the example's programs, by the user's own user."""
    at, access = broker
    monkeypatch.setenv("ORDERS_PASSWORD", PASSWORD)
    named = (
        f'protocol = "SASL_SSL"\nca = "{access.authority}"\nusername = "{USER}"\npassword_from = '
        '"ORDERS_PASSWORD"'
    )
    folder = tmp_path / "mine"
    folder.mkdir()
    for program in SECURED.parent.glob("*.py"):
        (folder / program.name).write_text(program.read_text(encoding="utf-8"), encoding="utf-8")
    pipeline = read_pipeline(declared(folder, ('protocol = "SASL_SSL"', named)))
    attachment = Attachment(at, pipeline, prepared=request.param)
    attachment.check()
    system = DeclaredSystem(keep=True, source=AttachedKafka(attachment))
    yield Check(pipeline, system, tmp_path / "reports", "pytest")
    system.close()


def test_programs_that_log_in_to_somebody_elses_broker_are_judged_alike(
    asked: Check, tmp_path: Path
) -> None:
    """The wire ends TLS on both sides, and what they say to log in passes; of the password nothing
    is written down.
    """
    with make_progress(Silent()) as progress:
        dry = asked.dry_run(progress)
        assert dry.verdict.kind is Kind.KEPT, dry.verdict.reason
        cells, rest = asked.plan(seen_in(dry), ["request-lost", "commit-lost"])
        assert not rest
        found = asked.faults(cells, rest, progress).results
    assert {result.verdict.kind for result in found} == {Kind.KEPT}, [
        result.verdict.reason for result in found
    ]
    assert {result.verdict.fired for result in found} == {1}
    steps = {event.api for event in read_history(found[0].directory / HISTORY).of(kinds.Frame)}
    assert {"SaslHandshake", "SaslAuthenticate"} <= steps
    asked.system.close()
    files = [file for file in (tmp_path / "reports").rglob("*") if file.is_file()]
    assert [file for file in files if PASSWORD.encode() in file.read_bytes()] == []
    assert list((tmp_path / "reports").rglob("secrets")) == []


def test_a_password_that_is_wrong_ends_it_at_once(
    asked: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORDERS_PASSWORD", "another one")
    with (
        make_progress(Silent()) as progress,
        pytest.raises(EnvironmentFailure, match=r"and the log-in under \[security\]") as error,
    ):
        asked.dry_run(progress)
    assert "another one" not in str(error.value)
