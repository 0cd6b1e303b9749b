"""The settings, the words and the results of an application, without one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness import registry
from harness.controls import OnWire
from harness.model import events as kinds
from harness.model.cell import expand
from harness.model.history import HistoryWriter, read_history
from harness.model.pipeline import SettingsError
from harness.model.record import Record
from harness.model.scenario import NotApplicable, Role
from harness.model.semantics import Semantic
from harness.protocols.kafka.steps import Api
from harness.provision import jars
from harness.provision.jars import read_jar_set
from harness.stages.consumer_settings import Members
from harness.stages.settings import TOPIC_TO_TOPIC
from harness.stages.stage import Stage
from harness.systems.kafka.log_copies import LogCopy, LogEnds, WholeLog
from harness.systems.kafka.parts import CellOnKafka
from harness.systems.kafka.sinks import FoldedSink
from harness.systems.streams.about import SYSTEM
from harness.systems.streams.faults import RestartedUnfed, StateLost, TakenOver
from harness.systems.streams.install import CLIENT, VERSION, StreamsInstall
from harness.systems.streams.node import InstanceNode
from harness.systems.streams.parts import parts_of
from harness.systems.streams.proofs import RESTORE, SENT_UNFED, Restoring, SentUnfed, unfed_signs
from harness.systems.streams.selections import NEW_KEY, key_selections
from harness.systems.streams.settings import (
    ALO_SETTINGS,
    COUNT,
    DEDUP,
    EOS_SETTINGS,
    LATER,
    MAP,
    SOON_OVER,
    StreamsSettings,
    told,
)
from harness.systems.streams.sinks import kept
from harness.wire.rules import Direction
from tests.events import a_history, account, typed
from tests.judge.recording import played

KEY = "c0ffee00"


def value(position: int, body: str) -> bytes:
    """Return what the topology writes when a record of key k comes."""
    return Record(f"k-{position}", "k", position, body).encode(KEY)


def counted(directory: Path, *values: tuple[bytes, bool], phantoms: int = 0) -> dict[str, int]:
    """Return how often each of three records is in a sink with these values, of which some are
    visible.
    """
    copies = tuple(
        LogCopy(0, 0, offset, b"k", text, None, None, visible)
        for offset, (text, visible) in enumerate(values)
    )
    log = WholeLog({0: LogEnds(0, len(copies), len(copies))}, copies)
    with HistoryWriter(directory / "runner.jsonl", cell="cell", by="runner") as history:
        for position in (1, 2, 3):
            history.write(kinds.Offered(record=f"k-{position}", key="k", position=position))
        history.write(kinds.Cursor(position=4, where="outbox"))
        observer = SimpleNamespace(log=lambda _: log)
        scene: Any = SimpleNamespace(
            history=history, observer=observer, sink="out", cell=SimpleNamespace(key=KEY)
        )
        FoldedSink(scene).observe()
    found = account(read_history(directory).events)
    assert found.counts["phantom"] == phantoms
    return dict(zip(found.records["record"], found.records["recordings"], strict=True))


def test_the_last_value_counts_and_says_how_often(tmp_path: Path) -> None:
    """A record that is counted twice is duplicated, one that is in no last value is lost; values
    before are no duplicates.
    """
    values = [value(1, "k-1=1 "), value(2, "k-1=1 k-2=1 "), value(2, "k-1=1 k-2=2 ")]
    assert counted(tmp_path, *((each, True) for each in values)) == {"k-1": 1, "k-2": 2, "k-3": 0}


def test_an_aborted_value_counts_for_nothing(tmp_path: Path) -> None:
    values = ((value(1, "k-1=1 "), True), (value(2, "k-1=1 k-2=1 "), False))
    assert counted(tmp_path, *values) == {"k-1": 1, "k-2": 0, "k-3": 0}


@pytest.mark.parametrize(
    "wrong",
    [
        value(3, "k-1=9 ")[:-1],
        value(3, "k-1=9 ").replace(KEY.encode(), b"deadbeef"),
        b"something else",
    ],
)
def test_a_value_that_is_none_is_a_phantom(tmp_path: Path, wrong: bytes) -> None:
    """One that is damaged, or of another cell, or of nobody: it counts for no record."""
    assert counted(tmp_path, (value(1, "k-1=1 "), True), (wrong, True), phantoms=1) == {
        "k-1": 1,
        "k-2": 0,
        "k-3": 0,
    }


def test_a_record_is_kept_until_it_is_visibly_gone_from_the_store() -> None:
    """By the changelog: what is not committed has not happened, neither that it was put there nor
    that it was sent.
    """

    def found(*changes: tuple[bytes | None, bool]) -> str | None:
        copies = [
            LogCopy(0, 0, at, b"k-7", text, None, None, visible)
            for at, (text, visible) in enumerate(changes)
        ]
        scene: Any = SimpleNamespace(
            group="app",
            observer=SimpleNamespace(copies={"app-state-changelog": copies}.__getitem__),
        )
        return kept(scene)

    assert found() is None
    assert found((b"put", False)) is None
    assert found((b"put", True)) == "k-7 is in the store and was not sent yet"
    assert found((b"put", True), (None, False)) is not None
    assert found((b"put", True), (None, False), (None, True)) is None


def test_what_is_older_than_what_was_sent_is_not_in_the_store_any_more() -> None:
    """A task sends what it keeps in order; another task is another order, and what was not sent
    visibly was not sent.
    """

    def found(*changes: tuple[int, bytes, bytes | None, bool]) -> str | None:
        copies = [
            LogCopy(at, 0, n, key, text, None, None, visible)
            for n, (at, key, text, visible) in enumerate(changes)
        ]
        scene: Any = SimpleNamespace(
            group="app",
            observer=SimpleNamespace(copies={"app-state-changelog": copies}.__getitem__),
        )
        return kept(scene)

    older, younger = (0, b"k-1", b"put", True), (0, b"k-2", b"put", True)
    assert found(older, younger) == "k-1 is in the store and was not sent yet"
    assert found(older, younger, (0, b"k-2", None, True)) is None
    assert found(older, younger, (0, b"k-2", None, False)) is not None
    assert (
        found(older, younger, (0, b"k-1", None, True)) == "k-2 is in the store and was not sent yet"
    )
    assert found(older, (1, b"k-2", b"put", True), (1, b"k-2", None, True)) is not None


def test_at_most_once_is_not_offered() -> None:
    """Every scenario says so, whatever the pipeline; what it cannot do without a transaction has
    its reason, too.
    """
    mine = [scenario for scenario in registry.scenarios() if registry.runs("streams", scenario)]
    assert {scenario.pipeline for scenario in mine} == {MAP, DEDUP, COUNT, LATER}
    for scenario in mine:
        expected = scenario.expect[Semantic.AT_MOST_ONCE]
        assert isinstance(expected, NotApplicable)
        assert expected.because.startswith("not offered")


def test_every_cell_that_applies_can_be_had() -> None:
    mine = [scenario for scenario in registry.scenarios() if registry.runs("streams", scenario)]
    cells = list(
        expand(mine, semantics=Semantic, seeds=[1], system="streams", client="kafka-streams")
    )
    refused = {registry.inapplicable(cell) for cell in cells} - {None}
    assert refused == {
        e.because for s in mine for e in s.expect.values() if isinstance(e, NotApplicable)
    }


def test_what_it_says_that_it_can_its_cells_can(tmp_path: Path) -> None:
    """On each pipeline: no ability is promised that is not there, and none is kept for itself."""
    runtime = SimpleNamespace(python="python")
    transport: Any = SimpleNamespace(
        bootstrap=lambda _: "", runtime=runtime, wire=None, directory=tmp_path, secured=None
    )
    services: Any = SimpleNamespace(database=lambda: None)
    history: Any = SimpleNamespace(write=lambda *_, **__: None)
    install: Any = None
    mine = {
        scenario.pipeline: scenario
        for scenario in registry.scenarios()
        if registry.runs("streams", scenario)
    }
    for cell in expand(
        mine.values(),
        semantics=[Semantic.EXACTLY_ONCE],
        seeds=[1],
        system="streams",
        client="kafka-streams",
    ):
        on_kafka = CellOnKafka.of(cell, tmp_path, history, transport, services)
        parts = parts_of(on_kafka, install=install)
        controls: Any = parts.controls
        assert set(controls.abilities) == set(SYSTEM.abilities(cell))


@pytest.mark.parametrize(
    ("settings", "pipeline"),
    [(told(ALO_SETTINGS, standbys=1), COUNT), (ALO_SETTINGS, TOPIC_TO_TOPIC)],
    ids=["a standby without another instance", "a pipeline that is none of its own"],
)
def test_settings_that_cannot_be_are_refused(settings: StreamsSettings, pipeline: Any) -> None:
    with pytest.raises(SettingsError):
        settings.check(pipeline, clustered=False)


def instance_of(settings: StreamsSettings, directory: Path, runtime: Any) -> InstanceNode:
    """Return an instance that was never started."""
    stage = Stage(
        cell="cell",
        key=KEY,
        name="processor",
        incarnation=0,
        bootstrap="b",
        topic_in="in",
        topic_out="out",
        topic_cursor="",
        group="group",
        outbox="",
        sink="",
        history="",
        settings=settings,
        pipeline=COUNT.name,
    )
    history: Any = SimpleNamespace(write=lambda *_, **__: None)
    install = StreamsInstall(
        "4.3.0", Path("/java"), (Path("/a.jar"), Path("/b.jar")), ("-Xarchive",)
    )
    said: Any = None
    return InstanceNode(
        Role.PROCESSOR,
        "",
        stage,
        runtime,
        history,
        said,
        directory,
        directory / "failpoints",
        install=install,
    )


def words_of(settings: StreamsSettings, directory: Path) -> dict[str, str]:
    """Return what an instance with these settings is told."""
    started: list[Any] = []

    def start(spec: Any) -> Any:
        started.append(spec)
        return SimpleNamespace(pid=1)

    runtime: Any = SimpleNamespace(start=start, check=lambda: None)
    node = instance_of(settings, directory, runtime)
    node.start()
    node.state.mkdir(parents=True)
    assert [file.name for file in directory.glob(".turn-*")] == [".turn-processor-1"]
    node.dismiss()
    assert [file.name for file in directory.rglob("*") if file.is_file()] == []
    assert not node.state.exists()
    return dict(
        word.split("=", 1)
        for word in started[0].argv[started[0].argv.index("lostack.StreamsStage") + 1 :]
    )


def test_an_instance_is_told_its_guarantee(tmp_path: Path) -> None:
    """The name by which the wire knows it, who it is in its group, and where its state is, are the
    same after a restart.
    """
    least, exactly = words_of(ALO_SETTINGS, tmp_path), words_of(EOS_SETTINGS, tmp_path)
    assert (least["processing.guarantee"], exactly["processing.guarantee"]) == (
        "at_least_once",
        "exactly_once_v2",
    )
    assert least["client.id"] == f"{KEY}.processor.1"
    assert least["group.instance.id"] == f"{KEY}-processor"
    assert least["state.dir"] == str(tmp_path / "state" / "processor")
    assert least["statestore.cache.max.bytes"] == "0"
    assert "producer.transaction.timeout.ms" not in least


def test_a_transaction_lasts_longer_than_the_interval_of_commits(tmp_path: Path) -> None:
    for settings in (EOS_SETTINGS, SOON_OVER, told(SOON_OVER, each=False, commit_interval_ms=100)):
        words = words_of(settings, tmp_path)
        assert int(words["commit.interval.ms"]) < int(words["producer.transaction.timeout.ms"])


def test_dynamic_members_have_no_name(tmp_path: Path) -> None:
    consumer = replace(
        ALO_SETTINGS.consumer, count=2, members=Members.DYNAMIC, session_timeout_ms=3000
    )
    words = words_of(replace(ALO_SETTINGS, consumer=consumer), tmp_path)
    assert "group.instance.id" not in words
    assert words["main.consumer.session.timeout.ms"] == "3000"


@pytest.mark.parametrize(
    ("lines", "trouble"),
    [
        ([("exited", 1), ("hit", 2), ("exited", 3), ("discarded", 4)], None),
        (
            [("hit", 1), ("exited", 2), ("exited", 3), ("discarded", 4)],
            "no instance was killed while it restored its state",
        ),
        ([("exited", 1), ("exited", 3)], "no instance was killed while it restored its state"),
        (
            [("exited", 1), ("hit", 2), ("exited", 3)],
            "the wire did not discard the changelog's answer to the instance",
        ),
    ],
)
def test_an_instance_died_while_it_made_its_state_anew(
    lines: list[tuple[str, int]], trouble: str | None
) -> None:
    events = [
        {"event": kinds.NODE, "phase": phase, "t": t}
        if phase == "exited"
        else {"event": kinds.RULE, "rule": RESTORE, "phase": phase, "t": t}
        for phase, t in lines
    ]
    history = a_history(events)
    course: Any = SimpleNamespace(history=history, killed=list(history.of(kinds.Node)))
    assert Restoring().trouble(course) == trouble


SENT_AT = 5
TOLD = [("processor", 1, 3), ("processor", 2, 7)]


@pytest.mark.parametrize(
    ("told_at", "given", "attempts", "trouble"),
    [
        (TOLD, [], ["processor-2.0.1"], None),
        (TOLD[:1], [], ["processor-2.0.1"], "the application was told to end 1 times, not twice"),
        (
            TOLD,
            ["processor-2"],
            ["processor-2.0.1"],
            "the application was given a record between its two ends",
        ),
        (
            TOLD,
            [],
            ["processor-1.0.9", "processor-2.0.1"],
            "the target was sent before the application was told to end",
        ),
        (
            TOLD,
            [],
            ["producer-1.1.1"],
            "the application did not send the target between its two ends",
        ),
        (
            [TOLD[0], ("processor", 2, SENT_AT)],
            [],
            ["processor-2.0.1"],
            "the application did not send the target between its two ends",
        ),
    ],
)
def test_an_application_that_was_given_nothing_has_sent(
    told_at: list[tuple[str, int, int]], given: list[str], attempts: list[str], trouble: str | None
) -> None:
    """Between its two ends, and not before."""
    events: list[dict[str, Any]] = [
        *(
            {"event": kinds.NODE, "node": node, "incarnation": life, "phase": "told", "t": t}
            for node, life, t in told_at
        ),
        *({"event": kinds.DELIVERED, "by": by, "record": "k-1"} for by in ("processor-1", *given)),
        *(
            {"event": "sent", "record": "k-1", "attempt": attempt, "t": SENT_AT}
            for attempt in attempts
        ),
    ]
    course: Any = SimpleNamespace(
        history=a_history(tuple(events)), plan=SimpleNamespace(target="k-1")
    )
    assert SentUnfed().trouble(course) == trouble


@pytest.mark.parametrize(
    ("copy", "shown"),
    [
        ({}, True),
        ({"visible": False}, False),
        ({"hop": "topic", "attempt": "producer-1.1.1"}, False),
        ({"attempt": "processor-1.0.1"}, False),
        ({"attempt": "processor-3.0.1"}, False),
    ],
)
def test_only_a_committed_result_of_a_life_that_was_given_nothing_is_a_sign(
    copy: dict[str, Any], shown: bool
) -> None:
    """One that was given a record has a position to commit, and its transaction with it; of one
    that lives on nobody knows.
    """
    told_to_end = (
        {"event": kinds.NODE, "node": "processor", "incarnation": life, "phase": "told"}
        for life in (1, 2)
    )
    stored: dict[str, Any] = {
        "event": "stored",
        "hop": "sink",
        "record": "k-1",
        "visible": True,
        "attempt": "processor-2.0.1",
        **copy,
    }
    events: tuple[dict[str, Any], ...] = (
        *told_to_end,
        {"event": kinds.DELIVERED, "by": "processor-1", "record": "k-1"},
        stored,
    )
    assert unfed_signs(a_history(events)) == {SENT_UNFED: {"k-1"} if shown else set()}


@pytest.mark.parametrize(("target", "first"), [("a-1", True), ("a-3", False), ("b-2", True)])
def test_a_key_is_new_where_nothing_of_it_comes_before(target: str, first: bool) -> None:
    """By the source's order; where no values were counted nobody asks."""
    offered = [
        {"event": "offered", "record": f"{k}-{n}", "key": k, "position": n}
        for n, k in enumerate("aba", 1)
    ]
    values = {"event": "folded", "key": "a", "version": 0, "record": "a-1", "times": 1}
    assert key_selections(a_history((*offered[::-1], values)), target) == {
        NEW_KEY: {target} if first else set()
    }
    assert key_selections(a_history(tuple(offered)), target) == {}


SENDS = OnWire(Role.PROCESSOR, Api.PRODUCE, Direction.RESPONSE)


def test_a_state_is_lost_while_nobody_has_it() -> None:
    """Between death and return; killed once more, it is killed while what it makes its state of is
    held.
    """
    dies = ["kill", "applied", "resolve Produce discard", "LocalState.lose"]
    back = ["restart", "healed"]
    assert played(StateLost(SENDS)).done[-6:] == [*dies, *back]
    again = ["LocalState.hold_restoring", "LocalState.restart_into", "kill", "resolve node discard"]
    assert played(StateLost(SENDS, again=True)).done[-10:] == [*dies, *again, *back]


def test_nobody_comes_back_before_another_has_done_the_work() -> None:
    """It would take its tasks up again, and nobody had taken them over."""
    done = played(TakenOver(SENDS)).done
    assert done[done.index("Membership.await_expired processor") :] == [
        "Membership.await_expired processor",
        "await_exhausted",
        "settle",
        "restart",
        "healed",
    ]


def test_an_application_is_told_to_end_when_it_has_sent_what_it_had() -> None:
    done = played(RestartedUnfed(OnWire(Role.PRODUCER, Api.END_TXN, Direction.RESPONSE))).done
    ends = ["tell_to_end", "await_end", "restart"]
    assert done[done.index("settle") :] == [
        "settle",
        *ends,
        "LocalState.await_sent",
        *ends,
        "resume",
        "resolve EndTxn release",
        "healed",
    ]


def test_a_successor_stands_by_as_long_as_one_is_to_end(tmp_path: Path) -> None:
    """It is started ahead, begins with its turn, and is one of as many as there are ends."""
    started: list[str] = []

    def start(spec: Any) -> Any:
        started.append(next(word for word in spec.argv if word.startswith("stage.by=")))
        return SimpleNamespace(pid=len(started), alive=False, exit=None, kill=lambda: None)

    runtime: Any = SimpleNamespace(start=start, check=lambda: None)
    node = instance_of(ALO_SETTINGS, tmp_path, runtime)
    ready: Any = SimpleNamespace(
        of=lambda kind: (
            [typed({"event": kinds.READY, "by": node.stage.writer})] if kind is kinds.Ready else []
        )
    )
    node.so_far = ready
    node.start()
    node.successors = 2
    node.stand_by()
    node.kill()
    assert started == ["stage.by=processor-1", "stage.by=processor-2"]
    node.restart()
    assert (node.stage.writer, started[2:]) == ("processor-2", ["stage.by=processor-3"])
    node.restart()
    node.kill()
    assert (node.stage.writer, started[3:]) == ("processor-3", [])


def test_a_dead_instance_gets_its_successor_ready_where_none_stood_by(tmp_path: Path) -> None:
    started: list[Any] = []

    def start(spec: Any) -> Any:
        started.append(spec)
        return SimpleNamespace(pid=1, alive=False, exit=None, kill=lambda: None)

    runtime: Any = SimpleNamespace(start=start, check=lambda: None)
    node = instance_of(ALO_SETTINGS, tmp_path, runtime)
    node.start()
    node.successors = 1
    node.kill()
    assert len(started) == 2
    node.start()
    assert len(started) == 2


@pytest.mark.parametrize(
    "version",
    sorted(
        file.stem.removeprefix(f"{CLIENT}-")
        for file in Path(jars.__file__).parent.glob(f"{CLIENT}-*.sha256")
    ),
)
def test_every_version_has_the_clients_that_it_runs_with(version: str) -> None:
    """The default version has those of Kafka; each other one brings its own."""
    brings = f"kafka-clients-{version}.jar" in read_jar_set(f"{CLIENT}-{version}").sums
    assert brings is (version != VERSION)
