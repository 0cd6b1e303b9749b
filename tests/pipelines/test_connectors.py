"""What a stage that is a connector of Kafka Connect declares, and what is refused."""

from __future__ import annotations

import json
import re
import sys
from contextlib import nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.model.scenario import Role
from harness.pipelines import connectors, rebalances
from harness.pipelines.cells import cells_of
from harness.pipelines.failure_points import failure_points
from harness.pipelines.reading import read_pipeline
from harness.pipelines.refusing import DeclarationError
from harness.pipelines.stages import Stage
from harness.provision.kafka import VERSION
from harness.systems.declared import system

if TYPE_CHECKING:
    from pathlib import Path

DECLARED = """
claims = "at-least-once"
topics = ["orders"]

[[stage]]
role = "consumer"
connector = "sink.json"
plugins = ["plugins", "{jars:connect-file-4.3.0}"]
worker = { "offset.flush.interval.ms" = 500, "exactly.once.source.support" = "enabled" }
environment = { SINK = "{work}/orders.txt" }

[input]
kind = "topic"
topic = "orders"

[output]
kind = "lines"
file = "{work}/orders.txt"
"""


def test_a_connector_is_run_by_a_worker_that_lostack_starts(tmp_path: Path) -> None:
    """With the jars that it needs, and those that its plugins name; it is ready when it runs."""
    (tmp_path / "pipeline.toml").write_text(DECLARED)
    pipeline = read_pipeline(tmp_path / "pipeline.toml")
    (stage,) = pipeline.stages
    assert stage.command == (
        *(sys.executable, "-P", "-m", "lostack_connect.launch", "sink.json"),
        *("offset.flush.interval.ms=500", "exactly.once.source.support=enabled"),
        *("--stage", "consumer", "--jars", "{jars:connect-4.3.0}"),
        *("--plugins", "plugins", "--plugins", "{jars:connect-file-4.3.0}"),
    )
    assert pipeline.jars == ("connect-4.3.0", "connect-file-4.3.0")
    assert re.search(stage.ready, "…\nthe connector my orders is RUNNING\n…")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"command": ("run",)}, "a command or image, too"),
        ({"image": "worker:1"}, "a command or image, too"),
        ({"role": Role.PROCESSOR}, "a producer .source. or a consumer .sink."),
        ({"role": Role.PRODUCER, "scale": 2}, "a producer has no group whose members share"),
        ({"worker": {"listeners": "http://:8083"}}, "worker: listeners is set by lostack"),
        # as in every file of a worker's properties; the next cell would go on from these offsets
        ({"worker": {"group.id": "connect-cluster"}}, "worker: group.id is set by lostack"),
        ({"worker": {"offset.storage.topic": "o"}}, "worker: offset.storage.topic is set by"),
        ({"worker": {"rest.advertised.port": "80"}}, "worker: rest.advertised.port is set by"),
        # would lead past lostack, or ask one broker for three copies
        ({"worker": {"consumer.bootstrap.servers": "kafka:9092"}}, "consumer.bootstrap.servers is"),
        ({"worker": {"status.storage.replication.factor": 3}}, "replication.factor is set by"),
        (
            {"worker": {"ssl.keystore.password": "hunter2"}},
            "worker: ssl.keystore.password: every user",
        ),
        (
            {"worker": {"sasl.jaas.config": 'X password="hunter2";'}},
            "worker: sasl.jaas.config: every",
        ),
        ({"connector": "", "worker": {"a": "b"}}, "worker: has no meaning without connector"),
        ({"connector": "", "plugins": ("a",)}, "plugins: has no meaning without connector"),
    ],
)
def test_what_fits_no_connector_is_refused(fields: Any, said: str) -> None:
    with pytest.raises(DeclarationError, match=said):
        Stage(**({"role": Role.CONSUMER, "connector": "sink.json"} | fields))


@pytest.mark.parametrize(
    "worker",
    [
        {"value.converter.basic.auth.credentials.source": "USER_INFO"},
        {"config.providers.secretManager.param.region": "eu-west-1"},
        {"config.providers.secretManager.class": "a.Provider"},
        {"config.providers.secretManager.param.profile": "prod"},
        {"config.providers.vault.param.secret.engine.version": "2"},
        {"ssl.keystore.password": "${env:PASSWORD}"},
    ],
)
def test_what_only_tells_of_a_secret_is_none(worker: dict[str, str]) -> None:
    Stage(role=Role.CONSUMER, connector="sink.json", worker=worker)


@pytest.mark.parametrize("name", ["vault.param.token", "vault.param.secret.value", "vault.token"])
def test_a_secret_of_a_provider_is_one(name: str) -> None:
    with pytest.raises(DeclarationError, match="every user of this machine can see it"):
        Stage(
            role=Role.CONSUMER,
            connector="sink.json",
            worker={f"config.providers.{name}": "hunter2"},
        )


def test_a_source_is_not_offered_lines_that_nobody_reads(tmp_path: Path) -> None:
    """It would send nothing for as long as a run waits, without a reason."""
    declared = DECLARED.replace('"consumer"', '"producer"').replace(
        '[input]\nkind = "topic"\ntopic = "orders"\n', ""
    )
    (tmp_path / "pipeline.toml").write_text(declared)
    with pytest.raises(DeclarationError, match="a connector reads no standard input"):
        read_pipeline(tmp_path / "pipeline.toml")


def test_a_connector_that_leads_its_tasks_past_lostack_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pipeline.toml").write_text(DECLARED)
    past = "consumer.override.bootstrap.servers"
    sink = {"connector.class": "a.Sink", past: "kafka:9092"}
    pipeline = read_pipeline(tmp_path / "pipeline.toml")
    (tmp_path / "sink.json").write_text(json.dumps(sink | {past: "${env:BOOTSTRAP_SERVERS}"}))
    pipeline.check_commands()
    (tmp_path / "sink.json").write_text(json.dumps(sink))
    with pytest.raises(DeclarationError, match=f"{past} leads its tasks past lostack"):
        pipeline.check_commands()


def test_several_workers_of_a_sink_share_tasks_and_not_partitions() -> None:
    """So no point is offered at which a worker that joins or leaves takes partitions."""
    stage = Stage(role=Role.CONSUMER, connector="sink.json", scale=2)
    shop: Any = SimpleNamespace(stage=lambda role: stage if role is Role.CONSUMER else None)
    assert "takes tasks" in str(rebalances.why_not(shop, Role.CONSUMER))


ICEBERG = {"connector.class": "org.apache.iceberg.connect.IcebergSinkConnector"}
COMMITS = "iceberg.control.commit.interval-ms"


@pytest.mark.parametrize(
    ("settings", "patience", "said"),
    [
        (ICEBERG, 30, "only after 330 s"),
        (ICEBERG | {COMMITS: "1000"}, 30, "only after 31 s, and a run waits 30 s"),
        (ICEBERG | {COMMITS: 1000, "iceberg.control.commit.timeout-ms": "10000"}, 30, ""),
        (ICEBERG | {COMMITS: "1000"}, 31, ""),
        (ICEBERG | {COMMITS: "${env:COMMITS}"}, 30, "only after 32 s"),
        (ICEBERG | {COMMITS: "${file:/x:commits}"}, 30, ""),
        ({"connector.class": "IcebergSinkConnector"}, 30, "only after 330 s"),
        ({"connector.class": "IcebergSink"}, 30, "only after 330 s"),
        ({"connector.class": "another.MyIcebergSinkConnector"}, 30, ""),
        ({"connector.class": "com.getindata.kafka.connect.iceberg.sink.IcebergSink"}, 30, ""),
    ],
)
def test_a_run_waits_as_long_as_a_sink_of_iceberg_may_take_to_commit(
    settings: dict[str, object], patience: float, said: str, tmp_path: Path
) -> None:
    """A record that comes later would be called lost."""
    (tmp_path / "sink.json").write_text(json.dumps(settings))
    declared = DECLARED.replace("[[stage]]", f"patience_s = {patience}\n[[stage]]", 1)
    declared = declared.replace("environment = {", 'environment = { COMMITS = "2000",')
    (tmp_path / "pipeline.toml").write_text(declared)
    pipeline = read_pipeline(tmp_path / "pipeline.toml")
    if said:
        with pytest.raises(DeclarationError, match=f"patience_s: the connector sink .*{said}"):
            pipeline.check_commands()
    else:
        pipeline.check_commands()


@pytest.mark.parametrize(
    ("connector", "said"),
    [("{here}/sink.json", ""), ("{work}/made.json", ""), ("none.json", "none.json cannot be read")],
)
def test_a_connector_is_read_before_anything_is_started_where_it_is_there(
    connector: str, said: str, tmp_path: Path
) -> None:
    """One in the cell's own folder is made by a service."""
    (tmp_path / "sink.json").write_text('{"connector.class": "A"}')
    declared = DECLARED.replace('"sink.json"', f'"{connector}"')
    (tmp_path / "pipeline.toml").write_text(declared)
    pipeline = read_pipeline(tmp_path / "pipeline.toml")
    with pytest.raises(DeclarationError, match=said) if said else nullcontext():
        pipeline.check_commands()


def test_a_secret_is_a_property_by_its_variable() -> None:
    worker = {"ssl.keystore.password": "${env:SECRET}", "key.converter": "A", "client.id": "key"}
    stage = Stage(role=Role.CONSUMER, connector="sink.json", worker=worker)
    assert "ssl.keystore.password=${env:SECRET}" in stage.command


def test_without_the_package_that_starts_workers_it_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connectors, "LAUNCHER", "not_there.launch")
    with pytest.raises(DeclarationError, match="not_there is not installed: pip install"):
        Stage(role=Role.CONSUMER, connector="sink.json")


class OnlySource:
    """Where brokers would come from, if one were started."""

    def __init__(self, *, attached: bool) -> None:
        self.attached = attached

    def prepare(self, say: Any) -> None:
        """Download nothing."""


@pytest.mark.parametrize(("attached", "made"), [(False, [VERSION]), (True, [])])
@pytest.mark.parametrize("connector", [True, False])
def test_workers_are_prepared_before_a_pipeline_with_a_connector_is_run(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    *,
    connector: bool,
    attached: bool,
    made: list[str],
) -> None:
    """On the version of the broker that lostack starts; it starts none where it attaches."""
    told: list[str] = []
    archive = "lostack_connect.archive.ensure_worker_archive"
    monkeypatch.setattr(archive, lambda _say, kafka: told.append(kafka))
    for name in ("find_java", "read_jar_set", "ensure_jars"):
        monkeypatch.setattr(system, name, lambda *_, **__: tmp_path)
    plain = re.sub("(?s)connector = .*?environment", 'command = ["true"]\nenvironment', DECLARED)
    (tmp_path / "pipeline.toml").write_text(DECLARED if connector else plain)
    pipeline = read_pipeline(tmp_path / "pipeline.toml")
    source: Any = OnlySource(attached=attached)
    cells = cells_of(pipeline, failure_points(pipeline)[:1])
    system.DeclaredSystem(source=source).prepare_for(cells, print)
    assert told == (made if connector else [])


def test_without_the_module_that_makes_archives_workers_start_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As with a ``lostack-connect`` that is older than lostack."""
    monkeypatch.setattr(connectors, "ARCHIVE", "lostack_connect.not_there")
    connectors.prepare_workers("4.3.0", print)
