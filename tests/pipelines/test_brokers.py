"""What a declaration says of its broker: protocol, version, settings; without a broker."""

from __future__ import annotations

import dataclasses
import stat
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kafka.errors import InvalidConfigurationError

from harness.controls import OnWire
from harness.model import events as kinds
from harness.model.extras import EXTRAS
from harness.model.failures import CellFailure, EnvironmentFailure
from harness.model.scenario import NotApplicable, Role
from harness.pipelines import DeclarationError, failure_points, read_pipeline
from harness.pipelines.broker import Broker, TopicSettings
from harness.pipelines.dialects import SPOKEN, Moment, dialect_of
from harness.pipelines.moments import About, moments_in
from harness.pipelines.outputs import Output, OutputKind
from harness.protocols.core.steps import Packet
from harness.protocols.openwire.steps import Command
from harness.run.queue_server import SETTING, QueueServer
from harness.systems.activemq.system import CLASSIC
from harness.systems.declared.brokers.attachment import Attachment
from harness.systems.declared.brokers.kafka import create
from harness.systems.declared.fetchable import check_declared
from harness.systems.declared.programs.errors import StageError
from harness.systems.declared.programs.hints import Hints
from harness.systems.declared.system import DeclaredSystem, own
from tests.events import events_of, typed
from tests.narrow import narrow
from tests.pipelines.scenes import EXAMPLES, conditions_of
from tests.pipelines.traffic import traffic

if TYPE_CHECKING:
    from harness.pipelines import Pipeline
    from tests.pipelines.scenes import Scenes

PARCELS = EXAMPLES / "parcels" / "pipeline.toml"
OPENWIRE = b"\0\0\1\x22\x01ActiveMQ\0\0\0"


def parcels(system: str = "activemq", **broker: Any) -> Pipeline:
    """Return the parcels, on another broker."""
    return dataclasses.replace(read_pipeline(PARCELS), system=system, broker=Broker(**broker))


def of_broker(tmp_path: Path, told: str) -> Pipeline:
    """Return the parcels with lines in their table [broker]."""
    file = tmp_path / "pipeline.toml"
    file.write_text(f"{PARCELS.read_text(encoding='utf-8')}\n[broker]\n{told}\n", encoding="utf-8")
    return read_pipeline(file)


def test_a_declaration_names_protocol_version_and_settings(tmp_path: Path) -> None:
    found = of_broker(
        tmp_path,
        'protocol = "openwire"\nversion = "5.18.6"\n'
        'settings = { "policy.queuePrefetch" = 1, advisorySupport = false, brokerId = "b" }',
    )
    assert found.broker == Broker(
        protocol="openwire",
        version="5.18.6",
        settings={"policy.queuePrefetch": "1", "advisorySupport": "false", "brokerId": "b"},
    )
    assert found.dialect is dialect_of("activemq", "openwire")


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (
            'protocol = "core"',
            "broker: protocol 'core': on activemq programs speak stomp",
        ),
        ('protocol = "mqtt"', "broker: protocol"),
        ("settings = { persistent = false }", "persistent is set by lostack, which counts on it"),
        ("settings = { policy.queuePrefetch = 1 }", "'policy' is a table: write a name with dots"),
        ('settings = { brokerId = ["b"] }', "settings"),
    ],
)
def test_what_no_broker_has_is_refused(tmp_path: Path, told: str, said: str) -> None:
    with pytest.raises(DeclarationError, match=said):
        of_broker(tmp_path, told)


def test_what_cannot_be_fetched_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match=r"broker: version '9\.9': of activemq lostack has"):
        check_declared(parcels(version="9.9"))
    right = parcels()
    check_declared(right)
    [first, *rest] = right.stages
    jars = dataclasses.replace(first, command=(*first.command, "{jars:kafka-clients-0.1}"))
    with pytest.raises(
        DeclarationError, match=r"\{jars:kafka-clients-0\.1\}: no list of jars"
    ) as no:
        check_declared(dataclasses.replace(right, stages=(jars, *rest)))
    assert "there are: " in str(no.value)
    assert "\n" not in str(no.value)
    for release in ("4.0", "../4.0.0"):
        spark = dataclasses.replace(first, environment={"PYTHONPATH": f"{{pyspark:{release}}}"})
        with pytest.raises(DeclarationError, match="is no release of PySpark 4"):
            check_declared(dataclasses.replace(right, stages=(spark, *rest)))


@pytest.mark.parametrize(
    ("kind", "without", "said"),
    [
        ("parquet", "audit", "an output of kind parquet needs pyarrow, .*'lostack.audit.'"),
        ("delta", "audit", "an output of kind delta needs pyarrow, .*'lostack.audit.'"),
        ("iceberg", "audit", "an output of kind iceberg needs pyarrow, .*'lostack.audit.'"),
        ("iceberg", "values", "an output of kind iceberg needs fastavro, .*'lostack.values.'"),
        ("delta", "values", None),
        ("lines", "audit", None),
    ],
)
def test_an_output_that_nothing_here_can_read_is_refused_before_anything_is_started(
    monkeypatch: pytest.MonkeyPatch, kind: str, without: str, said: str | None
) -> None:
    """The extra that is enough is named."""
    monkeypatch.setattr(
        "harness.model.extras.lacks", lambda extra: EXTRAS[extra][0] if extra == without else None
    )
    pipeline = dataclasses.replace(parcels(), output=Output(kind=OutputKind(kind), file="x"))
    with pytest.raises(EnvironmentFailure, match=said) if said else nullcontext():
        check_declared(pipeline)


class Refusing:
    """A broker's observer that is told to create topics."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.made: dict[str, Any] = {}

    def create_topics(self, topics: dict[str, Any], replicas: int = 1) -> None:
        """Note what is asked for, or refuse it."""
        if self.error is not None:
            raise self.error
        self.made |= {name: (*what, replicas) for name, what in topics.items()}


def test_settings_of_topics_reach_the_broker_that_makes_them(tmp_path: Path) -> None:
    """Each topic has them, and one its own. One that the broker refuses makes the cell void, in one
    line.
    """
    text = (EXAMPLES / "orders" / "pipeline.toml").read_text(encoding="utf-8")
    file = tmp_path / "pipeline.toml"
    text = text.replace('topics = ["orders"]', 'topics = ["orders", "orders.old"]')
    told = (
        '"max.message.bytes" = 5000, "orders.old" = { "max.message.bytes" = 9, preallocate = true }'
    )
    file.write_text(f"topic_settings = {{ {told} }}\n{text}", encoding="utf-8")
    settings = read_pipeline(file).topic_settings
    observer: Any = Refusing()
    create(observer, {"orders": 3, "orders.old": 3}, settings, replicas=-1)
    assert observer.made == {
        "orders": (3, {"max.message.bytes": "5000"}, -1),
        "orders.old": (3, {"max.message.bytes": "9", "preallocate": "true"}, -1),
    }
    wrong: Any = Refusing(InvalidConfigurationError("Unknown topic config name:\n max.bytes"))
    with pytest.raises(CellFailure, match=r"topic_settings: the broker refuses them: .*max\.bytes"):
        create(wrong, {"orders": 3}, settings)
    answer = (
        "[Error 40] InvalidConfigurationError: Request 'CreateTopicsRequest()' failed with "
        "response 'CreateTopicsResponse(topics=[CreatableTopicResult(name='orders', error_code=40, "
        "error_message=\"Unknown topic config name: it's\", configs=[])])'."
    )
    with pytest.raises(CellFailure) as refused:
        create(Refusing(InvalidConfigurationError(answer)), {"orders": 3}, settings)  # type: ignore[arg-type]
    assert str(refused.value).endswith("refuses them: Unknown topic config name: it's")
    for wrong_one, said in {
        "retention.ms = 5": r"'retention' is a table, and no topic: name one of topics \(or",
        "max.message.bytes = 1": r"topic_settings: max: 'message' is a table: write a name with d",
    }.items():
        file.write_text(f"topic_settings = {{ {wrong_one} }}\n{text}", encoding="utf-8")
        with pytest.raises(DeclarationError, match=said):
            read_pipeline(file)


def test_settings_of_topics_that_nobody_could_keep_are_refused() -> None:
    """A queue has none."""
    some = TopicSettings(each={"max.message.bytes": "1"})
    with pytest.raises(DeclarationError, match=r"on activemq .* write it in \[broker\]"):
        dataclasses.replace(parcels(), topic_settings=some)


def test_a_version_that_nobody_has_is_refused_with_those_there_are() -> None:
    with pytest.raises(DeclarationError, match=r"version '9\.9': of activemq .* 5\.16\.1, .*6\.3"):
        own("activemq", Broker(version="9.9"))
    with pytest.raises(DeclarationError, match="of kafka lostack has the versions"):
        own("kafka", Broker(version="0.8"))


def test_an_attached_broker_is_nobodys_to_set() -> None:
    orders = read_pipeline(EXAMPLES / "orders" / "pipeline.toml")
    Attachment("localhost:9092", orders).check()
    told = dataclasses.replace(orders, broker=Broker(settings={"num.partitions": "2"}))
    with pytest.raises(DeclarationError, match="lostack starts no broker with --attach"):
        Attachment("localhost:9092", told).check()


def test_another_broker_ends_the_kept_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[object] = []
    monkeypatch.setattr(DeclaredSystem, "close", lambda self: closed.append(self._runs_on))
    system = DeclaredSystem()
    system._run_on("kafka", Broker())
    assert closed == []
    system._run_on("kafka", Broker(settings={"num.partitions": "2"}))
    system._run_on("kafka", Broker(settings={"num.partitions": "2"}))
    assert closed == [("kafka", Broker())]


BROKER_S = {"policy.queuePrefetch": "1", "registry.password": "hunter2"}


def test_settings_reach_the_brokers_program(tmp_path: Path) -> None:
    """As properties of its JVM, in a file that nobody else may read and that goes with the broker;
    and the program is told the address of the protocol's own route.
    """
    program: Any = SimpleProgram()
    server = QueueServer(CLASSIC, program, tmp_path, settings=BROKER_S)
    try:
        argv = server.spec().argv
        [options] = [Path(word[1:]) for word in argv if word.startswith("@")]
        assert options.read_text() == "".join(
            f'"-D{SETTING}{name}={value}"\n' for name, value in BROKER_S.items()
        )
        assert not any("hunter2" in word for word in argv)
        assert stat.S_IMODE(options.stat().st_mode) == 0o600
        assert server.spec().argv == argv, "else its restart is another container"
        ports = {
            name: server.speaking(name).address(Role.CONSUMER) for name in ("stomp", "openwire")
        }
        assert len(set(ports.values())) == 2
        assert server.speaking("openwire").queue("parcels") == "parcels"
        assert server.speaking("stomp").queue("parcels") == "/queue/parcels"
    finally:
        server.close()
    assert not options.parent.exists()


class SimpleProgram:
    """An installed broker whose program is not run."""

    version, beside, folders = "6.3.1", ("amqp",), ()

    @property
    def program(self) -> SimpleProgram:
        """Return what makes its command line."""
        return self

    def command(self, *words: str, flags: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Return it."""
        return ("java", *flags, *words)


# --- the points of each protocol ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("system", "protocol"),
    [(system, protocol) for system in ("activemq", "artemis") for protocol in SPOKEN[system]],
)
def test_each_protocol_has_the_points_of_a_queue_by_its_own_words(
    system: str, protocol: str
) -> None:
    pipeline = parcels(system, protocol=protocol)
    found = {point.failure_point: point for point in failure_points(pipeline)}
    assert {"ack-lost", "delivery-lost", "acknowledgement-lost", "session-commit-lost"} <= set(
        found
    )
    for name in ("ack-lost", "delivery-lost", "acknowledgement-lost", "session-commit-in-doubt"):
        fault: Any = found[name].fault
        at = narrow(fault.at, OnWire)
        assert "record" in at.api.selects(at.direction), name


def test_only_what_was_seen_of_a_record_is_tried() -> None:
    """A library is answered to much else: that shows no point."""
    pipeline = parcels(protocol="openwire")
    seen = traffic(producer={"MESSAGE", "RESPONSE"}, consumer={"MESSAGE_ACK", "RESPONSE"})
    moments = {
        "producer": {Moment.SEND: "MESSAGE", Moment.SEND_ANSWER: "RESPONSE"},
        "consumer": {
            Moment.DELIVERY: "",
            Moment.ACKNOWLEDGEMENT: "MESSAGE_ACK",
            Moment.SESSION_COMMIT: "COMMIT_TWO_PHASE",
            Moment.SESSION_COMMIT_ANSWER: "COMMIT_RESPONSE",
        },
    }
    seen = {role: dataclasses.replace(each, moments=moments[role]) for role, each in seen.items()}
    found = {point.id: point for point in failure_points(pipeline, seen)}

    def applies(name: str) -> bool:
        return not isinstance(found[name].expect[pipeline.claims], NotApplicable)

    assert applies("ack-lost")
    assert applies("acknowledgement-lost")
    assert not applies("acknowledgement-answer-lost"), "a RESPONSE, but to nothing about a record"
    assert applies("session-commit-lost")
    fault: Any = found["session-commit-lost"].fault
    at = narrow(fault.at, OnWire)
    assert at.api is Command.COMMIT_TWO_PHASE, "the step that this program uses"
    reason = found["acknowledgement-answer-lost"].expect[pipeline.claims]
    assert isinstance(reason, NotApplicable)
    assert (
        reason.because == "the dry run saw no RESPONSE frame of the consumer that is about a record"
    )


@pytest.mark.parametrize(
    ("label", "step"), [(None, Packet.COMMIT), ("SESS_ACKNOWLEDGE", Packet.ACKNOWLEDGE)]
)
def test_a_session_of_core_acknowledges_by_a_commit_or_by_itself(
    label: str | None, step: Packet
) -> None:
    assert dialect_of("artemis", "core").at(Moment.ACKNOWLEDGEMENT, label)[0] is step


def test_the_moments_of_a_history() -> None:
    """A line with an outcome is of an answer; its request names the frame, and that its role."""

    def frame(conn: int, corr: int, api: str, way: str) -> kinds.Frame:
        role = "producer" if conn == 1 else "consumer"
        told = {"conn": conn, "corr": corr, "api": api, "dir": way, "role": role}
        return narrow(typed({"event": "frame", **told}), kinds.Frame)

    frames = [
        frame(1, 5, "MESSAGE", "request"),
        frame(1, 5, "RESPONSE", "response"),
        frame(2, 7, "MESSAGE_ACK", "request"),
        frame(2, 8, "COMMIT_ONE_PHASE", "request"),
        frame(2, 8, "COMMIT_RESPONSE", "response"),
    ]
    lines: list[dict[str, Any]] = [
        {"event": "sent", "request": "1:5"},
        {"event": "produce_answer", "request": "1:5"},
        {"event": "fetched", "conn": 2},
        {"event": "acknowledged", "request": "2:7", "outcome": None},
        {"event": "ending", "request": "2:8", "outcome": None},
        {"event": "ending", "request": "2:8", "outcome": "taken"},
    ]
    about = [event for event in events_of(lines) if isinstance(event, About)]
    assert len(about) == len(lines)
    assert moments_in(about, frames) == {
        "producer": {Moment.SEND: "MESSAGE", Moment.SEND_ANSWER: "RESPONSE"},
        "consumer": {
            Moment.DELIVERY: "",
            Moment.ACKNOWLEDGEMENT: "MESSAGE_ACK",
            Moment.COMMIT: "COMMIT_ONE_PHASE",
            Moment.SESSION_COMMIT: "COMMIT_ONE_PHASE",
            Moment.COMMIT_ANSWER: "COMMIT_RESPONSE",
            Moment.SESSION_COMMIT_ANSWER: "COMMIT_RESPONSE",
        },
    }


# --- another protocol than the declared one ------------------------------------------------------


def stray(first: bytes) -> dict[str, Any]:
    """Return the line of a connection that cannot be read."""
    return {
        "event": "undecodable",
        "api": "unknown",
        "version": -1,
        "because": "a command '...'",
        "first": first.hex(),
        "conn": 1,
        "role": "consumer",
    }


@pytest.mark.parametrize(
    ("example", "system", "first", "said"),
    [
        (
            "parcels",
            "activemq",
            OPENWIRE,
            'OpenWire, .* speak STOMP: set protocol = "openwire"',
        ),
        ("parcels", "artemis", b"ARTEMIS\0\0\0", 'it speaks Core, .*: set protocol = "core"'),
        ("parcels", "activemq", b"ARTEMIS\0\0\0", 'Core, which activemq does not: .* = "artemis"$'),
        (
            "parcels",
            "activemq",
            b"AMQP\0\0\x09\x01",
            "it speaks AMQP 0-9-1: on activemq lostack",
        ),
        (
            "parcels",
            "activemq",
            b"\x16\x03\x01",
            "begins with TLS, which the run's listeners",
        ),
        (
            "parcels",
            "activemq",
            b"hello",
            "does not speak STOMP: on activemq lostack reads",
        ),
        (
            "orders",
            "kafka",
            b"\x16\x03\x01",
            "does not speak Kafka .*: set its security.pro",
        ),
        (
            "orders",
            "kafka",
            b"AMQP\0\1\0\0",
            "AMQP 1.0, which kafka does not: set system =",
        ),
    ],
)
def test_the_hint_fits_the_protocol(
    scenes: Scenes, example: str, system: str, first: bytes, said: str
) -> None:
    """Kafka's security.protocol is a setting of Kafka's clients alone."""
    scene = scenes(example, stray(first), pipeline={"system": system})
    hints = Hints(scene, Role.CONSUMER)
    assert hints.unread()
    with pytest.raises(StageError, match=said):
        raise StageError(hints.why_unready(ended=False))
    assert ("security.protocol" in hints.why_unready(ended=False)) == (
        system == "kafka" and b"AMQP" not in first
    )


def test_who_is_not_read_any_further_is_told_why_at_once(scenes: Scenes) -> None:
    """Its first bytes were those of the declared protocol: only the wire's own words say what to
    change.
    """
    why = "both sides use TightEncodingEnabled, which the wire cannot read: switch it off on one"
    line = {name: value for name, value in stray(b"").items() if name != "first"}
    scene = scenes("parcels", {**line, "because": why})
    hints = Hints(scene, Role.CONSUMER)
    assert hints.unread()
    assert hints.why_unready(ended=False) == why


def test_nobody_waits_for_a_stage_that_the_wire_does_not_read(scenes: Scenes) -> None:
    """Neither until it is ready, nor until everything is at rest: the cell is void already."""

    class Unread:
        stage = None

        def check_read(self) -> None:
            raise StageError("the consumer speaks what the wire does not read", "consumer")

    stage: Any = Unread()
    with pytest.raises(StageError, match="speaks what the wire does not read"):
        conditions_of(scenes("parcels"), consumer=stage).stage_trouble()
