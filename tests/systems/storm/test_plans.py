"""What is declared of Storm's cells, and what a topology is told."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from harness import registry
from harness.model.cell import expand
from harness.model.pipeline import SettingsError
from harness.model.scenario import Deployment, NotApplicable, Predicted, Suite
from harness.model.semantics import Semantic
from harness.systems.storm.faults import KillBetween
from harness.systems.storm.settings import (
    STORM_AT_LEAST_ONCE,
    STORM_AT_MOST_ONCE,
    TOPOLOGY,
    TRIDENT,
    TRIDENT_EXACTLY_ONCE,
    TRIDENTS,
    Batches,
    Guarantee,
    StormSettings,
    with_topology,
    with_trident,
)
from harness.systems.storm.words import Place, words_of

if TYPE_CHECKING:
    from pathlib import Path


MINE = tuple(scenario for scenario in registry.scenarios() if registry.runs("storm", scenario))
PLAIN = tuple(scenario for scenario in MINE if scenario.pipeline == TOPOLOGY)
MOST_CORE = 6
ENOUGH_MS = 20_000
"""What a worker needs that has just started, on a starved machine, to be given a record."""


def told(folder: Path, settings: StormSettings) -> dict[str, str]:
    """Return the words of a topology by their names."""
    words = words_of(
        Place(
            "processor:1",
            "k.in",
            "k.out",
            "k.group",
            folder,
            folder,
            "the/cell",
            "direct:2",
            ("keeper", 7),
        ),
        settings,
        "k.worker",
    )
    return dict(word.split("=", 1) for word in words)


def test_at_most_once_follows_nothing(tmp_path: Path) -> None:
    """It commits first, has no acker, anchors nothing, and its bolt does not wait to
    be answered.
    """
    words = told(tmp_path, STORM_AT_MOST_ONCE)
    assert words["guarantee"] == "AT_MOST_ONCE"
    assert (
        words["conf.topology.acker.executors"],
        words["conf.lostack.anchored"],
        words["forget"],
    ) == ("0", "false", "true")
    assert (words["bolt.acks"], words["bolt.retries"], words["bolt.enable.idempotence"]) == (
        "1",
        "0",
        "false",
    )


def test_at_least_once_follows_each_record_to_its_result(tmp_path: Path) -> None:
    words = told(tmp_path, STORM_AT_LEAST_ONCE)
    assert words["guarantee"] == "AT_LEAST_ONCE"
    assert (
        words["conf.topology.acker.executors"],
        words["conf.lostack.anchored"],
        words["forget"],
    ) == ("1", "true", "false")
    assert words["bolt.acks"] == "all"
    assert "bolt.retries" not in words


def test_words_are_words(tmp_path: Path) -> None:
    for settings in (STORM_AT_MOST_ONCE, STORM_AT_LEAST_ONCE):
        assert not any(
            " " in word or "\n" in word
            for pair in told(tmp_path, settings).items()
            for word in pair
        )


def test_spout_and_bolt_have_one_name_to_the_broker(tmp_path: Path) -> None:
    """The wire stops all that a worker says when it holds one of its frames."""
    words = told(tmp_path, STORM_AT_LEAST_ONCE)
    assert words["spout.client.id"] == words["bolt.client.id"] == "k.worker"
    assert words["bootstrap"] == "processor:1"


def test_the_guarantee_is_that_of_the_semantic() -> None:
    """Whatever else a cell's settings say; where nobody follows tuples, nothing is anchored."""
    want = {
        Semantic.AT_MOST_ONCE: Guarantee.AT_MOST_ONCE,
        Semantic.AT_LEAST_ONCE: Guarantee.AT_LEAST_ONCE,
    }
    for scenario in PLAIN:
        for semantic, theory in scenario.expect.items():
            if isinstance(theory, Predicted):
                topology = StormSettings.of(
                    theory.settings or scenario.pipeline.recipes[semantic]
                ).topology
                assert topology.guarantee is want[semantic]
                assert topology.anchored <= bool(topology.ackers)


def test_bolts_claim_nothing_of_exactly_once() -> None:
    for scenario in PLAIN:
        assert isinstance(
            scenario.expect.get(Semantic.EXACTLY_ONCE, NotApplicable("")), NotApplicable
        )
        theory = scenario.expect[Semantic.AT_LEAST_ONCE]
        assert isinstance(theory, Predicted)
        anchored = StormSettings.of(
            theory.settings or scenario.pipeline.recipes[Semantic.AT_LEAST_ONCE]
        ).topology.anchored
        assert theory.control is not anchored


def test_trident_promises_exactly_once_by_two_pairs() -> None:
    """Of a spout and a state, and of one partition.

    Any other is a control, and so is an opaque spout whose last batch is forgotten, or one that
    polls for too short a time. Without ids at-least-once is claimed.
    """
    pairs = set()
    for scenario in (scenario for scenario in MINE if scenario.pipeline in TRIDENTS):
        for semantic, theory in scenario.expect.items():
            if not isinstance(theory, Predicted):
                assert semantic is not Semantic.EXACTLY_ONCE
                continue
            settings = StormSettings.of(theory.settings or scenario.pipeline.recipes[semantic])
            trident = settings.trident
            assert trident is not None
            if semantic is Semantic.EXACTLY_ONCE:
                forgotten = trident.spout is Batches.OPAQUE and scenario.fault.id == KillBetween.id
                hasty = trident.poll_ms < ENOUGH_MS
                assert theory.control is (
                    trident.spout is not trident.state
                    or settings.topic.partitions > 1
                    or forgotten
                    or hasty
                )
                pairs |= set() if theory.control else {trident.spout}
            else:
                assert trident.state is Batches.NONE
    assert pairs == {Batches.OPAQUE, Batches.TRANSACTIONAL}


def test_a_topology_of_trident_keeps_its_transactions_behind_the_wire(tmp_path: Path) -> None:
    """Below a node that is called like its client; and all that its state is read from is past the
    wire.
    """
    words = told(tmp_path, TRIDENT_EXACTLY_ONCE)
    assert (words["spout"], words["state"]) == ("opaque", "opaque")
    assert words["conf.transactional.zookeeper.root"] == "/k.worker"
    assert (
        words["conf.transactional.zookeeper.servers"],
        words["conf.transactional.zookeeper.port"],
    ) == ("[keeper]", "7")
    assert words["direct"] == "direct:2"
    assert "guarantee" not in words


def test_a_state_in_a_database_is_behind_the_wire(tmp_path: Path) -> None:
    """Its client has the name that it has to the broker and to ZooKeeper, and says it before
    anything else is said.
    """
    address = "postgresql://lostack@wire:7/cell?sslmode=disable&gssencmode=disable"
    place = Place(
        "processor:1",
        "k.in",
        "k.out",
        "k.group",
        tmp_path,
        tmp_path,
        "the/cell",
        "direct:2",
        ("keeper", 7),
        database=address,
    )
    words = dict(word.split("=", 1) for word in words_of(place, TRIDENT_EXACTLY_ONCE, "k.worker"))
    url, _, said = words["database"].partition("?")
    assert url == "jdbc:postgresql://wire:7/cell"
    assert {
        "user=lostack",
        "sslmode=disable",
        "ApplicationName=k.worker",
        "assumeMinServerVersion=9.0",
    } <= set(said.split("&"))
    assert "database" not in told(tmp_path, TRIDENT_EXACTLY_ONCE)


def test_a_lost_acknowledgement_needs_two_workers(tmp_path: Path) -> None:
    words = told(tmp_path, with_topology(STORM_AT_LEAST_ONCE, apart=True))
    assert (words["conf.topology.workers"], words["apart"]) == ("2", "true")
    assert words["conf.storm.messaging.transport"] == "lostack.Losing"
    assert "conf.storm.messaging.transport" not in told(tmp_path, STORM_AT_LEAST_ONCE)


def test_what_is_no_topology_of_trident_is_told() -> None:
    with pytest.raises(SettingsError, match="does not take settings of Trident"):
        TRIDENT_EXACTLY_ONCE.check(TOPOLOGY, clustered=False)
    with pytest.raises(SettingsError, match="needs settings of Trident"):
        STORM_AT_LEAST_ONCE.check(TRIDENT, clustered=False)
    with pytest.raises(SettingsError, match="transactional or opaque"):
        with_trident(TRIDENT_EXACTLY_ONCE, spout=Batches.NONE)
    with pytest.raises(TypeError, match="have no part of Trident"):
        with_trident(STORM_AT_LEAST_ONCE, spout=Batches.OPAQUE)


def test_the_core_is_small() -> None:
    core = [each for each in MINE if each.suite is Suite.CORE]
    cells = list(
        expand(
            core, semantics=list(Semantic), seeds=[1], system="storm", client="storm-kafka-client"
        )
    )
    assert 0 < sum(isinstance(cell.expectation, Predicted) for cell in cells) <= MOST_CORE


def test_a_topology_runs_on_one_broker() -> None:
    """Nobody has declared anything else; who does is told."""
    with pytest.raises(SettingsError, match="one broker"):
        replace(MINE[0], deployment=Deployment.CLUSTER)


def test_what_is_planned_is_saved_whole() -> None:
    cell = next(
        iter(
            expand(
                MINE[:1],
                semantics=[Semantic.AT_LEAST_ONCE],
                seeds=[1],
                system="storm",
                client="storm-kafka-client",
            )
        )
    )
    assert cell.saved_settings()["topology"]["anchored"] is True
    assert with_topology(STORM_AT_LEAST_ONCE, anchored=False) != STORM_AT_LEAST_ONCE
    with pytest.raises(TypeError, match="not StormSettings"):
        StormSettings.of(STORM_AT_LEAST_ONCE.stages)
