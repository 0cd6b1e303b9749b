"""What is known of ActiveMQ before anything is fetched, and what is said where it cannot be."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from harness import cli, registry
from harness.model.cell import Cell, expand
from harness.model.failures import EnvironmentFailure
from harness.model.scenario import NotApplicable, Predicted
from harness.model.semantics import Semantic
from harness.provision.jars import read_jar_set
from harness.systems.activemq.install import RECIPE

if TYPE_CHECKING:
    from pathlib import Path

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
}


def cells(client: str) -> tuple[Cell, ...]:
    """Return its cells of one seed, by one client."""
    mine = [scenario for scenario in registry.scenarios() if registry.runs("activemq", scenario)]
    return tuple(expand(mine, semantics=Semantic, seeds=[1], system="activemq", client=client))


def shows(cell: Cell) -> bool:
    """Whether what is predicted can be seen, or is proved by a sign; what does not
    apply says why.
    """
    theory = cell.expectation
    assert isinstance(theory, Predicted | NotApplicable)
    if isinstance(theory, NotApplicable):
        return bool(theory.because)
    return (
        any(each.must_show() for each in (theory.lost, theory.duplicated, theory.left))
        or theory.sign is not None
    )


@pytest.mark.parametrize("client", registry.described("activemq").clients)
def test_every_point_is_there_under_every_semantic(client: str) -> None:
    """By each client the same points; what predicts zero names a sign, but for the baseline."""
    plain = [cell for cell in cells(client) if cell.scenario.group == "plain"]
    assert {cell.scenario.failure_point for cell in plain} == POINTS | {"power-loss"}
    assert len({(cell.scenario.failure_point, cell.semantic) for cell in plain}) == len(
        POINTS
    ) * len(Semantic) + len({Semantic.AT_LEAST_ONCE, Semantic.EXACTLY_ONCE})
    assert [
        cell.id for cell in plain if not shows(cell) and cell.scenario.failure_point != "none"
    ] == []


def test_what_only_jms_has_does_not_apply_to_others() -> None:
    mine = [cell for cell in cells("openwire") if cell.scenario.group == "jms"]
    assert mine
    assert all(shows(cell) for cell in mine)
    others = [cell for cell in cells("stomp.py") if cell.scenario.group == "jms"]
    own = [cell for cell in others if not isinstance(cell.expectation, NotApplicable)]
    assert all(shows(cell) for cell in own)
    assert {cell.scenario.id.rpartition("+")[2] for cell in own} == {
        "client",
        "transacted",
        "producer-commit-lost",
        "producer-commit-answer-lost",
    }


def test_it_is_listed_and_not_run_unless_it_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert "activemq" in registry.engines()
    assert "activemq" not in registry.default_systems()
    assert cli.main(["list", "--system", "activemq"]) == 0
    assert "delivery-lost+connection-lives" in capsys.readouterr().out


@pytest.mark.parametrize("version", RECIPE.versions())
def test_every_version_has_the_sums_of_all_that_it_needs(version: str) -> None:
    """Each jar with its module, so that none need be asked what it depends on."""
    jar_set = read_jar_set(f"activemq-{version}", RECIPE.source.parent)
    assert jar_set.listed
    own = {name for name in jar_set.sums if name.startswith("activemq-") and "protobuf" not in name}
    assert own == {
        f"activemq-{name}-{version}.jar"
        for name in ("broker", "client", "kahadb-store", "openwire-legacy", "stomp")
    }


def test_a_version_that_does_not_speak_amqp_says_so() -> None:
    """What lets one speak it is a list of its own, beside the broker's jars."""
    cell = next(iter(cells("amqp")))
    assert registry.inapplicable(cell) is None
    assert (
        registry.inapplicable(replace(cell, system="activemq==5.18.3"))
        == "lostack has no checksums of the jars with which 5.18.3 speaks AMQP"
    )
    assert (
        registry.inapplicable(replace(cell, system="activemq==5.18.3", client="openwire")) is None
    )
    assert read_jar_set(f"amqp-{RECIPE.version}", RECIPE.source.parent).listed


def test_another_version_than_those_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "--system", "activemq==5.0.0"]) == 2
    assert capsys.readouterr().err == (
        "lostack: activemq==5.0.0: the checksums of its jars are not known; known versions: "
        f"{', '.join(RECIPE.versions())}\n"
    )


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give this test a cache of its own, and no network."""
    monkeypatch.setenv("LOSTACK_CACHE", str(tmp_path))
    nowhere = tmp_path / "settings.xml"
    nowhere.write_text(
        '<ivysettings><settings defaultResolver="none"/><resolvers>'
        '<filesystem name="none" checkmodified="false">'
        f'<artifact pattern="{tmp_path}/nowhere/[artifact]-[revision].[ext]"/>'
        "</filesystem></resolvers></ivysettings>"
    )
    monkeypatch.setenv("LOSTACK_IVY_SETTINGS", str(nowhere))
    return tmp_path


def test_without_a_network_one_line_says_so(cache: Path) -> None:
    """What could not be fetched, and what helps."""
    with pytest.raises(
        EnvironmentFailure,
        match=r"^cannot fetch the jars of activemq-6\.3\.1; not found: .*check the network",
    ):
        RECIPE.ensure(lambda _: None)
    assert not (cache / "jars" / "activemq-6.3.1").exists()


def test_a_jar_that_nobody_knows_is_told(cache: Path) -> None:
    """What lies among the jars would be on the class path."""
    folder = cache / "jars" / "activemq-6.3.1"
    folder.mkdir(parents=True)
    (folder / "mine.jar").write_bytes(b"")
    with pytest.raises(
        EnvironmentFailure, match=r"holds jars that are not in its list .*mine\.jar"
    ):
        RECIPE.ensure(lambda _: None)


def test_no_java_is_told(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOSTACK_JAVA_HOME", str(cache))
    with pytest.raises(
        EnvironmentFailure, match=r"LOSTACK_JAVA_HOME is set, but .* is not a working Java"
    ):
        RECIPE.ensure(lambda _: None)
