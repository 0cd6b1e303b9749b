"""Tests that know nothing of lostack, on a real Kafka: what they do not see, the wire counts; their
right twins are acquitted.
"""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

import pytest

from harness.model.semantics import Semantic
from harness.trials.command import Command
from harness.trials.counting import Word
from harness.trials.trying import Trial
from tests.docs.pages import ROOT
from tests.pipelines.test_attach import broker

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["broker"]
pytestmark = [pytest.mark.kafka, pytest.mark.rest(together=True), pytest.mark.timeout(400)]
LEAST, EXACTLY = Semantic.AT_LEAST_ONCE, Semantic.EXACTLY_ONCE
REFUSED = "produce-request-refused-not-enough-replicas"
SEED = 3
"""By which a result is refused, and no order."""
SHOPS = (
    ("twice", EXACTLY, "produce-answer-lost", Word.BROKEN, "1 of orders-* duplicated"),
    ("once", EXACTLY, "produce-answer-lost", Word.KEPT, "orders-*: 12 of 12 delivered"),
    ("early", LEAST, REFUSED, Word.BROKEN, "1 of results-* lost"),
    ("behind", LEAST, REFUSED, Word.KEPT, "orders-*: 12 of 12 delivered; results-*: 12 of 12"),
)


@pytest.mark.parametrize("broker", [1], indirect=True)
@pytest.mark.parametrize(("word", "claims", "point", "verdict", "said"), SHOPS)
def test_a_mistake_is_found_and_its_right_twin_acquitted(
    broker: str, tmp_path: Path, word: str, claims: Semantic, point: str, verdict: Word, said: str
) -> None:
    """Each of these tests passes, whatever is lost or duplicated."""
    run = shlex.join([sys.executable, str(ROOT / "tests" / "trials" / "shop.py"), word])
    trial = Trial(Command(run, tmp_path), broker, claims, tmp_path, SEED)
    learnt = trial.learn()
    assert all(topic.read and topic.readers == 1 for topic in learnt.usual.values())
    [meant] = [each for each in learnt.points if each.id == point]
    tried = trial.attempt(meant, learnt)
    assert (tried.word, tried.result) == (verdict, "passed"), tried
    assert tried.reason.startswith(said)
