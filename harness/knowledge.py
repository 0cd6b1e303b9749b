"""Collects what the judge must know: the proofs and signs of faults and services, and each system's
(``System.knowledge``).
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final, TypeVar

from harness.judge.evidence import evidence_detail
from harness.judge.firing import given_up
from harness.judge.proof import Knowledge
from harness.model.cell import system_name
from harness.model.failures import EnvironmentFailure
from harness.plugins import load_brought
from harness.proofs.answer import Answered, answer_signs
from harness.proofs.appeared import Appeared, appeared_signs
from harness.proofs.burst import FromBacklog, TwoUnderWay
from harness.proofs.compaction import CompactedAway, compaction_signs
from harness.proofs.cut_short import CutShort
from harness.proofs.damage import FileDamaged, damage_selections
from harness.proofs.engine import EngineSaid
from harness.proofs.forgotten import Forgot
from harness.proofs.growth import Filled, Grown
from harness.proofs.hold import LetGo
from harness.proofs.input import InputEnded
from harness.proofs.leadership import LeadershipMoved, PartHad, PreferredElected, Rolled
from harness.proofs.locks import LockOutlasted
from harness.proofs.made_anew import MadeAnew, made_anew_signs
from harness.proofs.moved import Moved, moving_signs, returning_signs
from harness.proofs.network import NetworkBad
from harness.proofs.overtaken import Overtaken, overtaking_signs
from harness.proofs.parted import PartedWhileHeld
from harness.proofs.power import PowerWent, power_signs
from harness.proofs.refusal import Refused
from harness.proofs.retention import Passed, retention_signs
from harness.proofs.second import InSuccessor
from harness.proofs.silence import FellSilent, HalfWay, ReachedFrozen, silence_signs
from harness.proofs.start import StartedLate, start_signs
from harness.proofs.takeover import OtherLeads
from harness.proofs.told import ToldWhileSaving
from harness.services.postgres.signs import database_signs
from harness.stages.settings import PIPELINES
from harness.systems import GROUP
from harness.systems.listing import declaration, listed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from harness.model.history import History
    from harness.model.plan import Plan

    Detail = Callable[[History], Mapping[str, Any] | None]

Part = TypeVar("Part")

PROOFS: Final = (
    Answered,
    CompactedAway,
    CutShort,
    EngineSaid,
    FellSilent,
    HalfWay,
    ReachedFrozen,
    FileDamaged,
    Filled,
    Forgot,
    FromBacklog,
    Grown,
    InputEnded,
    InSuccessor,
    LeadershipMoved,
    LetGo,
    LockOutlasted,
    Moved,
    PartedWhileHeld,
    ToldWhileSaving,
    NetworkBad,
    OtherLeads,
    Overtaken,
    PartHad,
    Appeared,
    MadeAnew,
    Passed,
    PowerWent,
    PreferredElected,
    Refused,
    Rolled,
    StartedLate,
    TwoUnderWay,
)
COMMON: Final = Knowledge(
    proofs={proof.name: proof for proof in PROOFS},
    selections=(damage_selections,),
    signs=(
        database_signs,
        answer_signs,
        appeared_signs,
        compaction_signs,
        made_anew_signs,
        moving_signs,
        returning_signs,
        overtaking_signs,
        power_signs,
        retention_signs,
        silence_signs,
        start_signs,
    ),
    remarks=(given_up,),
    details={"evidence": evidence_detail},
    recipes={pipeline.name: pipeline.recipes for pipeline in PIPELINES},
)
"""What the judge knows for every system."""


def knowledge(plan: Plan | None = None) -> Knowledge:
    """Return the knowledge of all systems together. With a plan, the signs are only those that its
    cell can show: of its own system and of the one that carries its records. What a system takes
    for a sign may be ordinary in another's history.

    Raises:
        EnvironmentFailure: two systems declare different things under one name, or a third-party
            package fails.
    """
    systems = listed()
    return _merged(tuple(systems.items()), frozenset(systems if plan is None else _behind(plan)))


def _behind(plan: Plan) -> Collection[str]:
    """Return the systems that a cell runs on. A declared pipeline names its own; Kafka needs no
    name.
    """
    name = system_name(plan.system)
    if name not in listed():
        return (str(plan.settings.get("system", "kafka")),)
    return [each for each in (name, declaration(name).transport) if each]


@functools.cache
def _merged(systems: tuple[tuple[str, str], ...], signing: frozenset[str]) -> Knowledge:
    parts, signs = [COMMON], [COMMON.signs]
    for name, _ in systems:
        where = declaration(name).knowledge
        if where:
            parts.append(load_brought(GROUP, name, where, Knowledge))
            signs.append(parts[-1].signs if name in signing else ())
    return Knowledge(
        proofs=_united(part.proofs for part in parts),
        selections=tuple(each for part in parts for each in part.selections),
        signs=tuple(each for told in signs for each in told),
        remarks=tuple(each for part in parts for each in part.remarks),
        details=_in_turn(part.details for part in parts),
        recipes=_united(part.recipes for part in parts),
    )


def _in_turn(parts: Iterable[Mapping[str, Detail]]) -> dict[str, Detail]:
    """Merge the details of several systems: under each name, the first function that returns
    something gives the value.
    """
    told: dict[str, list[Detail]] = {}
    for part in parts:
        for name, tell in part.items():
            told.setdefault(name, []).append(tell)

    def first(tells: list[Detail]) -> Detail:
        return lambda history: next(
            (found for tell in tells if (found := tell(history)) is not None), None
        )

    return {name: first(tells) for name, tells in told.items()}


def _united(parts: Iterable[Mapping[str, Part]]) -> dict[str, Part]:
    united: dict[str, Part] = {}
    for part in parts:
        for name, known in part.items():
            if united.setdefault(name, known) is not known:
                raise EnvironmentFailure(
                    f"two systems tell the judge different things by the name {name}: rename one "
                    "of them"
                )
    return united
