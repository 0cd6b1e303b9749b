"""Late is not lost, and late is not absent: programs that are silent for a while and go on all the
same, on a real broker.
"""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.judge.verdict import Kind
from harness.matrix import long_cells
from harness.matrix.checking import Check
from harness.matrix.progress import make_progress
from harness.matrix.seen import seen_in
from harness.model import events as kinds
from harness.model.history import HISTORY, read_history
from harness.model.semantics import Semantic
from harness.pipelines import read_pipeline
from tests.pipelines.test_check import Silent

if TYPE_CHECKING:
    from harness.pipelines.declaration import Pipeline
    from harness.saved import CellResult
    from harness.systems.declared.system import DeclaredSystem

LATE = Path(__file__).parent / "programs" / "late"
pytestmark = [pytest.mark.kafka, pytest.mark.rest(together=True), pytest.mark.timeout(300)]


def late(name: str, **more: Any) -> Pipeline:
    """Return the pipeline of this folder with another program, or another claim; ``name``: what is
    learnt of it is its own.
    """
    pipeline = read_pipeline(LATE / "pipeline.toml")
    stages = tuple(
        dataclasses.replace(stage, **more.pop(str(stage.role)))
        if str(stage.role) in more
        else stage
        for stage in pipeline.stages
    )
    return dataclasses.replace(pipeline, name=name, stages=stages, **more)


def program(name: str, *words: str, **more: Any) -> dict[str, Any]:
    """Return the changes of a stage that runs another program."""
    return {"command": ("{python}", name, *words), **more}


def run(
    system: DeclaredSystem, reports: Path, pipeline: Pipeline, *only: str
) -> dict[str, CellResult]:
    """Run a pipeline dry, then at these failure points."""
    asked = Check(pipeline, system, reports, "pytest")
    with make_progress(Silent()) as progress:
        dry = asked.dry_run(progress)
        if not only:
            return {"none": dry}
        assert dry.verdict.kind is Kind.KEPT, f"without a fault: {dry.verdict.reason}"
        cells, _ = asked.plan(seen_in(dry), only)
        saved = asked.faults(cells, (), progress)
    return {result.plan.scenario: result for result in saved.results}


def drain_of(result: CellResult) -> kinds.Drain:
    """Return what the history says of the end of the drain."""
    [*_, last] = read_history(result.directory / HISTORY).of(kinds.Drain)
    return last


def test_what_is_sent_again_after_a_while_is_neither_lost_nor_unseen(
    system: DeclaredSystem, tmp_path: Path
) -> None:
    """A request that was lost is repeated 6 s later; the first cell waits for that, the second
    knows how long it takes.
    """
    pipeline = late("again", producer=program("producer.py"))
    found = run(system, tmp_path, pipeline, "request-lost", "ack-lost")
    lost, acked = found["request-lost"], found["ack-lost"]
    assert lost.verdict.kind is Kind.KEPT, lost.verdict.reason
    assert not lost.judgement.account.lost
    assert acked.judgement.account.duplicated == {acked.plan.target}
    gap = drain_of(lost).gap
    assert gap is not None
    assert 3 < gap < 7
    assert drain_of(acked).why == "learnt"


def test_a_repetition_that_comes_late_is_forbidden_all_the_same(
    system: DeclaredSystem, tmp_path: Path
) -> None:
    """All ids are there; but one was never acknowledged to a producer that lives, so it may be sent
    again.
    """
    pipeline = late("again-once", producer=program("producer.py"), claims=Semantic.EXACTLY_ONCE)
    found = run(system, tmp_path, pipeline, "ack-lost")["ack-lost"]
    assert found.verdict.kind is Kind.BROKEN, found.verdict.reason
    assert found.judgement.account.duplicated == {found.plan.target}
    assert drain_of(found).why == "patience"


def test_a_second_write_is_seen(system: DeclaredSystem, tmp_path: Path) -> None:
    """Everything is there, acknowledged and committed; 3 s later it is there twice."""
    pipeline = late(
        "twice", consumer=program("twice.py", "{work}/orders.db"), claims=Semantic.EXACTLY_ONCE
    )
    found = run(system, tmp_path, pipeline)["none"]
    assert found.verdict.kind is Kind.BROKEN, found.verdict.reason
    assert len(found.judgement.account.duplicated) == pipeline.records


def test_a_batch_every_four_seconds_loses_nothing(system: DeclaredSystem, tmp_path: Path) -> None:
    """Nobody can ask for its position; what is missing is waited for, and what that teaches holds
    for the next cell.
    """
    pipeline = late(
        "batches", consumer=program("batches.py", "{work}/orders.db", position="elsewhere")
    )
    found = run(system, tmp_path, pipeline, "delivery-lost")["delivery-lost"]
    assert found.verdict.kind is Kind.KEPT, found.verdict.reason
    assert not found.judgement.account.lost
    rest = drain_of(found).rest
    assert rest is not None
    assert rest > 2 * pipeline.output.quiet_s


def test_a_second_topic_is_waited_for(system: DeclaredSystem, tmp_path: Path) -> None:
    """Two programs in one stage, joined by it: the first is done long before the second, whose lag
    behind its saved position says so.
    """
    pipeline = late("relay", consumer=program("relay.py", "{work}/orders.db"), records=12)
    found = run(system, tmp_path, pipeline)["none"]
    assert found.verdict.kind is Kind.KEPT, found.verdict.reason
    gap = drain_of(found).gap
    assert gap is not None
    assert gap < 1


def test_a_long_input_is_not_stuck_by_its_own_pace(system: DeclaredSystem, tmp_path: Path) -> None:
    """It takes longer to be offered than the drain may take."""
    found = run(system, tmp_path, late("long", records=1500, drain_s=8.0))["none"]
    assert found.verdict.kind is Kind.KEPT, found.verdict.reason


def test_who_has_really_lost_something_is_convicted_after_the_rest(
    system: DeclaredSystem, tmp_path: Path
) -> None:
    """Nobody sends it again: after its patience the verdict is loss, and says how long was waited;
    never the deadline.
    """
    text = (LATE / "producer.py").read_text(encoding="utf-8")
    (tmp_path / "producer.py").write_text(
        text.replace("        failed.put", "        print"), encoding="utf-8"
    )
    pipeline = late("lost", producer=program(str(tmp_path / "producer.py")), patience_s=6.0)
    found = run(system, tmp_path, pipeline, "request-lost")["request-lost"]
    assert found.verdict.kind is Kind.BROKEN, found.verdict.reason
    assert found.judgement.account.lost == {found.plan.target}
    assert "rested 6" in found.verdict.reason


def test_who_takes_all_there_is_has_something_before_and_behind(
    system: DeclaredSystem, tmp_path: Path
) -> None:
    """One that collects until nothing comes has three batches, not one: that of the target is done
    again, the others are not.
    """
    pipeline = late("polls", consumer=program("polls.py", "{work}/orders.db"), records=24)
    found = run(system, tmp_path, pipeline, "commit-lost")["commit-lost"]
    assert found.verdict.kind is Kind.KEPT, found.verdict.reason
    assert found.plan.target in found.judgement.account.duplicated
    assert len(found.judgement.account.duplicated) <= 16


def test_a_slow_right_program_is_neither_stuck_nor_void(
    system: DeclaredSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It works for 10 s on each batch, and for longer on all than the drain may stand still. The
    trigger waits for the target, the drain goes on while batches are recorded, and lines say how
    far a cell is.
    """
    monkeypatch.setattr(long_cells, "TELL_S", 5.0)
    pipeline = late(
        "slow", consumer=program("slow.py", "{work}/orders.db"), records=18, drain_s=12.0
    )
    asked, said = Check(pipeline, system, tmp_path, "pytest"), io.StringIO()
    with make_progress(said) as progress:
        dry = asked.dry_run(progress)
        assert dry.verdict.kind is Kind.KEPT, dry.verdict.reason
        cells, _ = asked.plan(seen_in(dry), ("commit-lost",))
        [found] = asked.faults(cells, (), progress).results
    assert found.verdict.kind is Kind.KEPT, found.verdict.reason
    assert found.plan.target in found.judgement.account.duplicated
    lines = said.getvalue().splitlines()
    for cell in ("none", "commit-lost"):
        assert any(cell in line and "records are in the output" in line for line in lines)
