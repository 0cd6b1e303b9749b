"""What ActiveMQ tells the judge: what its consumers had in hand, and against which settings those of its cells are shown."""

from __future__ import annotations

from typing import Final

from harness.judge.proof import Knowledge
from harness.stages.settings import QUEUE, QUEUE_RECIPES
from harness.systems.activemq.selections import given_selections

KNOWLEDGE: Final = Knowledge(selections=(given_selections,), recipes={QUEUE: QUEUE_RECIPES})
