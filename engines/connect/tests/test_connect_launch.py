"""What the worker of a declared connector is given, and what is said of a wrong one."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lostack_connect.install import ARCHIVE, ConnectInstall, archive_flags
from lostack_connect.launch import Launched, causes, name_of, plugin_path
from lostack_connect.rest import RestError
from lostack_connect.words import launched_words, own_topics_in

from harness.model.failures import CellFailure
from harness.pipelines.connectors import Connector, prepare_workers
from harness.pipelines.refusing import DeclarationError
from harness.provision.archive import archive_key
from harness.provision.java import Java

PLAIN = {"connector.class": "A", "tasks.max": 2, "strict": True}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (json.dumps(PLAIN), "shop"),
        (json.dumps({"name": "orders"} | PLAIN), "orders"),
        (json.dumps({"name": "orders", "config": PLAIN}), "orders"),
    ],
)
def test_a_connector_is_what_is_posted_or_its_settings_alone(
    text: str, name: str, tmp_path: Path
) -> None:
    (tmp_path / "shop.json").write_text(text)
    found = Connector.read(tmp_path / "shop.json")
    assert (found.name, found.config["name"]) == (name, name)
    assert found.config["tasks.max"] == "2"
    assert found.config["strict"] == "true"


@pytest.mark.parametrize("text", ["[]", "{", '{"name": "a"}', '{"config": 1}'])
def test_a_wrong_file_is_told_in_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(DeclarationError, match="the connector ") as said:
        Connector.read(tmp_path / "a.json")
    assert "\n" not in str(said.value)


def test_the_declaration_has_the_last_word_but_for_addresses() -> None:
    """And no cell finds the offsets of another: the topics of its worker have its own name."""
    given: dict[str, Any] = {"bootstrap": "h:1", "port": 8083, "plugins": ""}
    own = {"offset.flush.interval.ms": "5", "session.timeout.ms": "9000", "listeners": "x"}
    one = launched_words(own, cluster="connect-1", **given)
    two = launched_words(own, cluster="connect-2", **given)
    assert (one["session.timeout.ms"], one["offset.flush.interval.ms"]) == ("9000", "5")
    assert one["listeners"] == "http://127.0.0.1:8083"
    assert "plugin.path" not in one
    assert one["scheduled.rebalance.max.delay.ms"] == "0"
    topics = [name for name in one if name.endswith("storage.topic")]
    assert len(topics) == 3
    assert all(one[name] != two[name] and one[name].startswith("__") for name in topics)
    assert sorted(own_topics_in(one)) == sorted(one[name] for name in topics)
    assert one["config.providers"] == "env"
    for providers, all_of_them in (("file", "file,env"), ("env", "env"), ("env, file", "env,file")):
        own["config.providers"] = providers  # another one does not take the place of lostack's
        told = launched_words(own, cluster="connect-1", **given)
        assert told["config.providers"] == all_of_them


def test_a_folder_of_jars_is_one_plugin_and_another_holds_plugins(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "a.jar").touch()
    (tmp_path / "many").mkdir()
    for _ in range(2):  # a worker that is started again
        one, many = plugin_path(
            [str(tmp_path / "one"), str(tmp_path / "many")], tmp_path / "shown"
        ).split(",")
    assert [each.name for each in Path(one).iterdir()] == ["one"]
    assert (Path(one) / "one" / "a.jar").exists()
    assert many == str(tmp_path / "many")
    with pytest.raises(CellFailure, match="there is no folder"):
        plugin_path([str(tmp_path / "none")], tmp_path / "shown")


def test_a_failed_task_is_told_by_its_causes_in_one_line() -> None:
    trace = "Exception: tolerance exceeded\n\tat a.B\nCaused by: DataException: not JSON\n\tat c.D"
    assert causes({"trace": trace}) == (
        "Exception: tolerance exceeded | Caused by: DataException: not JSON"
    )
    assert not causes({})


def test_the_workers_of_a_folder_share_a_cluster_and_a_folder_made_anew_has_another(
    tmp_path: Path,
) -> None:
    """A cell that is run again has the path of its first run, and may have its broker, too."""
    folder = tmp_path / "orders"
    folder.mkdir()
    first = name_of(folder)
    assert first.startswith("connect-")
    assert name_of(folder) == first
    assert [each.name for each in folder.iterdir()] == ["name"]
    folder.rename(tmp_path / "aside")
    folder.mkdir()
    assert name_of(folder) != first


def test_a_worker_has_the_archive_of_its_jars_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lostack adds behind Connect's jars is not in it, and does not hinder."""
    monkeypatch.setattr("lostack_connect.install.cache_root", lambda: tmp_path)
    java = Java(tmp_path / "java", 17, "about")
    jars = [tmp_path / name for name in ("a.jar", "b.jar")]
    for jar in jars:
        jar.touch()
    made = tmp_path / "archives" / archive_key(java, jars, ARCHIVE) / "classes.jsa"
    assert archive_flags(java, jars) == ()
    made.parent.mkdir(parents=True)
    made.touch()
    flags = archive_flags(java, jars)
    assert flags[0] == f"-XX:SharedArchiveFile={made}"
    assert archive_flags(java, jars[:1]) == ()
    install = ConnectInstall("4.3.0", java.path, (*jars, tmp_path / "ours.jar"), flags)
    assert flags[0] in install.command({}, tmp_path, tmp_path)


def test_lostack_has_the_archive_made_on_the_broker_of_the_pipeline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No other version of Kafka is fetched for it."""
    told: list[str] = []
    monkeypatch.setattr(
        "lostack_connect.archive.ensure_worker_archive", lambda _say, kafka: told.append(kafka)
    )
    prepare_workers("3.9.1", print)
    assert told == ["3.9.1"]


HERE, GONE = "127.0.0.1:8083", "127.0.0.1:8080"


class Api:
    """A worker's REST interface that plays its answers; the worker ends behind the last."""

    def __init__(self, *said: tuple[str, list[tuple[str, str]]], due: int = 1) -> None:
        self.said = list(said)
        self.due = due
        self.worker: Any = SimpleNamespace(poll=lambda: None if self.said else 0)

    def put(self, name: str, config: object) -> None:
        """Take the connector."""

    def tasks_of(self, _: str) -> int:
        """Return how many tasks a connector has."""
        return self.due

    def status(self, _: str) -> dict[str, Any]:
        """Return the next status: the connector's state, and state and worker of each task."""
        state, tasks = self.said.pop(0)
        if state == "500":
            raise RestError("the worker refused PUT (500): no class", 500)
        return {
            "connector": {"state": state, "worker_id": HERE, "trace": "Why: no path\n\tat a.B"},
            "tasks": [
                {"id": number, "state": of, "worker_id": where, "trace": "Why: no"}
                for number, (of, where) in enumerate(tasks)
            ],
        }


def followed(api: Api, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, alone: bool) -> int:
    """Follow a worker with these answers."""
    monkeypatch.setattr("lostack_connect.launch.WorkerApi", lambda _: api)
    monkeypatch.setattr("lostack_connect.launch.LOOK_S", 0)
    connector = Connector("my orders", {"connector.class": "A"})
    launched = Launched(api.worker, 8083, connector, alone=alone)
    return launched.follow(tmp_path / "made", makes=True)


RUNS, OTHERS = ("RUNNING", HERE), ("RUNNING", GONE)


@pytest.mark.parametrize(
    ("tasks", "due", "alone", "ready"),
    [
        ([RUNS], 1, True, True),
        ([RUNS], 3, True, False),  # two have no status yet
        ([RUNS, OTHERS, OTHERS], 3, True, False),  # that of a dead worker
        ([RUNS, OTHERS, OTHERS], 3, False, True),
        ([OTHERS], 1, False, False),
        ([], 0, True, False),
    ],
)
def test_a_worker_is_ready_when_all_tasks_that_are_its_own_run(
    tasks: list[tuple[str, str]],
    due: int,
    *,
    alone: bool,
    ready: bool,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    api = Api(("RUNNING", tasks), due=due)
    assert followed(api, monkeypatch, tmp_path, alone=alone) == 0
    assert ("the connector my orders is RUNNING" in capsys.readouterr().out) == ready


def test_a_connector_that_fails_before_it_has_a_task_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the worker refuses for a while is in its log, once."""
    api = Api(("500", []), ("500", []), ("FAILED", []))
    with pytest.raises(CellFailure, match=r"^the connector has failed: Why: no path$"):
        followed(api, monkeypatch, tmp_path, alone=True)
    assert capsys.readouterr().out.count("(500): no class") == 1
