"""The client as an axis: which cells there are, and what theory says of one client only."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from harness import registry
from harness.matrix.selection import SelectionError, choose
from harness.model.cell import Cell
from harness.model.pipeline import SettingsError
from harness.model.scenario import NotApplicable
from harness.stages.clients import ADAPTERS
from scenarios.plain import (
    ACK_LOST,
    ALO,
    AMO,
    EOS,
    LOSES,
    NO_TRANSACTION,
    NONE,
    PRODUCER_CRASH_BEFORE_COMMIT,
)

if TYPE_CHECKING:
    from harness.model.scenario import Expectation
    from harness.model.semantics import Semantic

ONE = replace(
    ACK_LOST, by_client={"confluent-kafka": {AMO: LOSES, EOS: NotApplicable("for the sake of it")}}
)


def test_the_default_is_one_client_and_a_named_one_runs_where_it_can() -> None:
    """Nobody asked: kafka-python; asked: what was asked for, with its version in the id."""
    assert {cell.client for cell in choose([NONE], system="kafka")} == {"kafka-python"}
    found = choose(
        [NONE],
        clients=["confluent-kafka==2.3.0", "kafka-python", "spark-sql-kafka"],
        semantics=["at-most-once"],
    )
    assert [cell.id.split("/")[1] for cell in found] == ["confluent-kafka==2.3.0", "kafka-python"]


def test_a_client_that_nobody_knows_or_that_the_system_does_not_use_is_told() -> None:
    with pytest.raises(
        registry.UnknownNameError, match=r"no client is called confluent; .*confluent-kafka"
    ):
        choose([NONE], clients=["confluent"])
    with pytest.raises(SelectionError, match="kafka has no client spark-sql-kafka"):
        choose([NONE], system="kafka", clients=["spark-sql-kafka"])


def test_every_adapter_can_be_selected() -> None:
    assert set(registry.described("kafka").clients) == set(ADAPTERS)


def test_what_theory_says_of_one_client_holds_for_all_its_versions_and_for_nobody_else() -> None:
    """``by_client`` replaces an expectation, and only that one."""

    def expected(client: str, semantic: object) -> object:
        return next(
            c for c in choose([ONE], system="kafka", clients=[client]) if c.semantic is semantic
        ).expectation

    assert expected("confluent-kafka", AMO) == expected("confluent-kafka==2.3.0", AMO) == LOSES
    assert expected("kafka-python", AMO) == ACK_LOST.expect[AMO]
    assert expected("confluent-kafka", ALO) == ACK_LOST.expect[ALO]
    assert isinstance(expected("confluent-kafka", EOS), NotApplicable)


def test_a_client_differs_only_from_what_is_declared() -> None:
    """A semantic that the scenario does not have cannot be given to one client."""
    with pytest.raises(SettingsError, match="has an expectation, and expect has none"):
        replace(NONE, expect={ALO: NONE.expect[ALO]}, by_client={"confluent-kafka": {AMO: LOSES}})


def test_what_theory_says_of_some_versions_only() -> None:
    """The first that fits counts; a client at no version of its own is the newest."""
    older: dict[str, dict[Semantic, Expectation]] = {
        "java<4": {EOS: LOSES},
        "java": {EOS: NO_TRANSACTION},
    }
    scenario = replace(ACK_LOST, by_client=older)
    assert scenario.expectation(EOS, "java==3.9.1") == LOSES
    assert (
        scenario.expectation(EOS, "java==4.3.0")
        == scenario.expectation(EOS, "java")
        == NO_TRANSACTION
    )
    assert (
        scenario.expectation(EOS, "kafka-python==3.0.12")
        == scenario.expectation(EOS)
        == ACK_LOST.expect[EOS]
    )


def test_the_load_is_the_same_for_every_client() -> None:
    a, b, *_ = (
        Cell(PRODUCER_CRASH_BEFORE_COMMIT, EOS, "kafka", client, "process", 3, 24)
        for client in ADAPTERS
    )
    assert a.load() == b.load()
    assert a.key != b.key
    assert a.scenario.expectation(AMO) is NO_TRANSACTION
