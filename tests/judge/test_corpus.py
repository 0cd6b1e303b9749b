"""The corpus of published bugs: it names cells that exist, and a trial that went
otherwise is told.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from harness.judge.verdict import Kind, Verdict
from harness.matrix.regressions import cells_of, corpus, disagreements, needs_extra, rulings
from harness.model.scenario import Predicted
from harness.scenarios.regressions import CORPUS, PublishedBug

BUG = CORPUS[0]


@dataclass(frozen=True)
class Plan:
    """As much of a plan as is read."""

    id: str


@dataclass(frozen=True)
class Result:
    """As much of a result as is read."""

    plan: Plan
    verdict: Verdict


def result(bug: PublishedBug, number: int, verdict: Verdict, seed: int = 1) -> Any:
    """Return a result of the bug's trial of that number."""
    trial = bug.trials[number]
    return Result(Plan(f"{trial.system}/{trial.client}/{trial.cell}/process/s{seed}"), verdict)


def as_stated(bug: PublishedBug) -> list[Any]:
    """Return results as the corpus says."""
    return [result(bug, n, Verdict(trial.verdict, "so")) for n, trial in enumerate(bug.trials)]


@pytest.mark.parametrize("bug", corpus(), ids=lambda bug: bug.id)
def test_every_trial_is_a_cell_that_exists_and_both_sides_are_tried(bug: PublishedBug) -> None:
    """A bug without an acquittal would prove nothing, nor one that is convicted as
    nobody predicts.
    """
    cells = cells_of([bug], [1, 2])
    assert len(cells) == 2 * len(bug.trials)
    assert bug.convicts
    assert bug.acquits
    controls = {cell.id: cell.expectation for cell in cells}
    for trial in bug.trials:
        expectation = controls[f"{trial.system}/{trial.client}/{trial.cell}/process/s1"]
        assert isinstance(expectation, Predicted)
        assert expectation.control is (trial.verdict is Kind.BROKEN or expectation.stands)


def test_a_bug_of_an_engine_is_tried_where_it_is_named() -> None:
    assert {
        trial.system.partition("==")[0]
        for bug in CORPUS
        if not needs_extra(bug)
        for trial in bug.trials
    } == {"kafka"}
    assert {bug.id for bug in CORPUS if needs_extra(bug)} == {
        "AMQ-8201",
        "ARTEMIS-3729",
        "ARTEMIS-5106",
        "FLINK-35749",
        "FLINK-40626",
        "KAFKA-14294",
        "KAFKA-19479",
        "PIP-299",
        "STORM-3301",
    }


def test_packages_bring_bugs_of_their_own() -> None:
    """They come behind lostack's own, by names that nobody else has, and are apart, too."""
    theirs = corpus()[len(CORPUS) :]
    assert any(bug.id.startswith("nats-server #") for bug in theirs)
    assert all(map(needs_extra, theirs))
    assert len({bug.id for bug in corpus()}) == len(corpus())


def test_standing_still_for_another_reason_convicts_nobody() -> None:
    """A client that gave up, or a slow machine, is not the bug that waits for ever."""
    bug = next(bug for bug in CORPUS if bug.trials[0].verdict is Kind.STUCK)
    waits = Verdict(
        Kind.STUCK,
        "no progress until the deadline: position: partition 0: position 2, last record at 3",
    )
    ended = Verdict(Kind.STUCK, f"{waits.reason}; processor-1 had ended: fenced")
    assert [
        next(iter(rulings([bug], [result(bug, 0, each)]))).agreed for each in (waits, ended)
    ] == [1, 0]


def test_a_corpus_that_is_true_is_told_so() -> None:
    assert all(
        ruling.agreed == ruling.runs == 1 and not ruling.differs
        for ruling in rulings([BUG], as_stated(BUG))
    )


@pytest.mark.parametrize(
    "verdict",
    [
        Verdict(Kind.KEPT, "mended"),
        Verdict(Kind.VOID, "nothing"),
        Verdict(Kind.BROKEN, "otherwise", as_predicted=False),
    ],
    ids=lambda verdict: verdict.reason,
)
def test_a_bug_that_is_not_convicted_as_stated_is_told(verdict: Verdict) -> None:
    """Mended, void, or broken in another way: the first ruling says why."""
    first = next(iter(rulings([BUG], [result(BUG, 0, verdict), *as_stated(BUG)[1:]])))
    assert (first.agreed, first.runs, first.differs) == (0, 1, verdict.reason)
    assert "not convicted" in first.text()


def test_a_trial_that_was_not_run_is_no_success() -> None:
    last = list(rulings([BUG], as_stated(BUG)[:-1]))[-1]
    assert (last.agreed, last.runs, last.differs) == (0, 0, "it was not run")


def test_a_conviction_is_no_new_break_and_a_missing_one_is() -> None:
    """What ``history.jsonl`` says of a run of the corpus."""
    assert not disagreements([BUG], as_stated(BUG)).new
    mended = result(BUG, 0, Verdict(Kind.KEPT, "mended"))
    assert disagreements([BUG], [mended, *as_stated(BUG)[1:]]).new == (mended,)
