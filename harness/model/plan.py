"""The plan: what the judge must know of a cell. Saved as ``cell.json`` beside the history, so a run
can be judged again.

A plan is sealed: a checksum over its content stands in it, and in the history's first line. If
somebody changes the plan after the run, by an editor or by mistake, the judge gives no verdict. (A
seal is not a signature: it does not stop somebody who computes it anew in both places.)
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from harness.model import safe_files
from harness.model.failures import why_damaged
from harness.model.older import plan_of_before
from harness.model.plain import check_fields, made
from harness.model.prediction import Permitted, Prediction, Select, Zero
from harness.model.scenario import Evidence, Predicted, RefusedByClient
from harness.model.semantics import Anomaly, Guarantee, Semantic, forbids

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from harness.model.cell import Cell

PLAN_FILE = "cell.json"
SCHEMA = 4
"""Version of ``cell.json``; a file without a version is of version 1.

Since version 2 it is sealed, and has the number of partitions of each log. Since version 3 it lists
by name the proofs that its fault must show. Since version 4 its history has an end.
"""
SEALED = 2
"""The first version with a seal. Histories since then also have all lines that the cross-checks
need.
"""
ENDS = 4
"""The first version whose histories end by what each file held (:mod:`harness.model.ending`)."""
SEAL = "seal"
FORBIDDEN = "forbidden"
"""The prediction that is shown if the scenario predicts no count, but the semantic forbids any."""


class PlanError(Exception):
    """``cell.json`` is missing or cannot be read; the message says which file and why."""


class EditedPlanError(PlanError):
    """A plan was changed after it was sealed. ``plan``: the changed plan, to be shown; the judge
    must not use it.
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__(
            f"{PLAN_FILE} was changed after the cell began: its seal does not match its content"
        )
        self.plan = plan


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
    sign: str | None
    """The name of a :class:`~harness.judge.signs.Sign`."""
    control: bool
    refused_by_client: bool
    evidence: Evidence
    because: str
    settings: dict[str, Any]
    proofs: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The fields of each :class:`~harness.judge.proof.Proof` that the fault declares,
    by its name.
    """
    stops: str | None = None
    left: Prediction = field(default_factory=Zero)
    also: tuple[Anomaly, ...] = ()
    pace_ms: int = 0
    logs: dict[str, int] = field(default_factory=dict)
    """How many partitions each log has that the observer reads at the end, by its
    :class:`~harness.model.states.Hop`.
    """
    topics: tuple[str, ...] = ()
    """The topics that are offered records, if there are several. Each is a log of its own."""
    dead_letters: bool = False
    """Whether dead letters are a part of the pipeline. If so, records that were set aside are not
    lost.
    """
    ordered: bool = False
    """Whether the pipeline claims to record the records of a key in their order. If so, *reordered*
    breaks a promise.
    """
    guarantees: tuple[Guarantee, ...] = ()
    """The session guarantees that the pipeline claims."""
    targets: tuple[str, ...] = ()
    """The records that the fault strikes one after the other, the target first; empty: the target
    alone.
    """
    schema: int = SCHEMA
    read_seal: str | None = field(default=None, compare=False)
    """The seal in the file that the plan was read from. A later lostack, whose plans have more
    fields, compares by it.
    """

    def predicted(self, what: Anomaly) -> str:
        """Return in a few words the prediction for ``what``, lost or duplicated.

        If the scenario permits any count but the semantic forbids it, that is ``forbidden``. Of
        users' own pipelines lostack predicts nothing else.
        """
        prediction = self.lost if what is Anomaly.LOST else self.duplicated
        open_ = isinstance(prediction, Permitted) and not self.control
        return FORBIDDEN if open_ and forbids(self.semantic, what) else prediction.text()

    @property
    def struck(self) -> tuple[str, ...]:
        """The records that the fault strikes."""
        return self.targets or (self.target,)

    @property
    def stands(self) -> bool:
        """Whether the pipeline must stand still: its drain must never complete."""
        return self.stops is not None or self.left.must_show()

    @property
    def sealed(self) -> bool:
        """Whether the plan, and so its history, is of a version with a seal."""
        return self.schema >= SEALED

    @property
    def ends(self) -> bool:
        """Whether the history is of a version that says at its end what its files held."""
        return self.schema >= ENDS

    @property
    def forgets(self) -> bool:
        """Whether the fault, or the settings, may remove copies from a log that somebody has read
        already.

        A power loss removes unflushed copies, a lost volume all, and an unclean leader those that
        it does not have.
        """
        topic = self.settings.get("topic")
        unclean = isinstance(topic, dict) and topic.get("unclean") is True
        return self.evidence.forgotten or unclean

    @property
    def seal(self) -> str | None:
        """The checksum over the plan's content, which does not depend on layout; ``None`` for a
        version without a seal.
        """
        return self.read_seal or (seal_of(self._plain()) if self.sealed else None)

    def to_json(self) -> str:
        """Return the plan as JSON text, sealed."""
        plain = self._plain()
        return json.dumps(plain | {SEAL: seal_of(plain)} if self.sealed else plain, indent=1)

    def _plain(self) -> dict[str, Any]:
        plain = dataclasses.asdict(self)
        del plain["read_seal"], plain["evidence"]["proofs"]
        return plain | {
            "select": {name: sorted(ids) for name, ids in self.select.items()},
            "lost": _prediction_to_json(self.lost),
            "duplicated": _prediction_to_json(self.duplicated),
            "left": _prediction_to_json(self.left),
        }

    @staticmethod
    def from_json(text: str) -> Plan:
        """Read a plan back.

        Raises:
            ValueError: the text is not a plan; likewise KeyError and TypeError.
            EditedPlanError: the plan was changed after it was sealed.
            PlanError: the plan is of a later version.
        """
        data = safe_files.parse_json(text)
        schema = data.setdefault("schema", 1)
        if schema > SCHEMA:
            raise PlanError(
                f"written by a newer lostack (schema {schema}, this one reads up to {SCHEMA}); "
                "upgrade to read it"
            )
        seal = data.pop(SEAL, None)
        plan = Plan._from_plain(data)
        if seal != (seal_of(data) if plan.sealed else None):
            raise EditedPlanError(plan)
        return dataclasses.replace(plan, read_seal=seal)

    @staticmethod
    def _from_plain(data: dict[str, Any]) -> Plan:
        data = plan_of_before(data)
        check_fields(Evidence, data["evidence"])
        return made(Plan, data | {"sign": data["sign"] or None})

    @staticmethod
    def load(directory: Path) -> Plan:
        """Read ``cell.json`` of a saved cell.

        Raises:
            PlanError: the file cannot be read, or is not a plan.
            EditedPlanError: the plan was changed after it was sealed.
        """
        file = directory / PLAN_FILE
        try:
            return Plan.from_json(safe_files.read_text(directory, PLAN_FILE))
        except EditedPlanError:
            raise
        except PlanError as error:
            raise PlanError(f"{file} was {error}") from error
        except OSError as error:
            raise PlanError(f"cannot read {file}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise PlanError(
                f"{file} is not a plan that this version of lostack can read: {why_damaged(error)}"
            ) from error


def seal_of(plain: Mapping[str, object]) -> str:
    """Return the checksum over a plan's content. Neither the order nor the layout of its fields
    matters.

    >>> seal_of({"a": [1], "b": 2}) == seal_of({"b": 2, "a": (1,)}) != seal_of({"a": [1], "b": 3})
    True
    """
    return hashlib.sha256(
        json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()
    ).hexdigest()


def sealed_anew(text: str) -> str:
    """Return a plan's text with a new seal over its content; unchanged if its version has no seal.

    For a copy of a plan in which folders have other names: the copy must be as valid as the plan
    was.
    """
    data = safe_files.parse_json(text)
    if data.get("schema", 1) < SEALED:
        return text
    return json.dumps(
        data | {SEAL: seal_of({name: value for name, value in data.items() if name != SEAL})},
        indent=1,
    )


def _prediction_to_json(prediction: Prediction) -> dict[str, object]:
    words: dict[str, object] = msgspec.to_builtins(prediction, enc_hook=str)
    return {name: value for name, value in words.items() if value is not None}


def plan_of(cell: Cell) -> Plan:
    """Return the plan of a cell to which its scenario applies.

    Raises:
        ValueError: the cell does not apply.
    """
    expectation = cell.expectation
    load = cell.load()
    if isinstance(expectation, Predicted):
        predicted = expectation
    elif isinstance(expectation, RefusedByClient):
        predicted = Predicted()
    else:
        raise ValueError(f"{cell.id} does not apply: {expectation.because}")  # noqa: TRY004 - not a wrong type, a wrong cell
    evidence = cell.scenario.fault.evidence()
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
        targets=tuple(each.id for each in load.targets),
        select=load.select(),
        lost=predicted.lost,
        duplicated=predicted.duplicated,
        sign=None if predicted.sign is None else str(predicted.sign),
        control=predicted.control,
        also=predicted.also,
        refused_by_client=isinstance(expectation, RefusedByClient),
        evidence=dataclasses.replace(evidence, proofs=()),
        proofs=proofs_to_json(evidence.proofs),
        because=cell.scenario.because,
        settings=cell.saved_settings(),
        stops=predicted.stops,
        left=predicted.left,
        pace_ms=cell.scenario.pace_ms,
        logs=cell.logs(),
        topics=cell.topics,
        dead_letters=cell.scenario.dead_letters,
        ordered=cell.ordered,
        guarantees=cell.guarantees,
    )


def proofs_to_json(proofs: Iterable[Any]) -> dict[str, dict[str, object]]:
    """Return proofs as a plan saves them: by name, each proof's fields as plain JSON.

    Raises:
        ValueError: two proofs have the same name.
    """
    found: dict[str, dict[str, object]] = {}
    for proof in proofs:
        if proof.name in found:
            raise ValueError(f"a fault declares the proof {proof.name} twice")
        fields = {each.name: getattr(proof, each.name) for each in dataclasses.fields(proof)}
        found[proof.name] = safe_files.parse_json(json.dumps(fields))
    return found
