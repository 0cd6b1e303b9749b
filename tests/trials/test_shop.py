"""Tests that know nothing of lostack, on a real Kafka: what they do not see, the wire counts; their
right twins are acquitted.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from harness.model.semantics import Semantic
from harness.trials.command import Command
from harness.trials.counting import ClaimResult
from harness.trials.trying import Trial
from tests.docs.pages import ROOT
from tests.pipelines.test_attach import broker

__all__ = ["broker"]
pytestmark = [pytest.mark.kafka, pytest.mark.rest(together=True), pytest.mark.timeout(400)]
LEAST, EXACTLY = Semantic.AT_LEAST_ONCE, Semantic.EXACTLY_ONCE
REFUSED = "produce-request-refused-not-enough-replicas"
BIN = Path(sys.executable).parent
SEED = 7
"""By which a result is refused, and no order."""
ANSWER_LOST = "produce-answer-lost"
SHOPS = {
    "twice": (EXACTLY, ANSWER_LOST, ClaimResult.BROKEN, "1 of orders-* duplicated"),
    "once": (EXACTLY, ANSWER_LOST, ClaimResult.KEPT, "orders-*: 12 of 12 delivered"),
    "early": (LEAST, REFUSED, ClaimResult.BROKEN, "1 of results-* lost"),
    "behind": (
        LEAST,
        REFUSED,
        ClaimResult.KEPT,
        "orders-*: 12 of 12 delivered; results-*: 12 of 12",
    ),
}


@pytest.mark.parametrize("broker", [1], indirect=True)
@pytest.mark.parametrize("word", SHOPS)
def test_a_mistake_is_found_and_its_right_twin_acquitted(
    broker: str, tmp_path: Path, word: str
) -> None:
    claims, point, verdict, said = SHOPS[word]
    run = shlex.join([sys.executable, str(ROOT / "tests" / "trials" / "shop.py"), word])
    trial = Trial(Command(run, tmp_path), broker, claims, tmp_path, SEED)
    learnt = trial.learn()
    assert all(topic.read and topic.readers == 1 for topic in learnt.usual.values())
    [meant] = [each for each in learnt.points if each.id == point]
    tried = trial.attempt(meant, learnt)
    assert (tried.word, tried.result) == (verdict, "passed"), tried
    assert tried.reason.startswith(said)


@pytest.mark.parametrize("broker", [1], indirect=True)
def test_the_example_of_the_page_runs_as_it_stands(broker: str, tmp_path: Path) -> None:
    text = (ROOT / "docs" / "check-run.md").read_text(encoding="utf-8")
    program = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    asked = re.search(r"\$ (lostack check .*)", text)
    assert program is not None
    assert asked is not None
    (tmp_path / "test_orders.py").write_text(program[1], encoding="utf-8")
    words = shlex.split(asked[1].replace("localhost:9092", broker))[1:]
    only = ("--only", "produce-request-lost", "--only", "produce-answer-lost")
    done = subprocess.run(
        [sys.executable, "-m", "harness.cli", *words, *only],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PATH": f"{BIN}:{os.environ['PATH']}"},
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "[1/2] ✔ kept       produce-request-lost" in done.stdout
    assert "[2/2] ✘ broken     produce-answer-lost" in done.stdout
    assert "1 of orders-* duplicated: {" in done.stdout
    assert "orders-*: 9 records, each was read" in done.stdout
