"""What is declared of Flink's cells: what a fault must prove, what a job is told, and what cannot
be.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from harness import registry
from harness.controls import OnWire
from harness.interfaces import LimitsDeployments
from harness.model.cell import expand
from harness.model.pipeline import SettingsError
from harness.model.scenario import Deployment, NotApplicable, Predicted, Role
from harness.model.semantics import Semantic
from harness.protocols.kafka.steps import Api
from harness.systems.flink.faults import (
    AtAlignment,
    Crash,
    During,
    FromNothing,
    FromOlder,
    JobManagerCrash,
)
from harness.systems.flink.faults.waves import PRODUCED
from harness.systems.flink.proofs import CheckpointRefused, CheckpointWas
from harness.systems.flink.roles import JOB_MANAGER, TASK_MANAGER
from harness.systems.flink.settings import (
    FLINK_EXACTLY_ONCE,
    JOB,
    FlinkSettings,
    Guarantee,
    with_job,
)
from harness.systems.flink.signs import INPUTS
from harness.systems.flink.system import FlinkSystem
from harness.systems.flink.words import Place, words_of
from harness.wire.rules import Direction

if TYPE_CHECKING:
    from pathlib import Path

MINE = tuple(scenario for scenario in registry.scenarios() if registry.runs("flink", scenario))


def test_a_crash_proves_what_became_of_the_checkpoint() -> None:
    assert Crash().evidence().proofs == ()
    assert Crash(PRODUCED, During.COMPLETED).evidence().proofs == (CheckpointWas("completed"),)
    commit = Crash(
        OnWire(Role.PROCESSOR, Api.INIT_PRODUCER_ID, Direction.REQUEST, since=PRODUCED),
        During.INCOMPLETE,
        refused=True,
    )
    assert commit.evidence().proofs == (CheckpointWas("incomplete"), CheckpointRefused())
    assert commit.evidence().approached


def test_who_dies_is_said_beforehand() -> None:
    """A JobManager is nobody else's: its cells have the cluster to themselves."""
    assert Crash().evidence().killed == (TASK_MANAGER,)
    assert JobManagerCrash(complete=True).evidence().killed == (JOB_MANAGER, TASK_MANAGER)
    alone = {each.id for each in MINE if each.deployment is Deployment.OWN}
    assert alone == {
        each.id
        for each in MINE
        if isinstance(each.fault, JobManagerCrash)
        or (isinstance(each.fault, Crash) and each.fault.outlasting)
    }


def test_what_is_on_its_way_is_in_no_refused_checkpoint() -> None:
    """Such a fault could never be."""
    with pytest.raises(ValueError, match="refused"):
        Crash(PRODUCED, During.INCOMPLETE, refused=True)


def test_no_cell_says_that_the_sink_offers_at_most_once() -> None:
    for scenario in MINE:
        theory = scenario.expect.get(Semantic.AT_MOST_ONCE, NotApplicable(""))
        assert isinstance(theory, NotApplicable) or (
            isinstance(theory, Predicted) and theory.control
        )


def test_a_fault_and_its_settings_say_the_same() -> None:
    """A job is given two inputs where one of them is to stand, and nobody restarts one that is to
    be submitted again.
    """
    asked = {
        (
            type(each.fault),
            each.fault,
            FlinkSettings.of(theory.settings or JOB.recipes[semantic]).job,
        )
        for each in MINE
        for semantic, theory in each.expect.items()
        if isinstance(theory, Predicted)
        and isinstance(each.fault, AtAlignment | FromNothing | FromOlder)
    }
    assert {kind for kind, _, _ in asked} == {AtAlignment, FromNothing, FromOlder}
    for _, fault, job in asked:
        two, restarts = isinstance(fault, AtAlignment), isinstance(fault, AtAlignment)
        assert (job.inputs, job.restarts) == (INPUTS if two else 1, restarts)
        assert job.unaligned is (isinstance(fault, AtAlignment) and fault.unaligned)
        assert bool(job.later_prefix) is (isinstance(fault, FromNothing) and fault.waiting)


def test_words_of_a_job_that_is_submitted_again_have_its_later_prefix(tmp_path: Path) -> None:
    """The first time it has the other one; where there is no other, both have the same."""
    place = Place(
        "cell", tmp_path, "b:1", "in", "out", "group", tmp_path, tmp_path / "source", "key"
    )

    def prefixes(later: str | None) -> list[str]:
        settings = with_job(FLINK_EXACTLY_ONCE, later_prefix=later)
        words = (
            words_of(place, settings, name="job-1", client="c", again=again)
            for again in (False, True)
        )
        return [word for said in words for word in said if word.startswith("prefix=")]

    assert prefixes(None) == ["prefix=key-job", "prefix=key-job"]
    assert prefixes("other") == ["prefix=key-job", "prefix=key-other"]


def test_only_the_transactions_of_the_first_job_are_short(tmp_path: Path) -> None:
    """A job that has ids of its own must not lose what it writes itself while readers wait for the
    first one's end.
    """
    place = Place(
        "cell", tmp_path, "b:1", "in", "out", "group", tmp_path, tmp_path / "source", "key"
    )
    settings = replace(
        with_job(FLINK_EXACTLY_ONCE, later_prefix="other"), transaction_timeout_ms=20_000
    )
    words = [
        words_of(place, settings, name="job-1", client="c", again=again) for again in (False, True)
    ]

    assert ["sink.transaction.timeout.ms=20000" in said for said in words] == [True, False]
    assert ["sink.transaction.timeout.ms=600000" in said for said in words] == [False, True]


@pytest.mark.parametrize(
    ("version", "applies"), [("5.0.0", True), ("5.0.0+4.3.0", False), ("4.0.1", True)]
)
def test_a_connector_with_a_client_that_is_too_new_commits_nothing(
    version: str, applies: bool
) -> None:
    """Its job fails at each checkpoint under exactly-once: that is said beforehand; at-least-once
    needs no transaction.
    """
    nothing = [one for one in MINE if one.id == "none"]
    cells = expand(
        nothing,
        semantics=Semantic,
        seeds=[1],
        system="flink",
        client=f"flink-connector-kafka=={version}",
    )
    found = {cell.semantic: registry.inapplicable(cell) for cell in cells}
    assert found[Semantic.AT_LEAST_ONCE] is None
    assert (found[Semantic.EXACTLY_ONCE] is None) is applies


def test_the_guarantee_is_that_of_the_semantic() -> None:
    want = {
        Semantic.AT_LEAST_ONCE: Guarantee.AT_LEAST_ONCE,
        Semantic.EXACTLY_ONCE: Guarantee.EXACTLY_ONCE,
    }
    assert {
        semantic: FlinkSettings.of(settings).job.guarantee
        for semantic, settings in JOB.recipes.items()
    } == want


def test_one_cluster_at_a_time_is_a_cells_own() -> None:
    """Three that start at once on two cores make each other's cells twice as long."""
    launcher = FlinkSystem()
    assert isinstance(launcher, LimitsDeployments)
    assert launcher.own_at_once == 1


def test_a_job_runs_on_one_broker() -> None:
    """Nobody has declared anything else; who does is told."""
    with pytest.raises(SettingsError, match="one broker"):
        replace(MINE[0], deployment=Deployment.CLUSTER)


def test_what_is_planned_is_saved_whole() -> None:
    pooled = with_job(FLINK_EXACTLY_ONCE, prefix="other")
    cell = next(
        iter(
            expand(
                MINE[:1],
                semantics=[Semantic.EXACTLY_ONCE],
                seeds=[1],
                system="flink",
                client="flink-connector-kafka",
            )
        )
    )
    assert cell.saved_settings()["job"]["prefix"] == "job"
    assert pooled.job.prefix == "other"
    assert pooled.producer == FLINK_EXACTLY_ONCE.producer
