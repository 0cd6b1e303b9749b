"""Which declarations take one cell at a time, and what is done where a rehearsal side by side
fails.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.judge.verdict import Kind
from harness.matrix import checking
from harness.matrix.checking import Check, at_once
from harness.model.failures import EnvironmentFailure
from harness.model.scenario import Deployment
from harness.pipelines import read_pipeline
from harness.pipelines.alone import why_alone
from harness.pipelines.cells import DeclaredCell
from harness.pipelines.failure_points import NO_FAULT
from harness.systems.declared.system import DeclaredSystem
from harness.wire.messages import WireError
from tests.matrix.troubled import Watched
from tests.narrow import narrow

if TYPE_CHECKING:
    from harness.matrix.runner import RunPlan

EXAMPLES = Path(__file__).parents[2] / "examples"
ORDERS = """
claims = "at-least-once"
topics = ["orders"]
[[stage]]
role = "producer"
command = "{python} producer.py"
[[stage]]
role = "consumer"
command = "{python} consumer.py {work}/orders.db"
[output]
kind = "sqlite"
file = "{work}/orders.db"
query = "SELECT number FROM orders"
"""
SERVICE = '[[service]]\nname = "store"\ncommand = "{python} store.py {store.dir} {store.port}"\n'


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("", "", None),
        ("[output]", f"{SERVICE}[output]", None),
        ("[output]", f'{SERVICE}anew = "once"\n[output]', "the service store is started once"),
        (
            "[output]",
            f"{SERVICE}[output]".replace(" {store.dir} {store.port}", ""),
            "neither {store.port} nor {store.dir}",
        ),
        (
            "[output]",
            f"{SERVICE}[output]".replace("{store.dir} {store.port}", "8081 {bootstrap} {work}"),
            "neither {store.port} nor {store.dir}",
        ),
        (
            "[output]",
            SERVICE.replace("{store.dir} {store.port}", "{other.port}")
            + SERVICE.replace("store", "other")
            + "[output]",
            None,
        ),
        (
            "producer.py",
            "producer.py --listen localhost:8080",
            "the producer is given a fixed port (localhost:8080)",
        ),
        ("producer.py", "producer.py --at {bootstrap}", None),
        (
            "[output]",
            '[input]\nkind = "http"\nurl = "http://127.0.0.1:8080/orders"\n[output]',
            "the producer listens at a fixed",
        ),
        (
            'file = "{work}/orders.db"',
            'file = "{here}/orders.db"',
            "the results of all cells are in one place ({here}/orders.db)",
        ),
    ],
)
def test_what_cells_would_have_in_common_is_named(
    tmp_path: Path, old: str, new: str, said: str | None
) -> None:
    """A port, a place or a service of which there is one: with it, cells run one at a time."""
    (tmp_path / "pipeline.toml").write_text(ORDERS.replace(old, new, 1))
    found = why_alone(read_pipeline(tmp_path / "pipeline.toml"))
    assert found is None if said is None else found is not None and said in found


def test_the_examples_run_side_by_side() -> None:
    files = sorted(EXAMPLES.rglob("pipeline.toml"))
    assert len(files) > 20
    found = {
        str(file.parent.relative_to(EXAMPLES)): why
        for file in files
        if (why := why_alone(read_pipeline(file)))
    }
    assert found == {}


@dataclass
class Played:
    """Runs that are only played: what comes of the cells, by their scenarios; the rest is kept."""

    kinds: dict[str, Kind] = field(default_factory=dict)
    plans: list[RunPlan] = field(default_factory=list)

    def run(self, plan: RunPlan, _: object) -> Any:
        """Take note of the plan, and say what came of it."""
        self.plans.append(plan)
        results = [
            SimpleNamespace(
                plan=SimpleNamespace(scenario=cell.scenario.id),
                verdict=SimpleNamespace(
                    kind=self.kinds.get(cell.scenario.id, Kind.KEPT), reason="its reason"
                ),
            )
            for cell in plan.cells
        ]
        return SimpleNamespace(info=SimpleNamespace(interrupted=False), results=results)


def asked(tmp_path: Path, jobs: int = 3) -> Check:
    """Return a check of the orders pipeline, on brokers that are never started."""
    return Check(
        read_pipeline(EXAMPLES / "orders" / "pipeline.toml"),
        DeclaredSystem(),
        tmp_path,
        "test",
        jobs=jobs,
    )


def test_a_rehearsal_goes_before_cells_side_by_side(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As many runs without a fault as cells are to be, at once; the first one is the dry run, whose
    writes are watched.
    """
    played = Played()
    monkeypatch.setattr(checking, "run", played.run)
    found = asked(tmp_path).rehearsed(Watched())
    assert (found.dry.plan.scenario, found.jobs, found.because) == (NO_FAULT, 3, "")
    [plan] = played.plans
    assert [(cell.scenario.id, cell.scenario.fault.watched) for cell in plan.cells] == [  # type: ignore[attr-defined]
        (NO_FAULT, True),
        ("rehearsal-2", False),
        ("rehearsal-3", False),
    ]
    assert [narrow(cell, DeclaredCell).brief for cell in plan.cells] == [False, True, True], (
        "one of them waits for what comes late"
    )
    assert plan.jobs == 3
    assert at_once(found.jobs, found.because) == "3 cells at once, each on a broker of its own"


def test_a_dry_run_leaves_what_comes_late_to_another_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where that is said: alone, and side by side."""
    played = Played()
    monkeypatch.setattr(checking, "run", played.run)
    for jobs in (1, 2):
        asked(tmp_path, jobs).rehearsed(Watched(), brief=True)
        asked(tmp_path, jobs).rehearsed(Watched())
    waits = [[not cell.brief for cell in plan.cells] for plan in played.plans]  # type: ignore[attr-defined]
    assert waits == [[False], [True], [False, False], [True, False]]


@pytest.mark.parametrize("failed", [NO_FAULT, "rehearsal-3"])
@pytest.mark.parametrize("kind", [Kind.BROKEN, Kind.VOID, Kind.STUCK])
def test_where_a_rehearsal_fails_cells_run_one_at_a_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, failed: str, kind: Kind
) -> None:
    """The dry run is made again, alone, and nothing of what came of them side by side is told of
    the pipeline.
    """
    played = Played({failed: kind})
    monkeypatch.setattr(checking, "run", played.run)
    found = asked(tmp_path).rehearsed(Watched())
    assert [plan.jobs for plan in played.plans] == [3, 1]
    assert [cell.scenario.id for cell in played.plans[1].cells] == [NO_FAULT]
    assert found.jobs == 1
    assert found.because == f"one of 3 runs without a fault side by side was {kind}"
    assert at_once(found.jobs, found.because) == f"one cell at a time: {found.because}"


def test_who_takes_one_cell_is_not_rehearsed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Neither where that is asked for, nor where the declaration has something of which there is
    one.
    """
    played = Played()
    monkeypatch.setattr(checking, "run", played.run)
    assert asked(tmp_path, jobs=1).rehearsed(Watched()).because == ""
    check = asked(tmp_path)
    fixed = replace(
        check.pipeline, output=replace(check.pipeline.output, file="/var/lib/orders.db")
    )
    found = replace(check, pipeline=fixed).rehearsed(Watched())
    told = (
        "the results of all cells are in one place (/var/lib/orders.db): put the output below "
        "{work}"
    )
    assert (found.jobs, found.because) == (1, told)
    assert [(plan.jobs, len(plan.cells)) for plan in played.plans] == [(1, 1), (1, 1)]


@dataclass
class Brokers:
    """Brokers that start and end, and count that."""

    attached = False
    directory = Path("nowhere")
    started: int = 0
    ended: int = 0

    def __init__(self) -> None:
        self.wire = self
        self.admitted: list[Path] = []

    def check(self) -> None:
        """They live."""

    def admit(self, run: Path) -> None:
        """Take note."""
        self.admitted.append(run)

    def brokers(self, *_: object) -> Brokers:
        """Return them."""
        return self

    def start(self) -> None:
        """Count it."""
        self.started += 1

    def close(self) -> None:
        """Count it."""
        self.ended += 1


def test_as_many_brokers_are_kept_as_were_used_at_once(tmp_path: Path) -> None:
    """Who comes while all are used gets another one; what is given back is used again; a broker
    that may die is nobody else's.
    """
    source = Brokers()
    system = DeclaredSystem(keep=True, source=source)  # type: ignore[arg-type]
    first, second = (system.deploy(Deployment.SHARED, tmp_path) for _ in range(2))
    assert source.started == 2
    first.close()
    first.close()
    assert source.admitted == []
    deployment = tmp_path / "run" / "deployments" / "shared"
    third, fourth = (system.deploy(Deployment.SHARED, deployment) for _ in range(2))
    assert source.started == 3
    assert source.admitted == [tmp_path / "run"]
    own = system.deploy(Deployment.OWN, tmp_path)
    assert (source.started, source.ended) == (4, 0)
    own.close()
    assert source.ended == 1
    for each in (second, third, fourth):
        each.close()
    threads = [
        threading.Thread(target=system.deploy, args=(Deployment.SHARED, tmp_path)) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert source.started == 4
    system.close()
    second.close()  # late: it was ended
    assert source.ended == 4
    assert system.deploy(Deployment.SHARED, tmp_path) is not None
    assert source.started == 5


def test_a_kept_broker_whose_wire_ended_is_told_before_the_next_cell(tmp_path: Path) -> None:
    """As a failure of the environment, in one line: no cell begins on it."""

    class Gone(Brokers):
        """Brokers whose wire has ended."""

        def admit(self, run: Path) -> None:
            """Refuse: nobody hears it."""
            raise WireError(f"the wire has ended: no {run}")

    system = DeclaredSystem(keep=True, source=Gone())  # type: ignore[arg-type]
    deployment = tmp_path / "run" / "deployments" / "shared"
    system.deploy(Deployment.SHARED, deployment).close()
    with pytest.raises(EnvironmentFailure, match="does not go on: the wire has ended"):
        system.deploy(Deployment.SHARED, deployment)
