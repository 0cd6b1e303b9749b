"""A declared pipeline's failure points at what its stages say to services: their names, what the
dry run makes of them, and the ways by which the wire sees it; without a broker.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.controls import OnWire
from harness.faults import Drop, Kill
from harness.matrix.checking import Check
from harness.matrix.explaining import explanation, untried
from harness.model.scenario import NotApplicable, Role, Scenario
from harness.pipelines import failure_points, read_pipeline
from harness.pipelines.at_services import ANSWER_LOST, AT_SERVICE, pairs_of, service_traffic
from harness.pipelines.failure_points import left_over
from harness.pipelines.traffic import ServiceTraffic, StageTraffic
from harness.protocols.kafka.steps import Api
from harness.protocols.postgres.steps import Database
from harness.protocols.tcp.steps import Exchange
from harness.systems.declared.programs.services import ServiceTarget
from harness.systems.declared.results.matcher import RecordMatcher
from harness.systems.declared.system import DeclaredSystem
from harness.systems.declared.wire.routes import ServiceRoutes
from harness.wire.rules import Direction, Header, Rule
from tests.events import a_history
from tests.pipelines.traffic import traffic

if TYPE_CHECKING:
    from harness.model.history import History
    from harness.pipelines import Pipeline
    from tests.pipelines.scenes import Scenes

PROGRAMS = Path(__file__).parent / "programs"
COMMITS, TURNS = str(Database.COMMIT), str(Exchange.TURN)
CONFIRMATIONS = str(Database.CONFIRMATION)
NAMES = [f"consumer-crash-at-store-{number}" for number in range(1, 7)]
LOST = [f"consumer-store-answer-lost-{number}" for number in (1, 2)]
CONSUMER, PRODUCER = Role.CONSUMER, Role.PRODUCER


@pytest.fixture
def pipeline() -> Pipeline:
    """A consumer that is given a store, and a producer that is not."""
    return read_pipeline(PROGRAMS / "two-commits" / "pipeline.toml")


def points_of(pipeline: Pipeline, said: ServiceTraffic | None) -> dict[str, Scenario]:
    """Return the points at services that a plan shows, by name."""
    seen = None if said is None else {"consumer": StageTraffic(said={"store": said})}
    return {
        point.id: point
        for point in failure_points(pipeline, seen)
        if point.failure_point in (AT_SERVICE, ANSWER_LOST) and not left_over(pipeline, point)
    }


def reasons(pipeline: Pipeline, said: ServiceTraffic | None) -> dict[str, str | None]:
    """Return why each of them does not apply, or ``None``."""
    expectations = {
        name: point.expect[pipeline.claims] for name, point in points_of(pipeline, said).items()
    }
    return {
        name: each.because if isinstance(each, NotApplicable) else None
        for name, each in expectations.items()
    }


def at_of(point: Scenario) -> OnWire:
    """Return where a point's fault strikes."""
    fault = point.fault
    assert isinstance(fault, Kill | Drop)
    assert isinstance(fault.at, OnWire)
    return fault.at


def test_the_names_are_there_before_the_dry_run(pipeline: Pipeline) -> None:
    """For --only, and for pytest; none of a stage that is not given the port."""
    assert pairs_of(pipeline) == ((CONSUMER, "store"),)
    assert reasons(pipeline, None) == dict.fromkeys((*NAMES, *LOST))


def test_each_commit_that_a_record_takes_is_a_point_on_both_sides(pipeline: Pipeline) -> None:
    """Counted from the target's delivery, at that service alone; and its answer is lost."""
    found = points_of(pipeline, ServiceTraffic({COMMITS: 40, TURNS: 3}, 20))
    assert [*found] == [*NAMES[:4], *LOST]
    ats = [at_of(found[name]) for name in NAMES[:4]]
    ways = [Direction.REQUEST, Direction.RESPONSE] * 2
    assert [(at.api, at.direction, at.occurrence, at.node) for at in ats] == [
        (Database.COMMIT, way, nth, "store") for way, nth in zip(ways, (1, 1, 2, 2), strict=True)
    ]
    given = OnWire(CONSUMER, Api.FETCH, Direction.RESPONSE)
    assert {at.since for at in ats} == {given}
    assert [found[name].fault for name in LOST] == [
        Drop(OnWire(CONSUMER, Database.COMMIT, Direction.RESPONSE, 0, nth, given, "store"))
        for nth in (1, 2)
    ]
    assert found[NAMES[3]].because == (
        "The consumer is killed right behind its second COMMIT to the store after it was given the "
        "record: that is answered, and the consumer does not learn it."
    )
    assert all(point.fault.evidence().killed == (CONSUMER,) for point in [found[NAMES[0]]])


@pytest.mark.parametrize(
    ("said", "tried"),
    [
        (ServiceTraffic({TURNS: 20}, 20), 2),  # a second one, where batches may hide the first
        (ServiceTraffic({TURNS: 60}, 20), 3),
        (ServiceTraffic({TURNS: 3}, 20), 1),  # a batch
        (ServiceTraffic({TURNS: 200}, 20), 10),
    ],
)
def test_turns_are_tried_as_many_as_a_record_takes(
    pipeline: Pipeline, said: ServiceTraffic, tried: int
) -> None:
    """And no more than another run will surely have; too many are thinned out evenly."""
    found = points_of(pipeline, said)
    crashes = [at_of(found[name]) for name in NAMES if name in found]
    assert said.tried == tried
    assert len(crashes) == min(2 * tried, 6)
    assert {at.api for at in crashes} == {Exchange.TURN}
    assert {at.direction for at in crashes} == {*Direction}
    assert max(at.occurrence for at in crashes) <= tried


@pytest.mark.parametrize(
    ("said", "because"),
    [
        (
            ServiceTraffic(),
            (
                "the dry run saw nothing that the consumer says to the store after it was given "
                "the record"
            ),
        ),
        (
            ServiceTraffic({COMMITS: 1}, 20),
            "the dry run saw too few COMMITs of the consumer to the store to choose one (1)",
        ),
    ],
)
def test_what_does_not_apply_says_why_once(
    pipeline: Pipeline, said: ServiceTraffic, because: str
) -> None:
    assert reasons(pipeline, said) == {NAMES[0]: because}


def test_the_plan_shows_what_was_said(pipeline: Pipeline, tmp_path: Path) -> None:
    """A spare name may be asked for; and a reader that keeps its position itself is tried there."""
    check = Check(pipeline, DeclaredSystem(), tmp_path, "pytest")
    said = ServiceTraffic({COMMITS: 40}, 20)
    seen = {"consumer": StageTraffic(("c",), 1, {"Fetch": 9}, said={"store": said})}
    cells, rest = check.plan(seen, (NAMES[1], NAMES[5]))
    assert [cell.scenario.id for cell in cells] == [NAMES[1]]
    assert [cell.scenario.id for cell in rest] == [NAMES[5]]
    lines = [*explanation(pipeline, seen, [cell.scenario for cell in (*cells, *rest)])]
    assert "    said to the store behind the record: DatabaseCommit 40" in lines
    assert (
        f"  not {NAMES[5]}: the dry run found only 4 points at what the consumer says to the store"
    ) in lines


def test_a_reader_with_its_position_elsewhere_is_tried_at_its_service(tmp_path: Path) -> None:
    """It has no durable write of its own: its result and its position are in the database."""
    text = (PROGRAMS / "two-commits" / "pipeline.toml").read_text(encoding="utf-8")
    file = tmp_path / "pipeline.toml"
    text = text.replace("../../../../", f"{PROGRAMS.parents[2]}/").replace("book.py", "")
    file.write_text(
        text.replace('role = "consumer"', 'role = "consumer"\nposition = "elsewhere"'),
        encoding="utf-8",
    )
    found = read_pipeline(file)
    for said, count in ((ServiceTraffic({COMMITS: 40}, 20), 0), (ServiceTraffic(), 1)):
        seen = traffic(producer={"Produce"}, consumer={"Fetch"})
        seen["consumer"] = replace(seen["consumer"], said={"store": said})
        points = failure_points(found, seen)
        assert len([line for line in untried(found, points) if "position" in line]) == count


# --- what the dry run has shown -------------------------------------------------------------------


def history_of(*lines: dict[str, Any]) -> History:
    """Return a history of these lines, a second apart."""
    return a_history({"t": n * 10**9, **line} for n, line in enumerate(lines))


def frame(role: str, conn: int, api: str, way: str = "response", **more: Any) -> dict[str, Any]:
    """Return the line of a frame."""
    return {"event": "frame", "role": role, "conn": conn, "api": api, "dir": way, **more}


def offered(*records: str) -> list[dict[str, Any]]:
    """Return the lines of what was offered."""
    return [
        {"event": "offered", "record": record, "key": "k", "position": number}
        for number, record in enumerate(records, start=1)
    ]


def fetched(record: str, conn: int = 1) -> dict[str, Any]:
    """Return the line of a record that was given."""
    return {"event": "fetched", "record": record, "topic": "t", "conn": conn, "reached": True}


def test_steps_count_from_the_target_on() -> None:
    """Answers that were done, at each service by itself; what came before is of other records."""
    answer = frame("consumer", 2, COMMITS, node="store")
    history = history_of(
        *offered("a", "b", "c"),
        frame("consumer", 1, "Fetch", node="broker"),
        fetched("a"),
        answer,
        fetched("b"),
        frame("consumer", 2, COMMITS, "request", node="store"),
        answer,
        {**answer, "error": "rolled back"},
        fetched("c"),
        answer,
        frame("consumer", 3, TURNS, node="mail"),
    )
    assert service_traffic(history, "b") == {
        "consumer": {
            "store": ServiceTraffic({COMMITS: 2}, 2),
            "mail": ServiceTraffic({TURNS: 1}, 2),
        }
    }


def test_of_a_stage_that_is_given_nothing_they_count_from_its_send() -> None:
    sent = [
        {"event": "sent", "record": record, "topic": "t", "request": f"1:{number}"}
        for number, record in enumerate(("a", "b"))
    ]
    answer = frame("producer", 2, COMMITS, node="store")
    history = history_of(
        *offered("a", "b"),
        frame("producer", 1, "Produce", "request", node="broker"),
        sent[0],
        answer,
        sent[1],
        answer,
    )
    assert service_traffic(history, "b") == {"producer": {"store": ServiceTraffic({COMMITS: 1}, 1)}}
    assert service_traffic(history, "a") == {"producer": {"store": ServiceTraffic({COMMITS: 2}, 2)}}


def test_a_reader_of_changes_is_killed_before_it_confirms_what_it_has_read(
    pipeline: Pipeline,
) -> None:
    """Nobody answers a confirmation: there is no point behind it, and no answer to lose."""
    found = points_of(pipeline, ServiceTraffic({CONFIRMATIONS: 6, COMMITS: 1, TURNS: 9}, 6))
    assert [*found] == NAMES[:2]
    assert {at_of(found[name]).api for name in NAMES[:2]} == {Database.CONFIRMATION}
    assert {at_of(found[name]).direction for name in NAMES[:2]} == {Direction.REQUEST}
    for counts, tried in (
        ({CONFIRMATIONS: 1, COMMITS: 48}, Database.COMMIT),  # one by the clock displaces nothing
        ({CONFIRMATIONS: 1, TURNS: 9}, Exchange.TURN),
        ({CONFIRMATIONS: 1}, Database.CONFIRMATION),
    ):
        assert ServiceTraffic(counts, 48).step is tried
    history = history_of(
        *offered("a"),
        frame("consumer", 1, "Fetch", node="broker"),
        fetched("a"),
        frame("consumer", 2, CONFIRMATIONS, "request", node="store"),
    )
    assert service_traffic(history, "a") == {
        "consumer": {"store": ServiceTraffic({CONFIRMATIONS: 1}, 1)}
    }


# --- the ways -------------------------------------------------------------------------------------


class Wire:
    """A wire that keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, ...]] = []
        self.routes: list[Any] = []

    def add_route(self, route: Any) -> None:
        """Note a route."""
        self.routes.append(route)

    def __getattr__(self, verb: str) -> Any:
        return lambda *words: self.told.append((verb, *words))


def test_each_stage_has_a_port_of_its_own(pipeline: Pipeline) -> None:
    """Behind which the wire stands; to the output's command and to the service itself it is the
    service's.
    """
    ways, wire = ServiceRoutes(pipeline), Wire()
    opened: Any = wire
    try:
        ways.open(opened, {"store": 5432})
        [route] = wire.routes
        assert ways.values(CONSUMER) == {"store.port": route.listen_port}
        assert ways.values(PRODUCER) == {}
        assert (route.role, route.node, route.upstream_port) == ("consumer", "store", 5432)
        assert route.protocol == "service"
        assert ways.names == (route.name,)
    finally:
        ways.close()
    assert wire.told == [("remove_route", route.name)]
    assert not ways.names


def test_results_are_read_past_the_wire(scenes: Scenes) -> None:
    """Where a stage stands still before the service, lostack's own command must not."""
    scene = scenes("outbox")
    scene.of_services = {"db.port": 5432, "db.dir": Path("/db")}
    assert scene.values(CONSUMER)["db.port"] != 5432
    assert scene.values(CONSUMER)["db.dir"] == Path("/db")
    assert scene.values_at_rest()["db.port"] == 5432
    assert scene.values(CONSUMER)["bootstrap"] == "nowhere:2"
    assert scene.values_at_rest()["bootstrap"] == "nowhere:1"
    assert RecordMatcher(scene).results is not None


def test_results_on_secured_brokers_are_read_with_the_log_in_of_the_stages(
    scenes: Scenes,
) -> None:
    """The brokers' own listener has no TLS, or that of an attached cluster."""
    access = SimpleNamespace(places=lambda: {"security_protocol": "SASL_SSL"})
    found = scenes("orders", access=access).values_at_rest()
    assert (found["bootstrap"], found["security_protocol"]) == ("nowhere:2", "SASL_SSL")


def test_results_of_a_container_are_read_by_the_projects_interpreter(scenes: Scenes) -> None:
    """``check_commands`` has looked for it, and the command runs on this machine."""
    pipeline = scenes("orders").pipeline
    *others, last = pipeline.stages
    stages = (*others, replace(last, image="mine/consumer:1"))
    scene = scenes("orders", pipeline={"stages": stages, "python": "venv/bin/python"})
    assert scene.values(last.known)["python"] == "python3"
    assert scene.values_at_rest()["python"] == scene.pipeline.interpreter


def test_while_a_service_is_dead_the_wire_refuses_connections(pipeline: Pipeline) -> None:
    """As the service itself would; and no other's."""
    ways, wire = ServiceRoutes(pipeline), Wire()
    opened: Any = wire
    did: list[str] = []
    node: Any = SimpleNamespace(
        name="store",
        role="store",
        kill=lambda: did.append("kill"),
        restart=lambda: did.append("up"),
    )
    try:
        ways.open(opened, {"store": 5432})
        [name] = ways.names
        served = ServiceTarget(node, ways)
        served.kill()
        assert (did, wire.told) == (["kill"], [("close_route", name)])
        served.restart()
        assert (did, wire.told[1:]) == (["kill", "up"], [("open_route", name)])
        ways.shut("another")
        assert len(wire.told) == 2
    finally:
        ways.close()


def test_a_rule_of_one_service_passes_over_another() -> None:
    """A stage may speak to two servers; broker frames have a node, too."""
    from harness.wire.rules import Action, ArmedRule  # noqa: PLC0415

    armed = ArmedRule(Rule("r", Action.HOLD, TURNS, role="consumer", node="store"), "k")
    heard = [
        Header("consumer", "", TURNS, Direction.REQUEST, node) for node in ("store", "mail", "")
    ]
    assert [armed.fits(header) for header in heard] == [True, False, False]
    again = Rule.from_json(armed.rule.to_json())
    assert again == armed.rule
