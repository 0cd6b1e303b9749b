"""The plan: what the judge must know of a cell. Saved as ``cell.json`` beside the history, so a run can be judged again."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.core.network import Effect, NetworkEvidence
from harness.core.prediction import AtLeast, Exactly, Permitted, Prediction, Select, Some, Zero
from harness.core.scenario import Evidence, Predicted, RefusedByClient, Role
from harness.core.semantics import Anomaly, Semantic
from harness.core.sign import Sign

if TYPE_CHECKING:
    from pathlib import Path

    from harness.core.cell import Cell

PLAN_FILE = "cell.json"


class PlanError(Exception):
    """``cell.json`` is missing or cannot be read; the message says which file and why."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A cell as the judge sees it: plain data, no code."""

    id: str
    key: str
    scenario: str
    group: str
    system: str
    client: str
    pipeline: str
    failure_point: str
    semantic: Semantic
    runtime: str
    seed: int
    offered: int
    target: str
    select: dict[Select, frozenset[str]]
    lost: Prediction
    duplicated: Prediction
    sign: Sign | None
    control: bool
    refused_by_client: bool
    evidence: Evidence
    because: str
    settings: dict[str, Any]
    stops: str | None = None
    left: Prediction = field(default_factory=Zero)
    also: tuple[Anomaly, ...] = ()
    pace_ms: int = 0

    @property
    def stands(self) -> bool:
        """Whether the drain must never end."""
        return self.stops is not None or self.left.must_show()

    def to_json(self) -> str:
        """Return the plan as JSON text."""
        return json.dumps(dataclasses.asdict(self) | {
            "select": {name: sorted(ids) for name, ids in self.select.items()},
            "lost": _prediction_to_json(self.lost),
            "duplicated": _prediction_to_json(self.duplicated),
            "left": _prediction_to_json(self.left),
        }, indent=1)  # fmt: skip

    @staticmethod
    def from_json(text: str) -> Plan:
        """Read a plan back; raises ``ValueError``, ``KeyError`` or ``TypeError`` where the text is none."""
        data = json.loads(text)
        evidence = data["evidence"]
        return Plan(**data | {
            "semantic": Semantic(data["semantic"]),
            "select": {Select(name): frozenset(ids) for name, ids in data["select"].items()},
            "lost": _prediction_from_json(data["lost"]),
            "duplicated": _prediction_from_json(data["duplicated"]),
            "left": _prediction_from_json(data["left"]) if "left" in data else Zero(),
            "sign": Sign(data["sign"]) if data["sign"] else None,
            "also": tuple(Anomaly(each) for each in data.get("also", ())),
            "evidence": Evidence(**evidence | {
                "killed": tuple(Role(role) for role in evidence["killed"]),
                "paused": tuple(Role(role) for role in evidence["paused"]),
                "ended": tuple(Role(role) for role in evidence.get("ended", ())),
                "told": tuple(Role(role) for role in evidence.get("told", ())),
                "network": _network_from_json(evidence.get("network")),
                "engine": tuple(evidence.get("engine", ())),
            }),
        })  # fmt: skip

    @staticmethod
    def load(directory: Path) -> Plan:
        """Read ``cell.json`` of a saved cell. Raises :class:`PlanError`."""
        file = directory / PLAN_FILE
        try:
            return Plan.from_json(file.read_text())
        except OSError as error:
            raise PlanError(f"cannot read {file}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise PlanError(f"{file} is no cell of this version of lostack: {error}") from error


_PREDICTIONS: dict[str, type[Prediction]] = {kind.__name__: kind for kind in (Zero, Exactly, AtLeast, Some, Permitted)}


def _network_from_json(data: dict[str, Any] | None) -> NetworkEvidence | None:
    if data is None:
        return None
    return NetworkEvidence(**data | {"roles": tuple(data["roles"]), "effect": Effect(data["effect"])})


def _prediction_to_json(prediction: Prediction) -> dict[str, Any]:
    return {"kind": type(prediction).__name__, **dataclasses.asdict(prediction)}


def _prediction_from_json(data: dict[str, Any]) -> Prediction:
    words = dict(data)
    kind = _PREDICTIONS[words.pop("kind")]
    if "select" in words:
        words["select"] = Select(words["select"])
    return kind(**words)


def plan_of(cell: Cell) -> Plan:
    """Return the plan of a cell that applies. Raises ``ValueError`` for one that does not."""
    expectation = cell.expectation
    load = cell.load()
    if isinstance(expectation, Predicted):
        predicted = expectation
    elif isinstance(expectation, RefusedByClient):
        predicted = Predicted()
    else:
        raise ValueError(f"{cell.id} does not apply: {expectation.because}")  # noqa: TRY004 - not a wrong type, a wrong cell
    return Plan(
        id=cell.id,
        key=cell.key,
        scenario=cell.scenario.id,
        group=cell.scenario.group,
        system=cell.system,
        client=cell.client,
        pipeline=cell.pipeline,
        failure_point=cell.scenario.failure_point,
        semantic=cell.semantic,
        runtime=cell.runtime,
        seed=cell.seed,
        offered=len(load.records),
        target=load.target.id,
        select=load.select(),
        lost=predicted.lost,
        duplicated=predicted.duplicated,
        sign=predicted.sign,
        control=predicted.control,
        also=predicted.also,
        refused_by_client=isinstance(expectation, RefusedByClient),
        evidence=cell.scenario.fault.evidence(),
        because=cell.scenario.because,
        settings=cell.saved_settings(),
        stops=predicted.stops,
        left=predicted.left,
        pace_ms=cell.scenario.pace_ms,
    )
