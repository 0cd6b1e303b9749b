"""A fixed run for the reports: every outcome, several seeds, and strings that mean harm."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness.judge.verdict import Kind, Verdict, unjudged
from harness.knowledge import knowledge
from harness.model.cell import Cell
from harness.model.plan import plan_of
from harness.model.semantics import Semantic
from harness.saved import CellResult, NotRun, RunInfo, SavedRun
from scenarios import plain

if TYPE_CHECKING:
    from harness.model.scenario import Scenario

BECAUSE = "The reason that theory gives."
ACK_LOST = replace(plain.ACK_LOST, because=BECAUSE)
NONE = replace(plain.NONE, because=BECAUSE)
AMO, ALO, EOS = Semantic.AT_MOST_ONCE, Semantic.AT_LEAST_ONCE, Semantic.EXACTLY_ONCE
NASTY = (
    "<script>alert(1)</script> & ]]> --> | **bold** `tick` [link](javascript:alert(1)) $x$ {{ 7 "
    "* 7 }} {% raw %} \x00\x1b[31mred\x07 \u202eright to left\u2028next line\ufffe\ud800 "
    "\"quoted\" 'single' \n# heading\r\n- item @someone https://evil.example www.evil.example"
)
"""What a log line or a record id of an attacker may hold."""
NASTY_ID = "k1-1\" onmouseover='x' <img src=x>|`$(touch gone)`;\n\x1b]0;gone\x07"


def result(
    scenario: Scenario,
    semantic: Semantic,
    verdict: Verdict,
    *,
    seed: int = 1,
    lost: int = 0,
    duplicated: int = 0,
    seconds: float = 1.25,
    readable: bool = True,
) -> CellResult:
    """Make a judged cell with the counts it is given."""
    plan = plan_of(Cell(scenario, semantic, "kafka", "kafka-python", "process", seed, 24))
    offered = 24 if readable else 0
    blank = unjudged(plan, "", knowledge())
    seen = {
        "offered": offered,
        "recorded": max(offered - lost, 0),
        "lost": lost,
        "duplicated": duplicated,
    }
    counts = blank.account.counts | seen
    judgement = replace(blank, account=replace(blank.account, counts=counts), verdict=verdict)
    return CellResult(judgement, Path("reports/one/cells") / plan.key, seconds, {"loaded": 0.5})


def run_of(
    *results: CellResult,
    missing: tuple[str, ...] = (),
    complete: bool = True,
    interrupted: bool = False,
) -> SavedRun:
    """Make a run of these cells."""
    info = RunInfo(
        id="20261121-120000",
        started="2026-11-21T12:00:00+00:00",
        seconds=12.5,
        complete=complete,
        planned=(*(one.plan.id for one in results), *missing),
        not_applicable=(_not_run(),),
        seeds=(1, 2),
        records=24,
        versions={"kafka": "4.3.0"},
        machine={"cores": "2"},
        command="lostack run",
        phases={"set-up": 0.1},
        interrupted=interrupted,
    )
    return SavedRun(Path("nowhere/one"), info, results, missing)


def green_run() -> SavedRun:
    """Return a run in which every promise is kept, and a control convicted."""
    return run_of(
        result(NONE, EOS, Verdict(Kind.KEPT, "24 of 24 recorded")),
        result(ACK_LOST, ALO, Verdict(Kind.KEPT, "24 of 24 recorded", fired=1), duplicated=1),
        result(
            ACK_LOST, EOS, Verdict(Kind.BROKEN, "as predicted", control=True, fired=1), duplicated=1
        ),
    )


def hostile_run() -> SavedRun:
    """Return a run with every outcome, strings that mean harm, and cells that never began."""
    kept = [
        result(ACK_LOST, AMO, Verdict(Kind.KEPT, "24 of 24 recorded", fired=1), seed=seed)
        for seed in range(1, 6)
    ]
    nasty = replace(ACK_LOST, id=NASTY_ID, because=NASTY)
    run = run_of(
        *kept,
        result(ACK_LOST, ALO, Verdict(Kind.KEPT, "24 of 24 recorded", fired=1), duplicated=1),
        result(ACK_LOST, ALO, Verdict(Kind.VOID, "the fault did not fire"), seed=2),
        result(
            ACK_LOST,
            EOS,
            Verdict(Kind.BROKEN, f"exactly-once forbids loss: 2 lost ({NASTY})", fired=1),
            lost=2,
        ),
        result(
            nasty,
            AMO,
            Verdict(Kind.STUCK, "no progress until the deadline: sink: it is not quiet", fired=1),
        ),
        result(
            nasty, ALO, Verdict(Kind.BROKEN, "as predicted", control=True, fired=1), duplicated=1
        ),
        result(
            nasty,
            EOS,
            Verdict(Kind.KEPT, "nothing happened", control=True, as_predicted=False, fired=1),
        ),
        result(NONE, EOS, Verdict(Kind.VOID, f"no history in {NASTY_ID}"), readable=False),
        missing=(f"kafka/kafka-python/plain/{NASTY_ID}/exactly-once/process/s9",),
        complete=False,
        interrupted=True,
    )
    broken = next(one.plan.id for one in run.results if one.verdict.kind is Kind.BROKEN)
    return replace(run, info=replace(run.info, compared={broken: ("the fault struck", NASTY)}))


def _not_run() -> NotRun:
    return NotRun(
        id="kafka/kafka-python/plain/producer-crash-before-commit/at-most-once/process/s1",
        scenario=plain.PRODUCER_CRASH_BEFORE_COMMIT.id,
        failure_point=plain.PRODUCER_CRASH_BEFORE_COMMIT.failure_point,
        pipeline="plain",
        system="kafka",
        client="kafka-python",
        runtime="process",
        semantic=AMO,
        seed=1,
        because=f"there is no transaction {NASTY_ID}",
    )
