"""A database that lies, a fault that never fires, the wrong process killed: each is found out, with
a real broker and server.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from harness.controls import OnWire
from harness.faults import Drop
from harness.judge.verdict import Kind
from harness.matrix.runner import RunPlan, run
from harness.model.cell import Cell
from harness.model.scenario import Deployment, Role
from harness.model.semantics import Semantic
from harness.protocols.postgres.steps import Database
from harness.run import sinks
from harness.run.who import CellNodes
from harness.stages.sinks.opening import create_sink
from harness.systems.kafka.system import KafkaSystem
from harness.wire.rules import Direction
from scenarios.database import COMMIT_ANSWER_LOST, CRASH_AFTER_COMMIT, NONE
from tests.planted.lies import Silent

if TYPE_CHECKING:
    from harness.controls import Target
    from harness.model.scenario import Scenario
    from harness.saved import CellResult

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.rest(together=True),
    pytest.mark.postgres,
    pytest.mark.timeout(300),
]
AT_COMMIT = """
CREATE FUNCTION lie() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {lie} RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER lie AFTER INSERT ON results DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
WHEN (position(' {record} ' IN encode(NEW.value, 'escape')) > 0) EXECUTE FUNCTION lie();
"""
"""What the server does by itself when it commits the result of a record, before it
answers COMMIT.
"""
UNDO = "DELETE FROM results WHERE n = NEW.n;"
DOUBLE = """IF (SELECT count(*) FROM results WHERE value = NEW.value) < 2
THEN INSERT INTO results (value, key, partition, epoch, "offset")
     VALUES (NEW.value, NEW.key, NEW.partition, NEW.epoch, NEW."offset"); END IF;"""


def cell(scenario: Scenario, semantic: Semantic) -> Cell:
    """Return a cell of a scenario."""
    return Cell(scenario, semantic, "kafka", "kafka-python", "process", 1, 24)


UNDONE, DOUBLED = cell(NONE, Semantic.AT_LEAST_ONCE), cell(NONE, Semantic.EXACTLY_ONCE)
NEVER = OnWire(Role.CONSUMER, Database.COMMIT, Direction.RESPONSE, occurrence=9)
DISARMED = cell(
    replace(COMMIT_ANSWER_LOST, id="disarmed", fault=Drop(NEVER)), Semantic.EXACTLY_ONCE
)
WRONG = cell(
    replace(CRASH_AFTER_COMMIT, id="wrong-victim", deployment=Deployment.SHARED),
    Semantic.AT_LEAST_ONCE,
)
LIES = {
    UNDONE.key: (UNDO, UNDONE.load().target.id),
    DOUBLED.key: (DOUBLE, DOUBLED.load().target.id),
}


def lying(where: str) -> None:
    """Make the sink, and let it lie where it is to."""
    create_sink(where)
    for key, (lie, record) in LIES.items():
        if f"/{key}?" in where:
            with psycopg.connect(where) as db:
                db.execute(AT_COMMIT.format(lie=lie, record=record))


def wrong(self: Any, role: Role, node: str | None = None) -> Target:
    """Return the consumer where the database is asked for."""
    found: Target = TARGET(self, Role.CONSUMER if role is Role.DATABASE else role, node)
    return found


TARGET = CellNodes.target


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CellResult]:
    """Run the four of them on one broker and one server; by the cell's scenario and semantic."""
    reports = tmp_path_factory.mktemp("planted")
    plan = RunPlan(
        (KafkaSystem(),), (UNDONE, DOUBLED, DISARMED, WRONG), (), reports, 2, "pytest", (1,), 24
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sinks, "create_sink", lying)
        patch.setattr(CellNodes, "target", wrong)
        saved = run(plan, Silent())
    return {result.plan.id: result for result in saved.results}


def test_a_commit_that_was_silently_undone_is_a_loss(results: dict[str, CellResult]) -> None:
    """The server had answered COMMIT, and the row is not there."""
    result = results[UNDONE.id]
    assert result.verdict.kind is Kind.BROKEN, result.verdict.reason
    assert result.judgement.account.lost == {UNDONE.load().target.id}


def test_a_commit_that_recorded_twice_is_a_duplicate(results: dict[str, CellResult]) -> None:
    result = results[DOUBLED.id]
    assert result.verdict.kind is Kind.BROKEN, result.verdict.reason
    assert result.judgement.account.duplicated == {DOUBLED.load().target.id}


def test_a_fault_that_never_fires_proves_nothing(results: dict[str, CellResult]) -> None:
    verdict = results[DISARMED.id].verdict
    assert (verdict.kind, verdict.reason) == (Kind.VOID, "the fault did not fire")


def test_another_process_than_the_database_is_no_crash_of_it(
    results: dict[str, CellResult],
) -> None:
    """The consumer died in its place: the answer was lost either way, and the cell is void."""
    verdict = results[WRONG.id].verdict
    assert verdict.kind is Kind.VOID
    assert "the database was not killed" in verdict.reason
