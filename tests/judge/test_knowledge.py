"""What faults and systems tell the judge, and that the judge knows nothing of them by itself."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import pkgutil
import re
from pathlib import Path
from typing import Any, ClassVar

import pytest

import harness.judge
import harness.model
import harness.proofs
from harness import registry
from harness.judge.proof import Knowledge
from harness.judge.rows import Rows
from harness.judge.signs import ABSORBED, RESUMED_PAST
from harness.judge.verdict import Kind, judge, signs_of
from harness.knowledge import PROOFS, knowledge
from harness.model import older
from harness.model.plan import proofs_to_json
from harness.model.prediction import Exactly, Select
from harness.model.scenario import Predicted
from harness.model.sign import Sign
from harness.proofs.engine import EngineSaid
from harness.proofs.leadership import LeadershipMoved, Rolled
from harness.proofs.network import Effect, NetworkBad
from tests.events import a_history
from tests.judge.of_engines import knowers
from tests.judge.runs import TARGET, duplicate, history_of, judged, plan, run

JUDGE, MODEL = Path(harness.judge.__path__[0]), Path(harness.model.__path__[0])
ENGINES = re.compile(
    "kafka|spark|flink|storm|pulsar|artemis|activemq|openwire|stomp|postgres|rdkafka|docker|toxiproxy"
    r"|read_committed|isolation\.level|timeout\.ms",
    re.IGNORECASE,
)
"""Their names, and those of settings of their clients."""
PLANNING = {"cell", "extras", "scenario"}
"""The modules of the model that say what is to be run, and what must be installed for it."""
COUNTING = ("accounting", "copies", "rows", "signs", "states", "transactions")
"""Those that say what was counted, and what was seen of protections."""
OF_ONE_KIND = re.compile(
    r"\b(partitions?|offsets?|epochs?|leaders?|followers?|replicas?|coordinators?|batch(es)?|drivers?|checkpoints?|power|flushed|api)\b",
    re.IGNORECASE,
)
"""What only a log has, or only a cluster, an engine with batches, a power cut, one protocol."""


FILES = sorted(
    (
        *JUDGE.glob("*.py"),
        *(file for file in MODEL.glob("*.py") if file.stem not in PLANNING),
    )
)


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_the_judge_names_no_engine(file: Path) -> None:
    """Neither in its code nor in its words: what is true of one of them only is told it by that
    one.
    """
    assert ENGINES.findall(file.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("file", sorted(JUDGE.glob("*.py")), ids=lambda file: file.stem)
def test_the_judge_knows_no_code_of_an_error(file: Path) -> None:
    """What one means says the line: an error is one, none, or not known."""
    compared = (
        ast.unparse(each)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Compare)
        and isinstance(node.left, ast.Attribute)
        and node.left.attr == "error"
        for each in node.comparators
    )
    assert set(compared) <= {"0", "None"}


@pytest.mark.parametrize("module", COUNTING)
def test_what_is_counted_is_counted_of_queues_and_logs_alike(module: str) -> None:
    """It goes by places, attempts and transactions; by what only a log has, or a cluster, go the
    signs of who has one.
    """
    found = OF_ONE_KIND.finditer(
        (MODEL if module == "states" else JUDGE)
        .joinpath(f"{module}.py")
        .read_text(encoding="utf-8")
    )
    assert [match.group() for match in found] == []


def test_every_proof_is_known() -> None:
    """A proof that no line lists would void every cell of its fault; each has a name of its own."""
    found = set()
    for module in pkgutil.iter_modules(harness.proofs.__path__):
        members = inspect.getmembers(
            importlib.import_module(f"harness.proofs.{module.name}"), inspect.isclass
        )
        found |= {
            kind
            for _, kind in members
            if hasattr(kind, "trouble") and kind.__module__.startswith("harness.proofs")
        }
    assert found == set(PROOFS)
    assert {proof.name: proof for proof in PROOFS}.items() <= knowledge().proofs.items()
    assert len({proof.name for proof in PROOFS}) == len(PROOFS)


def test_a_fault_whose_proof_nobody_knows_is_void() -> None:
    """Before all else: what it must have done cannot be seen, so nothing is judged."""
    found = judged(run(), proofs={"time-stood-still": {}}).verdict
    assert found.kind is Kind.VOID
    assert (
        found.reason
        == "the plan asks for a proof of the fault that lostack does not know: time-stood-still"
    )


def test_a_proof_that_fails_voids_and_one_that_holds_does_not() -> None:
    """The judge asks each proof of the plan, with the fields that were saved, and believes its
    word.
    """
    asked: list[Any] = []

    class Stood:
        """Says what it is told to say."""

        name: ClassVar[str] = "stood"

        def __init__(self, trouble: str | None) -> None:
            self._trouble = trouble

        def trouble(self, course: Any) -> str | None:
            """Remember the course."""
            asked.append(course)
            return self._trouble

    mine = Knowledge(proofs={"stood": Stood})
    history = history_of(run())
    kept = judge(plan(proofs={"stood": {"trouble": None}}), history, mine).verdict
    void = judge(plan(proofs={"stood": {"trouble": "time went on"}}), history, mine).verdict
    assert (kept.kind, void.kind, void.reason) == (Kind.KEPT, Kind.VOID, "time went on")
    assert [(course.plan.target, [end.role for end in course.killed]) for course in asked] == [
        (TARGET, ["producer"])
    ] * 2
    assert all(course.fired_at is not None and course.healed_at is not None for course in asked)


def test_a_selection_is_what_a_prediction_may_name() -> None:
    """One that the history tells is no contradiction any more; without it, the
    prediction is one.
    """
    mine = Knowledge(selections=(lambda _, target: {Select.BATCH: frozenset({target})},))
    story = run()
    duplicate(story, TARGET)
    asked = plan(duplicated=Exactly(Select.BATCH), sign=None)
    assert "which records these are" in judge(asked, history_of(story), Knowledge()).verdict.reason
    assert judge(asked, history_of(story), mine).verdict.kind is Kind.KEPT


def test_a_sign_is_seen_by_whoever_knows_it() -> None:
    """Without it the cell is void; one that is common to all systems may be seen by
    another, too.
    """
    moon = Sign("moon-was-full", "the moon was full when this record came")
    told = {moon: {TARGET}, RESUMED_PAST: {TARGET}, ABSORBED: {"k0-2"}}
    history, mine = history_of(run()), Knowledge(signs=(lambda _: told,))
    for sign, records in told.items():
        found = judge(plan(sign=str(sign)), history, mine)
        seen = TARGET in records
        assert (found.verdict.kind is Kind.KEPT) is seen, found.verdict
        assert (sign in found.signs.of(TARGET)) is seen
    assert (
        f"no {ABSORBED} for {TARGET} (seen: moon-was-full, {RESUMED_PAST}, taken-again)"
        in found.verdict.reason
    )


def test_a_sign_that_nobody_knows_is_void() -> None:
    """As one that is misspelt: before all else, for it cannot be seen, whatever there was."""
    found = judge(plan(sign="replicated"), history_of(run()), Knowledge()).verdict
    assert found.kind is Kind.VOID
    assert (
        found.reason
        == "the plan asks for a sign of protection that lostack does not know: replicated"
    )
    assert "no replicated for" in judged(run(), sign="replicated").verdict.reason


def test_every_sign_that_a_scenario_names_is_known() -> None:
    """By somebody, under a name of its own, in words for the page: an engine's signs are in no list
    of the core.
    """
    known = judged(run()).signs
    wanted = {
        expectation.sign
        for scenario in registry.scenarios()
        for expected in (
            scenario.expect,
            *scenario.by_client.values(),
            *scenario.by_system.values(),
        )
        for expectation in expected.values()
        if isinstance(expectation, Predicted) and expectation.sign is not None
    }
    assert {sign for sign in wanted if known.named(sign) is not sign} == set()
    assert len(wanted) > 15
    assert all("this record" in sign.words for sign in known.seen)


def test_a_detail_is_told_by_its_name_where_there_is_one() -> None:
    mine = Knowledge(details={"moon": lambda _: {"phase": "full"}, "sun": lambda _: None})
    assert judge(plan(), history_of(run()), mine).details == {"moon": {"phase": "full"}}


def test_a_remark_stands_behind_the_reason_of_a_void_run() -> None:
    """It explains nothing else: a promise that was kept needs no excuse."""
    mine = Knowledge(remarks=(lambda _: "the moon was full", lambda _: None))
    assert "moon" not in judge(plan(), history_of(run()), mine).verdict.reason
    assert judge(plan(target="k0-2"), history_of(run()), mine).verdict.reason.endswith(
        "; the moon was full"
    )


def test_a_plan_saves_proofs_by_name_and_reads_them_back() -> None:
    proofs = (
        NetworkBad(("producer",), Effect.SLOW, 5.0),
        Rolled(3),
        LeadershipMoved(),
        EngineSaid(("oom-killed",)),
    )
    for name, fields in json.loads(json.dumps(proofs_to_json(proofs))).items():
        again = knowledge().proofs[name](**fields)
        assert proofs_to_json([again]) == proofs_to_json(
            proof for proof in proofs if proof.name == name
        )


def signs_in(named: str, /, **settings: Any) -> set[str]:
    """Return the signs that a cell of the system ``named`` can show, by their names."""
    known = knowledge(plan(system=named, settings=settings))
    return set(map(str, signs_of(Rows(()), a_history((), ()), known).seen))


def test_a_cell_shows_the_signs_of_its_own_system_only() -> None:
    """And of what carries its records. What a stream of NATS and a script of Redis do looks the
    same to whoever counts copies; the sign says which of them did it.
    """
    assert {"flushed", "absorbed"} <= signs_in("kafka==4.2.0")
    assert {"flushed", "replayed"} <= signs_in("spark")
    assert not {"flushed", "replayed"} & signs_in("activemq")
    assert "flushed" in signs_in("declared")
    assert "flushed" not in signs_in("declared", system="activemq")
    assert "absorbed" in signs_in("declared", system="of-a-package-that-is-gone")
    know = knowers()
    for name in registry.engines():
        transport = registry.described(name).transport
        mine = {*know.get(name, ()), *know.get(transport or "", ())}
        others = {each for signs in know.values() for each in signs} - mine
        theirs = {str(sign) for tell in others for sign in tell(a_history((), ()))}
        own = {str(sign) for tell in mine for sign in tell(a_history((), ()))}
        common = signs_in("declared", system="of-a-package-that-is-gone")
        assert (name, signs_in(name) & (theirs - own - common)) == (name, set())


def test_every_scenario_asks_for_signs_that_its_system_can_show() -> None:
    """A sign that a cell can never show would void it."""
    asked = {
        (scenario.pipeline.system, str(predicted.sign))
        for scenario in registry.scenarios()
        for predicted in scenario.expect.values()
        if isinstance(predicted, Predicted) and predicted.sign
    }
    can = {system: signs_in(system) for system, _ in asked}
    assert [(system, sign) for system, sign in sorted(asked) if sign not in can[system]] == []


def test_two_proofs_of_one_name_are_a_mistake() -> None:
    """One of them would be forgotten."""
    with pytest.raises(ValueError, match="rolled twice"):
        proofs_to_json((Rolled(1), Rolled(2)))


@pytest.mark.parametrize(
    ("before", "proofs"),
    [
        ({}, {}),
        ({"forgotten": True}, {"forgot": {}}),
        ({"moved": True, "elected": True}, {"leader-moved": {}, "preferred-elected": {}}),
        ({"moved": True, "elected": False}, {"leader-moved": {}}),
        ({"restarted": 3}, {"rolled": {"count": 3}}),
        ({"grown": True}, {"grown": {}}),
        ({"input_ended": True}, {"input-ended": {}}),
        ({"engine": ["disk-full"]}, {"engine-said": {"words": ["disk-full"]}}),
        (
            {"network": {"roles": ["producer"], "effect": "cut", "limit": 2, "times": 1}},
            {"network-bad": {"roles": ["producer"], "effect": "cut", "limit": 2, "times": 1}},
        ),
        ({"killed": ["leader"]}, {"part-had": {}}),
    ],
)
def test_what_a_plan_of_before_demands_is_demanded_still(
    before: dict[str, Any], proofs: dict[str, Any]
) -> None:
    """Each field that the evidence had is a proof now; the rest of the evidence is as it was, and
    nothing is demanded besides.
    """
    evidence = {"trigger": "rule", "killed": ["producer"], "paused": [], **before}
    now = older.plan_of_before({"id": "x", "evidence": evidence})
    assert now["proofs"] == proofs
    assert set(now["evidence"]) <= {"trigger", "killed", "paused", "forgotten"}
    assert all(name in knowledge().proofs for name in proofs)


def test_settings_of_before_are_where_they_are_today() -> None:
    """Those of a query and of a JMS client stood among those of any consumer."""
    before = {"unit": 6, "listed": True, "executors": 1, "mode": None, "blocking": False}
    data = {"settings": {"consumer": before, "unit": 1}, "proofs": {}}
    consumer = {
        "unit": 6,
        "query": {"listed": True, "executors": 1},
        "acknowledging": {"mode": None, "blocking": False},
    }
    now = older.plan_of_before(data)
    assert now == {"settings": {"consumer": consumer, "unit": 1}, "proofs": {}}
    assert data["settings"] == {"consumer": before, "unit": 1}
    assert older.plan_of_before(now) is now


def test_a_plan_of_today_is_left_as_it_is() -> None:
    """The adapter changes what is old, and nothing else."""
    data = json.loads(plan(proofs={"rolled": {"count": 2}}).to_json())
    assert older.plan_of_before(data) is data
