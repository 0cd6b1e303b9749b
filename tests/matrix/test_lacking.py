"""What a machine lacks for some cells voids these, with the reason, and stops no other."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from harness import registry
from harness.judge.verdict import Kind
from harness.matrix.runner import run
from harness.matrix.selection import choose
from harness.model.exits import ExitCode
from harness.model.failures import CellFailure, EnvironmentFailure
from harness.proofs.network import NetworkBad
from harness.report.summary import summarise
from harness.saved import load_run
from harness.systems.kafka.services import Services
from harness.systems.kafka.system import Prepared
from tests.matrix.troubled import TroubledSystem, Watched, named, plan_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from harness.model.cell import Cell

WHY = "no server is installed here: install one"


class Lacking(TroubledSystem):
    """A system that cannot have what some scenarios need."""

    def __init__(self, *without: str) -> None:
        super().__init__(lambda _step, _scenario: None)
        self._without = without

    def prepare_for(self, cells: Iterable[Cell], say: Callable[[str], None]) -> dict[str, str]:
        """Say which cells lack something."""
        say("fetching")
        return {cell.id: WHY for cell in cells if cell.scenario.id in self._without}


@dataclass
class Heard(Watched):
    """Progress that remembers every line, too."""

    said: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        """Remember it."""
        self.said.append(text)


def test_cells_that_lack_something_are_void_and_the_others_run(tmp_path: Path) -> None:
    """The run is whole, is not green, says why once for all of them and again for each; judged anew
    it says the same.
    """
    cells, heard = named(4), Heard()
    saved = run(
        replace(plan_for(cells, tmp_path, jobs=2), systems=(Lacking("cell-1", "cell-3"),)), heard
    )
    assert [result.verdict.kind for result in saved.results] == [
        Kind.VOID,
        Kind.KEPT,
        Kind.VOID,
        Kind.KEPT,
    ]
    reason = f"the run failed: the machine lacks something that this cell needs: {WHY}"
    assert {result.verdict.reason for result in saved.results[::2]} == {reason}
    assert f"cells that cannot run on this machine: 2 ({WHY})" in heard.said
    assert (saved.whole, summarise(saved).exit_code) == (True, ExitCode.VOID)
    assert (
        sorted(heard.begun)
        == sorted(result.plan.id for result in heard.results)
        == sorted(cell.id for cell in cells)
    )
    assert [result.verdict for result in load_run(saved.directory).results] == [
        result.verdict for result in saved.results
    ]


def test_where_every_cell_lacks_something_nothing_is_run(tmp_path: Path) -> None:
    """Then the machine lacks what was asked for: exit code 3, as for what all cells need."""
    plan = replace(plan_for(named(2), tmp_path), systems=(Lacking("cell-1", "cell-2"),))
    with pytest.raises(EnvironmentFailure, match=f"^{WHY}$"):
        run(plan, Watched())


@dataclass
class Bare:
    """A ground where nothing beside the brokers can be had."""

    asked: list[str] = field(default_factory=list)

    def client(self, setup: object, _say: object) -> object:
        """Return it as it is."""
        return setup

    def toxiproxy(self, _say: object) -> object:
        """Fail."""
        self.asked.append("toxiproxy")
        raise EnvironmentFailure("Toxiproxy could not be built")

    def postgres(self, _say: object) -> object:
        """Fail."""
        self.asked.append("postgres")
        raise EnvironmentFailure("no PostgreSQL")


@pytest.mark.parametrize("system", ["kafka", "spark"])
def test_only_cells_that_need_a_server_are_stopped_by_its_want(system: str) -> None:
    """Of all cells of the night: those with a bad network by Toxiproxy's, those with a database
    server by PostgreSQL's.
    """
    cells = [
        cell
        for cell in choose(registry.scenarios(), system=system)
        if registry.inapplicable(cell) is None
    ]
    prepared = Prepared(ground=(ground := Bare()))  # type: ignore[arg-type]
    lacking = prepared.prepare_for(cells, print)
    for cell in cells:
        wants = "no PostgreSQL" if cell.scenario.pipeline.on_server else None
        if cell.scenario.fault.evidence().proof(NetworkBad):
            wants = wants or "Toxiproxy could not be built"
        assert lacking.get(cell.id) == wants, cell.id
    assert ground.asked == {"kafka": ["toxiproxy", "postgres"], "spark": ["postgres"]}[system]
    assert 0 < len(lacking) < len(cells) / 2


def test_a_client_that_cannot_be_had_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells of two clients, one of which is not to be had at that version."""

    def prepare(client: str, _say: object) -> str:
        if "==" in client:
            raise EnvironmentFailure(f"cannot install {client}")
        return client

    monkeypatch.setattr("harness.systems.kafka.system.prepare_client", prepare)
    cells = choose(
        registry.scenarios(),
        system="kafka",
        clients=["kafka-python", "confluent-kafka==2.3.0"],
        only=["plain/none"],
    )
    lacking = Prepared(ground=Bare()).prepare_for(cells, print)  # type: ignore[arg-type]
    assert set(lacking.values()) == {"cannot install confluent-kafka==2.3.0"}
    assert {cell.client for cell in cells if cell.id not in lacking} == {"kafka-python"}


def test_a_service_that_does_not_start_voids_the_cell_and_is_not_waited_for_again() -> None:
    """The deployment goes on: its broker is not to blame."""
    services = Services(None, "consumer", None, None)  # type: ignore[arg-type]
    tries: list[str] = []

    def start(service: str, error: str = "") -> None:
        with services._alone(service):
            tries.append(service)
            if error:
                raise EnvironmentFailure(error)

    for _ in range(2):
        with pytest.raises(CellFailure, match="initdb failed"):
            start("PostgreSQL", "initdb failed")
    start("Toxiproxy")
    assert tries == ["PostgreSQL", "Toxiproxy"]


def test_a_missing_server_is_no_reason_of_theory(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not applicable is so on every machine: a report must not say that a cell *cannot
    exist* where one is missing.
    """
    monkeypatch.setattr("harness.provision.postgres.find_postgres", lambda *_: None)
    cells = [cell for name in registry.real() for cell in choose(registry.scenarios(), system=name)]
    on_server = [cell for cell in cells if cell.scenario.pipeline.on_server]
    assert on_server
    assert not [
        cell.id for cell in on_server if "PostgreSQL" in (registry.inapplicable(cell) or "")
    ]
