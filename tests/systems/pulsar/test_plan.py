"""What is known of Pulsar before anything is fetched, and what is said where it cannot be."""

from __future__ import annotations

import pytest

from harness import cli, registry
from harness.model.cell import Cell, expand
from harness.model.scenario import NotApplicable, Predicted
from harness.model.semantics import Semantic
from harness.provision.jars import read_jar_set
from harness.systems.pulsar import install

POINTS = {
    "none",
    "request-lost",
    "ack-lost",
    "producer-crash-before-send",
    "producer-crash-before-ack",
    "delivery-lost",
    "commit-lost",
    "commit-ack-lost",
    "consumer-crash-before-recording",
    "consumer-crash-before-commit",
    "broker-crash-before-append",
    "broker-crash-before-ack",
    "broker-crash-after-ack",
}
OF_TRANSACTIONS = {
    "txn-send-lost",
    "txn-sent",
    "txn-ack-registered",
    "txn-end-lost",
    "txn-end-answer-lost",
    "txn-end-answer-dropped",
    "txn-end-on-partition-lost",
    "txn-end-on-subscription-lost",
    "txn-coordinator-crash-before-commit",
    "txn-coordinator-crash-after-commit",
}


def cells(client: str) -> tuple[Cell, ...]:
    """Return its cells of one seed."""
    mine = [scenario for scenario in registry.scenarios() if registry.runs("pulsar", scenario)]
    return tuple(expand(mine, semantics=Semantic, seeds=[1], system="pulsar", client=client))


@pytest.mark.parametrize("client", ["pulsar-client", "pulsar-java"])
def test_every_point_is_there_under_every_semantic(client: str) -> None:
    """What does not apply says why; what applies and predicts zero names a sign, but for the
    baseline.
    """
    found = {
        (cell.scenario.failure_point, cell.semantic): cell.expectation
        for cell in reversed(cells(client))
    }
    assert {point for point, _ in found} == POINTS | OF_TRANSACTIONS | {"work-fails", "power-loss"}
    assert len(found) == len(POINTS | OF_TRANSACTIONS) * len(Semantic) + len(Semantic) + 2
    for (point, semantic), theory in found.items():
        assert isinstance(theory, Predicted | NotApplicable)
        shows = (
            isinstance(theory, NotApplicable)
            or theory.lost.must_show()
            or theory.duplicated.must_show()
            or theory.sign
        )
        assert shows or point == "none", (point, semantic)


def test_it_is_listed_and_not_run_unless_it_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert "pulsar" in registry.engines()
    assert "pulsar" not in registry.default_systems()
    assert cli.main(["list", "--system", "pulsar"]) == 0
    assert "ack-lost+deduplicated" in capsys.readouterr().out


@pytest.mark.parametrize("version", install.versions())
def test_every_version_has_the_sums_of_all_that_it_needs(version: str) -> None:
    """Each jar with its module, so that none need be asked what it depends on."""
    jar_set = read_jar_set(f"pulsar-{version}", install.HERE)
    assert jar_set.listed
    own = {
        f"{name}-{version}.jar"
        for name in ("pulsar-broker", "managed-ledger", "pulsar-client-original")
    }
    assert own <= jar_set.sums.keys()
    others = {module.name: module.kind for module in jar_set.modules if module.kind != "jar"}
    assert others["circe-checksum"] == "nar"
    assert {*others.values()} == {"nar"}


def test_another_version_than_those_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "--system", "pulsar==1.0.0"]) == 2
    assert capsys.readouterr().err == (
        "lostack: pulsar==1.0.0: the checksums of its jars are not known; known versions: "
        f"{', '.join(install.versions())}\n"
    )
