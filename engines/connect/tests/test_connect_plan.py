"""What a cell on Kafka Connect is, without one: settings, properties, the saved offset, REST."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from lostack_connect.about import SYSTEM
from lostack_connect.authorities import observe_source, saved_positions
from lostack_connect.faults import Moved, Reconfigured, StartedAgain, StartedElsewhere, TaskFails
from lostack_connect.install import VERSION, versions
from lostack_connect.knowledge import OFFSET_SENT_AGAIN, TASK_TOOK_AGAIN, connect_signs
from lostack_connect.node import WorkerNode
from lostack_connect.rest import RestError, WorkerApi
from lostack_connect.scenarios import SCENARIOS
from lostack_connect.settings import SINK, SOURCE, ConnectSettings, told

from harness import registry
from harness.controls import InProgram
from harness.model import events as kinds
from harness.model.pipeline import SettingsError
from harness.model.scenario import NotApplicable, Predicted, Role
from harness.model.semantics import Semantic
from harness.protocols.kafka.steps import Api
from harness.provision.jars import read_jar_set
from harness.stages.settings import AT_LEAST_ONCE
from harness.systems.kafka.log_copies import LogCopy
from harness.wire.cells import incarnation
from harness.wire.rules import is_prefix
from tests.events import a_history
from tests.events import told as line_told
from tests.judge.recording import played

if TYPE_CHECKING:
    from collections.abc import Iterator

ALO, EOS = Semantic.AT_LEAST_ONCE, Semantic.EXACTLY_ONCE
KEY = "c0ffee00"


def test_the_system_is_found_and_every_jar_has_its_module() -> None:
    """By its entry point; the set is fetched without a resolver."""
    assert registry.described("connect").launcher == SYSTEM.launcher
    assert VERSION in versions()
    assert all(read_jar_set(f"connect-{version}").listed for version in versions())


def test_at_most_once_is_never_offered() -> None:
    """Each scenario says why, or is a control of another semantic."""
    for scenario in SCENARIOS:
        expectation = scenario.expect.get(Semantic.AT_MOST_ONCE)
        assert expectation is None or isinstance(expectation, NotApplicable)


def test_a_control_s_twin_is_the_same_point_with_the_right_connector() -> None:
    for control in (each for each in SCENARIOS if each.id.startswith("control-")):
        twin = next(
            each
            for each in SCENARIOS
            if each is not control
            and each.failure_point == control.failure_point
            and each.pipeline == control.pipeline
        )
        wrong, right = control.expect[ALO], twin.expect[ALO]
        assert isinstance(wrong, Predicted)
        assert isinstance(right, Predicted)
        assert wrong.lost.must_show()
        assert not right.lost.must_show()
        assert ConnectSettings.of(wrong.settings) != ConnectSettings.of(twin.pipeline.recipes[ALO])


def test_settings_that_do_not_fit_are_refused() -> None:
    settings = ConnectSettings.of(SOURCE.recipes[ALO])
    settings.check(SOURCE, clustered=False)
    other = replace(SOURCE, system="kafka")
    for wrong, pipeline, clustered in (
        (settings, other, False),
        (settings, SOURCE, True),
        (told(settings, workers=0), SOURCE, False),
    ):
        with pytest.raises(SettingsError):
            wrong.check(pipeline, clustered=clustered)
    with pytest.raises(TypeError, match="not ConnectSettings"):
        ConnectSettings.of(AT_LEAST_ONCE)


def worker_of(number: int = 1, settings: ConnectSettings | None = None) -> WorkerNode:
    """Return a worker in its third incarnation."""
    stage: Any = SimpleNamespace(
        key=KEY,
        name=f"worker-{number}",
        incarnation=3,
        client_id=f"{KEY}.worker-{number}.3",
        bootstrap="h:1",
        settings=settings or ConnectSettings.of(SOURCE.recipes[ALO]),
    )
    there: Any = SimpleNamespace()
    folder = Path("failpoints")
    return WorkerNode(Role.PRODUCER, "", stage, there, there, there, folder, folder, port=8083)


def test_all_clients_of_a_worker_that_carry_records_or_offsets_are_known_as_its_own() -> None:
    """A worker names its own clients ``group.id-client.id-offsets``, and so on: the wire must take
    these, and those of its tasks, for one process.
    """
    for number in (1, 2):
        it = worker_of(number)
        own = f"{it.properties()['group.id']}-{it.properties()['client.id']}-offsets"
        assert is_prefix(it.stage.client_id, own)
        assert incarnation(own) == incarnation(it.stage.client_id)
        assert own.split(".", 2)[1] == it.name
    assert not is_prefix(worker_of(1).stage.client_id, f"{KEY}.worker-2.3-offsets")


def test_workers_of_a_cell_are_one_cluster() -> None:
    """The same group and the same topics; only who they are differs."""
    one, two = worker_of(1).properties(), worker_of(2).properties()
    assert {name for name in one if one[name] != two[name]} == {"client.id"}
    assert one["scheduled.rebalance.max.delay.ms"] == "0"


@pytest.mark.parametrize("pipeline", [SOURCE, SINK], ids=str)
def test_only_exactly_once_source_records_are_in_a_transaction(pipeline: Any) -> None:
    for semantic in (ALO, EOS):
        found = worker_of(settings=ConnectSettings.of(pipeline.recipes[semantic])).properties()
        once = pipeline == SOURCE and semantic is EOS
        assert found["exactly.once.source.support"] == ("enabled" if once else "disabled")


def scene_of(*saved: tuple[int, bool]) -> Any:
    """Return a scene whose topic of offsets has these positions, visible or not."""
    copies = [
        LogCopy(0, 0, at, b"key", json.dumps({"position": n}).encode(), None, None, visible)
        for at, (n, visible) in enumerate(saved)
    ]
    lines: list[dict[str, Any]] = []
    return SimpleNamespace(
        cell=SimpleNamespace(key=KEY),
        observer=SimpleNamespace(copies={f"{KEY}.offsets": copies}.__getitem__),
        history=SimpleNamespace(write=lambda event: lines.append(line_told(event))),
        observe_offered=lambda: None,
        lines=lines,
    )


def test_the_saved_offset_is_the_last_that_was_committed() -> None:
    """Not the highest: a worker that wakes up late may save an earlier one; and none that was
    aborted.
    """
    assert saved_positions(scene_of()) == (1,)
    for saved, last in (
        (((2, True), (3, True)), 3),
        (((2, True), (3, False)), 2),
        (((9, True), (4, True)), 4),
    ):
        scene = scene_of(*saved)
        observe_source(scene)
        assert scene.lines == [{"event": "cursor", "position": last, "where": "topic"}]


class Worker(BaseHTTPRequestHandler):
    """A worker that answers what the path says."""

    def do_GET(self) -> None:
        """Answer; an address with a space in it is none."""
        text = b'{"message": "rebalance\\n"}' if "refused" in self.path else b'{"tasks": [{}]}'
        self.send_response(409 if "refused" in self.path else 200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def worker() -> Iterator[ThreadingHTTPServer]:
    """Return a worker that answers."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Worker)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_what_a_worker_does_not_do_is_one_line(worker: ThreadingHTTPServer) -> None:
    rest = WorkerApi(worker.server_address[1])
    assert rest.up()
    assert rest.status("my orders") == {"tasks": [{}]}
    with pytest.raises(
        RestError, match=r"^the worker refused GET /connectors/refused/status \(409\)"
    ):
        rest.status("refused")
    worker.shutdown()
    worker.server_close()
    assert not rest.up()
    with pytest.raises(RestError, match=r"^the worker did not answer GET") as failed:
        rest.status("c")
    assert "\n" not in str(failed.value)


FAILED = {
    "event": kinds.FAILPOINT,
    "t": 5,
    "name": "before-send",
    "hit": 1,
    "action": "fail",
    "pid": 7,
}
STARTED = {
    "event": kinds.NODE,
    "t": 1,
    "node": "worker-1",
    "role": "producer",
    "incarnation": 2,
    "phase": "started",
    "pid": 7,
}
READY = {"event": kinds.READY, "role": "producer", "by": "worker-1-2"}


@pytest.mark.parametrize(
    ("lines", "proved"),
    [
        ((STARTED, FAILED, {**READY, "t": 9}), True),
        ((STARTED, FAILED, {**READY, "t": 3}), False),
        ((STARTED, FAILED, {**READY, "t": 9, "by": "worker-1-3"}), False),
        (({**STARTED, "pid": 8}, FAILED, {**READY, "t": 9}), False),
        ((STARTED, FAILED), False),
    ],
)
def test_a_restarted_task_is_one_of_the_worker_that_lived_on(lines: Any, proved: bool) -> None:
    """Behind the failure, in the same process: another incarnation is a restarted worker."""
    course: Any = SimpleNamespace(history=a_history(lines), fired_at=5)
    assert (StartedAgain().trouble(course) is None) is proved


HIT = {
    "event": kinds.RULE,
    "t": 5,
    "rule": "fault",
    "phase": "hit",
    "dir": "response",
    "api": "Produce",
    "client": f"{KEY}.worker-1.1-offsets",
}
ASKED = {**HIT, "event": kinds.FRAME, "dir": "request"}
ACKED = {"event": kinds.ACKED, "t": 3, "record": "k-7"}
TAKEN = {"event": kinds.TAKEN, "t": 9, "record": "k-8"}


@pytest.mark.parametrize(
    ("lines", "shows"),
    [
        ((ACKED, HIT, {**ASKED, "t": 7}, TAKEN), True),
        ((ACKED, HIT, {**ASKED, "t": 7}), True),
        ((ACKED, HIT, {**ASKED, "t": 10}, TAKEN), False),
        ((ACKED, HIT, {**ASKED, "t": 4}, TAKEN), False),
        ((ACKED, HIT, {**ASKED, "t": 7, "client": f"{KEY}.worker-1.1"}, TAKEN), False),
        ((ACKED, {**HIT, "client": f"{KEY}.worker-1.1"}, {**ASKED, "t": 7}, TAKEN), False),
        ((HIT, {**ASKED, "t": 7}, TAKEN), False),
    ],
)
def test_offsets_are_sent_again_before_the_source_goes_on(lines: Any, shows: bool) -> None:
    """By the client that saves offsets, whose answer was lost; later it is another record's."""
    found = connect_signs(a_history(lines))[OFFSET_SENT_AGAIN]
    assert found == ({"k-7"} if shows else set())


@pytest.mark.parametrize(
    ("by", "started", "twice"),
    [
        ("worker-1-1", 10, True),
        ("worker-1-1", 13, False),
        ("worker-1-1", 8, False),
        ("worker-1-2", 10, False),
    ],
)
def test_a_task_took_a_record_again_if_the_same_worker_did(
    by: str, started: int, twice: bool
) -> None:
    """In between it has started the task again; another incarnation is a restarted worker."""
    lines = (
        {**TAKEN, "by": "worker-1-1"},
        {**READY, "t": started, "by": by},
        {**TAKEN, "t": 12, "by": by},
    )
    assert connect_signs(a_history(lines))[TASK_TOOK_AGAIN] == ({"k-8"} if twice else set())


def test_a_task_that_does_not_fail_is_not_restarted() -> None:
    fault = TaskFails(InProgram(Role.PRODUCER, "before-send"))
    assert "healed" not in str(vars(played(fault, ())))
    assert Api.PRODUCE in Api


def test_a_task_that_is_not_held_is_not_replaced() -> None:
    """Its settings are changed behind the hit alone, and nothing heals what did not happen."""
    fault = Reconfigured(InProgram(Role.CONSUMER, "before-recording"))
    assert "healed" not in str(vars(played(fault, ())))
    assert fault.evidence().proofs == (StartedAgain(),)


TOLD = {**STARTED, "t": 6, "phase": "told"}
EXITED = {**STARTED, "t": 12, "phase": "exited", "status": 143, "asked": True}
ELSEWHERE = {**READY, "t": 9, "by": "worker-2-1"}


@pytest.mark.parametrize(
    ("lines", "trouble"),
    [
        ((STARTED, FAILED, TOLD, ELSEWHERE, EXITED), None),
        ((STARTED, FAILED, TOLD, {**ELSEWHERE, "t": 5}, EXITED), "no other worker"),
        ((STARTED, FAILED, TOLD, {**READY, "t": 9}, EXITED), "no other worker"),
        ((STARTED, FAILED, {**TOLD, "pid": 8}, ELSEWHERE, EXITED), "was not told"),
        ((STARTED, FAILED, TOLD, ELSEWHERE), "did not end by itself"),
        (
            (STARTED, FAILED, TOLD, ELSEWHERE, {**EXITED, "status": None, "signal": 9}),
            "did not end by itself",
        ),
    ],
)
def test_a_moved_task_is_another_worker_s_behind_the_end(lines: Any, trouble: str | None) -> None:
    """Of the worker that had the record, which was told to end and not killed."""
    course: Any = SimpleNamespace(history=a_history(lines), fired_at=5)
    said = StartedElsewhere().trouble(course)
    assert said is None if trouble is None else trouble in str(said)


def test_a_task_that_is_not_held_is_not_moved() -> None:
    """Nothing heals what did not happen."""
    fault = Moved(InProgram(Role.PRODUCER, "before-send"))
    assert "healed" not in str(vars(played(fault, ())))
    assert fault.evidence().told == (Role.PRODUCER,)
