"""What a semantic costs: figures of hand-made cells whose answers are known, and nothing where
there is nothing to compare.
"""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import resources
from typing import TYPE_CHECKING

import jsonschema
import pytest

from harness.judge.movement import Movement
from harness.judge.verdict import Kind, Verdict
from harness.report.costs import LATENCY, MOVED, TEXTS, THROUGHPUT, costs
from harness.report.renderers import RENDERERS
from tests.report.hostile import (
    ACK_LOST,
    ALO,
    AMO,
    EOS,
    NONE,
    green_run,
    hostile_run,
    result,
    run_of,
)

if TYPE_CHECKING:
    from pathlib import Path

    from harness.model.scenario import Scenario
    from harness.model.semantics import Semantic
    from harness.saved import CellResult, SavedRun

KEPT = Verdict(Kind.KEPT, "kept", fired=1)
MS = 1_000_000
WAY = {AMO: 10, ALO: 20, EOS: 40}
"""Milliseconds from the source to the consumer's hands."""
GAP = 100
PACED = replace(NONE, id="none+paced", pace_ms=GAP)
RECORDS = 11


def _moved(
    semantic: Semantic, seconds: float | None, seed: int, verdict: Verdict = KEPT
) -> CellResult:
    one = result(ACK_LOST, semantic, verdict, seed=seed)
    return replace(one, judgement=replace(one.judgement, movement=Movement(moved_again_s=seconds)))


def _undisturbed(
    folder: Path,
    semantic: Semantic,
    way: int,
    *,
    gap: int = GAP,
    seed: int = 1,
    scenario: Scenario = NONE,
) -> CellResult:
    """A cell in which a record is taken every ``gap`` ms, and delivered ``way`` ms later."""
    one = replace(
        result(scenario, semantic, Verdict(Kind.KEPT, "kept"), seed=seed),
        directory=folder / f"{scenario.id}-{semantic}-{seed}",
    )
    times = [
        (number * gap * MS + later * MS, event, f"r{number}")
        for number in range(RECORDS)
        for event, later in (("taken", 0), ("delivered", way))
    ]
    (one.directory / "history").mkdir(parents=True)
    lines = [json.dumps({"t": t, "event": event, "record": record}) for t, event, record in times]
    (one.directory / "history" / "all.jsonl").write_text("\n".join(lines) + "\n")
    return one


def _shown(run: SavedRun) -> dict[str, tuple[int, dict[Semantic, tuple[float, float | None]]]]:
    return {
        cost.figure: (
            cost.n,
            {each: (round(one.median, 3), one.ratio) for each, one in cost.figures.items()},
        )
        for cost in costs(run)
    }


def test_recovery_is_compared_where_all_have_it() -> None:
    """Seed 3 has no figure under exactly-once: it is in no median, of nobody."""
    amo = [_moved(AMO, seconds, seed) for seed, seconds in ((1, 1.0), (2, 2.0), (3, 50.0))]
    eos = [_moved(EOS, 3.0, 1), _moved(EOS, 4.0, 2), _moved(EOS, None, 3)]
    assert _shown(run_of(*amo, *eos)) == {MOVED: (2, {AMO: (1.5, 1.0), EOS: (3.5, 2.5)})}
    late = [_moved(EOS, 6.0, 1), *eos[1:]]
    assert _shown(run_of(*amo, *late)) == {MOVED: (2, {AMO: (1.5, 1.0), EOS: (5.0, 4.0)})}


def test_throughput_and_latency_come_from_the_history(tmp_path: Path) -> None:
    """Eleven records 100 ms apart, each in hand 10, 20 and 40 ms after it was taken; a slower way
    changes both.
    """
    run = run_of(
        *(
            _undisturbed(tmp_path, semantic, way, scenario=each)
            for each in (NONE, PACED)
            for semantic, way in WAY.items()
        )
    )
    found = _shown(run)
    assert found[LATENCY] == (1, {AMO: (10.0, 1.0), ALO: (20.0, 2.0), EOS: (40.0, 4.0)})
    want = {semantic: RECORDS * 1000 / (GAP * (RECORDS - 1) + way) for semantic, way in WAY.items()}
    n, speeds = found[THROUGHPUT]
    assert n == 1
    assert {semantic: speed for semantic, (speed, _) in speeds.items()} == pytest.approx(
        want, abs=1e-3
    )
    assert speeds[EOS][1] == pytest.approx(want[EOS] / want[AMO])
    slower = [_undisturbed(tmp_path / "planted", EOS, 80, scenario=each) for each in (NONE, PACED)]
    planted = _shown(
        replace(
            run, results=(*(one for one in run.results if one.plan.semantic is not EOS), *slower)
        )
    )
    assert planted[LATENCY][1][EOS] == (80.0, 8.0)
    assert planted[THROUGHPUT][1][EOS][0] == pytest.approx(
        RECORDS * 1000 / (GAP * (RECORDS - 1) + 80), abs=1e-3
    )


def test_the_length_of_a_queue_is_no_latency(tmp_path: Path) -> None:
    """Where the next record is taken before the last one has arrived, and where nothing is paced,
    no latency is told.
    """
    assert not costs(
        run_of(
            *(_undisturbed(tmp_path, each, way, gap=5, scenario=PACED) for each, way in WAY.items())
        )
    )
    unpaced = run_of(*(_undisturbed(tmp_path, each, way) for each, way in WAY.items()))
    assert list(_shown(unpaced)) == [THROUGHPUT]


def test_nothing_is_shown_where_there_is_nothing_to_compare(tmp_path: Path) -> None:
    """One semantic alone, controls, what is not kept, a history that is gone, and a play."""
    assert not costs(green_run())
    assert not costs(hostile_run())
    assert not costs(run_of(_moved(AMO, 1.0, 1)))
    assert not costs(run_of(_moved(AMO, 1.0, 1), _moved(EOS, 2.0, 2)))
    assert not costs(
        run_of(
            _moved(AMO, 1.0, 1), _moved(EOS, 2.0, 1, Verdict(Kind.STUCK, "no progress", fired=1))
        )
    )
    control = _moved(EOS, 2.0, 1)
    control = replace(
        control, judgement=replace(control.judgement, plan=replace(control.plan, control=True))
    )
    assert not costs(run_of(_moved(AMO, 1.0, 1), control))
    played = [_undisturbed(tmp_path, each, way) for each, way in WAY.items()]
    played = [
        replace(one, judgement=replace(one.judgement, plan=replace(one.plan, system="memory")))
        for one in played
    ]
    run = run_of(*played)
    assert costs(run)
    assert not costs(replace(run, info=replace(run.info, versions={"memory": "simulated"})))


def test_without_at_most_once_there_is_no_ratio() -> None:
    assert _shown(run_of(_moved(ALO, 2.0, 1), _moved(EOS, 3.0, 1))) == {
        MOVED: (1, {ALO: (2.0, None), EOS: (3.0, None)})
    }


@pytest.mark.parametrize("form", ["markdown", "html"])
def test_the_panel_stands_in_the_report(form: str) -> None:
    heading = "What a semantic costs here"
    text = RENDERERS[form].render(run_of(_moved(AMO, 2.0, 1), _moved(EOS, 3.0, 1)))
    assert heading in text
    assert f"plain: kafka, kafka-python, process: {TEXTS[MOVED]} (n = 1)" in text
    assert "2 (1.00)" in text
    assert "3 (1.50)" in text
    assert heading not in RENDERERS[form].render(green_run())


def test_programs_get_a_row_for_each_semantic() -> None:
    report = json.loads(RENDERERS["json"].render(run_of(_moved(AMO, 2.0, 1), _moved(EOS, 3.0, 1))))
    jsonschema.validate(
        report,
        json.loads(resources.files("harness.report").joinpath("schema.json").read_text("utf-8")),
    )
    shown = {
        row["semantic"]: (row["figure"], row["client"], row["n"], row["median"], row["ratio"])
        for row in report["costs"]
    }
    assert shown == {
        "at-most-once": (MOVED, "kafka-python", 1, 2.0, 1.0),
        "exactly-once": (MOVED, "kafka-python", 1, 3.0, 1.5),
    }
