"""A check on a Kafka that is up already: it is led through the wire by the broker's own listeners,
and leaves it as it was.
"""

from __future__ import annotations

import shutil
import socket
import struct
import subprocess
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError
from typer.testing import CliRunner

from harness.cli.application import application
from harness.judge.verdict import Kind
from harness.matrix.checking import Check
from harness.matrix.progress import make_progress
from harness.matrix.seen import seen_in
from harness.model import events as kinds
from harness.model.failures import EnvironmentFailure, UsageError
from harness.model.history import HISTORY, read_history
from harness.model.waiting import wait_until
from harness.pipelines import read_pipeline
from harness.provision.kafka import ensure_kafka
from harness.runtimes.ports import PortLease
from harness.systems.declared.brokers import attached, kafka
from harness.systems.declared.brokers.attached import AttachedBrokers, AttachedKafka
from harness.systems.declared.brokers.attachment import Attachment
from harness.systems.declared.brokers.listeners import addresses, listeners_of
from harness.systems.declared.system import DeclaredSystem
from harness.systems.kafka.launcher import new_cluster_id
from harness.systems.kafka.observer import Observer
from tests.pipelines.test_check import EXAMPLES, PROGRAMS, Silent, check
from tests.pipelines.test_pytest import TEST, session
from tests.pipelines.traffic import traffic

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

CONFTEST = """
import pytest
from harness.pipelines import read_pipeline
from harness.systems.declared.brokers.attached import AttachedKafka, Attachment
from harness.systems.declared.system import DeclaredSystem
from pathlib import Path

@pytest.fixture(scope="session")
def lostack_kafka():
    pipeline = read_pipeline(Path(__file__).with_name("pipeline.toml"))
    return DeclaredSystem(keep=True, source=AttachedKafka(Attachment("{at}", pipeline)))
"""
ORDERS = EXAMPLES / "orders" / "pipeline.toml"
ROLES = ("producer", "consumer")
MOVED = "leader-moved-while-reading"


def test_a_broker_tells_where_the_wire_must_be() -> None:
    """Its listener is where the wire goes to, its advertised address is where the wire listens."""
    settings = {
        "listeners": "PLAINTEXT://:9092,LOSTACK_CONSUMER://0.0.0.0:9192",
        "advertised.listeners": "PLAINTEXT://localhost:9092,LOSTACK_CONSUMER://127.0.0.1:9292",
    }
    [found] = listeners_of("broker-1", "localhost", settings, ["consumer"])
    assert (found.host, found.port, found.wire_port) == ("localhost", 9192, 9292)
    assert addresses("") == {}


@pytest.mark.parametrize(
    ("advertised", "said"),
    [
        ("PLAINTEXT://localhost:9092", "has no listener LOSTACK_CONSUMER: add"),
        ("LOSTACK_CONSUMER://10.0.0.9:9292", "advertise a free port of 127.0.0.1"),
        ("LOSTACK_CONSUMER://127.0.0.1:9192", "that is not the listener's own port 9192"),
    ],
)
def test_a_listener_that_would_not_do_is_named(advertised: str, said: str) -> None:
    settings = {
        "listeners": "LOSTACK_CONSUMER://127.0.0.1:9192",
        "advertised.listeners": advertised,
    }
    with pytest.raises(EnvironmentFailure, match="broker-1") as told:
        listeners_of("broker-1", "127.0.0.1", settings, ["consumer"])
    assert said in str(told.value)


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ("10.0.0.9:9092", "give --attach-remote"),
        ("kafka.example:9092", "give --attach-remote"),
        ("9092", "is not HOST:PORT"),
        ("127.0.0.1:9092,10.0.0.9:9092", "10.0.0.9 is another machine"),
    ],
)
def test_another_machine_needs_a_word(at: str, said: str) -> None:
    """Before anything is connected to. It is wrong use: nothing is missing."""
    done = CliRunner().invoke(application(), ["check", str(ORDERS), "--attach", at])
    assert isinstance(done.exception, UsageError)
    assert said in str(done.exception)


@pytest.fixture(scope="module", params=[1, 3], ids=["one-broker", "three-brokers"])
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A Kafka of the user's own, as docs/attach.md says: a listener per stage, and a topic and a
    group that are none of ours.
    """
    folder = tmp_path_factory.mktemp("broker")
    install = ensure_kafka(lambda _: None)
    java = [str(install.java), *install.jvm_flags, "-Xmx256m", "-cp", install.classpath]
    cluster, started, at_each = new_cluster_id(), [], []
    with PortLease(1 + request.param * (1 + 2 * len(ROLES))) as lease:
        controller, *ports = lease.ports
        try:
            for number in range(request.param):
                direct, *others = ports[number :: request.param]
                config = folder / f"server-{number}.properties"
                settings = _settings(7 + number, direct, controller, others) | {
                    "log.dirs": str(folder / f"data-{number}")
                }
                config.write_text(
                    "".join(f"{name}={value}\n" for name, value in settings.items()),
                    encoding="utf-8",
                )
                made = [
                    *java,
                    "kafka.tools.StorageTool",
                    "format",
                    f"--cluster-id={cluster}",
                    "-c",
                    str(config),
                ]
                subprocess.run(made, check=True, capture_output=True, timeout=120)
                with (folder / f"log-{number}").open("wb") as log:
                    started.append(
                        subprocess.Popen(
                            [*java, "kafka.Kafka", str(config)], stdout=log, stderr=log
                        )
                    )
                at_each.append(f"127.0.0.1:{direct}")
            at = ",".join(at_each)
            wait_until(
                lambda: _brokers(at) == request.param,
                within_s=90,
                because="the user's own brokers to be up",
                poll_s=0.1,
            )
            producer = KafkaProducer(bootstrap_servers=at, metrics_enabled=False)
            _admin(
                at,
                lambda admin: admin.create_topics(
                    {"payroll": {"num_partitions": 1, "replication_factor": 1}}
                ),
            )
            producer.send("payroll", b"mine").get(timeout=30)
            producer.close()
            yield at
        finally:
            for process in started:
                process.kill()
                process.wait()


def _settings(number: int, direct: int, controller: int, others: Sequence[int]) -> dict[str, str]:
    """Return the settings of one broker; the first is the controller, too."""
    own, wire = dict(zip(ROLES, others[:2], strict=True)), dict(zip(ROLES, others[2:], strict=True))
    leads = number == 7
    names = [f"LOSTACK_{role.upper()}" for role in ROLES]
    return {
        "process.roles": "broker,controller" if leads else "broker",
        "node.id": str(number),
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"7@127.0.0.1:{controller}",
        "listeners": ",".join(
            [
                f"PLAINTEXT://127.0.0.1:{direct}",
                *([f"CONTROLLER://127.0.0.1:{controller}"] if leads else []),
                *(f"LOSTACK_{r.upper()}://127.0.0.1:{p}" for r, p in own.items()),
            ]
        ),
        "advertised.listeners": ",".join(
            [
                f"PLAINTEXT://127.0.0.1:{direct}",
                *(f"LOSTACK_{r.upper()}://127.0.0.1:{p}" for r, p in wire.items()),
            ]
        ),
        "listener.security.protocol.map": ",".join(
            f"{n}:PLAINTEXT" for n in ("PLAINTEXT", "CONTROLLER", *names)
        ),
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "default.replication.factor": "1",
        "group.initial.rebalance.delay.ms": "0",
    }


def _brokers(at: str) -> int:
    """Return how many brokers the cluster has, as each of them says; none while one of them,
    registered or not, does not answer.

    Each is asked by itself: one that has registered is told of by the others before its own port is
    open.
    """
    try:
        known = [
            _admin(each, lambda admin: (admin.list_groups(), admin.describe_cluster())[1])
            for each in at.split(",")
        ]
    except (KafkaError, OSError):
        return 0
    return min(len(cluster["brokers"]) for cluster in known)


def _admin(at: str, ask: Any) -> Any:
    admin = KafkaAdminClient(bootstrap_servers=at)
    try:
        return ask(admin)
    finally:
        admin.close()


def what_is_there(at: str) -> tuple[set[str], set[str]]:
    """Return topics and groups; a broker learns of a topic a little after the one that leads it."""
    said: list[set[str]] = []

    def agreed() -> bool:
        said[:] = [set(_admin(each, lambda admin: admin.list_topics())) for each in at.split(",")]
        return all(topics == said[0] for topics in said)

    wait_until(agreed, within_s=30, because="the brokers to know the same topics", poll_s=0.1)
    return said[0] - {"__consumer_offsets", "__transaction_state"}, {
        group["group_id"] for group in _admin(at, lambda admin: admin.list_groups())
    }


def test_what_programs_made_goes_with_the_next_cell_and_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And nothing that neither lostack nor they made."""
    gone: list[set[str]] = []
    stay: list[tuple[set[str], float]] = []
    monkeypatch.setattr(attached, "clean", lambda _, topics: gone.append(set(topics)))
    brokers: Any = SimpleNamespace(
        _created={"orders"},
        _made=set(),
        _groups_seen=set(),
        observer=None,
    )
    monkeypatch.setattr(attached, "delete", lambda _, topics, away_s: stay.append((topics, away_s)))
    AttachedBrokers.note_made(brokers, ["billing"], ["__connect-1-offsets"])
    AttachedBrokers.clean(brokers, ["orders", "payroll"])
    AttachedBrokers.clean(brokers, ["orders", "payroll"])
    AttachedBrokers.note_made(brokers, ["billing"], ["__connect-2-offsets"])
    AttachedBrokers._delete_created(brokers)
    ever = {"orders", "__connect-1-offsets", "__connect-2-offsets"}
    own = [{"orders", "__connect-1-offsets"}, {"orders"}, ever]
    assert (gone, stay, brokers._groups_seen) == (own, [(ever, attached.AWAY_S)], {"billing"})


def test_a_topic_is_deleted_again_until_it_stays_away() -> None:
    """Also one that a broker still shows: another knows already that it is gone."""
    shown = iter([["orders"], ["orders"], [], ["orders"], []])
    forgotten: list[list[str]] = []
    observer: Any = SimpleNamespace(
        there=lambda _: next(shown, []),
        forget=lambda topics, _: forgotten.append(topics),
    )
    kafka.delete(observer, ["orders"], away_s=0.2)
    assert (forgotten, list(shown)) == ([["orders"]] * 3, [])


def test_nothing_goes_by_the_wire_any_more_when_topics_are_deleted(tmp_path: Path) -> None:
    """A late request about a topic would make it anew; what follows is ended all the same."""
    ended: list[str] = []

    def fails() -> None:
        ended.append("topics")
        raise EnvironmentFailure("orders may be left")

    brokers: Any = SimpleNamespace(
        _wire=SimpleNamespace(
            close=lambda: ended.append("control"),
            node=SimpleNamespace(terminate=lambda _: ended.append("wire")),
        ),
        _delete_created=fails,
        observer=SimpleNamespace(close=lambda: ended.append("observer")),
        runtime=SimpleNamespace(close=lambda: ended.append("runtime")),
        _secrets=tmp_path / "secrets",
    )
    brokers._secrets.mkdir()
    with pytest.raises(EnvironmentFailure, match="may be left"):
        AttachedBrokers.close(brokers)
    assert ended == ["control", "wire", "topics", "observer", "runtime"]
    assert not brokers._secrets.exists()


@pytest.mark.kafka
@pytest.mark.rest
@pytest.mark.timeout(400)
@pytest.mark.parametrize("prepared", [False, True], ids=["as-it-is", "by-its-listeners"])
def test_somebody_elses_broker_is_used_and_left_as_it_was(
    broker: str, tmp_path: Path, *, prepared: bool
) -> None:
    """The fault is exact, the verdict as ever; the broker is killed by nobody; its own topic stays,
    ours are gone again.
    """
    before = what_is_there(broker)
    assert "payroll" in before[0]
    pipeline = read_pipeline(ORDERS)
    attachment = Attachment(broker, pipeline, prepared=prepared)
    system = DeclaredSystem(keep=True, source=AttachedKafka(attachment))
    asked = Check(pipeline, system, tmp_path, "pytest")
    try:
        with make_progress(Silent()) as progress:
            dry = asked.dry_run(progress)
            assert dry.verdict.kind is Kind.KEPT, dry.verdict.reason
            assert what_is_there(broker)[0] == {*before[0], "orders"}
            cells, rest = asked.plan(seen_in(dry), ["commit-lost", "broker-crash-before-ack"])
            assert [cell.scenario.id for cell in cells] == ["commit-lost"]
            assert "was not started by lostack" in str(rest[0].expectation)
            [found] = asked.faults(cells, rest, progress).results
    finally:
        system.close()
    assert found.verdict.kind is Kind.KEPT, found.verdict.reason
    assert found.verdict.fired == 1
    assert found.judgement.account.duplicated == {found.plan.target}
    nodes = {event.node for event in read_history(found.directory / HISTORY).of(kinds.Node)}
    assert nodes == {"producer", "consumer"}
    wire = read_history(found.directory / HISTORY).of(kinds.Conn)
    reached = {event.node for event in wire if not str(event.node).startswith("bootstrap")}
    brokers = {f"broker-{7 + number}" for number in range(len(broker.split(",")))}
    assert reached == brokers if prepared else reached and reached <= brokers
    assert what_is_there(broker) == before


@pytest.mark.kafka
@pytest.mark.rest
@pytest.mark.timeout(400)
@pytest.mark.parametrize("broker", [3], indirect=True)
def test_leaders_of_somebody_elses_cluster_are_moved_by_an_election(
    broker: str, tmp_path: Path
) -> None:
    """Of the pipeline's own topic alone, and no broker dies: who goes on with what comes from now
    on loses records; the right twin waits for the new leader.
    """
    before, seen = what_is_there(broker), traffic(producer=("Produce",), consumer=("Fetch",))
    for books, kind in (("waits", Kind.KEPT), ("anew", Kind.BROKEN)):
        folder = tmp_path / books
        shutil.copytree(PROGRAMS / "replicated", folder)
        file = folder / "pipeline.toml"
        text = file.read_text(encoding="utf-8").replace("SENDS", "send.py all")
        file.write_text(text.replace("BOOKS", books), encoding="utf-8")
        attachment = Attachment(broker, read_pipeline(file))
        system = DeclaredSystem(keep=True, source=AttachedKafka(attachment))
        try:
            [found] = check(system, folder / "runs", file, MOVED, seen=seen).values()
        finally:
            system.close()
        assert (found.verdict.kind, found.verdict.by_fault) == (kind, True), found.verdict.reason
        history = read_history(found.directory / HISTORY)
        assert {e.topic for e in history.of(kinds.Leadership)} == {"orders"}
        assert {len(e.replicas) for e in history.of(kinds.Leadership)} == {3}
        assert {event.node for event in history.of(kinds.Node)} == {"producer", "consumer"}
        assert what_is_there(broker) == before


@pytest.mark.kafka
@pytest.mark.rest
@pytest.mark.timeout(400)
@pytest.mark.parametrize("broker", [1], indirect=True)
def test_a_cluster_with_fewer_brokers_than_declared_is_not_touched(
    broker: str, tmp_path: Path
) -> None:
    before = what_is_there(broker)
    pipeline = replace(read_pipeline(ORDERS), brokers=3)
    system = DeclaredSystem(keep=True, source=AttachedKafka(Attachment(broker, pipeline)))
    with (
        make_progress(Silent()) as progress,
        pytest.raises(EnvironmentFailure, match=r"brokers = 3, and .* has 1: "),
    ):
        Check(pipeline, system, tmp_path, "pytest").dry_run(progress)
    system.close()
    assert what_is_there(broker) == before


@pytest.mark.kafka
@pytest.mark.rest
@pytest.mark.timeout(400)
def test_a_topic_that_is_there_already_is_not_touched(broker: str, tmp_path: Path) -> None:
    before = what_is_there(broker)
    pipeline = replace(read_pipeline(ORDERS), topics=("payroll",))
    system = DeclaredSystem(keep=True, source=AttachedKafka(Attachment(broker, pipeline)))
    with (
        make_progress(Silent()) as progress,
        pytest.raises(EnvironmentFailure, match=r"payroll exists on "),
    ):
        Check(pipeline, system, tmp_path, "pytest").dry_run(progress)
    system.close()
    assert what_is_there(broker) == before


@pytest.mark.kafka
@pytest.mark.rest
@pytest.mark.timeout(400)
@pytest.mark.parametrize("broker", [1], indirect=True)
def test_a_program_that_knows_the_brokers_own_address_is_found(
    broker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads by the wire, and asks past it, too: nothing is proved. What it joined is gone again
    although nobody asked for its group's positions. The wire has ended by then: it passes on no
    request for the topic, which would make it anew on this broker.
    """
    before, wire_lives = what_is_there(broker), []

    def clean(brokers: Any, topics: Iterable[str]) -> None:
        wire_lives.append(brokers._wire.node.alive)
        kafka.clean(brokers, topics)

    monkeypatch.setattr(attached, "clean", clean)
    folder = tmp_path / "mine"
    shutil.copytree(EXAMPLES / "orders", folder)
    program = folder / "consumer.py"
    text = program.read_text(encoding="utf-8")
    past = f"other = KafkaConsumer(bootstrap_servers={broker!r})\nother.topics()\n"
    told = text.replace("for message in consumer:", f"{past}for message in consumer:")
    assert told != text
    program.write_text(told, encoding="utf-8")
    pipeline = read_pipeline(folder / "pipeline.toml")
    system = DeclaredSystem(keep=True, source=AttachedKafka(Attachment(broker, pipeline)))
    try:
        with make_progress(Silent()) as progress:
            dry = Check(pipeline, system, tmp_path / "runs", "pytest").dry_run(progress)
    finally:
        system.close()
    assert dry.verdict.kind is Kind.VOID
    assert f"is connected to {broker}, the broker's own address" in dry.verdict.reason
    assert (wire_lives, what_is_there(broker)) == ([True, False], before)


@pytest.mark.kafka
@pytest.mark.rest
@pytest.mark.timeout(400)
@pytest.mark.parametrize("broker", [1], indirect=True)
def test_a_request_that_waited_behind_a_fetch_brings_no_topic_back(
    broker: str, tmp_path: Path
) -> None:
    """The deletion ends the Fetch of a reader that has died, and the broker takes what the reader
    had asked for next: the topic. It is made anew as the pipeline wants it, and gone at the end.
    """
    before, pipeline = what_is_there(broker), read_pipeline(ORDERS)
    brokers = AttachedBrokers(Attachment(broker, pipeline), tmp_path / "run" / "d" / "mine")
    brokers.start()
    name = struct.pack(">h6s", 6, b"orders")
    partition = struct.pack(">iqi", 0, 0, 1 << 20)
    fetch = struct.pack(">iiiibi", -1, 60_000, 1, 1 << 20, 0, 1) + name + b"\0\0\0\1" + partition
    asked = struct.pack(">i", 1) + name + b"\1"
    for _ in range(2):
        brokers.create({"orders": 3}, pipeline.topic_settings, 1)
        assert len(brokers.observer.leaderships("orders")) == 3
        reader = socket.create_connection(("127.0.0.1", int(broker.rpartition(":")[2])))
        for api, body in ((1, fetch), (3, asked)):
            head = struct.pack(">hhih4s", api, 4, api, 4, b"dead")
            reader.sendall(struct.pack(">i", len(head + body)) + head + body)
        reader.close()
        brokers.clean(["orders"])
    brokers.observer.create_topics({"orders": (1, {})})
    brokers.create({"orders": 3}, pipeline.topic_settings, 1)
    assert len(brokers.observer.leaderships("orders")) == 3
    brokers.close()
    assert what_is_there(broker) == before


@pytest.mark.kafka
@pytest.mark.rest
@pytest.mark.timeout(400)
@pytest.mark.parametrize("broker", [1], indirect=True)
def test_no_topic_comes_to_be_because_lostack_asks_for_it(broker: str) -> None:
    """A reader that still has a deleted topic asks for it once more; this broker would make it."""
    before, observer = what_is_there(broker), Observer(broker, lambda: None)
    reader = observer._reader("read_committed")
    reader.assign([TopicPartition("gone", 0)])
    reader.poll(timeout_ms=500)
    assert "gone" in reader._client.cluster._topics
    observer.close()
    assert what_is_there(broker) == before


@pytest.mark.kafka
@pytest.mark.rest
@pytest.mark.timeout(400)
@pytest.mark.parametrize("broker", [1], indirect=True)
def test_a_worker_of_connect_leaves_none_of_its_topics(broker: str, tmp_path: Path) -> None:
    """Nobody declared them: lostack gave them their names, and deletes them."""
    before = what_is_there(broker)
    pipeline = read_pipeline(EXAMPLES / "iceberg-sink" / "pipeline.toml")
    system = DeclaredSystem(keep=True, source=AttachedKafka(Attachment(broker, pipeline)))
    try:
        with make_progress(Silent()) as progress:
            dry = Check(pipeline, system, tmp_path, "pytest").dry_run(progress)
        made = what_is_there(broker)[0] - before[0]
        assert sum(name.startswith("__connect-") for name in made) == 3, made
    finally:
        system.close()
    assert dry.verdict.kind is Kind.KEPT, dry.verdict.reason
    assert what_is_there(broker) == before


@pytest.mark.kafka
@pytest.mark.rest
@pytest.mark.timeout(400)
@pytest.mark.parametrize("broker", [1], indirect=True)
def test_a_projects_conftest_decides_where_its_pipelines_run(broker: str, tmp_path: Path) -> None:
    """A fixture of its own in the place of ours: its tests run on the cluster that is up, where no
    broker may be killed.
    """
    shutil.copytree(EXAMPLES / "orders", tmp_path, dirs_exist_ok=True)
    (tmp_path / "test_it.py").write_text(TEST.format(file="pipeline.toml"), encoding="utf-8")
    (tmp_path / "conftest.py").write_text(CONFTEST.format(at=broker), encoding="utf-8")
    before = what_is_there(broker)
    done = session(tmp_path, "-k", "broker-crash-before-ack or request-lost and not last", "-rs")
    assert "1 passed, 1 skipped" in done.stdout, done.stdout
    assert "was not started by lostack" in done.stdout.replace("\n", " ")
    assert what_is_there(broker) == before
